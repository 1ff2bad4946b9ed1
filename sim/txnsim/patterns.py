"""Patterns of clients: RE2's, bounded by what a match may cost.

RE2 takes time linear in a name, and linear in the program of its pattern: ``(a?){1000}`` has few
letters and thousands of instructions. So the length of a pattern and its program are bounded, and a
name is matched where both together are few steps. A thousand names are a thousand matches: whoever
matches many takes breaks (``Pattern.weight``).

Apache Kafka's broker has RE2/J and no bounds.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final

from txnsim.errors import PatternError
from txnsim.on_demand import OnDemand

re2: Final[Any] = OnDemand("re2")

DEVIATIONS: Final = (
    "A pattern of a client (the list of transactional ids, a subscription, the match of client"
    " metrics) has at most 10,000 bytes and a program of about 5,000 instructions. ListTransactions"
    " refuses one that takes too long for an id: INVALID_REGULAR_EXPRESSION.",
)

BYTES_MAX: Final = 10_000
"""Of a pattern."""
PROGRAM_BYTES_MAX: Final = 64 << 10
"""For program and automaton of a pattern: RE2's ``max_mem``. Its default is 8 MiB."""
STEPS_MAX: Final = 2_000_000
"""Of one match: instructions times bytes of the name. As many take 20 ms at worst. Every pattern
that is taken can be matched with every name of a topic.
"""
STEPS_PER_WEIGHT: Final = 500
"""So many steps count as one element of some microseconds (``Request.each``)."""


class Pattern:
    """A compiled pattern: the whole name must match."""

    __slots__ = ("_instructions", "_match", "pattern")

    def __init__(self, expression: str, compiled: Any) -> None:
        """Keep what was compiled."""
        self.pattern = expression
        self._match = compiled.fullmatch
        self._instructions: int = compiled.programsize

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
        return self._match(name) is not None


@lru_cache(maxsize=256)
def compiled(expression: str) -> Pattern:
    """The pattern.

    Raises:
        PatternError: RE2 does not take it, or it is too large.
    """
    if len(expression.encode()) > BYTES_MAX:
        raise PatternError(f"a pattern has at most {BYTES_MAX:,} bytes")
    options = re2.Options()
    options.log_errors = False  # or the library prints to standard error
    options.never_capture = True
    options.max_mem = PROGRAM_BYTES_MAX
    try:
        return Pattern(expression, re2.compile(expression, options))
    except re2.error as error:
        said = error.args[0]
        raise PatternError(said.decode() if isinstance(said, bytes) else str(said)) from None
