"""The way of a run: what was chosen where more than one thing could happen.

On a quiet network the oldest message arrives next, and nothing else happens. A way has only what
was chosen instead, each with the number of its choice. What was passed over for another message is
late from then on: it arrives when nothing else is on its way.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Final, Protocol

import msgspec

from txnsim.errors import ConfigError

SEPARATOR: Final = "; "


class Deviation(msgspec.Struct, frozen=True):
    """A choice other than the one that a quiet network would make."""

    choice_number: int
    """How many choices came before it."""
    option_name: str


Way = tuple[Deviation, ...]


class Choice(msgspec.Struct, frozen=True, kw_only=True):
    """A point of a run at which several things may happen, or nothing more."""

    options: Sequence[str]
    """Names of what may happen; the first is what happens on a quiet network."""
    keys: Sequence[str]
    """The same, named in a way that is the same in equal states: without the number of messages
    that came before.
    """
    fingerprint: int
    """The state (``_node_states.NodeStates.fingerprint``)."""


class Chooser(Protocol):
    """Decides what happens next."""

    def pick(self, choice: Choice) -> int:
        """The index of the option that happens."""


class GivenWay:
    """Follows a way. Where it has nothing for a choice, or what is no option there, that happens
    which happens on a quiet network.
    """

    def __init__(self, way: Way) -> None:
        self._options_by_number = {
            deviation.choice_number: deviation.option_name for deviation in way
        }
        self._choice_number = 0

    def pick(self, choice: Choice) -> int:
        """The index of the option that the given way names."""
        options = choice.options
        option_name = self._options_by_number.get(self._choice_number)
        self._choice_number += len(options) > 1
        return options.index(option_name) if option_name in options else 0


def text_of_way(way: Way) -> str:
    """A way as text, for an option of a command."""
    return SEPARATOR.join(f"{deviation.choice_number} {deviation.option_name}" for deviation in way)


def marked_steps(steps: Sequence[str], deviating_steps: Collection[int]) -> Iterator[str]:
    """The steps of a way, numbered; a star where something else happens than on a quiet network.

    Args:
        steps: All that happens on the way.
        deviating_steps: Indexes of the steps that do not happen on a quiet network.
    """
    for index, step in enumerate(steps):
        yield f"{'*' if index in deviating_steps else ' '} {index + 1:2}  {step}"


def read_way(text: str) -> Way:
    """Read the text of a way.

    Raises:
        ConfigError: The text is none.
    """
    deviations = []
    for deviation_text in filter(None, text.split(SEPARATOR)):
        number_text, _, option_name = deviation_text.partition(" ")
        if not number_text.isdigit() or not option_name:
            raise ConfigError(
                f"{deviation_text!r}: no step of a way: expected the number of a choice and what is"
                " chosen, as explore prints them"
            )
        deviations.append(Deviation(int(number_text), option_name))
    return tuple(deviations)
