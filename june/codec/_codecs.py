"""
Codecs: a type with the two functions that turn its values into bytes and back, and all that keys need of it.
"""

from __future__ import annotations

import pathlib
import re
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any

import attrs
import msgspec

from june.codec._differences import difference, find
from june.codec._problems import Inexact, TooDeep, Undecodable, UnsupportedType, article
from june.codec._readings import Reader, Teaching
from june.codec._shapes import AnyShape, FlatShape, Shape, description, reachable
from june.codec._unions import is_natural

_dumps = msgspec.json.Encoder().encode
_loads = msgspec.json.Decoder().decode

_taught: dict[type, Teaching] = {}
_codecs: dict[Any, Codec] = {}
_TYPES = (
    type,
    types.GenericAlias,
    types.UnionType,
    typing.TypeVar,
    typing.NewType,
    type(typing.Optional[int]),  # noqa: UP045 # the class of the old spelling
    type(typing.Literal[1]),
    getattr(typing, "TypeAliasType", type),  # new in 3.12
)
_MOST_CODECS = 4096  # in a notebook every cell run again makes new classes


@attrs.frozen(eq=False, kw_only=True)
class Codec:
    """
    How values of one type are written and read.

    Attributes:
        annotation: The type, as it was given.

        plain: Whether the type is JSON itself, so that the bytes alone fix the value and its type.

        settled: Whether bytes that June itself wrote for this description always decode.

        classes: Every class in the type that a user may have defined, in a fixed order.

        description: The structure of the type and, transitively, of its classes; equal for equal structures
            in every process and Python.

        encode: Writes a value as canonical, strict JSON, after proving that it would come back exactly as it
            is. Raises Inexact where it would not.

        taught: The functions given to `register` for classes in the type, which decide what bytes mean.

        decode: Reads a value, coercing nothing. Raises Undecodable where the data does not fit the type.
    """

    annotation: Any
    plain: bool
    settled: bool
    classes: tuple[type, ...]
    description: bytes
    taught: tuple[Callable[[Any], Any], ...]
    encode: Callable[[Any], bytes] = attrs.field(repr=False)
    decode: Callable[[bytes | memoryview | msgspec.Raw], Any] = attrs.field(repr=False)


def codec_for(annotation: Any, localns: Mapping[str, Any] | None = None) -> Codec:
    """
    Give the codec of a type.

    Args:
        annotation: A type with its strings resolved; MISSING stands for no annotation.

        localns: Names for the strings left in the fields of classes that were declared inside a function.

    Raises:
        UnsupportedType: If values of the type could never be encoded, or could not be told apart.
    """
    try:
        codec = _codecs.get(annotation)
    except TypeError:  # unhashable, such as Annotated[int, []]
        return _make(annotation, localns or {})
    if codec is not None and not (localns and _is_local(codec)):
        return codec
    if localns:
        local = _codecs.get((annotation, _types_in(localns)))
        if local is not None:
            return local
    try:
        codec = _make(annotation, {})
    except UnsupportedType:
        if not localns:
            raise
        codec = None
    if localns and (codec is None or _is_local(codec)):
        return _keep((annotation, _types_in(localns)), _make(annotation, localns))
    assert codec is not None
    return _keep(annotation, codec)


def refusing(annotation: Any, unsupported: UnsupportedType) -> Codec:
    """
    Give a codec for a type that June cannot encode: it refuses every value, and says why.

    Args:
        annotation: The type.
        unsupported: What `codec_for` raised for it.
    """

    def encode(value: Any) -> bytes:
        error = Inexact(
            f"is {article(type(value).__name__)}, and {unsupported.problem}",
            f"Teach it with june.codec.register({type(value).__name__}, encode, decode), or say save=False.",
        )
        error._steps = list(unsupported._steps)
        raise error

    def decode(data: bytes | memoryview | msgspec.Raw) -> Any:
        raise Undecodable(unsupported.problem)

    # Modules are left out, as in every description: a class counts the same wherever it stands.
    name = re.sub(
        r"\b(?:\w+\.)+", "", annotation.__qualname__ if isinstance(annotation, type) else repr(annotation)
    )
    return Codec(
        annotation=annotation,
        plain=False,
        settled=False,
        classes=(),
        description=_dumps(["unsupported", name]),
        taught=(),
        encode=encode,
        decode=decode,
    )


