"""
What a syntax tree says, once it is in canonical form, and the names that it takes from outside.
"""

from __future__ import annotations

from typing import NamedTuple

from june.fingerprints._scopes import Import


class Use(NamedTuple):
    """
    A name that a tree takes from outside, with the attributes read from it.

    Attributes:
        kind: `global`, `free` (a closure's), `import` (by an import inside the function), or `reached` (in a
            way that says no names: *name* is what reaches it).

        name: The name; for `import` the local one.

        chain: Attributes: `("text", "clean")` in `pkg.text.clean(x)`. Of what reaches a module by a global
            that names it, that global.

        source: What an import binds the name to.

        is_value: It is not only called, so whoever gets it may read its annotations.
    """

    kind: str
    name: str
    chain: tuple[str, ...]
    source: Import | None = None
    is_value: bool = False


class Tree(NamedTuple):
    """
    A canonical tree.

    Attributes:
        digest: Hash of the canonical form.

        docs: Hash of its docstrings, which count only where somebody reads docstrings.

        uses: The names from outside, in order of appearance.

        reads_docs: It names `__doc__`.

        reads_names: It names `__name__` as an attribute of something other than a class.

        reads_subclasses: It names `__subclasses__`.

        signature: The annotations of the function, which count where it is used as a value.
    """

    digest: bytes
    docs: bytes
    uses: tuple[Use, ...]
    reads_docs: bool
    reads_names: bool = False
    reads_subclasses: bool = False
    signature: Tree | None = None
