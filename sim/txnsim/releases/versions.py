"""Numbers of releases such as ``4.3.1``, and which switches one of them has."""

from __future__ import annotations

import re
from typing import Final

from txnsim.errors import ConfigError
from txnsim.releases.rules import RuleSwitch, documentation

_RELEASES_RE: Final = re.compile(r"\d+(\.\d+)+(, \d+(\.\d+)+)*")


def line_of(version: str) -> tuple[int, int]:
    """Major and minor number: (4, 3) of ``4.3.1`` and of ``4.3``.

    Raises:
        ConfigError: It is no release.
    """
    numbers = _numbers(version)
    if len(numbers) < 2:
        raise ConfigError(f"{version}: no release of Apache Kafka")
    return numbers[0], numbers[1]


def names_releases(switch: RuleSwitch) -> bool:
    """Whether a switch says since which releases, and not a sentence."""
    return _RELEASES_RE.fullmatch(switch.since) is not None


def came_later(switch: RuleSwitch, version: str) -> bool:
    """Whether a release is older than all that brought a switch; False also where ``since`` is a
    sentence, which no comparison can tell.

    Args:
        switch: As documented: ``3.1.2, 3.2`` is in 3.1.2, in 3.1.3 and in every line from 3.2 on.
        version: Such as ``3.1.1``.
    """
    if not names_releases(switch):
        return False
    own = _numbers(version)
    firsts = [_numbers(one) for one in switch.since.split(", ")]
    # A patch release brings it to its own line, the last one named to all later lines.
    return own < firsts[-1] and not any(own[:-1] == one[:-1] and own >= one for one in firsts)


def newer_than(version: str) -> tuple[str, ...]:
    """The switches that came later than a release, in order of declaration."""
    return tuple(name for name, switch in documentation().items() if came_later(switch, version))


def _numbers(version: str) -> tuple[int, ...]:
    try:
        return tuple(map(int, version.split(".")))
    except ValueError:
        raise ConfigError(f"{version}: no release of Apache Kafka") from None
