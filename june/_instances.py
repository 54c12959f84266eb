"""
Values built by their own classes, as a caller builds them.

A codec puts the fields of a saved object back as they were. What a model wrote was never an object, so the
class has to have its say: converters, validators, ``__post_init__``, pydantic's checks.
"""

from __future__ import annotations

import collections
import dataclasses
import enum
import inspect
from typing import Any

import attrs

from june._parsing import step_to

_LISTS = (list, collections.deque)
_SETS = (set, frozenset)


class Refused(Exception):
    """
    A class would not have the fields that were given for it.

    Attributes:
        path: Where the object stands, such as ``.items[2]``.
        problem: What the class said.
    """

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(path, problem)
        self.path = path
        self.problem = problem


def build(value: Any, path: str = "") -> Any:
    """
    Build *value*, and all that is in it, once more by calling the classes.

    Lists and dicts are changed in place.

    Args:
        value: A value that a codec has just decoded, which nobody else holds.
        path: Where it stands.

    Raises:
        Refused: If a class raises something.
    """
    kind = type(value)
    if kind in _LISTS:
        for index, item in enumerate(value):
            value[index] = build(item, f"{path}[{index}]")
        return value
    if isinstance(value, tuple):
        names = getattr(kind, "_fields", None)
        steps = [f"[{index}]" for index in range(len(value))] if names is None else map(step_to, names)
        return tuple.__new__(
            kind, [build(item, path + step) for item, step in zip(value, steps, strict=True)]
        )
    if isinstance(value, dict):
        return _build_dict(value, path)
    if kind in _SETS:
        items = kind(build(item, f"{path}[]") for item in value)
        if len(items) != len(value):
            raise Refused(path, "two items of the set are the same")
        return items
    fields = None if isinstance(value, enum.Enum) else _fields_of(kind)
    return value if fields is None else _build_object(value, fields, path)


def _build_dict(value: dict[Any, Any], path: str) -> Any:
    pairs = []
    in_object = all(isinstance(key, str) for key in value)  # else it was written as a list of pairs
    for index, (key, item) in enumerate(value.items()):
        key_path, item_path = f"{path}[{index}][0]", f"{path}[{index}][1]"
        pairs.append((build(key, key_path), build(item, path + step_to(key) if in_object else item_path)))
    count = len(value)
    dict.clear(value)
    dict.update(value, pairs)  # not the class's own: a Counter's would add
    if len(value) != count:
        raise Refused(path, "two keys are the same")
    return value


def _fields_of(kind: type) -> dict[str, str] | None:
    """Give the names of the fields of a class, and how its constructor calls those that it takes."""
    if hasattr(kind, "__pydantic_validator__"):
        return _fields_of_model(kind)
    if attrs.has(kind):
        return {field.name: field.alias if field.init else "" for field in attrs.fields(kind)}
    if dataclasses.is_dataclass(kind):
        return {field.name: field.name if field.init else "" for field in dataclasses.fields(kind)}
    return None


def _fields_of_model(kind: Any) -> dict[str, str] | None:
    """Give the same of a pydantic model, or dataclass."""
    config = getattr(kind, "model_config", None) or getattr(kind, "__pydantic_config__", {})
    by_name = config.get("populate_by_name") or config.get("validate_by_name")
    found: dict[str, str] = {}
    # The former is pydantic's own name, older ones know it of dataclasses only.
    fields = getattr(kind, "__pydantic_fields__", None) or getattr(kind, "model_fields", {})
    for name, field in fields.items():
        alias = name if by_name else field.validation_alias or field.alias or name
        found[name] = "" if field.init is False else getattr(alias, "choices", [alias])[0]
    # A path into other values cannot be taken by its name; such a model stays as its fields say.
    return found if all(isinstance(alias, str) for alias in found.values()) else None


def _build_object(value: Any, fields: dict[str, str], path: str) -> Any:
    kind = type(value)
    get, put = object.__getattribute__, object.__setattr__
    items = {name: build(get(value, name), path + step_to(name)) for name in fields}
    arguments = {alias: items[name] for name, alias in fields.items() if alias}
    arguments.update(getattr(value, "__pydantic_extra__", None) or {})
    if not _takes(kind, arguments):
        for name, item in items.items():
            put(value, name, item)
        return value
    try:
        return kind(**arguments)
    except Exception as error:
        raise Refused(path, f"{kind.__name__} refuses this: {said_by(error)}") from error


def _takes(kind: type, arguments: dict[str, Any]) -> bool:
    """Whether the constructor of *kind* takes its fields as they are called; one written by hand may not."""
    if hasattr(kind, "__pydantic_validator__"):
        return True
    parameters = inspect.signature(kind).parameters
    required = {name for name, one in parameters.items() if one.default is one.empty}
    return required <= arguments.keys() <= parameters.keys()


def said_by(error: BaseException) -> str:
    """Give what an exception says on one line; of pydantic's, the parts that matter."""
    parts = getattr(error, "errors", None)
    if callable(parts) and type(error).__name__ == "ValidationError":
        told = ((".".join(map(str, one["loc"])), one["msg"]) for one in parts())
        return "; ".join(f"{where}: {text}" if where else text for where, text in told)
    text = " ".join(str(error).split())
    return text if isinstance(error, ValueError) and text else f"{type(error).__name__}: {text}"
