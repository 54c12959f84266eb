"""
The shapes of classes with fields: attrs, dataclasses, NamedTuples, TypedDicts and pydantic models.
"""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable
from operator import attrgetter, itemgetter
from typing import Any

from june._text import listed, short_repr
from june.codec._containers import is_transparent, too_deep
from june.codec._problems import MAX_DEPTH, Inexact, TooDeep, Undecodable, UnsupportedType, expected
from june.codec._shapes import ALL_KINDS, AnyShape, FlatShape, Shape
from june.codec._states import has_dict, is_plain_object, is_transient, slots_of, state_reader

_OBJECT = frozenset({"object"})


class FieldsShape(Shape):
    """The base of the shapes with named fields, written as an object with a key for each."""

    family = ""

    def __init__(self, cls: type, label: str, accepts: type) -> None:
        super().__init__(label, frozenset({accepts}), _OBJECT)
        self.owner = self.cls = cls
        self.names: tuple[str, ...] = ()
        self.exact: tuple[type, ...] | None = None

    def fill(self, fields: dict[str, Shape]) -> None:
        """Set the fields, which may refer back to this shape."""
        self.names = tuple(fields)
        self.children = tuple(fields.values())
        if all(type(shape) is FlatShape for shape in self.children):
            self.exact = tuple(shape.cls for shape in self.children if type(shape) is FlatShape)

    def lower_fields(self, values: Any, depth: int) -> dict[str, Any]:
        """Lower the *values* of all fields, in their order."""
        if self.exact is not None and tuple(map(type, values)) == self.exact:
            return dict(zip(self.names, values, strict=True))
        if depth > MAX_DEPTH:
            raise TooDeep
        depth += 1
        out: dict[str, Any] = {}
        name = ""
        try:
            for name, shape, value in zip(self.names, self.children, values, strict=True):
                flat = shape.flat
                out[name] = value if flat is not None and type(value) in flat else shape.lower(value, depth)
        except Inexact as error:
            error.under(f".{name}")
            raise
        return out

    def lift_fields(self, data: Any, depth: int) -> list[Any]:
        """Lift the values of all fields, in their order."""
        if type(data) is not dict:
            raise expected(self.label, data)
        if len(data) != len(self.names) or not all(map(data.__contains__, self.names)):
            raise self.misfit(data, self.names)
        if depth > MAX_DEPTH:
            raise too_deep()
        depth += 1
        out: list[Any] = []
        append = out.append
        try:
            for name, shape in zip(self.names, self.children, strict=True):
                append(shape.lift(data[name], depth))
        except Undecodable as error:
            error.under(f".{self.names[len(out)]}")
            raise
        return out

    def misfit(self, data: dict[str, Any], required: Any) -> Undecodable:
        """Say which fields are missing from *data*, or unknown."""
        missing = [name for name in required if name not in data]
        unknown = [name for name in data if name not in self.names]
        parts = []
        if missing:
            parts.append(f"no {listed(map(repr, missing[:4]))}")
        if unknown:
            parts.append(f"the unknown {listed(map(repr, unknown[:4]))}")
        return Undecodable(f"expected the fields of {self.label}, found {' and '.join(parts)}")

    def describe(self, inner: Callable[[Shape], Any]) -> Any:
        fields = [[name, inner(shape)] for name, shape in zip(self.names, self.children, strict=True)]
        return [self.family, self.cls.__qualname__, fields]


