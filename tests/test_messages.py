"""Messages, images and settings: what is refused where it is made."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import attrs
import pytest

from june import Image, Message, Settings, Usage


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"temperature": "0.5"}, "temperature must be a number, not '0.5'"),
        ({"temperature": True}, "temperature must be a number, not True"),
        ({"top_p": [1]}, "top_p must be a number, not [1]"),
        ({"max_tokens": 1.5}, "max_tokens must be a whole number, not 1.5"),
        ({"max_tokens": 0}, "max_tokens must be 1 or more, not 0"),
        ({"seed": "7"}, "seed must be a whole number, not '7'"),
        ({"temperature": float("nan")}, "temperature must be finite, not nan"),
        ({"stop": 3}, "stop is made of texts, not 3"),
        ({"extra": "x"}, "extra must be a dict of fields, not 'x'"),
        ({"stop": [1]}, "stop is made of texts, not 1"),
        ({"reasoning": 3}, "reasoning must be a str, not 3"),
        ({"tool_choice": True}, "tool_choice must be a str, not True"),
        ({"parallel_tools": "no"}, "parallel_tools must be True or False, not 'no'"),
    ],
)
def test_settings_that_no_provider_takes(settings: dict[str, Any], message: str):
    """They are refused where they are written, and not by a provider when earlier steps are paid."""
    with pytest.raises((TypeError, ValueError)) as refused:
        Settings(**settings)
    assert str(refused.value) == message


def test_settings_may_be_whole_numbers_or_none():
    """A whole number is a number, and None leaves it to the model."""
    assert Settings(temperature=0, top_p=1, max_tokens=None, stop="x") == Settings(
        temperature=0.0, top_p=1.0, stop=["x"]
    )


class Counted:
    """A whole number of another sort, as numpy has them."""

    def __index__(self) -> int:
        return 3


class Measured(Fraction):
    """A number of another sort."""


def test_numbers_may_be_of_any_sort():
    """They become Python's own, which JSON can hold."""
    settings = Settings(temperature=Measured(1, 2), seed=Counted())  # type: ignore[arg-type]
    assert (settings.temperature, settings.seed) == (0.5, 3) and type(settings.temperature) is float
    usage = Usage(input_tokens=Counted(), cost=Measured(1, 2))  # type: ignore[arg-type]
    assert usage == Usage(input_tokens=3, cost=0.5) and type(usage.input_tokens) is int


@pytest.mark.parametrize(
    ("usage", "message"),
    [
        ({"input_tokens": -1}, "input_tokens must be 0 or more, not -1"),
        ({"output_tokens": 1.0}, "output_tokens must be a whole number, not 1.0"),
        ({"requests": "1"}, "requests must be a whole number, not '1'"),
        ({"cached_tokens": Fraction(1)}, "cached_tokens must be a whole number, not Fraction(1, 1)"),
        ({"cost": "free"}, "cost must be a number of dollars or None, not 'free'"),
        ({"cost": float("nan")}, "cost must be 0 or more, not nan"),
        ({"cost": -0.5}, "cost must be 0 or more, not -0.5"),
    ],
)
def test_usages_that_cannot_be(usage: dict[str, Any], message: str):
    """They are refused where a model makes them: a sum of them would be found out much later."""
    with pytest.raises((TypeError, ValueError)) as refused:
        Usage(**usage)
    assert str(refused.value) == message


def test_a_usage_is_read_as_far_as_it_can_be():
    """A snapshot may have been edited by hand."""
    found = Usage.from_dict(
        {"requests": 2, "input_tokens": -5, "output_tokens": 1.5, "cost": float("inf"), "x": 1}
    )
    assert found == Usage(requests=2)


def test_settings_of_a_class_of_ones_own_go_over_others():
    """What they have beside counts for the agent that has them."""

    @attrs.frozen(kw_only=True)
    class Mine(Settings):
        note: str = ""

    assert Mine(seed=1, note="x").over(Settings(top_p=0.5)) == Settings(seed=1, top_p=0.5)
    assert Settings(seed=1).over(Mine(note="x")) == Mine(seed=1, note="x")


@pytest.mark.parametrize(
    "source", ["https://example.org/a.png", "http://127.0.0.1/a.png", "data:image/png;base64,AA=="]
)
def test_a_str_is_an_address(source: str):
    """It is what the provider gets."""
    assert Image(source).source == source


@pytest.mark.parametrize("source", ["photo.png", "/photos/a.png", "C:\\photos\\a.png", "", "./a.png"])
def test_a_str_that_is_no_address_is_refused(source: str):
    """A provider would look for it on its own machine; what was meant is a Path."""
    with pytest.raises(
        ValueError, match=r"an image's address begins with https: or data:.*for a file, pass a Path"
    ):
        Image(source)


@pytest.mark.parametrize("source", [7, None, ["a"]])
def test_other_things_are_no_images(source: Any):
    """Bytes, a Path or an address."""
    with pytest.raises(TypeError, match="an image is made of bytes, a Path or an address, not "):
        Image(source)


@pytest.mark.parametrize("content", [3, None, [3], {"a": 1}])
def test_a_message_is_made_of_texts_and_images(content: Any):
    """Anything else is refused where it is written."""
    with pytest.raises(TypeError, match="a message is made of texts and images, not "):
        Message(content)


def test_bytes_and_paths_are_images(tmp_path: Path):
    """Of whichever sort bytes are."""
    png = b"\x89PNG\r\n\x1a\n"
    (tmp_path / "a.png").write_bytes(png)
    for source in (png, bytearray(png), memoryview(png), tmp_path / "a.png"):
        assert bytes(Image(source).loaded().source) == png  # type: ignore[arg-type]  # it has bytes now
