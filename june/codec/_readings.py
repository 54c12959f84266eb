"""
Reading an annotation: from a type as it is written to the graph of its shapes.
"""

from __future__ import annotations

import collections
import collections.abc
import contextlib
import enum
import inspect
import sys
import types
import typing
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import attrs

from june.codec._containers import DictShape, KindredShape, ListShape, PairsShape, SeriesShape, TupleShape
from june.codec._enums import EnumShape, LiteralShape, MemberShape
from june.codec._fields import (
    Names,
    constructor_of,
    has_fields,
    is_model,
    is_namedtuple,
    is_typeddict,
    names_of_object,
    own_hints,
    parameters_by_base,
    required_keys,
)
from june.codec._problems import MistakenType, UnsupportedType
from june.codec._records import ModelShape, NamedTupleShape, ObjectShape, RegisteredShape, TypedDictShape
from june.codec._scalars import scalar_for
from june.codec._shapes import AliasShape, AnyShape, FlatShape, FloatShape, NoneType, Shape
from june.codec._unions import UnionShape, is_natural

MISSING = inspect.Signature.empty
"""Stands for "no annotation"."""

Teaching = tuple[Callable[[Any], Any], Callable[[Any], Any]]
Bound = Mapping[Any, Shape]

_abc = collections.abc
_DICTS = (dict, _abc.Mapping, _abc.MutableMapping)
# What takes one type of item. What may be several built-in types is the union of them, in which a list goes
# untagged and the others with a tag.
_SEVERAL: dict[Any, tuple[type, ...]] = {
    list: (list,),
    set: (set,),
    frozenset: (frozenset,),
    _abc.MutableSequence: (list,),
    _abc.Sequence: (list, tuple),
    _abc.Iterable: (list, tuple, set, frozenset),
    _abc.Collection: (list, tuple, set, frozenset),
    _abc.Set: (set, frozenset),
    _abc.MutableSet: (set,),
}
_KINDRED = (collections.Counter, collections.OrderedDict, collections.defaultdict, collections.deque)
_UNWRAPPED = ("Required", "NotRequired", "ReadOnly", "Final", "ClassVar")
_MAX_LEVELS = 60  # a generic class that holds itself with ever new arguments has no end