class ObjectShape(FieldsShape):
    """
    An attrs class or a dataclass.

    A value is read from its raw slots and dict, and built by setting them: converters and validators have
    had their say when it was made. Where the class does more than that (``__post_init__``), which may leave
    attributes that are no fields, it is built by its own constructor before the fields are put in, and a
    round trip proves that this gives the same.
    """

    def __init__(self, cls: type, label: str, family: str, made_from: dict[str, str] | None) -> None:
        super().__init__(cls, label, cls)
        self.family = family
        self.made_from = made_from  # argument of the constructor: field; None where no constructor is needed
        self.settled = made_from is None
        self.surprising = made_from is not None
        self.read_state = state_reader(cls)
        hashing = getattr(getattr(cls, "__hash__", None), "__code__", None)
        self.caches_hash = hashing is not None and "_attrs_cached_hash" in hashing.co_names
        self.read: Callable[[Any], Any] = self._read_slowly
        if inspect.isabstract(cls):
            raise UnsupportedType(
                f"{cls.__name__} is abstract, so no value is exactly one; name the classes it stands for, "
                f"e.g. A | B"
            )
        if not is_plain_object(cls) or not _can_be_made_bare(cls):
            raise UnsupportedType(
                f"{cls.__name__} is more than its fields, as it derives from a built-in class; teach it with "
                f"june.codec.register({cls.__name__}, encode, decode)"
            )

    def fill(self, fields: dict[str, Shape]) -> None:
        super().fill(fields)
        cls, names = self.cls, self.names
        slots = slots_of(cls)
        for name in names:
            kept = inspect.getattr_static(cls, name, None)
            if name not in slots and (hasattr(type(kept), "__set__") or not has_dict(cls)):
                raise UnsupportedType(f"the field {name} of {cls.__name__} is kept by a property")
        getter: Any = cls.__getattribute__
        untouched = getter is object.__getattribute__ and not hasattr(cls, "__getattr__")
        if not untouched or len(names) < 2:
            return
        if has_dict(cls) and not slots:
            if type(inspect.getattr_static(cls, "__dict__", None)) is types.GetSetDescriptorType:
                self._from_dict = itemgetter(*names)
                self.read = self._read_dict
        elif not has_dict(cls) and set(slots) == set(names):
            self.read = attrgetter(*names)

    def _read_dict(self, value: Any) -> Any:
        state = value.__dict__
        if len(state) != len(self.names):
            return self._read_slowly(value)
        return self._from_dict(state)

    def _read_slowly(self, value: Any) -> Any:
        state = self.read_state(value)
        for name in self.names:
            if name not in state:
                raise Inexact(f"has no value in its field {name}", "Set every field before returning it.")
        if len(state) != len(self.names) and not self.surprising:
            name = next(one for one in state if one not in self.names)
            raise Inexact(
                f"has the attribute {name}, which is no field of {self.label} and would be lost",
                f"Declare {name} as a field of {self.label}, or do not set it.",
            )
        return [state[name] for name in self.names]

    def lower(self, value: Any, depth: int) -> Any:
        kind = type(value)
        if kind is not self.cls:
            raise self.unlike(value)
        try:
            values = self.read(value)
        except (AttributeError, KeyError):
            values = self._read_slowly(value)
        return self.lower_fields(values, depth)

    def lift(self, data: Any, depth: int) -> Any:
        values = self.lift_fields(data, depth)
        if self.made_from is None:
            value: Any = object.__new__(self.cls)
        else:
            value = self._construct(dict(zip(self.names, values, strict=True)))
        put = object.__setattr__
        for name, item in zip(self.names, values, strict=True):
            put(value, name, item)
        if self.caches_hash:
            put(value, "_attrs_cached_hash", None)
        return value

    def _construct(self, fields: dict[str, Any]) -> Any:
        arguments = {argument: fields[name] for argument, name in (self.made_from or {}).items()}
        try:
            value = self.cls(**arguments)
        except Exception as error:
            raise Undecodable(f"{self.label}(...) raised {error!r} for the saved fields") from error
        kind = type(value)
        if kind is not self.cls:
            raise Undecodable(f"{self.label}(...) gave an object of another class")
        return value


def _can_be_made_bare(cls: type) -> bool:
    try:
        object.__new__(cls)
    except TypeError:  # a base made in C that has to be set up
        return False
    return True


class NamedTupleShape(FieldsShape):
    """A ``NamedTuple``, or a ``collections.namedtuple``."""

    family = "namedtuple"

    def lower(self, value: Any, depth: int) -> Any:
        kind = type(value)
        if kind is not self.cls:
            raise self.unlike(value)
        if has_dict(self.cls) and object.__getattribute__(value, "__dict__"):
            raise Inexact("has attributes beside its fields, which would be lost", "Declare them as fields.")
        values = tuple(tuple.__iter__(value))
        if len(values) != len(self.names):
            raise Inexact(f"has {len(values)} items, not one for each field", "Fill every field.")
        return self.lower_fields(values, depth)

    def lift(self, data: Any, depth: int) -> Any:
        return tuple.__new__(self.cls, self.lift_fields(data, depth))


class TypedDictShape(FieldsShape):
    """A ``TypedDict``: a dict, in its own order."""

    family = "typeddict"

    def __init__(self, cls: type, label: str) -> None:
        super().__init__(cls, label, dict)
        self.required: tuple[str, ...] = ()
        self.shapes: dict[str, Shape] = {}
        self.same = False

    def fill_keys(self, fields: dict[str, Shape], required: frozenset[str]) -> None:
        """Set the keys and which of them a value must have."""
        self.fill(fields)
        self.shapes = fields
        self.required = tuple(name for name in fields if name in required)

    @property
    def transparent(self) -> bool:
        return True

    def finish(self) -> None:
        self.same = all(map(is_transparent, self.children))

    def lower(self, value: Any, depth: int) -> Any:
        if type(value) is not dict:
            raise self.unlike(value)
        if depth > MAX_DEPTH:
            raise TooDeep
        depth += 1
        out: dict[str, Any] = {}
        name = None
        try:
            for name, item in value.items():
                shape = self.shapes.get(name) if type(name) is str else None
                if shape is None:
                    raise Inexact(f"is no key of {self.label}", "Declare it there, or leave it out.")
                out[name] = shape.lower(item, depth)
        except Inexact as error:
            error.under(f"[{short_repr(name)}]")
            raise
        for one in self.required:
            if one not in out:
                raise Inexact(
                    f"has no key {one!r}, which {self.label} requires",
                    "Set it, or declare it as NotRequired.",
                )
        return value if self.same else out

    def lift(self, data: Any, depth: int) -> Any:
        if type(data) is not dict:
            raise expected(self.label, data)
        if not all(name in data for name in self.required) or not all(name in self.shapes for name in data):
            raise self.misfit(data, self.required)
        if depth > MAX_DEPTH:
            raise too_deep()
        depth += 1
        name = None
        try:
            for name, item in data.items():
                data[name] = self.shapes[name].lift(item, depth)
        except Undecodable as error:
            error.under(f"[{short_repr(name)}]")
            raise
        return data

    def describe(self, inner: Callable[[Shape], Any]) -> Any:
        return [*super().describe(inner), list(self.required)]


