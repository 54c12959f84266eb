"""The modules of June, lowest first: each imports only from those before it."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import june

LAYERS = [
    ["errors", "_text", "_digests", "_exceptions"],
    ["messages", "_disk"],
    ["models"],
    ["_signatures", "codec", "fingerprints", "traces", "_locks", "prices"],
    ["_parsing", "_docstrings"],
    ["_instances", "_interfaces"],
    ["_answers"],
    ["tools", "outputs"],
    ["retries", "approvals", "sdk"],
    ["steps"],
    ["agents"],
    ["declaring", "graphs", "conversations"],
    ["wiring", "keys"],
    ["entries"],
    ["records"],
    ["snapshots", "journals"],
    ["storage", "recovery", "ledgers", "stepruns", "fanout", "options"],
    ["inputs", "reuse", "queues", "outcomes"],
    ["families", "mutations"],
    ["runs", "slots", "_workers"],
    ["hosting", "_trampoline", "_threads"],
    ["_asyncio"],
    ["executor"],
    ["interrupts"],
    ["handles"],
    ["running", "testing", "tracing"],
    [""],
    ["cli"],
    ["__main__"],
]

ROOT = Path(june.__file__).parent
LAYER = {name: number for number, names in enumerate(LAYERS) for name in names}


def top(module: str) -> str:
    """The part of a module's name that a layer has: ``june.codec._unions`` is in ``codec``."""
    return [*module.split("."), ""][1]


def imported(tree: ast.AST) -> set[str]:
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "june":
            if node.module == "june":
                found |= {alias.name if alias.name in LAYER else "" for alias in node.names}
            else:
                found.add(top(node.module))
        elif isinstance(node, ast.Import):
            found |= {top(alias.name) for alias in node.names if alias.name.split(".")[0] == "june"}
    return found


@pytest.mark.parametrize("path", sorted(ROOT.rglob("*.py")), ids=lambda path: str(path.relative_to(ROOT)))
def test_a_module_imports_only_from_layers_below_its_own(path: Path):
    """Import arrows point down, also inside functions, so that the code can be read from the bottom up."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    own = "" if parts == ("__init__",) else parts[0]
    allowed = {name for name, layer in LAYER.items() if layer < LAYER[own]}
    if len(parts) > 1:
        allowed.add(own)
    assert imported(ast.parse(path.read_text())) <= allowed