def _keep(key: Any, codec: Codec) -> Codec:
    if len(_codecs) >= _MOST_CODECS:
        _codecs.clear()
    _codecs[key] = codec
    return codec


def _is_local(codec: Codec) -> bool:
    """Whether a class in the type may name others by names that only its function knows."""
    return any("<locals>" in cls.__qualname__ for cls in codec.classes)


def _types_in(localns: Mapping[str, Any]) -> tuple[tuple[str, Any], ...]:
    """Give what of a function's names can matter to an annotation, so that a codec can be kept for it."""
    return tuple((name, one) for name, one in localns.items() if isinstance(one, _TYPES))


def register(cls: type, encode: Callable[[Any], Any], decode: Callable[[Any], Any]) -> None:
    """
    Teach June a type.

    Values of exactly this class, not of its subclasses, are then saved through the two functions.

    Args:
        cls: The class.

        encode: Turns a value into what JSON can hold: None, bool, int, float, str, lists, and dicts with
            string keys.

        decode: Turns that back into an equal value.

    Raises:
        TypeError: If *cls* is no class, or one that JSON itself holds.
    """
    if not isinstance(cls, type):
        raise TypeError(f"register() takes a class, but got {cls!r}")
    if cls in (type(None), bool, int, float, str, list, dict, object):
        raise TypeError(f"register() cannot change how {cls.__name__} is saved: JSON holds it as it is")
    if not callable(encode) or not callable(decode):
        raise TypeError("register() takes two functions, encode and decode, after the class")
    _taught[cls] = (encode, decode)
    _codecs.clear()


def recode(codec: Codec, data: bytes | memoryview | msgspec.Raw) -> bytes:
    """
    Give the canonical bytes of what *data*, written by any program, stands for.

    Raises:
        Undecodable: If *data* does not fit the type.
    """
    value = codec.decode(data)
    try:
        return codec.encode(value)
    except Inexact as error:
        raise Undecodable(f"the value read is not exact: {error}") from error


def _make(annotation: Any, localns: Mapping[str, Any]) -> Codec:
    try:
        shape = Reader(_taught, localns).read(annotation)
        structure = _dumps(description(shape))
    except RecursionError:
        raise UnsupportedType("the type is nested too deeply") from None
    every = list(reachable(shape))
    classes = {one.owner: None for one in every if one.owner is not None}
    surprising = any(one.surprising for one in every)
    decode = _decoder(shape)
    return Codec(
        annotation=annotation,
        plain=is_natural(shape),
        settled=all(one.settled for one in every),
        classes=tuple(classes),
        description=structure,
        taught=tuple(function for cls in classes if cls in _taught for function in _taught[cls]),
        encode=_proving(shape, decode) if surprising else _encoder(shape),
        decode=decode,
    )


def _encoder(shape: Shape) -> Callable[[Any], bytes]:
    """Make the function that encodes values which lowering alone proves."""
    lower, dumps = shape.lower, _dumps
    exact = next(iter(shape.flat or ())) if type(shape) is FlatShape else None

    def encode(value: Any) -> bytes:
        try:
            data = dumps(value) if type(value) is exact else dumps(lower(value, 0))
            if len(data) > _LONGEST_INT and exact is not str:
                _check_ints(data)
        except Inexact:
            raise
        except Exception as error:
            raise _diagnosis(value, error) from error
        return data

    return encode


