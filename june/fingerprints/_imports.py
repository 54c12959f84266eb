"""
Import statements inside functions: which module they mean, and whether it is the user's.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
import types
from collections.abc import Mapping
from typing import Any

from june.fingerprints._functions import called
from june.fingerprints._origins import is_user_file, is_user_module
from june.fingerprints._pieces import KeyFailure
from june.fingerprints._scopes import Import


def absolute(names: Mapping[str, Any], source: Import) -> str:
    """The full name of the module that an import statement in *names* means."""
    if not source.level:
        return source.module
    package = names.get("__package__") or str(names.get("__name__", ""))
    if names.get("__package__") is None and "__path__" not in names:
        package = package.rpartition(".")[0]
    parts = package.split(".")
    parts = parts[: len(parts) - source.level + 1]
    return ".".join([*parts, source.module] if source.module else parts)


def is_user_import(top: str) -> bool:
    """Say whether a top-level module is the user's, without importing it."""
    module = sys.modules.get(top)
    if module is not None:
        return is_user_module(module)
    try:
        spec = importlib.util.find_spec(top)
    except (ImportError, ValueError):
        return False
    if spec is None:
        return True  # missing: said so when it is imported
    if spec.origin in ("built-in", "frozen"):
        return False
    places = (
        [spec.origin]
        if spec.origin
        else [f"{path}/__init__.py" for path in spec.submodule_search_locations or ()]
    )
    return any(is_user_file(str(path)) for path in places)


def import_module(name: str, function: types.FunctionType) -> types.ModuleType | None:
    """
    Import a module of the user's as the step itself would.

    Raises:
        KeyFailure: If the module is there, and fails.
    """
    module = sys.modules.get(name)
    if module is not None:
        return module
    try:
        return importlib.import_module(name)
    except ImportError:
        return None
    except Exception as error:
        raise KeyFailure(
            f"{called(function)}: import of {name} raised {type(error).__name__}: {error}"
        ) from error
