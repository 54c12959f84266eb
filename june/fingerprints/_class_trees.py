"""
The canonical form of a class statement, without what the class holds at run time.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence

from june.fingerprints._scopes import Definition
from june.fingerprints._trees import Writer, last_name
from june.fingerprints._uses import Tree

# Decorators that say all they do by what the class then holds.
_HELD_WHOLE = frozenset(
    [
        "property",
        "cached_property",
        "staticmethod",
        "classmethod",
        "setter",
        "getter",
        "deleter",
        "override",
        "final",
        "overload",
        "abstractmethod",
        "cache",
        "lru_cache",
        "contextmanager",
        "asynccontextmanager",
    ]
)


def class_tree(node: ast.ClassDef, held: Callable[[str], bool]) -> Tree:
    """
    Bring a class statement into its canonical form, without what the class holds at run time.

    Args:
        node: The class.

        held: Says of a name whether the class holds its value, so that the value counts and not the text.
    """
    body = [kept for statement in node.body if (kept := _unheld(statement, held)) is not None]
    kept = ast.ClassDef(node.name, node.bases, node.keywords, body, node.decorator_list)
    if hasattr(node, "type_params"):
        kept.type_params = node.type_params  # type: ignore[attr-defined] # mypy checks for 3.11
    writer = Writer(frozenset(), False)
    writer.note_docs(node.body)
    writer.class_body(kept, None)
    return writer.finish(False)


def joined(trees: Sequence[Tree]) -> Tree:
    """One tree for several statements of which any may be the one that ran."""
    if len(trees) == 1:
        return trees[0]
    distinct = list(dict.fromkeys(tree.digest for tree in trees))
    uses = dict.fromkeys(use for tree in trees for use in tree.uses)
    docs = b"".join(tree.docs for tree in trees)
    return trees[0]._replace(digest=b"".join(distinct), docs=docs, uses=tuple(uses))


def _unheld(statement: ast.stmt, held: Callable[[str], bool]) -> ast.stmt | None:
    """What of a class body's statement must count by its text."""
    if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return _decorated(statement) if held(statement.name) else statement
    if isinstance(statement, ast.Assign):
        targets = statement.targets
        is_held = all(isinstance(target, ast.Name) and held(target.id) for target in targets)
        return None if is_held else statement
    if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
        value = None if held(statement.target.id) else statement.value
        return ast.AnnAssign(statement.target, statement.annotation, value, statement.simple)
    return statement


def _decorated(statement: Definition | ast.ClassDef) -> ast.stmt | None:
    """The decorators of a method that the class holds: what they note elsewhere, only the text tells."""
    if isinstance(statement, ast.ClassDef):  # a class counts with its decorators
        return None
    found = [node for node in statement.decorator_list if last_name(node) not in _HELD_WHOLE]
    if not found:
        return None
    nothing = ast.arguments([], [], None, [], [], None, [])
    return ast.FunctionDef(statement.name, nothing, [], found)
