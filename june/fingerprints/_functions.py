"""
The canonical tree of a function, remembered for as long as its code object lives.
"""

from __future__ import annotations

import threading
import weakref
from types import CodeType, FunctionType, ModuleType
from typing import NamedTuple

from june._text import short_path
from june.fingerprints._bytecode import imports, named, nested, shape_bytes
from june.fingerprints._sources import LOCK, FunctionNode, function_node
from june.fingerprints._trees import function_tree
from june.fingerprints._uses import Tree, Use


class Form(NamedTuple):
    """
    What of a function never changes.

    Attributes:
        tree: The canonical tree, or `None` if there is no source to trust.

        bytecode: What counts in place of a tree.

        why: Why there is none.
    """

    tree: Tree | None
    bytecode: bytes
    why: str


# By identity: two functions may be equal as code and yet differ in their source, by constant folding.
_forms: dict[int, tuple[weakref.ref[CodeType], Form]] = {}


def form_of(function: FunctionType) -> Form:
    """Give the form of *function*, found at the first call for its code object."""
    code = function.__code__
    key = id(code)
    known = _forms.get(key)
    if known is not None and known[0]() is code:
        return known[1]
    with LOCK:
        node, why = function_node(code, function.__globals__)
    tree = None
    if node is not None:
        try:
            tree = _tree(node, code)
        except RecursionError:
            tree, why = _deep_tree(node, code), "its source is nested too deeply"
    form = Form(None, shape_bytes(code), why) if tree is None else Form(tree, b"", "")

    def forget(reference: object) -> None:
        _forms.pop(key, None)

    _forms[key] = (weakref.ref(code, forget), form)
    return form


def _tree(node: FunctionNode, code: CodeType) -> Tree:
    return function_tree(node, _free(code), *named(code))


def _deep_tree(node: FunctionNode, code: CodeType) -> Tree | None:
    """Try again on an empty stack, so that it does not depend on the caller whether there is a tree."""
    found: list[Tree] = []

    def attempt() -> None:
        try:
            found.append(_tree(node, code))
        except RecursionError:
            pass

    thread = threading.Thread(target=attempt, name="june deep source")
    thread.start()
    thread.join()
    return found[0] if found else None


def _free(code: CodeType) -> tuple[str, ...]:
    """Names from the closure, as the source spells them: in a class, `__x` is compiled as `_C__x`."""
    names = list(code.co_freevars)
    names += ["__" + name.partition("__")[2] for name in names if name.startswith("_") and "__" in name[1:]]
    return tuple(names)


def uses_of(function: FunctionType, form: Form) -> tuple[Use, ...]:
    """
    The names that *function* takes from outside.

    Bytecode does not tell globals from attributes cheaply, so there every name that is a global counts.
    """
    code = function.__code__
    if form.tree is not None:
        uses = form.tree.uses
        if "__class__" in code.co_freevars:  # `super()` names it without saying so
            uses = (*uses, Use("free", "__class__", ()))
        return uses
    names = list(dict.fromkeys(name for part in nested(code) for name in part.co_names))
    found = [Use("free", name, ()) for name in code.co_freevars]
    for name in names:
        value = function.__globals__.get(name)
        if issubclass(type(value), ModuleType):
            read = [Use("global", name, (other,)) for other in names if other in vars(value)]
            found += read or [Use("global", name, ())]
        else:
            found.append(Use("global", name, (), None, True))
    found += [Use("import", name, (), source, True) for name, source in imports(code)]
    return tuple(found)


def called(function: FunctionType) -> str:
    """What people call the function: `clean() in text.py`."""
    # The code's own name: `functools.wraps` gives a wrapper the name of what it wraps.
    name = function.__code__.co_qualname.rpartition("<locals>.")[2]
    place = file_label(function)
    if name == "<lambda>":
        return f"lambda in {place}"
    return f"{name.replace('<lambda>', 'lambda')}() in {place}"


def file_label(function: FunctionType) -> str:
    """The file of a function, without its folder; for an old function from an edited cell, that cell."""
    return short_path(function.__code__.co_filename)
