"""
Records of what models are asked, answer and use.
"""

from __future__ import annotations

import attrs

__all__ = ["Usage"]


@attrs.frozen(kw_only=True)
class Usage:
    """
    Tokens and requests spent by model calls.

    Two usages add up: ``a + b``.

    Attributes:
        requests: Requests sent to models, failed ones too.
        input_tokens: Tokens sent.
        output_tokens: Tokens received.
        cached_tokens: Those of `input_tokens` that the provider had cached.
        reasoning_tokens: Those of `output_tokens` that were spent on reasoning.

    Example:
        >>> Usage(requests=1, input_tokens=10) + Usage(requests=1, output_tokens=5)
        Usage(requests=2, input_tokens=10, output_tokens=5, cached_tokens=0, reasoning_tokens=0)
    """

    requests: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    reasoning_tokens: int = 0

    def __add__(self, other: Usage) -> Usage:
        if not isinstance(other, Usage):
            return NotImplemented
        return Usage(
            requests=self.requests + other.requests,
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            cached_tokens=self.cached_tokens + other.cached_tokens,
            reasoning_tokens=self.reasoning_tokens + other.reasoning_tokens,
        )
