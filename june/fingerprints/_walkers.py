"""
From a function to all that it names in the user's own code: the pieces of a fingerprint.
"""

from __future__ import annotations

import builtins
import sys
import types
from collections.abc import Mapping
from typing import Any

import june.fingerprints._callables  # fills the tables of types
import june.fingerprints._library  # noqa: F401 # fills the table of library types
from june._text import short_path
from june.fingerprints._classes import class_form, class_label, write_class
from june.fingerprints._functions import called, file_label, form_of, uses_of
from june.fingerprints._imports import absolute, import_module, is_user_import
from june.fingerprints._objects import is_a, type_attribute
from june.fingerprints._origins import (
    folders_of,
    is_user_class,
    is_user_function,
    is_user_module,
    is_written,
    public_module,
)
from june.fingerprints._pieces import Content, Piece
from june.fingerprints._scopes import Import
from june.fingerprints._uses import Use
from june.fingerprints._values import Encoder

__all__ = ["CodeWalker"]
# Where a module lies and what it is called does not matter; the rest of them is the import system's.
_PLACES = frozenset(
    {
        "__name__",
        "__file__",
        "__package__",
        "__spec__",
        "__loader__",
        "__builtins__",
        "__cached__",
        "__path__",
    }
)
_REACHING = frozenset({"globals", "eval", "exec"})
# What decorators and test runners note on a function for themselves.
_BOOKKEEPING = frozenset(
    {
        "__wrapped__",
        "__isabstractmethod__",
        "__override__",
        "__final__",
        "__deprecated__",
        "__no_type_check__",
        "pytestmark",
        "_pytestfixturefunction",
    }
)
_BUILTINS = frozenset(vars(builtins))
_MISSING = object()


