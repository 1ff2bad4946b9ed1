"""Patterns of clients: RE2/J's, bounded by what a match may cost.

RE2/J's syntax is written for Rust's ``regex`` (``pattern_syntax``), which matches in time linear in
a name, and linear in the program of its pattern: ``(a?){1000}`` has few letters and thousands of
instructions. So the length of a pattern and its program are bounded, and a name is matched where
both together are few steps. A thousand names are a thousand matches: whoever matches many takes
breaks (``Pattern.weight``).

Rust's ``regex`` comes with pydantic, which has it for the patterns of its strings. Apache Kafka's
broker has RE2/J and no bounds.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final

from txnsim.errors import PatternError
from txnsim.on_demand import OnDemand
from txnsim.pattern_syntax import written

pydantic_core: Final[Any] = OnDemand("pydantic_core")

DEVIATIONS: Final = (
    "A pattern of a client (the list of transactional ids, a subscription, the match of client"
    " metrics) has at most 10,000 bytes, a program of about 8,000 instructions (a class of Unicode"
    " counts as 250) and groups nested 50 deep. ListTransactions refuses one that takes too long"
    " for an id: INVALID_REGULAR_EXPRESSION.",
)

BYTES_MAX: Final = 10_000
"""Of a pattern."""
INSTRUCTIONS_MAX: Final = 8_000
"""Of its program. With what its matches keep in memory, one takes at most 5 MB."""
STEPS_MAX: Final = 2_000_000
"""Of one match: instructions times characters of the name. As many take 20 ms at worst. Every
pattern that is taken can be matched with every name of a topic.
"""
STEPS_PER_WEIGHT: Final = 500
"""So many steps count as one element of some microseconds (``Request.each``)."""
_KEPT: Final = 16
"""Patterns."""


class Pattern:
    """A compiled pattern: the whole name must match."""

    __slots__ = ("_instructions", "_match", "pattern")

    def __init__(self, expression: str) -> None:
        """Compile it.

        Raises:
            PatternError: RE2/J does not take it, or it is too large.
        """
        text, self._instructions = written(expression)
        if self._instructions > INSTRUCTIONS_MAX:
            raise PatternError(f"its program has more than {INSTRUCTIONS_MAX:,} instructions")
        schema = {"type": "str", "strict": True, "pattern": text, "regex_engine": "rust-regex"}
        self._match = pydantic_core.SchemaValidator(schema).isinstance_python
        self.pattern = expression

    def weight(self, name: str) -> int:
        """How much work a match is at worst; 1 for some microseconds."""
        return 1 + self._instructions * len(name) // STEPS_PER_WEIGHT

    def matches(self, name: str) -> bool:
        """Whether the whole name matches.

        Raises:
            PatternError: It could take too long.
        """
        if self._instructions * len(name) > STEPS_MAX:
            raise PatternError(
                f"a name of {len(name):,} characters is too long for a program of"
                f" {self._instructions:,} instructions",
            )
        return bool(self._match(name))


@lru_cache(maxsize=_KEPT)
def compiled(expression: str) -> Pattern:
    """The pattern.

    Raises:
        PatternError: RE2/J does not take it, or it is too large.
    """
    if len(expression.encode()) > BYTES_MAX:
        raise PatternError(f"a pattern has at most {BYTES_MAX:,} bytes")
    return Pattern(expression)
