"""
How values of the standard library's own types are written, by the name of the type.

By name, since importing them here would make `import june` dearer, and since some move between modules.
"""

from __future__ import annotations

import collections
import functools
from typing import TYPE_CHECKING, Any

from june.fingerprints._objects import own_dict
from june.fingerprints._origins import library_kind, library_name
from june.fingerprints._values import LIBRARY_TYPES, Encoder

if TYPE_CHECKING:
    from june.fingerprints._values import Writer


def _kind(value: object) -> str:
    """The name of the library's type that a value has, or that the user's type of the value extends."""
    return library_name(library_kind(type(value)))


def _parts(*names: str) -> Writer:
    """A writer of values that are told apart by the named attributes of their (exactly known) type."""

    def write(encoder: Encoder, value: Any) -> None:
        encoder.content.text(b"V", _kind(value))
        encoder.items(b"v", [getattr(value, name) for name in names])

    return write


def _reduced(encoder: Encoder, value: Any) -> None:
    """Write a value whose arguments only its own way of being copied tells (`operator.itemgetter`)."""
    encoder.content.text(b"V", _kind(value))
    encoder.items(b"v", value.__reduce__()[1:])


def _args(encoder: Encoder, value: Any) -> None:
    """Write a `datetime.timezone`."""
    encoder.content.text(b"V", _kind(value))
    encoder.items(b"v", value.__getinitargs__())


def _zone(encoder: Encoder, value: Any) -> None:
    """Write a time zone by its key; one that was read from a file object has none."""
    if value.key is None:
        encoder.opaque(value)
    else:
        encoder.content.text(b"z", value.key)


def _decimal(encoder: Encoder, value: Any) -> None:
    encoder.content.text(b"D", str(value.as_tuple()[0]) + "|" + "".join(map(str, value.as_tuple()[1])))
    encoder.encode(value.as_tuple()[2])


def _path(encoder: Encoder, value: Any) -> None:
    encoder.content.text(b"V", _kind(value))
    encoder.encode(str(value))


def _array(encoder: Encoder, value: Any) -> None:
    encoder.content.text(b"a", value.typecode)
    encoder.write_bytes(value.tobytes())


def _numpy(encoder: Encoder, value: Any) -> None:
    """Write a numpy array or scalar; dates do not show their bytes, and objects are not in them."""
    kind = value.dtype.kind
    if kind in "mM":
        encoder.content.text(b"m", value.dtype.str)
        encoder.write_buffer(value.view("i8"))
    elif kind == "O":
        encoder.content.text(b"m", f"O {value.shape}")
        encoder.items(b"v", value.ravel().tolist())
    else:
        encoder.write_buffer(value)


def _deque(encoder: Encoder, value: Any) -> None:
    encoder.content.text(b"V", _kind(value))
    encoder.encode(value.maxlen)
    encoder.items(b"v", collections.deque.__iter__(value))


def _ordered(encoder: Encoder, value: Any) -> None:
    """Write an `OrderedDict`, which has an order of its own."""
    encoder.mapping(b"od", collections.OrderedDict.items(value))


def _defaultdict(encoder: Encoder, value: Any) -> None:
    encoder.content.text(b"V", _kind(value))
    encoder.inside(".default_factory", value.default_factory)
    encoder.mapping(b"d", dict.items(value))


def _proxy(encoder: Encoder, value: Any) -> None:
    encoder.mapping(b"mp", value.items())


def _namespace(encoder: Encoder, value: Any) -> None:
    encoder.fields(b"ns", sorted(vars(value).items()))


def _partial(encoder: Encoder, value: Any) -> None:
    encoder.content.text(b"V", _kind(value))
    encoder.inside(".func", value.func)
    encoder.items(b"t", value.args)
    encoder.mapping(b"d", value.keywords.items())
    if type(value) is functools.partial and value.__dict__:
        encoder.fields(b"{", sorted(value.__dict__.items()))


