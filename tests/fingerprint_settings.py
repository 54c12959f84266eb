"""
The settings in which a user's code may live, for the table of edits. Needs nothing but June itself.
"""

from __future__ import annotations

import contextlib
import importlib
import linecache
import sys
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from june.fingerprints import CodeFingerprint, Fingerprinter

_count = 0


def code_of(load: Callable[[Path, str, str], Any], folder: Path, text: str, helper: str) -> CodeFingerprint:
    """Load *text* in a setting, and fingerprint its step while it is loaded."""
    before = set(sys.modules)
    folder.mkdir(parents=True, exist_ok=True)
    sys.path.insert(0, str(folder))
    importlib.invalidate_caches()
    try:
        with load(folder, text, helper) as step:
            return Fingerprinter().code(step)
    finally:
        sys.path.remove(str(folder))
        for name in set(sys.modules) - before:
            if name.partition(".")[0] in ("flow", "helper_module", "package", "rewritten_flow"):
                del sys.modules[name]


def _write_helper(folder: Path, text: str, helper: str, name: str) -> str:
    if helper:
        (folder / "helper_module.py").write_text(helper, encoding="utf-8")
    return text.replace("HELPER", name)


@contextlib.contextmanager
def as_module(folder: Path, text: str, helper: str) -> Iterator[Any]:
    """An imported module."""
    text = _write_helper(folder, text, helper, "helper_module")
    (folder / "flow.py").write_text(text, encoding="utf-8")
    yield importlib.import_module("flow").step


@contextlib.contextmanager
def as_package(folder: Path, text: str, helper: str) -> Iterator[Any]:
    """A module in a package, with its helper beside it."""
    inner = folder / "package"
    inner.mkdir()
    (inner / "__init__.py").touch()
    text = _write_helper(inner, text, helper, "package.helper_module")
    (inner / "flow.py").write_text(text, encoding="utf-8")
    yield importlib.import_module("package.flow").step


@contextlib.contextmanager
def as_main(folder: Path, text: str, helper: str) -> Iterator[Any]:
    """A script, as `python flow.py` runs it."""
    text = _write_helper(folder, text, helper, "helper_module")
    path = folder / "flow.py"
    path.write_text(text, encoding="utf-8")
    with _main() as main:
        main.__file__ = str(path)
        exec(compile(text, str(path), "exec", dont_inherit=True), vars(main))
        yield vars(main)["step"]


@contextlib.contextmanager
def as_cell(folder: Path, text: str, helper: str) -> Iterator[Any]:
    """A notebook cell: no file, but a text in linecache, as ipykernel leaves it there."""
    global _count
    _count += 1
    text = _write_helper(folder, text, helper, "helper_module")
    path = f"/tmp/ipykernel_77/{_count}.py"
    linecache.cache[path] = (len(text), None, text.splitlines(keepends=True), path)
    with _main() as main:
        exec(compile(text, path, "exec", dont_inherit=True), vars(main))
        yield vars(main)["step"]
    del linecache.cache[path]


@contextlib.contextmanager
def as_rewritten(folder: Path, text: str, helper: str) -> Iterator[Any]:
    """A module whose asserts pytest rewrote (`rewritten_flow` is registered for that)."""
    text = _write_helper(folder, text, helper, "helper_module")
    (folder / "rewritten_flow.py").write_text(text, encoding="utf-8")
    module = importlib.import_module("rewritten_flow")
    assert "@pytest_ar" in vars(module)
    yield module.step


@contextlib.contextmanager
def _main() -> Iterator[types.ModuleType]:
    before = sys.modules["__main__"]
    main = sys.modules["__main__"] = types.ModuleType("__main__")
    try:
        yield main
    finally:
        sys.modules["__main__"] = before


SETTINGS: dict[str, Any] = {
    "module": as_module,
    "package": as_package,
    "main": as_main,
    "cell": as_cell,
}