class CodeWalker:
    """
    Makes one piece for each object it meets, and remembers it.

    *Responsibilities*: resolve names as the running code would, and say which piece each is.
    """

    def __init__(self) -> None:
        self._pieces: dict[object, Piece] = {}

    # Pieces

    def function_piece(self, function: types.FunctionType, with_defaults: bool = True) -> Piece:
        """The piece of a user's function; without its defaults where they are inputs, as for a step."""
        key = ("function", id(function), with_defaults)
        piece = self._pieces.get(key)
        if piece is None:

            def write(content: Content) -> None:
                self._write_function(function, content, with_defaults)

            piece = self._pieces[key] = Piece(f"helper {called(function)}", function, write)
        return piece

    def refer_signature(self, function: types.FunctionType, content: Content) -> None:
        """Write the annotations of a user's function that is used as a value, if it has any."""
        form = form_of(function)
        wrapped = function.__dict__.get("__wrapped__")
        if is_a(wrapped, types.FunctionType) and is_user_function(wrapped):
            self.refer_signature(wrapped, content)
        if (form.tree.signature if form.tree is not None else function.__annotations__ or None) is None:
            return
        key = ("signature", id(function))
        piece = self._pieces.get(key)
        if piece is None:

            def write(content: Content) -> None:
                self._write_signature(function, content)

            piece = self._pieces[key] = Piece(f"annotations of {called(function)}", function, write)
        content.refer(piece)

    def refer_method_signature(self, cls: type, name: str, content: Content) -> None:
        """Write the annotations of a user's method that is a value, or that its object is called by."""
        method = type_attribute(cls, name)
        if issubclass(type(method), (staticmethod, classmethod)):
            method = method.__func__
        if is_a(method, types.FunctionType) and is_written(method):
            self.refer_signature(method, content)

    def class_piece(self, cls: type) -> Piece:
        """The piece of a user's class: all of it, since any method may be called."""
        key = ("class", id(cls))
        piece = self._pieces.get(key)
        if piece is None:

            def write(content: Content) -> None:
                self._write_class(cls, content)

            piece = self._pieces[key] = Piece(class_label(cls), cls, write)
        return piece

    def module_piece(self, module: types.ModuleType) -> Piece | None:
        """The piece of a whole module that is passed around; `None` for a library's."""
        if not is_user_module(module):
            return None
        key = ("module", id(module))
        piece = self._pieces.get(key)
        if piece is None:
            place = short_path(str(vars(module).get("__file__") or module.__name__))

            def write(content: Content) -> None:
                names = vars(module)
                if is_user_class(type(module)):
                    content.refer(self.class_piece(type(module)))
                for name in sorted(names):
                    # pytest adds names with "@" to modules whose asserts it rewrites.
                    if not name.startswith("@") and not (name.startswith("__") and name.endswith("__")):
                        content.text(b".", name)
                        self._named(names, Use("global", name, (), None, True), names[name], content, place)

            piece = self._pieces[key] = Piece(f"module {place}", module, write)
        return piece

    def value_piece(
        self, key: object, held: object, label: str, where: tuple[str, str], folders: tuple[str, ...]
    ) -> Piece:
        """The piece of one value: *held* is a container of one item, read when the piece is written."""
        piece = self._pieces.get(key)
        if piece is None:

            def write(content: Content) -> None:
                value = held() if isinstance(held, _Cell) else held
                if value is _MISSING:
                    content.atom(b"empty")
                else:
                    Encoder(content, self, where, folders).encode(value)

            piece = self._pieces[key] = Piece(label, held, write)
        return piece

    # Functions

    def _write_function(
        self,
        function: types.FunctionType,
        content: Content,
        with_defaults: bool = True,
        owner: type | None = None,
    ) -> None:
        form = form_of(function)
        if form.tree is not None:
            content.atom(b"tree", form.tree.digest)
            content.docs += form.tree.docs
            content.reads_docs = content.reads_docs or form.tree.reads_docs
            content.reads_names = content.reads_names or form.tree.reads_names
        else:
            content.atom(b"bytecode", form.bytecode)
            content.notes.append(f"bytecode of {called(function)} counts: {form.why}")
        for use in uses_of(function, form):
            self._use(function, use, content)
            if use.kind == "global" and use.name in _REACHING and use.name not in function.__globals__:
                self._refer_reached(function, use.name, content)
        if form.tree is not None and form.tree.reads_subclasses:
            self._refer_subclasses(function, owner, content)
        if with_defaults:
            self._write_defaults(function, content)
        self._write_own(function, content)

    def _write_own(self, function: types.FunctionType, content: Content) -> None:
        """Write what a function object holds besides its code: its name, its attributes, what it wraps."""
        name = function.__qualname__.rpartition("<locals>.")[2]
        content.names += f"{name} {function.__name__};".encode("utf-8", "surrogatepass")
        if function.__doc__:  # it may have been assigned; that 3.13 takes its indentation away is no matter
            content.docs += " ".join(str(function.__doc__).split()).encode("utf-8", "surrogatepass")
        held = function.__dict__
        if not held:
            return
        wrapped = held.get("__wrapped__")
        copied = wrapped.__dict__ if is_a(wrapped, types.FunctionType) else {}
        encoder = Encoder(
            content, self, (name, f" in {file_label(function)}"), folders_of(function.__globals__)
        )
        own = [
            (key, held[key])
            for key in sorted(held)
            if key not in _BOOKKEEPING and (key not in copied or copied[key] is not held[key])
        ]
        if own:
            encoder.fields(b"{", own)
        if wrapped is not None:
            content.atom(b"wraps")
            encoder.signatures = False
            encoder.inside(".__wrapped__", wrapped)

    def _write_signature(self, function: types.FunctionType, content: Content) -> None:
        form = form_of(function)
        if form.tree is None or form.tree.signature is None:
            Encoder(content, self, (called(function), "")).encode(function.__annotations__)
            return
        content.atom(b"signature", form.tree.signature.digest)
        for use in form.tree.signature.uses:
            self._use(function, use, content)

    def _refer_subclasses(self, function: types.FunctionType, owner: type | None, content: Content) -> None:
        """Code that names `__subclasses__` gets those of the classes that it names, or is a method of."""
        content.notes.append(
            f"a subclass made later that {called(function)} finds by __subclasses__() does not count"
        )
        waiting: list[Any] = [piece.held for piece in content.children if is_a(piece.held, type)]
        waiting += [owner] if owner is not None else []
        known = {id(cls) for cls in waiting}
        for cls in waiting:
            for subclass in type.__subclasses__(cls):
                if id(subclass) not in known and is_user_class(subclass):
                    known.add(id(subclass))
                    waiting.append(subclass)
                    content.refer(self.class_piece(subclass))

    def _refer_reached(self, function: types.FunctionType, name: str, content: Content) -> None:
        """Code that calls `globals()` may read anything in its module; `eval` what only the text says."""
        module = sys.modules.get(function.__globals__.get("__name__", ""))
        piece = None
        if name == "globals" and module is not None and vars(module) is function.__globals__:
            piece = self.module_piece(module)
        if piece is not None:
            content.refer(piece)
        else:
            content.notes.append(f"what {called(function)} reaches by {name}() does not count")

    def _write_defaults(self, function: types.FunctionType, content: Content) -> None:
        code = function.__code__
        defaults = function.__defaults__ or ()
        names = code.co_varnames[: code.co_argcount]
        pairs = [*zip(names[len(names) - len(defaults) :], defaults, strict=True)]
        pairs += sorted((function.__kwdefaults__ or {}).items())
        folders = folders_of(function.__globals__)
        for name, value in pairs:
            content.text(b"default", name)
            label = f"default of {name}"
            key = ("default", id(function), name)
            content.refer(self.value_piece(key, _Cell(value), label, (label, ""), folders))

    def _use(self, function: types.FunctionType, use: Use, content: Content) -> None:
        """Write what a name in a function stands for at this moment."""
        if use.source is not None:
            self._imported(function, use.source, use, content)
        elif use.kind == "reached":
            name = function.__globals__.get(use.chain[0]) if use.chain else None
            if type(name) is str:  # `import_module(NAME)`
                module = name.lstrip(".")
                source = Import(len(name) - len(module), module, None, False)
                self._imported(function, source, Use("import", module, (), None, True), content)
            else:
                self._refer_reached(function, use.name, content)
        elif use.kind == "free":
            self._free(function, use, content)
        else:
            self._global(function.__globals__, use, content, file_label(function), function.__qualname__)

    def _free(self, function: types.FunctionType, use: Use, content: Content) -> None:
        for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
            if name == use.name or (use.name.startswith("__") and name.endswith(use.name)):
                label = f"closure {use.name}"
                value = _content(cell)
                # Attributes of a module in a closure are followed like those of one in a global.
                if is_a(value, types.ModuleType) and is_user_module(value):
                    self._named({use.name: value}, use, value, content, file_label(function))
                    return
                if is_a(value, types.FunctionType) and is_user_function(value):
                    self._refer_function(value, use, content)
                    return
                folders = folders_of(function.__globals__)
                piece = self.value_piece(("cell", id(cell)), _CellOf(cell), label, (label, ""), folders)
                content.refer(piece)
                return

    def _global(self, names: dict[str, Any], use: Use, content: Content, place: str, qualname: str) -> None:
        name = use.name
        if name in _PLACES:
            content.text(b"place", name)
            return
        value = names.get(name, _MISSING)
        if value is _MISSING and name.startswith("__") and not name.endswith("__"):
            # In a class, `__x` is compiled as `_C__x`.
            around = qualname.rpartition("<locals>.")[2].split(".")
            mangled = f"_{around[-2].lstrip('_')}{name}" if len(around) > 1 else name
            name, value = mangled, names.get(mangled, _MISSING)
        if value is not _MISSING:
            self._named(names, use._replace(name=name), value, content, place)
            return
        builtin = vars(builtins).get(name, _MISSING)
        if is_a(builtin, types.FunctionType) and is_user_function(builtin):
            content.refer(self.function_piece(builtin))
        else:
            content.text(b"missing" if builtin is _MISSING else b"builtin", name)
            if name not in _BUILTINS and type(builtin) in (bool, int, float, str, bytes):
                content.text(b"=", repr(builtin))  # somebody put it there

    def _refer_function(self, function: types.FunctionType, use: Use, content: Content) -> None:
        content.refer(self.function_piece(function))
        if use.is_value:
            self.refer_signature(function, content)

    def _named(self, names: Mapping[str, Any], use: Use, value: Any, content: Content, place: str) -> None:
        """Write the value of a name in a namespace, following attributes through the user's modules."""
        name, chain = use.name, use.chain
        while is_a(value, types.ModuleType) and chain and is_user_module(value):
            held = vars(value)
            if is_user_class(type(value)):  # it may have properties
                content.refer(self.class_piece(type(value)))
            name, chain = chain[0], chain[1:]
            found = held.get(name, _MISSING)
            if found is _MISSING:
                found = sys.modules.get(f"{value.__name__}.{name}", _MISSING)
            if found is _MISSING:
                hook = held.get("__getattr__")
                content.text(b"missing", name)
                if is_a(hook, types.FunctionType) and is_user_function(hook):
                    content.refer(self.function_piece(hook))
                return
            if name in _PLACES:
                content.text(b"place", name)
                return
            place = short_path(str(held.get("__file__") or value.__name__))
            names, value = held, found
        if is_a(value, types.ModuleType):
            piece = self.module_piece(value)
            if piece is not None:
                content.refer(piece)
                return
            self._refer_patched(value, chain, content)
        elif is_a(value, types.FunctionType) and is_user_function(value):
            self._refer_function(value, use, content)
            return
        elif is_a(value, type) and is_user_class(value):
            content.refer(self.class_piece(value))
            if use.is_value:
                self.refer_method_signature(value, chain[0] if chain else "__init__", content)
            return
        elif chain and use.is_value:  # `TOOLBOX.search`
            self.refer_method_signature(type(value), chain[0], content)
        content.refer(self._constant_piece(names, name, value, place))

    def _refer_patched(self, module: types.ModuleType, chain: tuple[str, ...], content: Content) -> None:
        """Follow attributes of a library's module to what the user may have put there."""
        value: object = module
        for name in chain:
            if not is_a(value, types.ModuleType):
                return
            value = vars(value).get(name)
        if is_a(value, types.FunctionType) and is_user_function(value):
            content.refer(self.function_piece(value))
        elif is_a(value, type) and is_user_class(value):
            content.refer(self.class_piece(value))

    def _constant_piece(self, names: Mapping[str, Any], name: str, value: Any, place: str) -> Piece:
        # One piece for a binding, whoever reads it: what one function assigns, another may read.
        key = ("name", id(names), name)
        path = names.get("__file__")
        if isinstance(path, str):
            place = short_path(path)
        where = (name, f" in {place}")
        held = _Cell(value, names)
        return self.value_piece(key, held, f"constant {name} in {place}", where, folders_of(names))

    # Imports inside functions

    def _imported(self, function: types.FunctionType, source: Import, use: Use, content: Content) -> None:
        """Write what an import statement inside a function gives, importing the user's modules for it."""
        name = absolute(function.__globals__, source)
        top = name.partition(".")[0]
        if not is_user_import(top):
            content.text(b"library", f"{public_module(name)}:{source.attribute}")
            return
        module = import_module(name, function)
        if source.top:
            module = sys.modules.get(top)
        if module is None:
            content.text(b"missing", "import")
            return
        if source.attribute is None:
            chain = use.chain
        else:
            if source.attribute not in vars(module) and "__path__" in vars(module):
                import_module(f"{name}.{source.attribute}", function)
            chain = (source.attribute, *use.chain)
        use = Use(use.kind, top, chain, None, use.is_value)
        self._named({top: module}, use, module, content, short_path(module.__name__))

    # Classes

    def _write_class(self, cls: type, content: Content) -> None:
        form = class_form(cls)
        module = sys.modules.get(cls.__module__)
        names = vars(module) if module is not None else {}
        place = short_path(form.path) if form.path else str(cls.__module__)
        where = (cls.__qualname__.rpartition("<locals>.")[2], f" in {place}")
        encoder = Encoder(content, self, where, folders_of(names))

        def write_function(function: types.FunctionType) -> None:
            self._write_function(function, content, owner=cls)

        write_class(cls, content, encoder, write_function)
        if form.tree is None:
            content.notes.append(f"{class_label(cls)} counts by what it holds: {form.why}")
            return
        for use in form.tree.uses:
            self._global(names, use, content, place, cls.__qualname__ + ".")


class _Cell:
    """A value to encode later; *owner* is kept alive with it."""

    __slots__ = ("_owner", "_value")

    def __init__(self, value: object, owner: object = None) -> None:
        self._value = value
        self._owner = owner

    def __call__(self) -> object:
        return self._value


class _CellOf(_Cell):
    """A closure's cell, which may be empty."""

    __slots__ = ()

    def __call__(self) -> object:
        return _content(self._value)  # type: ignore[arg-type] # it was given a cell


def _content(cell: types.CellType) -> object:
    try:
        return cell.cell_contents
    except ValueError:
        return _MISSING
