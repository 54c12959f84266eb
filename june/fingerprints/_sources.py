"""
Find the syntax tree that a code object was compiled from, if its source is what runs.

A file is read by June itself, since ``linecache`` may hold an old text of it; only code that no file has
(cells, doctests, zip archives) is looked up there. The source of a file that was last changed before this
process started is trusted. Any other source is compiled once more, and trusted for a function only if that
gives the bytecode that the function runs.
"""

from __future__ import annotations

import ast
import linecache
import os
import sys
import threading
import time
from collections.abc import Mapping
from types import CodeType, FunctionType
from typing import Any, TypeAlias

from june.fingerprints._bytecode import nested, shape
from june.fingerprints._origins import is_written

FunctionNode: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
_KEPT_FILES = 64
_RELABELLED = 1 << 20
# To be held while searching: telling lambdas apart moves the nodes of a shared tree for a moment.
LOCK = threading.Lock()
_ASYNC_CELL = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT


def _process_start() -> float:
    """When this process started, in seconds since the epoch and a little too early; 0.0 if unknown."""
    try:
        with open("/proc/self/stat", "rb") as stat:
            ticks = int(stat.read().rpartition(b")")[2].split()[19])
        since_boot = ticks / os.sysconf("SC_CLK_TCK")
        return time.time() - time.clock_gettime(time.CLOCK_BOOTTIME) + since_boot - 0.1
    except (OSError, AttributeError, ValueError, IndexError):
        return 0.0


_STARTED = _process_start()


def parsed(text: bytes | str) -> ast.Module:
    """
    Parse a source.

    Some Pythons (https://github.com/python/cpython/issues/106905) count how deep a tree is nested for all
    threads together, so that one which parses meanwhile makes this raise SystemError.
    """
    for _ in range(20):
        try:
            return ast.parse(text)
        except SystemError:
            continue
    return ast.parse(text)