def _cached_function(encoder: Encoder, value: Any) -> None:
    """Write a function under `lru_cache`: the cache itself is only speed."""
    encoder.content.text(b"V", _kind(value))
    held = own_dict(value)
    wrapped = held.get("__wrapped__")
    encoder.inside(".__wrapped__", wrapped)
    copied = {"cache_parameters", *own_dict(wrapped)}
    own = [name for name in sorted(held) if not name.startswith("__") and name not in copied]
    if own:
        encoder.fields(b"{", [(name, held[name]) for name in own])


def _alias(encoder: Encoder, value: Any) -> None:
    """Write `list[int]`, `int | None`, `Optional[T]`."""
    encoder.content.text(b"A", _kind(value))
    encoder.encode(getattr(value, "__origin__", None))
    encoder.items(b"v", getattr(value, "__args__", ()))
    metadata = own_dict(value).get("__metadata__")
    if metadata:  # `Annotated`
        encoder.items(b"am", metadata)


def _union(encoder: Encoder, value: Any) -> None:
    """Write `int | None` and `Optional[int]` alike: on Python 3.14 they are one type."""
    encoder.content.atom(b"U")
    encoder.items(b"v", value.__args__)


def _views(encoder: Encoder, value: Any) -> None:
    encoder.content.text(b"V", _kind(value))
    encoder.items(b"v", value)


def _stream(encoder: Encoder, value: Any) -> None:
    """Write a `StringIO` or `BytesIO`, with where it stands."""
    if value.closed:
        encoder.content.text(b"V", f"{_kind(value)} closed")
    else:
        encoder.content.text(b"V", _kind(value))
        encoder.items(b"v", (value.getvalue(), value.tell()))


def _context(encoder: Encoder, value: Any) -> None:
    """Write a `decimal.Context`."""
    names = ("prec", "rounding", "Emin", "Emax", "capitals", "clamp")
    encoder.items(b"dc", [getattr(value, name) for name in names])
    encoder.items(b"dc", sorted(signal.__name__ for signal, is_set in value.traps.items() if is_set))


def _reference(encoder: Encoder, value: Any) -> None:
    """Write a weak reference by what it refers to."""
    encoder.content.text(b"V", _kind(value))
    encoder.inside("()", value())


def _context_variable(encoder: Encoder, value: Any) -> None:
    """Write a context variable by what it gives, its default if nothing was set."""
    encoder.content.text(b"V", value.name)
    try:
        held = value.get()
    except LookupError:
        return
    encoder.inside(".get()", held)


def _element(encoder: Encoder, value: Any) -> None:
    """Write an element of an XML tree."""
    encoder.content.text(b"V", _kind(value))
    encoder.items(b"v", (value.tag, dict(value.attrib), value.text, value.tail))
    encoder.items(b"v", value)


def _variable(encoder: Encoder, value: Any) -> None:
    """Write a type variable with its bound or its constraints, which may not be defined yet."""
    encoder.content.text(b"TV", f"{value.__name__} {value.__covariant__} {value.__contravariant__}")
    try:
        encoder.items(b"v", (value.__bound__, value.__constraints__))
    except NameError:
        encoder.opaque(value)


def _new_type(encoder: Encoder, value: Any) -> None:
    encoder.content.text(b"NT", value.__name__)
    encoder.encode(value.__supertype__)


def _numpy_text(encoder: Encoder, value: Any) -> None:
    encoder.content.text(b"m", _kind(value))
    encoder.encode(value.item())


def _named(encoder: Encoder, value: Any) -> None:
    """Write what counts by its name: type variables, loggers."""
    encoder.content.text(b"V", _kind(value))
    name = getattr(value, "__name__", None) or getattr(value, "_name", None)
    encoder.content.text(b"v", name if isinstance(name, str) else "")


def _form(encoder: Encoder, value: Any) -> None:
    """Write `Literal`, `Annotated` or `Callable`, of which some are classes on some Pythons, as a class."""
    encoder.content.atom(b"K")
    encoder.content.text(b"C", f"typing:{value._name}")


def _kind_only(encoder: Encoder, value: Any) -> None:
    """Write what has nothing to tell but its type."""
    encoder.content.text(b"V", _kind(value))


