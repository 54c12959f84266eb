"""
Finding what the command line names: a file or module, a step in it, and values for its inputs.
"""

from __future__ import annotations

import enum
import importlib
import importlib.util
import os
import re
import sys
import traceback
import typing
from collections.abc import Callable, Iterable
from functools import partial
from types import ModuleType
from typing import Any

import msgspec
import outcome
import trio

from june._signatures import MISSING, innermost
from june._text import listed, near
from june.codec import Undecodable, codec_for
from june.errors import GraphError
from june.graphs import Graph
from june.steps import Step
from june.wiring import graph


class UsageError(Exception):
    """The command line asks for something that is not there."""


def find(target: str) -> Graph:
    """
    Load what *target* names.

    Args:
        target: ``FILE.py``, ``FILE.py:STEP``, ``MODULE`` or ``MODULE:STEP``. Without a step, all steps of the
            module are wanted that none of the others needs.

    Raises:
        UsageError: If there is no such file, module or step.
        GraphError: If the steps do not make a graph.
    """
    where, step_id = _split(target)
    module = _load(where)
    steps = list(dict.fromkeys(value for value in vars(module).values() if isinstance(value, Step)))
    if not steps and step_id is None:
        raise UsageError(f"{where} has no steps; put @step(id=...) above a function")
    if step_id is not None:
        return graph(*_named(step_id, steps, vars(module), where))
    whole = graph(module)
    needed = {index for node in whole.nodes for binding in node.bindings for index in binding.steps()}
    return graph(*(node.step for index, node in enumerate(whole.nodes) if index not in needed))


def _split(target: str) -> tuple[str, str | None]:
    if os.path.exists(target):
        return target, None
    # An id may hold colons, and so may a path; the first file that is there decides.
    for match in re.finditer(":", target):
        if os.path.isfile(target[: match.start()]):
            return target[: match.start()], target[match.end() :]
    where, colon, step_id = target.partition(":")
    # A drive letter is no file.
    return (where, step_id) if colon and len(where) > 1 else (target, None)


def _named(
    step_id: str, steps: list[Step[..., Any]], names: dict[str, Any], where: str
) -> list[Step[..., Any]]:
    """Find a step by its id, or what a name stands for: a step, or a list of them."""
    for one in steps:
        if one.id == step_id:
            return [one]
    named = names.get(step_id)
    if isinstance(named, Step):
        return [named]
    if isinstance(named, (list, tuple)) and named and all(isinstance(one, Step) for one in named):
        return list(named)
    ids = [one.id for one in steps]
    hint = near(step_id, ids)
    raise UsageError(
        f"{where} has no step {step_id!r}; "
        + (f"did you mean {hint[0]!r}?" if hint else f"it has {listed(ids)}")
    )


def _load(where: str) -> ModuleType:
    if not (where.endswith(".py") or os.path.sep in where or os.path.exists(where)):
        sys.path.insert(0, os.getcwd())
        module: ModuleType = _import(where, lambda: importlib.import_module(where))
        return module
    path = os.path.abspath(where)
    if not os.path.isfile(path):
        raise UsageError(f"there is no file {where!r}")
    # As `python FILE` does, so that the file finds its neighbours.
    sys.path.insert(0, os.path.dirname(path))
    name = os.path.splitext(os.path.basename(path))[0]
    if name in sys.modules or importlib.util.find_spec(name) is None or not name.isidentifier():
        name = "__june_main__"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise UsageError(f"{where!r} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    _import(where, partial(spec.loader.exec_module, module))
    return module


def _import(where: str, load: Callable[[], Any]) -> Any:
    """Import the user's code; what goes wrong in there is shown as theirs."""
    try:
        return load()
    except ModuleNotFoundError as error:
        if error.name is not None and (where == error.name or where.startswith(error.name + ".")):
            raise UsageError(f"there is no module {where!r}, and no file of that name") from None
        raise UsageError(f"{where} cannot be imported\n{own_traceback(error)}") from None
    except SystemExit as error:
        raise UsageError(
            f"{where} called sys.exit({error.code!r}) while it was imported; "
            'put that below if __name__ == "__main__"'
        ) from None
    except (GraphError, KeyboardInterrupt):
        raise
    except BaseException as error:
        raise UsageError(f"{where} cannot be imported\n{own_traceback(error)}") from None


def own_traceback(error: BaseException) -> str:
    """Format an exception without the frames that are June's own, trio's, or the import system's."""
    shown = traceback.TracebackException.from_exception(error)
    part: traceback.TracebackException | None = shown
    while part is not None:
        part.stack = traceback.StackSummary.from_list(
            [frame for frame in part.stack if not frame.filename.startswith(_HIDDEN)]
        )
        part = part.__cause__ or part.__context__
    return "".join(shown.format()).rstrip()


_HIDDEN = (
    os.path.dirname(os.path.dirname(__file__)) + os.sep,
    *(os.path.dirname(str(module.__file__)) + os.sep for module in (importlib, outcome, trio)),
    "<frozen importlib",
)


def parse_inputs(given: Iterable[str], wanted: Graph) -> dict[str, Any]:
    """
    Read ``NAME=VALUE`` arguments by the types of the parameters that take them.

    A ``str`` is taken as it stands; anything else is read as JSON by its type. Where no type is annotated,
    what reads as JSON is, and the rest is text.

    Raises:
        UsageError: If an argument is malformed, or a value does not fit its type.
    """
    found: dict[str, Any] = {}
    types = {binding.source: _annotation(node, binding.name) for node, binding in wanted.externals}
    for one in given:
        name, equals, text = one.partition("=")
        if not equals:
            raise UsageError(f"--input takes NAME=VALUE, not {one!r}")
        found[name] = _parse(name, text, types.get(name, MISSING))
    return found


def _annotation(node: Any, parameter: str) -> Any:
    function = innermost(node.declaration.function)
    if node.declaration.each is not None and node.declaration.each[0] == parameter:
        return MISSING
    try:
        return typing.get_type_hints(function, include_extras=True).get(parameter, MISSING)
    except Exception:  # parameter annotations are never needed; without one the value tells
        return MISSING


def _parse(name: str, text: str, annotation: Any) -> Any:
    if annotation is str:
        return text
    if annotation is MISSING or annotation is Any:
        try:
            return msgspec.json.decode(text)
        except (msgspec.DecodeError, UnicodeError):
            return text
    codec = codec_for(annotation)
    # True, False and None are read as Python writes them, too.
    written_as_json = {"True": "true", "False": "false", "None": "null"}.get(text, text)
    for written in (written_as_json, msgspec.json.encode(text).decode()):
        # What is not JSON may still be the text of a date, a path or an optional str.
        try:
            return codec.decode(written.encode())
        except (Undecodable, UnicodeError):
            continue
    plain = isinstance(annotation, type) and not typing.get_args(annotation)
    wanted = annotation.__name__ if plain else str(annotation).replace("typing.", "")
    choices = ""
    if isinstance(annotation, type) and issubclass(annotation, enum.Enum):
        choices = f"; it is one of {listed(annotation.__members__, 'or')}"
    elif annotation not in (int, float):
        choices = "; write it as JSON"
    raise UsageError(f"--input {name}={text}: this does not read as {wanted}{choices}")
