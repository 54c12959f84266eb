"""
The canonical form of a function's or class's syntax tree: equal on every Python that parses it.

It is made from the tree alone, so it can be remembered for as long as the code object lives; what the names
in it stand for is looked up anew each time. Two rules make it equal on every version: a field that is empty
is left out (versions differ in which fields there are), and f-strings are put together from what they hold.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Sequence
from collections.abc import Set as AbstractSet
from hashlib import blake2b
from typing import Any, TypeGuard

from june.fingerprints._literals import constant_text, string_parts
from june.fingerprints._scopes import Definition, Import, Scope, function_scope, type_parameters
from june.fingerprints._uses import Tree, Use

_SKIPPED_FIELDS = frozenset({"ctx", "type_comment", "kind"})
# Code that names one of these may reach its locals by their names.
READS_NAMES = frozenset({"locals", "eval", "exec", "vars", "dir", "query", "f_locals", "_getframe"})
READS_DOCS = frozenset({"__doc__", "getdoc", "model_json_schema", "json_schema"})
_READS_FUNCTION_NAMES = frozenset({"__name__", "__qualname__", "co_name", "co_qualname"})
# Calls that give a module by a name, which may be a constant.
_IMPORTERS = frozenset({"import_module", "__import__"})
_SOURCE_READERS = frozenset({"getsource", "getsourcelines"})
# Decorators that do not look at annotations, by the last part of their name.
_BLIND = frozenset(
    [
        "step",
        "tool",
        "cache",
        "lru_cache",
        "wraps",
        "contextmanager",
        "asynccontextmanager",
        "staticmethod",
        "classmethod",
        "property",
        "cached_property",
        "setter",
        "getter",
        "deleter",
        "override",
        "final",
        "abstractmethod",
        "overload",
        "total_ordering",
    ]
)


def function_tree(
    node: Definition | ast.Lambda, free: Iterable[str], names: AbstractSet[str], texts: AbstractSet[str]
) -> Tree:
    """
    Bring a function into its canonical form, without its name, decorators and defaults.

    Args:
        node: The function.

        free: Names that its code takes from its closure.

        names: The globals and attributes that its code names.

        texts: The strings that it holds.
    """
    writer = Writer(frozenset(free), not READS_NAMES.isdisjoint(names))
    writer.function(node, None, root=True)
    found = names | texts
    return writer.finish(not READS_DOCS.isdisjoint(found))._replace(
        reads_names=writer.reads_names or not _READS_FUNCTION_NAMES.isdisjoint(texts),
        reads_subclasses="__subclasses__" in found,
        signature=_signature_tree(node),
    )


def _signature_tree(node: Definition | ast.Lambda) -> Tree | None:
    """Bring the annotations of a function into a canonical form; `None` if it has none."""
    if isinstance(node, ast.Lambda):
        return None
    writer = Writer(frozenset(), False)
    scope = Scope("function", None)
    scope.bound.update(type_parameters(node))
    writer.annotations(node, scope)
    return writer.finish(False) if writer.wrote else None


class Writer:
    """Writes one tree, and numbers local names and names from outside as they appear."""

    def __init__(self, free: frozenset[str], keep_names: bool) -> None:
        self._out: list[str] = []
        self._free = free
        self._keep_names = keep_names
        self._locals: dict[tuple[int, str], str] = {}
        self._outside: dict[str, str] = {}
        self._uses: dict[Use, None] = {}
        self._imported: dict[tuple[int, str], Scope] = {}
        self._scopes: list[Scope] = []  # kept alive, since their ids are keys
        self._docs: list[str] = []
        self._callee: ast.AST | None = None
        self.reads_names = False

    @property
    def wrote(self) -> bool:
        return bool(self._out)

    def finish(self, reads_docs: bool) -> Tree:
        # Imported and not used: for what importing does, so the whole module counts.
        for (_, name), owner in self._imported.items():
            for source in owner.imports[name]:
                self._uses[Use("import", name, (), source._replace(top=False))] = None
        docs = "".join(f"{len(text)}:{text}" for text in self._docs)
        return Tree(
            _digest("\x1f".join(self._out)),
            _digest(docs),
            tuple(self._uses),
            reads_docs,
        )

    # Nodes

    def node(self, node: ast.AST, scope: Scope) -> None:
        writer = _WRITERS.get(node.__class__, Writer.write_any)
        writer(self, node, scope)

    def write_any(self, node: ast.AST, scope: Scope) -> None:
        kind = node.__class__
        out = self._out
        out.append(kind.__name__)
        out.append("(")
        for field in _fields(kind):
            value = getattr(node, field, None)
            if value is None or value == []:
                continue
            out.append(field)
            if value.__class__ is list:
                self._list(value, scope)
            elif isinstance(value, ast.AST):
                self.node(value, scope)
            else:
                self._constant(value)
        out.append(")")

    def _list(self, values: Sequence[Any], scope: Scope) -> None:
        if isinstance(values[0], ast.stmt):
            self._statements(values, scope)
            return
        self._out.append(f"[{len(values)}")
        for value in values:
            if isinstance(value, ast.AST):
                self.node(value, scope)
            else:  # `None` stands for `**` in a dict, names in `case Point(x=0)` are attributes
                self._constant(value)

    def _statements(self, body: Sequence[ast.stmt], scope: Scope) -> None:
        """Write statements, without those that do nothing: `pass`, bare constants, bare annotations."""
        self._out.append("{")
        for statement in body:
            kind = statement.__class__
            if kind is ast.Pass or kind is ast.Global or kind is ast.Nonlocal:
                continue
            if _is_constant(statement):
                continue
            if isinstance(statement, ast.AnnAssign) and scope.kind != "class" and statement.value is None:
                continue
            self.node(statement, scope)
        self._out.append("}")

    def _constant(self, value: object) -> None:
        self._out.append(constant_text(value))

    def write_constant(self, node: ast.Constant, scope: Scope) -> None:
        self._out.append(constant_text(node.value))

    def write_set(self, node: ast.Set, scope: Scope) -> None:
        if all(isinstance(item, ast.Constant) for item in node.elts):
            texts = sorted(constant_text(item.value) for item in node.elts)  # type: ignore[attr-defined]
            self._out.append(f"Set[{len(texts)}")
            self._out.extend(texts)
            return
        self._out.append("Set")
        self._list(node.elts, scope)

    def write_joined(self, node: ast.JoinedStr, scope: Scope) -> None:
        parts = string_parts(node)
        if all(isinstance(part, str) for part in parts):
            self._constant("".join(parts))  # type: ignore[arg-type] # all are texts
            return
        self._out.append(f"JoinedStr[{len(parts)}")
        for part in parts:
            if isinstance(part, str):
                self._constant(part)
                continue
            self._out.append(f"Value {part.conversion}")
            self.node(part.value, scope)
            if isinstance(part.format_spec, ast.JoinedStr) and string_parts(part.format_spec):
                self._out.append("spec")
                self.node(part.format_spec, scope)

    # Names

    def write_name(self, node: ast.Name, scope: Scope) -> None:
        self._note_fallback(node, scope, ())
        self._out.append(self._token(node.id, scope, (), node is not self._callee))

    def write_attribute(self, node: ast.Attribute, scope: Scope) -> None:
        names = [node.attr]
        base = node.value
        while isinstance(base, ast.Attribute):
            names.append(base.attr)
            base = base.value
        names.reverse()
        if not _READS_FUNCTION_NAMES.isdisjoint(names) and not _is_class(base, names):
            self.reads_names = True
        self._out.append("Attribute." + ".".join(names))
        if isinstance(base, ast.Name):
            self._note_fallback(base, scope, tuple(names))
            self._out.append(self._token(base.id, scope, tuple(names), node is not self._callee))
        else:
            self.node(base, scope)

    def write_call(self, node: ast.Call, scope: Scope) -> None:
        self._callee = node.func
        name = last_name(node)
        if name in _SOURCE_READERS:
            self._uses[Use("reached", name, ())] = None
        elif node.args and name in _IMPORTERS:
            self._note_module(name, node.args[0], scope)
        self.write_any(node, scope)

    def write_subscript(self, node: ast.Subscript, scope: Scope) -> None:
        if last_name(node.value) == "modules":  # `sys.modules[__name__]`
            self._note_module("modules", node.slice, scope)
        self.write_any(node, scope)

    def _note_module(self, how: str, name: ast.expr, scope: Scope) -> None:
        """Note that code takes a module by its name."""
        if isinstance(name, ast.Constant) and isinstance(name.value, str):
            module = name.value.lstrip(".")
            source = Import(len(name.value) - len(module), module, None, False)
            self._uses[Use("import", module, (), source, True)] = None
        elif isinstance(name, ast.Name) and name.id == "__name__":
            self._uses[Use("reached", "globals", ())] = None
        elif how != "modules":
            is_global = isinstance(name, ast.Name) and not isinstance(scope.find(name.id), Scope)
            self._uses[Use("reached", how, (name.id,) if is_global else ())] = None  # type: ignore[attr-defined] # it is a Name

    def _token(self, name: str, scope: Scope, chain: tuple[str, ...], is_value: bool = True) -> str:
        """How *name* is written, noting that it is used if it comes from outside."""
        owner = scope.find(name)
        if isinstance(owner, Scope):
            if name in owner.imports:
                self._imported.pop((id(owner), name), None)
                self._note_import(name, owner, chain, is_value)
            return self._local(name, owner)
        kind = "free" if owner is None and name in self._free else "global"
        self._uses[Use(kind, name, chain, None, is_value)] = None
        token = self._outside.setdefault(name, f"G{len(self._outside)}")
        # A function that assigns a global does so by name, whoever reads it.
        return f"{token} {name}" if owner == "global" or self._keep_names else token

    def _note_fallback(self, node: ast.Name, scope: Scope, chain: tuple[str, ...]) -> None:
        """A class body that reads a name before it binds it (`limit = limit`) reads the global."""
        if scope.kind == "class" and node.id in scope.bound and isinstance(node.ctx, ast.Load):
            self._uses[Use("global", node.id, chain)] = None

    def _note_import(self, name: str, owner: Scope, chain: tuple[str, ...], is_value: bool) -> None:
        for source in owner.imports[name]:
            self._uses[Use("import", name, chain, source, is_value)] = None

    def _local(self, name: str, owner: Scope) -> str:
        if name in owner.parameters:
            return f"P {name}"
        if owner.kind == "class" or self._keep_names:
            return f"N {name}"
        return self._locals.setdefault((id(owner), name), f"L{len(self._locals)}")

    def _bound(self, name: str, scope: Scope) -> str:
        """How a name is written that a statement binds without a `Name` node."""
        owner = scope.find(name)
        return self._local(name, owner) if isinstance(owner, Scope) else self._token(name, scope, ())

    def write_handler(self, node: ast.ExceptHandler, scope: Scope) -> None:
        self._out.append("ExceptHandler")
        if node.type is not None:
            self.node(node.type, scope)
        if node.name:
            self._out.append("as " + self._bound(node.name, scope))
        self._statements(node.body, scope)

    def write_match_name(self, node: ast.MatchAs | ast.MatchStar, scope: Scope) -> None:
        self._out.append(node.__class__.__name__)
        self._out.append(self._bound(node.name, scope) if node.name else "_")
        pattern = getattr(node, "pattern", None)
        if pattern is not None:
            self.node(pattern, scope)

    def write_match_mapping(self, node: ast.MatchMapping, scope: Scope) -> None:
        self._out.append(f"MatchMapping[{len(node.keys)}")
        for key, pattern in zip(node.keys, node.patterns, strict=True):
            self.node(key, scope)
            self.node(pattern, scope)
        self._out.append("**" + self._bound(node.rest, scope) if node.rest else "")

    def write_import(self, node: ast.Import | ast.ImportFrom, scope: Scope) -> None:
        """Write an import by what it binds; what that is follows from the names' uses."""
        self._out.append(f"Import[{len(node.names)}")
        for alias in node.names:
            name = alias.asname or alias.name
            if isinstance(node, ast.Import) and alias.asname is None:
                name = alias.name.partition(".")[0]
            self._out.append(self._bound(name, scope))
            owner = scope.find(name)
            if isinstance(owner, Scope):
                self._imported[id(owner), name] = owner

    def write_annotated(self, node: ast.AnnAssign, scope: Scope) -> None:
        if scope.kind != "class":  # not evaluated in a function: the same as without
            self._out.append("Assign[1")
            self.node(node.target, scope)
        else:
            self._out.append("AnnAssign")
            self.node(node.target, scope)
            self.node(node.annotation, scope)
        if node.value is not None:
            self._out.append("=")
            self.node(node.value, scope)

    def write_assign(self, node: ast.Assign, scope: Scope) -> None:
        self._out.append(f"Assign[{len(node.targets)}")
        for target in node.targets:
            self.node(target, scope)
        self._out.append("=")
        self.node(node.value, scope)

    # Scopes

    def function(self, node: Definition | ast.Lambda, parent: Scope | None, root: bool = False) -> None:
        scope = function_scope(node, parent)
        self._scopes.append(scope)
        out = self._out
        out.append(node.__class__.__name__)
        if not isinstance(node, ast.Lambda):
            if parent is not None and not root:
                out.append(self._bound(node.name, parent))
                self._several("@", node.decorator_list, parent)
            if any(last_name(decorator) not in _BLIND for decorator in node.decorator_list):
                self.annotations(node, scope)
        self._parameters(node.args, None if root else parent)
        if isinstance(node, ast.Lambda):
            self.node(node.body, scope)
            return
        self.note_docs(node.body)
        self._statements(node.body, scope)

    def _several(self, mark: str, nodes: Sequence[ast.AST], scope: Scope) -> None:
        self._out.append(f"{mark}[{len(nodes)}")
        for node in nodes:
            if mark == "@":
                self._callee = node
            self.node(node, scope)

    def _parameters(self, args: ast.arguments, around: Scope | None) -> None:
        """Write parameters by name, and the expressions of their defaults unless they count by value."""
        groups = (args.posonlyargs, args.args, args.kwonlyargs)
        self._out.append("|".join(",".join(arg.arg for arg in group) for group in groups))
        self._out.append(
            f"*{args.vararg.arg if args.vararg else ''} **{args.kwarg.arg if args.kwarg else ''}"
        )
        if around is None:
            return
        self._several("defaults", args.defaults, around)
        for value in args.kw_defaults:
            if value is None:
                self._out.append("none")
            else:
                self.node(value, around)

    def annotations(self, node: Definition, scope: Scope) -> None:
        args = node.args
        named = [*args.posonlyargs, *args.args, *args.kwonlyargs]
        named.extend(arg for arg in (args.vararg, args.kwarg) if arg)
        for arg in named:
            if arg.annotation is not None:
                self._out.append(f":{arg.arg}")
                self.node(arg.annotation, scope)
        if node.returns is not None:
            self._out.append("->")
            self.node(node.returns, scope)

    def write_function(self, node: Definition | ast.Lambda, scope: Scope) -> None:
        self.function(node, scope)

    def write_class(self, node: ast.ClassDef, scope: Scope) -> None:
        self._out.append(self._bound(node.name, scope))
        self.note_docs(node.body)
        self.class_body(node, scope)

    def class_body(self, node: ast.ClassDef, parent: Scope | None) -> None:
        around = Scope("function", parent)
        around.bound.update(type_parameters(node))
        inner = Scope("class", around)
        inner.collect(node.body)
        self._scopes += (around, inner)
        self._out.append("ClassDef")
        self._several("@", node.decorator_list, around)
        self._several("params", getattr(node, "type_params", []), around)
        self._several("bases", node.bases, around)
        self._several("keywords", node.keywords, around)
        self._statements(node.body, inner)

    def write_alias(self, node: Any, scope: Scope) -> None:
        """Write a `type X[T] = ...` statement (Python 3.12)."""
        around = Scope("function", scope)
        around.bound.update(type_parameters(node))
        self._scopes.append(around)
        self._out.append("TypeAlias")
        self.node(node.name, scope)
        self._several("params", node.type_params, around)
        self.node(node.value, around)

    def write_comprehension(self, node: Any, scope: Scope) -> None:
        inner = Scope("comprehension", scope)
        for generator in node.generators:
            inner.collect([generator.target])
        self._scopes.append(inner)
        self._out.append(f"{node.__class__.__name__}[{len(node.generators)}")
        for place, generator in enumerate(node.generators):
            self._out.append("async for" if generator.is_async else "for")
            self.node(generator.iter, inner if place else scope)
            self.node(generator.target, inner)
            self._several("if", generator.ifs, inner)
        for field in ("key", "value", "elt"):
            if hasattr(node, field):
                self.node(getattr(node, field), inner)

    def note_docs(self, body: Sequence[ast.stmt]) -> None:
        first = body[0] if body else None
        text = first.value.value if _is_constant(first) else None
        if isinstance(text, str):
            self._docs.append(text)


