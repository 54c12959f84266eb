"""
Fan-out over real files: measure every module of the standard library, rank them, and write a report.

    june run examples/stdlib_report.py --input top=20 --resume report.json --keep

Stop it half-way with Ctrl-C and run it again: only the files that are left are measured. Edit `rank_by`
below and run it again: only what uses it runs.
"""

from __future__ import annotations

import ast
import hashlib
import sysconfig
from pathlib import Path

import attrs

from june import step

STDLIB = Path(sysconfig.get_path("stdlib"))


@attrs.frozen(kw_only=True)
class Measure:
    """What one module looks like."""

    module: str
    lines: int
    functions: int
    longest: int
    longest_name: str
    nesting: int
    branches: int


def names() -> list[str]:
    return sorted(path.name for path in STDLIB.glob("*.py"))


def content(name: str) -> str:
    return hashlib.sha256((STDLIB / name).read_bytes()).hexdigest()


# What a step reads from disk is no parameter of it. `vary` puts it in the cache key.
@step(id="files", vary=names)
def files() -> list[str]:
    """The standard library's own modules that are single files."""
    return names()


@step(id="measure", each={"name": files}, vary=content)
def measure(name: str) -> Measure:
    """Measure one module from its syntax tree."""
    source = (STDLIB / name).read_text(encoding="utf-8")
    tree = ast.parse(source)
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    lengths = {node.name: (node.end_lineno or node.lineno) - node.lineno + 1 for node in functions}
    longest = max(lengths, key=lengths.__getitem__, default="")
    return Measure(
        module=name.removesuffix(".py"),
        lines=source.count("\n"),
        functions=len(functions),
        longest=lengths.get(longest, 0),
        longest_name=longest,
        nesting=depth(tree),
        branches=sum(isinstance(node, BRANCHES) for node in ast.walk(tree)),
    )


BRANCHES = (ast.If, ast.For, ast.While, ast.Try, ast.BoolOp, ast.IfExp, ast.ExceptHandler, ast.comprehension)
BLOCKS = (ast.If, ast.For, ast.While, ast.Try, ast.With, ast.AsyncFor, ast.AsyncWith)


def depth(node: ast.AST, around: int = 0) -> int:
    """How deep blocks are nested below *node*."""
    here = around + isinstance(node, BLOCKS)
    return max((depth(child, here) for child in ast.iter_child_nodes(node)), default=here)


@step(id="ranking")
def ranking(measure: list[Measure], top: int) -> list[Measure]:
    """The *top* modules that are the hardest to read."""
    return sorted(measure, key=rank_by, reverse=True)[:top]


def rank_by(measure: Measure) -> tuple[float, str]:
    """How hard a module is to read: branches for each function, weighted by its longest one."""
    return measure.branches / max(measure.functions, 1) * measure.longest, measure.module


@step(id="totals")
def totals(measure: list[Measure]) -> dict[str, int]:
    """Sums over all modules."""
    return {
        "modules": len(measure),
        "lines": sum(one.lines for one in measure),
        "functions": sum(one.functions for one in measure),
    }


@step(id="report")
def report(ranking: list[Measure], totals: dict[str, int]) -> str:
    """The report, in Markdown."""
    lines = [
        "# The standard library, measured",
        "",
        f"{totals['modules']} modules, {totals['lines']:,} lines, {totals['functions']:,} functions.",
        "",
        "| module | lines | functions | longest function | nesting | branches |",
        "| --- | ---: | ---: | --- | ---: | ---: |",
    ]
    for one in ranking:
        longest = f"`{one.longest_name}` ({one.longest})" if one.longest else ""
        lines.append(
            f"| {one.module} | {one.lines} | {one.functions} | {longest} | {one.nesting} | {one.branches} |"
        )
    return "\n".join(lines)