class ModelShape(FieldsShape):
    """
    A pydantic model, taken apart and rebuilt as pydantic's own pickling does: no validator runs.

    Beside the fields (whose names never start with ``_``) there may be ``_set``, the names of the fields that
    were given where these are not all, and ``_extra`` and ``_private`` values, which are plain JSON.
    """

    family = "pydantic"
    settled = False
    surprising = True

    def __init__(self, cls: type, label: str) -> None:
        super().__init__(cls, label, cls)
        self.anything = AnyShape()

    def lower(self, value: Any, depth: int) -> Any:
        kind = type(value)
        if kind is not self.cls:
            raise self.unlike(value)
        get = object.__getattribute__
        state = {
            name: item for name, item in get(value, "__dict__").items() if not is_transient(self.cls, name)
        }
        if set(state) != set(self.names):
            name = min(set(state) ^ set(self.names))
            raise Inexact(
                f"has {'no' if name in self.names else 'the undeclared'} field {name}", "Build it whole."
            )
        data = self.lower_fields([state[name] for name in self.names], depth)
        given = get(value, "__pydantic_fields_set__")
        extra = get(value, "__pydantic_extra__")
        private = get(value, "__pydantic_private__")
        if given != set(self.names):
            data["_set"] = sorted(given)
        for key, one in (("_extra", extra), ("_private", private)):
            if one is not None:
                try:
                    data[key] = self.anything.lower(one, depth)
                except Inexact as error:
                    error.under(f".{'__pydantic' + key}__")
                    raise
        return data

    def lift(self, data: Any, depth: int) -> Any:
        if type(data) is not dict:
            raise expected(self.label, data)
        given = data.pop("_set", None)
        extra = data.pop("_extra", None)
        private = data.pop("_private", None)
        values = self.lift_fields(data, depth)
        if given is not None and not (type(given) is list and all(type(name) is str for name in given)):
            raise expected("the names of the fields that were set", given)
        if not all(one is None or type(one) is dict for one in (extra, private)):
            raise expected("an object of extra or private values", extra)
        cls: Any = self.cls
        value = cls.__new__(cls)
        put = object.__setattr__
        put(value, "__dict__", dict(zip(self.names, values, strict=True)))
        put(value, "__pydantic_fields_set__", set(self.names if given is None else given))
        put(value, "__pydantic_extra__", extra)
        put(value, "__pydantic_private__", private)
        return value


class RegisteredShape(Shape):
    """A type that a user taught june."""

    settled = False
    surprising = True

    def __init__(self, cls: type, encode: Callable[[Any], Any], decode: Callable[[Any], Any]) -> None:
        super().__init__(
            cls.__name__,
            frozenset({cls}),
            ALL_KINDS,
        )
        self.owner = self.cls = cls
        self.encode = encode
        self.decode = decode
        self.anything = AnyShape()

    def lower(self, value: Any, depth: int) -> Any:
        kind = type(value)
        if kind is not self.cls:
            raise self.unlike(value)
        try:
            data = self.encode(value)
        except Exception as error:
            raise Inexact(f"made its registered encode raise {error!r}", "Correct that function.") from error
        try:
            return self.anything.lower(data, depth)
        except TooDeep:
            raise
        except Inexact as error:
            raise Inexact(
                f"has a registered encode whose data{error.path.removeprefix('result')} {error.problem}",
                "Give data that JSON can hold: None, bool, int, float, str, lists, dicts of strings.",
            ) from error

    def lift(self, data: Any, depth: int) -> Any:
        try:
            value = self.decode(data)
        except Exception as error:
            raise Undecodable(f"the registered decode of {self.label} raised {error!r}") from error
        kind = type(value)
        if kind is not self.cls:
            raise Undecodable(f"expected {self.label} from its decode, found a {type(value).__name__}")
        return value

    def describe(self, inner: Callable[[Shape], Any]) -> Any:
        return ["registered", self.cls.__qualname__]
