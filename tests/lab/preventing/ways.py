"""Which switch prevents what an exploration finds: each way is played without the switch and with
it, and what came of it is kept in ``ways.json``::

    python -m tests.lab.preventing.ways            # what differs from what is kept
    python -m tests.lab.preventing.ways --write

The page docs/which-rule-prevents-what.md is made of it. Exit status: 0 nothing differs, 1 it does.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

from txnsim_lab.exploration.way import read_way
from txnsim_lab.referee.design import read_design
from txnsim_lab.referee.pairs import Designs, kind_of, play_way
from txnsim_lab.referee.verdict import Side
from txnsim_lab.simulation.play import quieten

RESULTS_FILE: Final = Path(__file__).with_name("ways.json")

_LATE_TO_UNLOAD: Final = "begins: the coordinator moves to broker 2, broker 1 has yet to unload it"
_UNAWARE: Final = "begins: the coordinator moves to broker 1, broker 2 does not know it yet"
_TWO_MOVES: Final = (
    "0 begins: broker 3 falls behind; 3 begins: the coordinator moves to broker 2;"
    " 9 begins: the coordinator moves to broker 3; 10 goes on: broker 3 falls behind"
)
_CHECK: Final = "coordinator_checks_leadership"
_END: Final = "empty_commits_are_ended"


class WaySwitch(msgspec.Struct, frozen=True, kw_only=True):
    """A way of an exploration, and a switch that is asked whether it prevents what is there."""

    exploration: str
    way: str
    switch: str
    base: str = "4.4"
    """The release in which both are played."""
    meaning: str
    """What happens on the way, in words."""

    def design(self, *, is_on: bool) -> str:
        """The text of a design (``read_design``) with the switch in one position."""
        return f"{self.base},{self.switch}={'on' if is_on else 'off'}"


class WayResult(msgspec.Struct, frozen=True, kw_only=True):
    """The anomalies at the end of a way."""

    exploration: str
    way: str
    base: str
    switch: str
    off: tuple[str, ...]
    """Kinds of anomalies without the switch."""
    on: tuple[str, ...]
    """Those with it."""


def _stale(
    exploration: str, choice_number: int, option: str, switch: str, meaning: str
) -> WaySwitch:
    return WaySwitch(
        exploration=exploration,
        way=f"{choice_number} {option}",
        switch=switch,
        meaning=meaning,
    )


WAYS: Final = (
    WaySwitch(
        exploration="broker-dies",
        way="7 begins: broker 2 dies",
        switch="leaderless_partitions_keep_markers",
        base="4.3",
        meaning="a broker dies while it is owed a marker",
    ),
    *(
        WaySwitch(
            exploration="coordinator-moves",
            way=_TWO_MOVES,
            switch=switch,
            meaning="it moves twice while a replica of its log is behind (z34)",
        )
        for switch in ("loads_wait_for_replication", _CHECK, _END)
    ),
    *(
        _stale("stale-coordinator", 0, _LATE_TO_UNLOAD, switch, "it has seen no transaction yet")
        for switch in (_CHECK, _END)
    ),
    *(
        _stale("stale-coordinator", 5, _LATE_TO_UNLOAD, switch, "the one before is prepared there")
        for switch in (_CHECK, _END)
    ),
    *(
        _stale("unaware-coordinator", 0, _UNAWARE, switch, "it does not know of the move")
        for switch in (_CHECK, _END)
    ),
)
"""What is played: single orders of messages. ``txnsim explore`` searches for such."""


def play_both(way_switch: WaySwitch) -> WayResult:
    """Play a way without its switch and with it.

    Raises:
        RuntimeError: The run does not go that way any more.
    """
    designs = Designs(
        read_design(way_switch.design(is_on=False)), read_design(way_switch.design(is_on=True))
    )
    kinds: list[tuple[str, ...]] = []
    for side in Side:
        way = read_way(way_switch.way)
        replayed_way, failures = play_way(way_switch.exploration, way, designs, side)
        assert not failures, "switches have no plug-ins"
        if side is Side.A and replayed_way.way != way:
            raise RuntimeError(f"{way_switch.exploration} does not go that way: {replayed_way.way}")
        kinds.append(
            tuple(sorted({kind_of(finding) for finding in replayed_way.played_run.findings}))
        )
    return WayResult(
        exploration=way_switch.exploration,
        way=way_switch.way,
        base=way_switch.base,
        switch=way_switch.switch,
        off=kinds[0],
        on=kinds[1],
    )


def kept_results() -> tuple[WayResult, ...]:
    """The stored results of the last run, in the order of ``WAYS``."""
    return msgspec.json.decode(RESULTS_FILE.read_bytes(), type=tuple[WayResult, ...])


def main(arguments: Sequence[str] | None = None) -> int:
    """Play all ways, and compare or keep what came of them."""
    parser = argparse.ArgumentParser(prog="python -m tests.lab.preventing.ways")
    parser.add_argument("--write", action="store_true", help="keep what is found")
    options = parser.parse_args(arguments)
    quieten()
    results = tuple(map(play_both, WAYS))
    if options.write:
        RESULTS_FILE.write_bytes(msgspec.json.format(msgspec.json.encode(results)) + b"\n")
        return 0
    different_results = [result for result in results if result not in kept_results()]
    for result in different_results:
        print(f"not as kept: {result}")
    return int(bool(different_results))


if __name__ == "__main__":
    sys.exit(main())
