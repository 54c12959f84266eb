"""
Types that a user taught June, and pydantic models.
"""

from __future__ import annotations

import datetime
import subprocess
import sys
from typing import Any, ClassVar

import pytest

from june.codec import Inexact, Undecodable, UnsupportedType, codec_for, register
from tests.strategies import Box


class Net:
    """A class that June does not know."""

    def __init__(self, layers: list[int]) -> None:
        self.layers = layers


class Forgetful:
    """A class whose functions lose something."""

    def __init__(self, n: int, lost: int) -> None:
        self.n = n
        self.lost = lost


def test_june_is_taught_a_type() -> None:
    """
    A registered type is saved, alone and inside others, also where its codec had been asked for before.
    """
    with pytest.raises(UnsupportedType, match=r"^result\[\]: june knows no encoding for Net$"):
        codec_for(dict[str, Box[Net]])
    register(Net, lambda net: {"layers": net.layers}, lambda data: Net(data["layers"]))
    codec = codec_for(dict[str, Box[Net]])
    data = codec.encode({"a": Box(Net([1, 2]))})
    assert data == b'{"a":{"item":{"layers":[1,2]}}}'
    assert codec.decode(data)["a"].item.layers == [1, 2]
    assert (codec.settled, codec.classes) == (False, (Box, Net))
    assert codec_for(Net | None).encode(None) == b"null"
    with pytest.raises(Inexact, match=r"^result has a registered encode whose data\['layers'\] is a tuple"):
        codec_for(Net).encode(Net((1,)))  # type: ignore[arg-type]
    with pytest.raises(
        Undecodable, match=r"^result: the registered decode of Net raised KeyError\('layers'\)$"
    ):
        codec_for(Net).decode(b"{}")


def test_what_a_registered_type_is_decoded_to_must_encode_alike() -> None:
    """
    Functions that do not agree with each other are found out when a value is saved.
    """
    register(Forgetful, lambda value: [value.n, value.lost], lambda data: Forgetful(data[0], 0))
    with pytest.raises(Inexact, match=r"^result\[1\] would not come back as it is"):
        codec_for(Forgetful).encode(Forgetful(1, 2))


@pytest.mark.parametrize(
    ("cls", "text"),
    [
        ("Net", "register() takes a class, but got 'Net'"),
        (int, "register() cannot change how int is saved: JSON holds it as it is"),
    ],
)
def test_what_cannot_be_registered(cls: Any, text: str) -> None:
    """
    A wrong argument to register() is a TypeError that says why.
    """
    with pytest.raises(TypeError) as caught:
        register(cls, str, str)
    assert str(caught.value) == text


def test_pydantic_models_come_back_without_their_validators() -> None:
    """
    A pydantic model comes back with the fields that were set, its extra and its private values.
    """
    pydantic = pytest.importorskip("pydantic")

    class Inner(pydantic.BaseModel):  # type: ignore[name-defined,misc]
        model_config: ClassVar[Any] = pydantic.ConfigDict(extra="allow")
        at: datetime.datetime
        n: int = 1
        _private: int = pydantic.PrivateAttr(default=3)

    class Outer(pydantic.BaseModel):  # type: ignore[name-defined,misc]
        inner: list[Inner]
        names: set[str] = pydantic.Field(default_factory=set)

        @pydantic.field_validator("names")
        @classmethod
        def _grow(cls, names: set[str]) -> set[str]:
            return names | {"grown"}

    inner = Inner(at=datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC), more=[1])
    inner._private = 4
    value = Outer(inner=[inner], names={"a"})
    value.names = {"b"}
    codec = codec_for(Outer, {"Inner": Inner})
    again = codec.decode(codec.encode(value))
    assert again == value
    assert again.names == {"b"}
    assert again.inner[0].model_fields_set == {"at", "more"}
    assert (again.inner[0].more, again.inner[0]._private) == ([1], 4)
    assert type(again.inner[0].at.tzinfo) is datetime.timezone
    assert (codec.settled, codec.classes) == (False, (Outer, Inner))
    inner.more = (1,)
    with pytest.raises(Inexact, match=r"^result.inner\[0\].__pydantic_extra__\['more'\] is a tuple"):
        codec.encode(value)


def test_pydantic_is_not_imported() -> None:
    """
    The codec of a class does not import pydantic to see whether it is one of its models.
    """
    code = "import sys, attrs; from june.codec import codec_for\n"
    code += (
        "codec_for(attrs.make_class('A', ['a'])); print('pydantic' in sys.modules, 'cattrs' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False False\n"
