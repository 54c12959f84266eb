"""
Which names a piece of a syntax tree binds: Python's scoping rules, over trees without running anything.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from typing import Final, NamedTuple, TypeAlias

Definition: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef
_COMPREHENSIONS: Final = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


class Import(NamedTuple):
    """
    What an import statement inside a function binds a name to.

    Attributes:
        level: Dots before the module's name.

        module: The module to import.

        attribute: What is taken from it; `None` binds the module (its top package if *top*).

        top: The statement binds the first part of the module's dotted name.
    """

    level: int
    module: str
    attribute: str | None
    top: bool


class Scope:
    """
    The names that one function, class body or comprehension binds.

    Attributes:
        kind: `function`, `class` or `comprehension`.

        parent: The scope around it.

        parameters: Names bound by the caller: they are kept, all other locals are numbered.

        bound: Every other name bound here.

        imports: What import statements bind some of these names to.
    """

    __slots__ = ("bound", "globals", "imports", "kind", "nonlocals", "parameters", "parent")

    def __init__(self, kind: str, parent: Scope | None) -> None:
        self.kind = kind
        self.parent = parent
        self.parameters: frozenset[str] = frozenset()
        self.bound: set[str] = set()
        self.globals: set[str] = set()
        self.nonlocals: set[str] = set()
        self.imports: dict[str, list[Import]] = {}

    def collect(self, nodes: Iterable[ast.AST]) -> None:
        """Note what *nodes* bind in this scope, without entering the scopes inside it."""
        waiting: list[ast.AST] = list(nodes)
        while waiting:
            node = waiting.pop()
            kind = node.__class__
            if kind is ast.Name:
                if node.ctx.__class__ is not ast.Load:  # type: ignore[attr-defined] # it is a Name
                    self.bound.add(node.id)  # type: ignore[attr-defined] # it is a Name
            elif kind is ast.Constant:
                pass
            elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)):
                waiting.extend(self._define(node))
            elif isinstance(node, _COMPREHENSIONS):
                waiting.append(node.generators[0].iter)
                self._collect_walrus(node)
            elif isinstance(node, (ast.Import, ast.ImportFrom)):
                self._import(node)
            elif isinstance(node, ast.Global):
                self.globals.update(node.names)
            elif isinstance(node, ast.Nonlocal):
                self.nonlocals.update(node.names)
            else:
                if isinstance(node, (ast.ExceptHandler, ast.MatchAs, ast.MatchStar)) and node.name:
                    self.bound.add(node.name)
                elif isinstance(node, ast.MatchMapping) and node.rest:
                    self.bound.add(node.rest)
                waiting.extend(ast.iter_child_nodes(node))

    def _define(self, node: Definition | ast.Lambda | ast.ClassDef) -> list[ast.AST]:
        """Bind the name of a definition; what it evaluates around itself is for this scope to look at."""
        if isinstance(node, ast.Lambda):
            return [*node.args.defaults, *(value for value in node.args.kw_defaults if value)]
        self.bound.add(node.name)
        if isinstance(node, ast.ClassDef):
            return [*node.decorator_list, *node.bases, *node.keywords]
        defaults = [value for value in node.args.kw_defaults if value]
        return [*node.decorator_list, *node.args.defaults, *defaults]

    def _collect_walrus(self, comprehension: ast.AST) -> None:
        """`[y := f(x) for x in xs]` binds `y` in the function around the comprehension."""
        for node in ast.walk(comprehension):
            if isinstance(node, ast.NamedExpr) and isinstance(node.target, ast.Name):
                self.bound.add(node.target.id)

    def _import(self, node: ast.Import | ast.ImportFrom) -> None:
        for alias in node.names:
            if isinstance(node, ast.ImportFrom):
                name = alias.asname or alias.name
                found = Import(node.level, node.module or "", alias.name, False)
            else:
                name = alias.asname or alias.name.partition(".")[0]
                found = Import(0, alias.name, None, alias.asname is None)
            self.bound.add(name)
            self.imports.setdefault(name, []).append(found)

    def find(self, name: str) -> Scope | str | None:
        """
        Resolve *name* as code standing in this scope would.

        Returns:
            The scope that binds it; `"global"` if a `global` statement says so; `None` if it comes from
            outside of the whole tree.
        """
        scope: Scope | None = self
        while scope is not None:
            if scope.kind != "class" or scope is self:
                if name in scope.globals:
                    return "global"
                if name not in scope.nonlocals and (name in scope.parameters or name in scope.bound):
                    return scope
            scope = scope.parent
        return None


def function_scope(node: Definition | ast.Lambda, parent: Scope | None) -> Scope:
    """The scope of a function's body."""
    scope = Scope("function", parent)
    args = node.args
    named = [*args.posonlyargs, *args.args, *args.kwonlyargs]
    named.extend(arg for arg in (args.vararg, args.kwarg) if arg)
    scope.parameters = frozenset(arg.arg for arg in named)
    scope.bound.update(type_parameters(node))
    scope.collect([node.body] if isinstance(node, ast.Lambda) else node.body)
    return scope


def type_parameters(node: ast.AST) -> list[str]:
    """The names in `def f[T]`, `class C[T]`, `type X[T]`; none before Python 3.12."""
    return [parameter.name for parameter in getattr(node, "type_params", ())]
