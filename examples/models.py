"""
The model that the examples ask: OpenAI's, or what MODEL in the environment names.

    MODEL=openai:gpt-5-mini
    MODEL=anthropic:claude-sonnet-4-5
    MODEL=http://127.0.0.1:8000/v1#qwen3        any server that speaks Chat Completions
    MODEL=local:weights.gguf                    a file, with pip install june-steps[local]

It should be a model that was taught to talk, and not a small one: it has to follow instructions, and to end.
"""

from __future__ import annotations

import os

from june.models import Model


def chosen() -> Model:
    """Make the model that MODEL names."""
    kind, _, name = os.environ.get("MODEL", "openai:gpt-5-mini").partition(":")
    if kind not in ("openai", "anthropic", "http", "https", "local") or not name:
        raise ValueError(f"MODEL is {os.environ['MODEL']!r}; see examples/models.py for what it may be")
    if kind == "anthropic":
        from june.sdk.anthropic import anthropic

        return anthropic(name)
    if kind == "local":
        from june.sdk.local import local

        return local(name)
    from june.sdk.openai import openai

    if kind in ("http", "https"):
        address, _, model = name.partition("#")
        if not model:
            raise ValueError(f"MODEL is {os.environ['MODEL']!r}, and lacks #NAME, the model's name there")
        return openai(model, base_url=f"{kind}:{address}")
    return openai(name)
