"""
Code objects without their places: equality, and a form to hash when there is no source to trust.
"""

from __future__ import annotations

from collections.abc import Iterator
from types import CodeType

from june.fingerprints._scopes import Import


def shape(code: CodeType) -> tuple[object, ...]:
    """
    Everything that makes *code* do what it does; no line number, no file, no name of its own.

    Equal for equal bytecode of one Python version. ``co_code`` is what the compiler wrote: neither
    specialised instructions nor inline caches show in it.
    """
    return (
        code.co_code,
        code.co_exceptiontable,
        tuple(_constant(value) for value in code.co_consts),
        code.co_names,
        code.co_varnames,
        code.co_freevars,
        code.co_cellvars,
        code.co_flags,
        code.co_argcount,
        code.co_posonlyargcount,
        code.co_kwonlyargcount,
    )


def _constant(value: object) -> object:
    """A constant with its type, since ``1 == True``, and sets without their order."""
    if isinstance(value, CodeType):
        return shape(value)
    if isinstance(value, tuple):
        return (tuple, tuple(_constant(item) for item in value))
    if isinstance(value, frozenset):
        return (frozenset, tuple(sorted(repr(_constant(item)) for item in value)))
    return (type(value).__name__, repr(value))


def shape_bytes(code: CodeType) -> bytes:
    """*code* as bytes to hash. Its parts are plain data, so their ``repr`` is exact."""
    return repr(_plain(shape(code))).encode("utf-8", "surrogatepass")


def _plain(value: object) -> object:
    if isinstance(value, tuple):
        return tuple(_plain(item) for item in value)
    return value.__name__ if isinstance(value, type) else value


def nested(code: CodeType) -> Iterator[CodeType]:
    """*code* and the code of every function, class body and comprehension inside it."""
    waiting = [code]
    while waiting:
        found = waiting.pop()
        yield found
        waiting.extend(value for value in found.co_consts if isinstance(value, CodeType))


def named(code: CodeType) -> tuple[set[str], set[str]]:
    """Every global and attribute name, and every string, that *code* or code inside it holds."""
    names: set[str] = set()
    texts: set[str] = set()
    for part in nested(code):
        names.update(part.co_names)
        texts.update(value for value in part.co_consts if type(value) is str)
    return names, texts


def imports(code: CodeType) -> Iterator[tuple[str, Import]]:
    """What the import statements in *code*, or in code inside it, name: a name, and what it stands for."""
    import dis  # not worth its time where there is source

    for part in nested(code):
        constants: list[object] = [None, None]
        module, level = "", 0
        for instruction in dis.get_instructions(part):
            if instruction.opname.startswith("LOAD_"):
                constants = [constants[-1], instruction.argval]
            elif instruction.opname == "IMPORT_NAME":
                module, level = instruction.argval, int(str(constants[0] or 0))
                if not constants[1] or "*" in constants[1]:  # type: ignore[operator] # a tuple of names
                    yield module, Import(level, module, None, False)
            elif instruction.opname == "IMPORT_FROM":
                yield instruction.argval, Import(level, module, instruction.argval, False)