class Source:
    """
    The text of one file or cell, parsed when first asked.

    Attributes:
        path: The file, as code objects name it.

        trusted: The text is known to be what was compiled.
    """

    __slots__ = ("_classes", "_compiled", "_functions", "_text", "path", "tree", "trusted")

    def __init__(self, path: str, text: bytes | str, trusted: bool) -> None:
        self.path = path
        self.trusted = trusted
        self.tree: ast.Module = parsed(text)
        self._text = text
        self._functions: dict[tuple[int, str], list[FunctionNode]] | None = None
        self._classes: list[tuple[str, ast.ClassDef]] | None = None
        self._compiled: dict[str, list[CodeType]] | None = None

    def functions_at(self, line: int, name: str) -> list[FunctionNode]:
        """The functions of that name whose first line (of a decorator, if any) is *line*."""
        if self._functions is None:
            self._functions = {}
            for node in ast.walk(self.tree):
                if isinstance(node, ast.Lambda):
                    self._functions.setdefault((node.lineno, "<lambda>"), []).append(node)
                elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                    first = node.decorator_list[0].lineno if node.decorator_list else node.lineno
                    self._functions.setdefault((first, node.name), []).append(node)
        return self._functions.get((line, name), [])

    def classes_named(self, qualname: str) -> list[ast.ClassDef]:
        """The class statements of that qualified name, in the order of the text."""
        if self._classes is None:
            self._classes = []
            waiting: list[tuple[str, ast.AST]] = [("", self.tree)]
            while waiting:
                prefix, node = waiting.pop()
                inner = prefix
                if isinstance(node, ast.ClassDef):
                    self._classes.append((prefix + node.name, node))
                    inner = f"{prefix}{node.name}."
                elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                    inner = f"{prefix}{node.name}.<locals>."
                waiting.extend((inner, child) for child in ast.iter_child_nodes(node))
            self._classes.sort(key=lambda item: item[1].lineno)
        return [node for name, node in self._classes if name == qualname]

    def compiled_as(self, code: CodeType, rewritten: bool) -> CodeType | None:
        """Compile the text and find in it what does the same as *code*, at the same line if possible."""
        found = self._compile(rewritten).get(code.co_qualname, [])
        wanted = shape(code)
        same = [other for other in found if shape(other) == wanted]
        for other in same:
            if other.co_firstlineno == code.co_firstlineno:
                return other
        return same[0] if same else None

    def _compile(self, rewritten: bool) -> dict[str, list[CodeType]]:
        if self._compiled is None:
            self._compiled = {}
            for code in nested(compile_tree(self.tree, self.path, self._text, rewritten)):
                self._compiled.setdefault(code.co_qualname, []).append(code)
        return self._compiled

    def pick(self, code: CodeType, nodes: list[FunctionNode]) -> FunctionNode | None:
        """
        Tell lambdas of one line apart: compile again with a line of its own for each, and compare.

        Columns tell most of them apart, but not constant ones (`lambda: 1`) on every Python.
        """
        # Outer ones come first in *nodes*, so each ends on its own line, with what it holds around it.
        moved: list[tuple[FunctionNode, int]] = []
        try:
            for place, node in enumerate(nodes, start=1):
                moved.append((node, place * _RELABELLED - node.lineno))
                ast.increment_lineno(*moved[-1])
            compiled = list(nested(compile_tree(self.tree, self.path, self._text, False)))
        finally:
            for node, distance in reversed(moved):
                ast.increment_lineno(node, -distance)
        relabelled = {part.co_firstlineno // _RELABELLED - 1: part for part in compiled}
        wanted = shape(code)
        same = [place for place, part in sorted(relabelled.items()) if place >= 0 and shape(part) == wanted]
        exact = [place for place in same if _columns(relabelled[place]) == _columns(code)]
        return nodes[(exact or same)[0]] if same else None


def _columns(code: CodeType) -> list[tuple[int | None, int | None]]:
    """Where on their lines the instructions of *code* stand, as far as the compiler says."""
    return [(start, end) for _, _, start, end in code.co_positions() if start or end]


def compile_tree(tree: ast.Module, path: str, text: bytes | str, rewritten: bool) -> CodeType:
    """Compile *tree* as Python, pytest (*rewritten*) or IPython did."""
    rewrite = sys.modules.get("_pytest.assertion.rewrite") if rewritten else None
    if rewrite is not None:
        raw = text if isinstance(text, bytes) else text.encode()
        tree = parsed(text)
        rewrite.rewrite_asserts(tree, raw, path)
    flags = _ASYNC_CELL if _is_pseudo(path) else 0
    code: CodeType = compile(tree, path, "exec", flags, dont_inherit=True)
    return code


def _is_pseudo(path: str) -> bool:
    return path.startswith("<") or "ipykernel_" in path


_sources: dict[str, tuple[object, Source | None]] = {}


def source_of(path: str, names: Mapping[str, Any]) -> Source | None:
    """
    The source that code of *path* was made from, or `None` if there is none to be found.

    Args:
        path: The file name in a code object.

        names: The globals of that code, to ask a zip archive's loader by.
    """
    # IPython and doctest put texts into linecache that no file holds: no size, no time.
    entry = linecache.cache.get(path)
    if entry is not None and len(entry) > 2 and entry[1] is None:
        return _remembered(path, "".join(entry[2]), False)
    if not _is_pseudo(path):
        try:
            status = os.stat(path)
            stamp = (status.st_mtime_ns, status.st_ctime_ns, status.st_size)
            known = _sources.get(path)
            if known is not None and known[0] == stamp:
                return known[1]
            with open(path, "rb") as file:
                text = file.read()
            changed = max(status.st_mtime, status.st_ctime if os.name == "posix" else 0.0)
            return _remembered(path, text, changed < _STARTED, stamp)
        except OSError:
            pass
    lines = linecache.getlines(path, dict(names))
    return _remembered(path, "".join(lines), False) if lines else None


def _remembered(path: str, text: bytes | str, trusted: bool, stamp: object = None) -> Source | None:
    stamp = stamp or text
    known = _sources.get(path)
    if known is not None and known[0] == stamp:
        return known[1]
    try:
        source: Source | None = Source(path, text, trusted)
    except (SyntaxError, ValueError, RecursionError):
        source = None
    while len(_sources) >= _KEPT_FILES:
        _sources.pop(next(iter(_sources)))
    _sources[path] = (stamp, source)
    return source


def function_node(code: CodeType, names: Mapping[str, Any]) -> tuple[FunctionNode | None, str]:
    """
    Find the function that *code* was compiled from.

    Returns:
        The node and an empty text, or `None` and the reason.
    """
    source = source_of(code.co_filename, names)
    if source is None:
        return None, "no source"
    line = code.co_firstlineno
    why = "no source" if _is_pseudo(code.co_filename) else "the file was edited after its import"
    if not source.trusted:
        match = source.compiled_as(code, "@pytest_ar" in names)
        if match is None:
            return None, why
        line = match.co_firstlineno
    nodes = source.functions_at(line, code.co_name)
    if len(nodes) > 1:
        node = source.pick(code, nodes)
    else:
        node = nodes[0] if nodes else None
    return node, "" if node is not None else why


def class_nodes(cls: type) -> tuple[list[ast.ClassDef], str, str]:
    """
    Find the class statement that made *cls*, or all that may have.

    A class without methods does not say where it was written: it is looked for in its module's file, or
    else among the notebook's cells, the latest first. There is no code object to check a statement by, so in
    a file that may have been edited it must fit the class's methods, names and annotations.

    Returns:
        The nodes, the file or cell that they should stand in, and the reason if there are none.
    """
    functions = _methods(cls)
    module = sys.modules.get(cls.__module__)
    names = vars(module) if module is not None else {}
    path: str | None
    if functions:
        path = functions[0].__code__.co_filename
        names = functions[0].__globals__
    else:
        path = names.get("__file__")
    mark = f"class {cls.__name__}"
    paths = [path] if isinstance(path, str) else _cells_with(mark)
    why = "no source"
    for place in paths:
        source = source_of(place, names)
        found = source.classes_named(cls.__qualname__) if source is not None else []
        trusted = source is not None and source.trusted
        fitting = [node for node in found if _has_methods(node, functions) and _fits(cls, node, trusted)]
        if fitting:
            return fitting, place, ""
        if found:
            why = "the file was edited after its import"
    return [], paths[0] if paths else "", why


def _cells_with(text: str) -> list[str]:
    """The cells of a notebook that hold *text*, the latest first."""
    return [
        path
        for path, entry in reversed(list(linecache.cache.items()))
        if len(entry) > 2 and entry[1] is None and text in "".join(entry[2])
    ]


def _has_methods(node: ast.ClassDef, functions: list[FunctionType]) -> bool:
    """Say whether *node* holds the source of all *functions*."""
    for function in functions:
        found, _ = function_node(function.__code__, function.__globals__)
        if found is None or not node.lineno <= found.lineno <= (node.end_lineno or 0):
            return False
    return True


def _methods(cls: type) -> list[FunctionType]:
    """The plain functions that the class statement itself defined, as far as they are seen at once."""
    found = []
    for value in vars(cls).values():
        if isinstance(value, (staticmethod, classmethod)):
            value = value.__func__
        elif isinstance(value, property):
            value = value.fget
        while isinstance(value, FunctionType) and "__wrapped__" in value.__dict__:
            value = value.__dict__["__wrapped__"]
        if not isinstance(value, FunctionType) or not is_written(value):
            continue
        # Of the code, since a wrapper without `__wrapped__` may have taken the names of what it wraps.
        if value.__code__.co_qualname == f"{cls.__qualname__}.{value.__code__.co_name}":
            found.append(value)
    return found


def _fits(cls: type, node: ast.ClassDef, in_place: bool) -> bool:
    """Say whether *node* may have made *cls*: another class of the same name, or an edited one, may not."""
    first = vars(cls).get("__firstlineno__")  # since Python 3.13
    if in_place and isinstance(first, int) and first != _first_line(node):
        return False
    notes = vars(cls).get("__annotations__")
    for statement in node.body:
        if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            if statement.name not in vars(cls):
                return False
        elif isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            name = statement.target.id
            if isinstance(notes, dict) and not _is_annotation(statement.annotation, notes.get(name), cls):
                return False
    return True


def _is_annotation(node: ast.expr, held: object, cls: type) -> bool:
    """Say whether what a class holds as an annotation may come from *node*."""
    if held is None:
        return isinstance(node, ast.Constant)
    if isinstance(held, str):
        if isinstance(node, ast.Constant):
            return node.value in (held, held.strip("'\""))
        try:
            return ast.dump(ast.parse(held, mode="eval").body) == ast.dump(node)
        except SyntaxError:
            return False
    if isinstance(node, ast.Name) and isinstance(held, type):
        names = vars(sys.modules.get(cls.__module__, ast))
        return names.get(node.id, held) is held and (node.id in names or held.__name__ == node.id)
    return True


def _first_line(node: ast.ClassDef) -> int:
    return node.decorator_list[0].lineno if node.decorator_list else node.lineno
