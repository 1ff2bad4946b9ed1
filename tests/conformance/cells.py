"""Where a random play went, against the map of what it can reach.

A play that visits a place that is not on the map, or a long one that leaves out one that is, has
something to tell. What is not on the map can't be reached; ``unreachable`` knows why.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any, Final

import msgspec

from tests.conformance.model import STATES
from tests.conformance.reachable import MAP, UNREACHABLE
from tests.conformance.result import ACCEPTED, ACCEPTED_ANEW, ANY, STATELESS, Cell, Result
from txnsim.errors import ErrorCode

GROUPS: Final = {
    "Prepare": ("PrepareCommit", "PrepareAbort"),
    "Complete": ("CompleteCommit", "CompleteAbort"),
    "log": ("open", "not open"),
}
LEVELS: Final = (0, 1, 2)
SELDOM: Final = "*"
COINCIDENCE: Final = "?"

_SHORT: Final = {
    "0": ACCEPTED,
    "new": ACCEPTED_ANEW,
    "closed": "the connection was closed",
    "silent": "no answer, the connection stays",
}


class Place(msgspec.Struct, frozen=True, order=True):
    """A cell of the map, for any level."""

    api: str
    flow: str
    state: str
    outcome: str


class Demand(msgspec.Struct, frozen=True):
    """At which levels a place may be visited, and at which a long play has to."""

    allowed: frozenset[int]
    required: frozenset[int]
    somewhere: bool
    """Long plays at all levels have to, together."""


@cache
def demands() -> Mapping[Place, Demand]:
    """The demanded cells, parsed from ``MAP``."""
    demand_by_place: dict[Place, Demand] = {}
    for line in MAP.strip().splitlines():
        api, txn_flow, group, outcomes = (part.strip() for part in line.split("|"))
        for state in GROUPS.get(group, (group,)):
            for outcome_text in outcomes.split():
                map_place, transaction_versions, mark_text = _read(
                    api, txn_flow, state, outcome_text
                )
                known_demand = demand_by_place.get(
                    map_place, Demand(frozenset(), frozenset(), somewhere=False)
                )
                demand_by_place[map_place] = Demand(
                    allowed=known_demand.allowed | transaction_versions,
                    required=known_demand.required
                    if mark_text
                    else known_demand.required | transaction_versions,
                    somewhere=known_demand.somewhere or mark_text != COINCIDENCE,
                )
    return demand_by_place


def _read(
    api: str, txn_flow: str, state: str, outcome_text: str
) -> tuple[Place, frozenset[int], str]:
    mark_text = outcome_text[-1] if outcome_text[-1] in (SELDOM, COINCIDENCE) else ""
    outcome, _, transaction_versions = outcome_text.removesuffix(mark_text).partition("@")
    if outcome in _SHORT:
        error_name = _SHORT[outcome]
    elif outcome.lstrip("-").isdigit():
        error_name = ErrorCode(int(outcome)).name
    else:
        error_name = outcome  # a state, where a coordinator acts by itself
    allowed_levels = (
        frozenset(int(transaction_version) for transaction_version in transaction_versions)
        if transaction_versions
        else frozenset(LEVELS)
    )
    return Place(api, txn_flow, state, error_name), allowed_levels, mark_text


def unreachable() -> Mapping[Place, str | None]:
    """Every place of the grid that is not on the map: what a transactional request could have been
    answered in a state, and why it is not; None where no reason is known.
    """
    known_demands = demands()
    flows: dict[str, set[str]] = defaultdict(set)
    outcomes: dict[str, set[str]] = defaultdict(set)
    for map_place in known_demands:
        if map_place.api in _OF_COORDINATORS:
            flows[map_place.api].add(map_place.flow)
            outcomes[map_place.api].add(map_place.outcome)
    grid = (
        Place(api, txn_flow, state, outcome)
        for api in _OF_COORDINATORS
        for txn_flow in sorted(flows[api])
        for outcome in sorted(outcomes[api])
        for state in ((ANY,) if outcome in STATELESS[api] else STATES)
    )
    return {map_place: _reason(map_place) for map_place in grid if map_place not in known_demands}


def _reason(map_place: Place) -> str | None:
    parts = (map_place.api, map_place.flow, map_place.state, map_place.outcome)
    for *patterns, reason in UNREACHABLE:
        if all(re.fullmatch(pattern, part) for pattern, part in zip(patterns, parts, strict=True)):
            return reason
    return None


def cells_off_the_map(result: Result) -> Iterator[str]:
    """Visited cells that are not on the map."""
    for cell, times in sorted(result.cells.items()):
        demand = demands().get(_map_place_of(cell))
        if demand is None or cell.level not in demand.allowed:
            yield f"{_cell_text(cell)} ({times} times)"


def cells_not_visited(result: Result) -> Iterator[str]:
    """Cells that a long play has to visit at its level, and has not visited."""
    for map_place, demand in sorted(demands().items()):
        cell = Cell(result.level, map_place.api, map_place.flow, map_place.state, map_place.outcome)
        if result.level in demand.required and cell not in result.cells:
            yield _cell_text(cell)


def unvisited_anywhere(results: Sequence[Result]) -> Iterator[str]:
    """Cells that the long plays of all levels together have to visit, and have not visited."""
    visited_places = {_map_place_of(cell) for result in results for cell in result.cells}
    for map_place, demand in sorted(demands().items()):
        if demand.somewhere and map_place not in visited_places:
            yield f"{map_place.api} ({map_place.flow}) in {map_place.state}: {map_place.outcome}"


def table(result: Result) -> Iterator[str]:
    """Lines with the visits of each cell, and the reasons for unreachable cells."""
    rows: dict[tuple[str, str, str], dict[str, int]] = defaultdict(dict)
    for cell, times in result.cells.items():
        row = rows[cell.api, cell.flow, cell.state]
        row[cell.outcome] = row.get(cell.outcome, 0) + times
    for (api, txn_flow, state), outcomes in sorted(rows.items()):
        outcome_counts = ", ".join(
            f"{outcome} {times}" for outcome, times in sorted(outcomes.items())
        )
        yield f"{api:20} {txn_flow:19} {state:15} {outcome_counts}"
    visited_places = {_map_place_of(cell) for cell in result.cells}
    at_level = [
        map_place for map_place, demand in demands().items() if result.level in demand.allowed
    ]
    visited_count = len([map_place for map_place in at_level if map_place in visited_places])
    unvisited_cells = list(cells_not_visited(result))
    yield (
        f"visited {visited_count} of {len(at_level)} places of the map, and all but"
        f" {len(unvisited_cells)} of those that a long play has to visit"
    )
    reasons = Counter(unreachable().values())
    yield f"{reasons.total()} places can't be reached:"
    yield from (f"  {times:4} {reason}" for reason, times in reasons.most_common())


def as_json(result: Result) -> dict[str, Any]:
    """A result as JSON values, with the cells that the map and the play do not share."""
    return {
        **result.as_json(),
        "not_on_the_map": list(cells_off_the_map(result)),
        "never_visited": list(cells_not_visited(result)),
        "unreachable": [
            {**msgspec.to_builtins(map_place), "reason": reason}
            for map_place, reason in sorted(unreachable().items())
        ],
    }


def _map_place_of(cell: Cell) -> Place:
    return Place(cell.api, cell.flow, cell.state, cell.outcome)


def _cell_text(cell: Cell) -> str:
    return f"{cell.api} ({cell.flow}) in {cell.state}: {cell.outcome}, at level {cell.level}"


_OF_COORDINATORS: Final = (
    *("InitProducerId", "AddPartitionsToTxn", "AddOffsetsToTxn", "EndTxn"),
    *("Produce", "TxnOffsetCommit"),
)
