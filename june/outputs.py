"""
Outputs: what a model is asked to answer with, and how its answer becomes a value.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import attrs

from june._answers import shortened, value_of
from june._parsing import BadAnswer, find, unquoted
from june._text import short_repr
from june.codec import Codec, codec_for, schema_for

__all__ = ["Output"]

_KEY = "result"


class BadOutput(Exception):
    """A model's answer is not what was asked for; the text tells the model why."""


@attrs.frozen(eq=False, kw_only=True)
class Output:
    """
    The type of a model's answer.

    Attributes:
        codec: The codec of the type.

        text: Whether the answer's text itself is the value, as for ``str``.

        schema: The JSON schema to ask for, an object's; None where the text itself is the value.

        wrapped: Whether the value stands in an object, under ``"result"``, as its own JSON is no object.
    """

    codec: Codec
    text: bool
    schema: dict[str, Any] | None = attrs.field(repr=False)
    wrapped: bool

    @classmethod
    def of(cls, codec: Codec) -> Output:
        """
        Give the output for a codec.

        Raises:
            UnsupportedType: If no schema can be given for its type.
        """
        return _output_of(codec)

    def decode(self, text: str) -> Any:
        """
        Give the value that an answer stands for.

        Around the JSON there may be a fence, prose, or thoughts that end in ``</think>``. A value that should
        stand in an object may stand alone, and the whole may have been written as a JSON string, unless that
        string is a value itself. An int may stand for a float. Everything else must be as the schema says,
        and JSON that is broken or cut off is never repaired.

        Raises:
            BadOutput: If the answer is not of the type. The text is for the model.
        """
        if self.schema is None:
            return str.__str__(text)  # a class of its own could not be saved
        try:
            data = find(text, _KEY if self.wrapped else None)
            return self._value_in(data) if self.wrapped else self._value(unquoted(data))
        except BadAnswer as problem:
            raise BadOutput(shortened(str(problem))) from problem.__cause__

    def _value_in(self, data: Any) -> Any:
        """Give the value in an object that wraps it, or that stands where such an object should."""
        wrapping = isinstance(data, dict) and list(data) == [_KEY]
        if wrapping:
            try:
                return self._value(data[_KEY], f".{_KEY}")
            except BadAnswer as problem:
                first = problem
        else:
            first = BadAnswer(f"expected an object with the one key {_KEY!r}, found {_shown(data)}")
        try:
            return self._value(data)
        except BadAnswer as problem:
            again = unquoted(data)
            if again is not data:
                return self._value_in(again)
            raise first if wrapping or isinstance(data, dict) else problem from None

    def _value(self, data: Any, path: str = "") -> Any:
        assert self.schema is not None  # for a text nothing is read
        schema = self.schema["properties"][_KEY] if self.wrapped else self.schema
        return value_of(self.codec, schema, data, path, self.schema)


def _shown(data: Any) -> str:
    return f"the keys {short_repr(list(data))}" if isinstance(data, dict) else short_repr(data)


@lru_cache(maxsize=512)
def _output_of(codec: Codec) -> Output:
    if codec.description == codec_for(str).description:
        return Output(codec=codec, text=True, schema=None, wrapped=False)
    # The fields of local classes may name others that only their function knew.
    schema = schema_for(codec.annotation, {cls.__name__: cls for cls in codec.classes})
    if schema.get("type") == "object":
        return Output(codec=codec, text=False, schema=schema, wrapped=False)
    definitions = {"$defs": schema.pop("$defs")} if "$defs" in schema else {}
    whole = {
        "type": "object",
        "properties": {_KEY: schema},
        "required": [_KEY],
        "additionalProperties": False,
        **definitions,
    }
    return Output(codec=codec, text=False, schema=whole, wrapped=True)