def _proving(shape: Shape, decode: Callable[[Any], Any]) -> Callable[[Any], bytes]:
    """Make the function that encodes values and decodes them again to see what comes back."""
    write = _encoder(shape)

    def encode(value: Any) -> bytes:
        data = write(value)
        try:
            again = decode(data)
            path = difference(value, again, _taught_encode)
            if path is None and write(again) != data:
                path = []
        except Undecodable as error:
            raise _at(error, f"would not come back: {error.problem}") from error
        except Inexact:
            raise
        except Exception as error:
            raise _diagnosis(value, error) from error
        if path is not None:
            raise _changed(path)
        return data

    return encode


# msgspec writes ints of as many digits as Python's limit allows (4,300, but a program may change it), and
# reads those of up to 4,300 characters, the sign included. It writes them at the speed of C, so they are not
# measured one by one: an int longer than that fills one of the looked at windows.
_LONGEST_INT = 4300
_STRIDE, _WINDOW = 4000, 200


def _check_ints(data: bytes) -> None:
    """
    Make sure that no int in *data* is too long to be read.

    Raises:
        ValueError: If one is.
    """
    if any(data[at : at + _WINDOW].isdigit() for at in range(0, len(data), _STRIDE)):
        try:
            _loads(data)
        except msgspec.ValidationError as error:
            raise ValueError("an int of too many digits") from error


def _taught_encode(cls: type) -> Callable[[Any], Any] | None:
    teaching = _taught.get(cls)
    return None if teaching is None else teaching[0]


def _at(error: Undecodable, problem: str) -> Inexact:
    inexact = Inexact(problem, "Let what makes the value accept its own fields, or say save=False.")
    inexact._steps = error._steps
    return inexact


def _changed(path: list[str]) -> Inexact:
    error = Inexact(
        "would not come back as it is: what is built from the saved fields differs there",
        "Let the fields alone decide it (in __post_init__, or in the functions given to register()), or say "
        "save=False.",
    )
    error._steps = path
    return error


def _diagnosis(value: Any, error: Exception) -> Inexact:
    """Turn whatever encoding ended in into an Inexact with a path."""
    if isinstance(error, RecursionError):
        return TooDeep()
    found = None
    if isinstance(error, UnicodeEncodeError):
        problem = "has a lone surrogate, a half of a character that UTF-8 has no form for"
        cure = 'Clean the text, e.g. with text.encode("utf-8", "replace").decode().'
        found = _search(value, _is_no_utf8)
    elif isinstance(error, ValueError) and "digits" in str(error):
        problem = "is an int of more digits than JSON readers take"
        cure = "Return it as text, e.g. hex(n), or as bytes."
        found = _search(value, lambda one: type(one) is int and not _is_short(one))
    else:
        problem = f"cannot be encoded: {error!r}"
        cure = "Say save=False, or return something simpler."
    inexact = Inexact(problem, cure)
    inexact._steps = found or []
    return inexact


def _search(value: Any, wanted: Callable[[Any], bool]) -> list[str] | None:
    try:
        return find(value, wanted)
    except Exception:  # the path is a courtesy; the value is refused all the same
        return None


def _is_no_utf8(value: Any) -> bool:
    if not issubclass(type(value), (str, pathlib.PurePath)):
        return False
    try:
        str(value).encode()
    except UnicodeEncodeError:
        return True
    return False


def _is_short(number: int) -> bool:
    try:
        return len(str(number)) <= _LONGEST_INT
    except ValueError:
        return False


def _decoder(shape: Shape) -> Callable[[Any], Any]:
    lift, loads = shape.lift, _loads
    as_is = type(shape) is AnyShape

    def decode(data: Any) -> Any:
        try:
            parsed = loads(data)
            return parsed if as_is else lift(parsed, 0)
        except Undecodable:
            raise
        except RecursionError:
            raise Undecodable("expected fewer levels of nesting") from None
        except Exception as error:
            raise Undecodable(f"expected JSON, but {error}") from error

    return decode