class Reader:
    """Reads one annotation, with all that it is made of, into shapes."""

    def __init__(self, taught: Mapping[type, Teaching], localns: Mapping[str, Any]) -> None:
        self._taught = taught
        self._localns = localns
        self._made: list[Shape] = []
        self._known: dict[Any, Shape] = {}
        self._levels = 0

    def read(self, annotation: Any) -> Shape:
        """
        Read *annotation*.

        Raises:
            UnsupportedType: If its values could never be encoded, or not be told apart.
        """
        shape = self._read(annotation, {}, None)
        # Unions first: whether they tag their members decides what is transparent.
        for one in sorted(self._made, key=lambda one: not isinstance(one, UnionShape)):
            one.finish()
        return shape

    def _keep(self, shape: Shape) -> Shape:
        self._made.append(shape)
        return shape

    @contextlib.contextmanager
    def _under(self, step: str) -> Iterator[None]:
        self._levels += 1
        try:
            if self._levels > _MAX_LEVELS:
                raise UnsupportedType("the type has no end")
            yield
        except UnsupportedType as error:
            error.under(step)
            raise
        finally:
            self._levels -= 1

    def _inner(self, annotation: Any, bound: Bound, owner: type | None, step: str = "[]") -> Shape:
        with self._under(step):
            return self._read(annotation, bound, owner)

    def _read(self, annotation: Any, bound: Bound, owner: type | None) -> Shape:
        if annotation is MISSING or annotation is Any or annotation is object:
            return self._once(Any, AnyShape)
        if annotation is typing.LiteralString:
            annotation = str
        if annotation is None or annotation is NoneType:
            return self._once(NoneType, lambda: FlatShape(NoneType))
        if isinstance(annotation, (str, typing.ForwardRef)):
            return self._read(self._look_up(annotation, owner), bound, owner)
        if isinstance(annotation, typing.TypeVar):
            return self._variable(annotation, bound, owner)
        if type(annotation).__name__ == "TypeAliasType":
            return self._alias(annotation, (), bound, owner)
        if isinstance(annotation, typing.NewType):
            return self._read(annotation.__supertype__, bound, owner)
        origin = typing.get_origin(annotation)
        if origin is not None:
            return self._generic(annotation, origin, bound, owner)
        if isinstance(annotation, type):
            return self._class(annotation, (), bound)
        raise _unknown(annotation)

    def _once(self, key: Any, make: Callable[[], Shape]) -> Shape:
        shape = self._known.get(key)
        if shape is None:
            shape = self._known[key] = self._keep(make())
        return shape

    def _look_up(self, annotation: str | typing.ForwardRef, owner: type | None) -> Any:
        text = annotation if isinstance(annotation, str) else annotation.__forward_arg__
        module = getattr(annotation, "__forward_module__", None)
        names = Names(owner, self._localns)
        if isinstance(module, str):
            module = sys.modules.get(module)
        names.update(getattr(module, "__dict__", {}))
        try:
            return eval(text, {}, names)
        except NameError as error:
            raise MistakenType(
                f"{error}, as the annotation {text!r} asks; define it at the top of a module"
            ) from None
        except Exception as error:
            raise MistakenType(f"the annotation {text!r} cannot be read: {error!r}") from error

    def _variable(self, variable: Any, bound: Bound, owner: type | None) -> Shape:
        """Read a type variable that nothing was put in for as its default, its bound or what it may be."""
        if variable in bound:
            return bound[variable]
        if getattr(variable, "has_default", lambda: False)():
            return self._read(variable.__default__, bound, owner)
        if variable.__bound__ is not None:
            return self._read(variable.__bound__, bound, owner)
        if variable.__constraints__:
            return self._union(variable.__constraints__, bound, owner)
        return self._read(Any, bound, owner)

    def _alias(self, alias: Any, arguments: tuple[Any, ...], bound: Bound, owner: type | None) -> Shape:
        shapes = [self._inner(one, bound, owner, "") for one in arguments]
        key = (alias, *map(id, shapes))
        known = self._known.get(key)
        if known is not None:
            if isinstance(known, AliasShape):
                known.used = True
            return known
        label = alias.__name__ + (f"[{', '.join(one.label for one in shapes)}]" if shapes else "")
        shape = AliasShape(label)
        self._known[key] = shape
        with self._under(""):
            target = self._read(
                alias.__value__, dict(zip(alias.__type_params__, shapes, strict=False)), owner
            )
        if not shape.used:
            self._known[key] = target
            return target
        shape.target = target
        shape.children = (target,)
        try:
            shape.resolve()
        except RecursionError:
            raise UnsupportedType(f"{label} is defined by nothing but itself") from None
        return self._keep(shape)

    def _generic(self, annotation: Any, origin: Any, bound: Bound, owner: type | None) -> Shape:
        arguments = typing.get_args(annotation)
        if origin is typing.Annotated or getattr(origin, "_name", "") in _UNWRAPPED:
            return self._read(arguments[0], bound, owner)
        if origin is typing.Union or origin is types.UnionType:
            return self._union(arguments, bound, owner)
        if origin is typing.Literal or getattr(origin, "_name", "") == "Literal":
            return self._literal(arguments)
        if type(origin).__name__ == "TypeAliasType":
            return self._alias(origin, arguments, bound, owner)
        if isinstance(origin, type):
            shape = self._container(origin, arguments, bound, owner)
            return self._class(origin, arguments, bound, owner) if shape is None else shape
        raise _unknown(annotation)

    def _union(self, members: tuple[Any, ...], bound: Bound, owner: type | None) -> Shape:
        shapes: dict[int, Shape] = {}
        # Equal unions may be written in any order, and the codec of one is kept for all.
        for one in sorted(members, key=repr):
            shape = self._read(one, bound, owner)
            for inner in shape.children if isinstance(shape, UnionShape) else (shape,):
                shapes[id(inner)] = inner
        if len(shapes) == 1:
            return next(iter(shapes.values()))
        return self._keep(UnionShape(list(shapes.values())))

    def _literal(self, values: tuple[Any, ...]) -> Shape:
        plain = tuple(value for value in values if type(value) in (str, int, bool, NoneType))
        enums: dict[type[enum.Enum], set[str]] = {}
        for value in values:
            if isinstance(value, enum.Enum):
                enums.setdefault(type(value), set()).add(value._name_)
            elif type(value) not in (str, int, bool, NoneType):
                raise UnsupportedType(f"june knows no encoding for Literal[{value!r}]")
        shapes: list[Shape] = [self._keep(LiteralShape(plain))] if plain else []
        shapes += [self._keep(MemberShape(cls, frozenset(names))) for cls, names in enums.items()]
        return shapes[0] if len(shapes) == 1 else self._keep(UnionShape(shapes))

    def _container(
        self, origin: type, arguments: tuple[Any, ...], bound: Bound, owner: type | None
    ) -> Shape | None:
        """Read a built-in container, or an interface that stands for some; None for another class."""
        built_in = _SEVERAL.get(origin)
        if built_in is not None:
            item = self._inner(arguments[0] if arguments else Any, bound, owner)
            shapes = [
                self._keep(ListShape(item) if cls is list else SeriesShape(cls, item)) for cls in built_in
            ]
            return shapes[0] if len(shapes) == 1 else self._keep(UnionShape(shapes))
        if origin is tuple:
            return self._tuple(arguments, bound, owner)
        if origin in _DICTS:
            return self._dict(arguments, bound, owner)
        if origin in _KINDRED:
            return self._kindred(origin, arguments, bound, owner)
        return None

    def _tuple(self, arguments: tuple[Any, ...], bound: Bound, owner: type | None) -> Shape:
        if len(arguments) == 2 and arguments[1] is Ellipsis:
            return self._keep(SeriesShape(tuple, self._inner(arguments[0], bound, owner)))
        items = tuple(self._inner(one, bound, owner, f"[{index}]") for index, one in enumerate(arguments))
        return self._keep(TupleShape(items))

    def _dict(self, arguments: tuple[Any, ...], bound: Bound, owner: type | None) -> Shape:
        key_type, item_type = arguments or (str, Any)
        key = self._inner(str if key_type is Any else key_type, bound, owner, "[key]")
        item = self._inner(item_type, bound, owner)
        if key.kinds == {"str"} and is_natural(key):
            return self._keep(DictShape(key, item))
        return self._keep(PairsShape(key, item))

    def _kindred(self, origin: type, arguments: tuple[Any, ...], bound: Bound, owner: type | None) -> Shape:
        if origin is collections.deque:
            inside: Shape = self._keep(
                ListShape(self._inner(arguments[0] if arguments else Any, bound, owner))
            )
        elif origin is collections.Counter:
            inside = self._dict((arguments[0] if arguments else str, int), bound, owner)
        else:
            inside = self._dict(arguments, bound, owner)
        return self._keep(KindredShape(origin, inside))

    def _class(self, cls: type, arguments: tuple[Any, ...], bound: Bound, owner: type | None = None) -> Shape:
        if cls in self._taught:
            return self._once(cls, lambda: RegisteredShape(cls, *self._taught[cls]))
        if cls in (bool, int, str):
            return self._once(cls, lambda: FlatShape(cls))
        if cls is float:
            return self._once(cls, FloatShape)
        if not arguments:
            if cls is tuple:
                return self._tuple((Any, ...), bound, owner)
            shape = self._container(cls, (), bound, owner) or scalar_for(cls)
            if shape is not None:
                return self._keep(shape)
            if issubclass(cls, enum.Enum) and cls.__members__:
                return self._once(cls, lambda: EnumShape(cls))
        if not has_fields(cls):
            raise _unknown(cls)
        shapes = tuple(self._inner(one, bound, owner, "") for one in arguments)
        key = (cls, *map(id, shapes))
        known = self._known.get(key)
        return self._with_fields(cls, shapes, key) if known is None else known

    def _with_fields(self, cls: type, arguments: tuple[Shape, ...], key: Any) -> Shape:
        label = cls.__name__ + (f"[{', '.join(one.label for one in arguments)}]" if arguments else "")
        bound = dict(zip(getattr(cls, "__parameters__", ()), arguments, strict=False))
        shape: Any
        if is_typeddict(cls):
            shape = TypedDictShape(cls, label)
            names: tuple[str, ...] = tuple(cls.__annotations__)
        elif is_namedtuple(cls):
            shape = NamedTupleShape(cls, label, cls)
            names = cls._fields  # type: ignore[attr-defined] # a named tuple
        elif is_model(cls):
            shape = ModelShape(cls, label)
            names = tuple(cls.model_fields)  # type: ignore[attr-defined] # a pydantic model
        else:
            family = "attrs" if attrs.has(cls) else "dataclass"
            shape = ObjectShape(cls, label, family, constructor_of(cls))
            names = names_of_object(cls)
        self._known[key] = self._keep(shape)
        hints = dict(self._hints(cls, names, bound))
        fields = {}
        for name in names:
            hint, inner_bound, base = hints.get(name, (Any, {}, cls))
            fields[name] = self._inner(hint, inner_bound, base, f".{name}")
        if is_typeddict(cls):
            shape.fill_keys(fields, required_keys(cls, {name: hint for name, (hint, _, _) in hints.items()}))
        else:
            shape.fill(fields)
        return shape  # type: ignore[no-any-return] # Any above, as the four have no common way to be filled

    def _hints(
        self, cls: Any, names: tuple[str, ...], bound: Bound
    ) -> Iterator[tuple[str, tuple[Any, Bound, type]]]:
        """Give for each field its annotation, what is put in for the variables there, and where it stands."""
        if is_model(cls):
            for name, field in cls.model_fields.items():
                yield name, (field.annotation, bound, cls)
            return
        if attrs.has(cls):
            for field in attrs.fields(cls):
                if field.type is not None:
                    yield field.name, (field.type, bound, cls)
        bound_of: dict[type, Bound] = {cls: bound}
        for holder, alias in parameters_by_base(cls):
            origin = typing.get_origin(alias)
            inner = bound_of.get(holder, {})
            shapes = [self._read(one, inner, holder) for one in typing.get_args(alias)]
            bound_of.setdefault(
                origin, dict(zip(getattr(origin, "__parameters__", ()), shapes, strict=False))
            )
        for base in reversed(cls.__mro__):
            for name, hint in own_hints(cls, base, dict.fromkeys(names), self._localns).items():
                yield name, (hint, bound_of.get(base, {}), base)


def _unknown(annotation: Any) -> UnsupportedType:
    name = annotation.__name__ if isinstance(annotation, type) else repr(annotation)
    return UnsupportedType(f"june knows no encoding for {name}")
