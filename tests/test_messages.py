"""Messages, images and settings: what is refused where it is made."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from june import Image, Settings


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"temperature": "0.5"}, "temperature must be a number, not '0.5'"),
        ({"temperature": True}, "temperature must be a number, not True"),
        ({"top_p": [1]}, "top_p must be a number, not [1]"),
        ({"max_tokens": 1.5}, "max_tokens must be a whole number, not 1.5"),
        ({"max_tokens": 0}, "max_tokens must be 1 or more, not 0"),
        ({"seed": "7"}, "seed must be a whole number, not '7'"),
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


def test_bytes_and_paths_are_images(tmp_path: Path):
    """Of whichever sort bytes are."""
    png = b"\x89PNG\r\n\x1a\n"
    (tmp_path / "a.png").write_bytes(png)
    for source in (png, bytearray(png), memoryview(png), tmp_path / "a.png"):
        assert bytes(Image(source).loaded().source) == png  # type: ignore[arg-type]  # it has bytes now