def _alias_statement(encoder: Encoder, value: Any) -> None:
    """Write the object that a `type X = ...` statement makes."""
    encoder.content.text(b"V", value.__name__)
    encoder.encode(value.__value__)


LIBRARY_TYPES.update(
    {
        "datetime:datetime": _parts(
            "year", "month", "day", "hour", "minute", "second", "microsecond", "fold", "tzinfo"
        ),
        "datetime:date": _parts("year", "month", "day"),
        "datetime:time": _parts("hour", "minute", "second", "microsecond", "fold", "tzinfo"),
        "datetime:timedelta": _parts("days", "seconds", "microseconds"),
        "datetime:timezone": _args,
        "zoneinfo:ZoneInfo": _zone,
        "decimal:Decimal": _decimal,
        "fractions:Fraction": _parts("numerator", "denominator"),
        "uuid:UUID": _parts("int"),
        "re:Pattern": _parts("pattern", "flags"),
        "array:array": _array,
        "ipaddress:IPv4Address": _parts("_ip"),
        "ipaddress:IPv6Address": _parts("_ip", "_scope_id"),
        "collections:deque": _deque,
        "collections:defaultdict": _defaultdict,
        "builtins:mappingproxy": _proxy,
        "types:SimpleNamespace": _namespace,
        "functools:partial": _partial,
        "functools:partialmethod": _partial,
        "functools:_lru_cache_wrapper": _cached_function,
        "functools:cached_property": _parts("func"),
        "functools:singledispatchmethod": _parts("dispatcher", "func"),
        "operator:itemgetter": _reduced,
        "operator:attrgetter": _reduced,
        "operator:methodcaller": _reduced,
        "types:GenericAlias": _alias,
        "types:UnionType": _union,
        "typing:Union": _union,
        "typing:_GenericAlias": _alias,
        "typing:_UnionGenericAlias": _union,
        "typing:_LiteralGenericAlias": _alias,
        "typing:_AnnotatedAlias": _alias,
        "typing:_CallableGenericAlias": _alias,
        "typing:_AnyMeta": _named,
        "typing:TypeVar": _variable,
        "typing:ParamSpec": _named,
        "typing:TypeVarTuple": _named,
        "typing:NewType": _new_type,
        "typing:TypeAliasType": _alias_statement,
        "typing:ForwardRef": _parts("__forward_arg__"),
        "logging:Logger": _kind_only,
        "os:_Environ": Encoder.opaque,
        "builtins:object": _kind_only,
        "builtins:dict_keys": _views,
        "builtins:dict_values": _views,
        "builtins:dict_items": _views,
        "collections:OrderedDict": _ordered,
        "contextvars:ContextVar": _context_variable,
        "decimal:Context": _context,
        "io:BytesIO": _stream,
        "io:StringIO": _stream,
        "struct:Struct": _parts("format"),
        "weakref:ReferenceType": _reference,
        "xml.etree.ElementTree:Element": _element,
        "msgspec._core:Factory": _parts("factory"),
        "msgspec._core:NoDefaultType": _kind_only,
        "pydantic.type_adapter:TypeAdapter": _parts("_type", "_config"),
        "pydantic_core._pydantic_core:PydanticUndefinedType": _kind_only,
        "numpy:ndarray": _numpy,
        "numpy:datetime64": _numpy,
        "numpy:timedelta64": _numpy,
        "numpy:str_": _numpy_text,
        "numpy:bytes_": _numpy_text,
    }
)
for _name in (
    "_SpecialForm",
    "_LiteralSpecialForm",
    "_TypedCacheSpecialForm",
    "_CallableType",
    "_TupleType",
    "_SpecialGenericAlias",
    "_DeprecatedGenericAlias",
):
    LIBRARY_TYPES[f"typing:{_name}"] = _form
for _name in ("PurePath", "PurePosixPath", "PureWindowsPath", "Path", "PosixPath", "WindowsPath"):
    LIBRARY_TYPES[f"pathlib:{_name}"] = _path
for _name in [
    "bool",
    "bool_",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "float16",
    "float32",
    "float64",
]:
    LIBRARY_TYPES[f"numpy:{_name}"] = Encoder.write_buffer