def _is_class(base: ast.expr, names: Sequence[str]) -> bool:
    """Say whether it is a class whose name is read: `type(x).__name__`, `cls.__name__`."""
    if isinstance(base, ast.Call) and len(names) == 1:
        return isinstance(base.func, ast.Name) and base.func.id == "type"
    return names[-2:-1] == ["__class__"] or (isinstance(base, ast.Name) and base.id == "cls")


def _is_constant(statement: ast.stmt | None) -> TypeGuard[Any]:
    """Say whether a statement is a bare constant: a docstring, `...`."""
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def last_name(decorator: ast.expr) -> str:
    """`lru_cache` in `@functools.lru_cache(maxsize=None)`."""
    if isinstance(decorator, ast.Call):
        decorator = decorator.func
    if isinstance(decorator, ast.Attribute):
        return decorator.attr
    return decorator.id if isinstance(decorator, ast.Name) else ""


def _digest(text: str) -> bytes:
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()


_known_fields: dict[type, tuple[str, ...]] = {}


def _fields(kind: type[ast.AST]) -> tuple[str, ...]:
    fields = _known_fields.get(kind)
    if fields is None:
        fields = tuple(field for field in kind._fields if field not in _SKIPPED_FIELDS)
        _known_fields[kind] = fields
    return fields


_WRITERS: dict[type, Callable[[Writer, Any, Scope], None]] = {
    ast.AnnAssign: Writer.write_annotated,
    ast.Assign: Writer.write_assign,
    ast.AsyncFunctionDef: Writer.write_function,
    ast.Attribute: Writer.write_attribute,
    ast.Call: Writer.write_call,
    ast.ClassDef: Writer.write_class,
    ast.Constant: Writer.write_constant,
    ast.DictComp: Writer.write_comprehension,
    ast.ExceptHandler: Writer.write_handler,
    ast.FunctionDef: Writer.write_function,
    ast.GeneratorExp: Writer.write_comprehension,
    ast.Import: Writer.write_import,
    ast.ImportFrom: Writer.write_import,
    ast.JoinedStr: Writer.write_joined,
    ast.Lambda: Writer.write_function,
    ast.ListComp: Writer.write_comprehension,
    ast.MatchAs: Writer.write_match_name,
    ast.MatchMapping: Writer.write_match_mapping,
    ast.MatchStar: Writer.write_match_name,
    ast.Name: Writer.write_name,
    ast.Set: Writer.write_set,
    ast.SetComp: Writer.write_comprehension,
    ast.Subscript: Writer.write_subscript,
}
if hasattr(ast, "TypeAlias"):
    _WRITERS[ast.TypeAlias] = Writer.write_alias
