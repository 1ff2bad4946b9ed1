"""What a play found: how much was asked, where it went, and where the brokers parted."""

from __future__ import annotations

from collections import Counter
from typing import Any, Final

import msgspec

from tests.conformance.operations import Operation
from tests.conformance.races import Race
from tests.conformance.recorded_play import RecordedPlay

ACCEPTED: Final = "accepted"
ACCEPTED_ANEW: Final = "accepted, new producer id"
ANY: Final = "any"
TIME_OUT: Final = "(time-out)"
"""Takes the place of an API where a coordinator acts by itself."""
_NO_TOPIC: Final = frozenset({"unknown_topic_or_partition", "unknown_topic_id"})
_BY_THE_LOG: Final = frozenset(
    {
        *("out_of_order_sequence_number", "message_too_large", "invalid_required_acks"),
        *("transactional_id_authorization_failed", "invalid_record"),
        *("the connection was closed", "no answer, the connection stays"),
    }
)
STATELESS: Final = {
    "InitProducerId": frozenset({"invalid_request", "invalid_transaction_timeout"}),
    "AddPartitionsToTxn": _NO_TOPIC | {"invalid_request", "operation_not_attempted"},
    "AddOffsetsToTxn": frozenset({"invalid_request"}),
    "TxnOffsetCommit": _NO_TOPIC | {"unknown_server_error"},
    "EndTxn": frozenset({"invalid_request"}),
    "Produce": _NO_TOPIC | _BY_THE_LOG,
    "WriteTxnMarkers": _NO_TOPIC | {"unknown_server_error"},
    "Fetch": _NO_TOPIC,
    "ListOffsets": _NO_TOPIC | {"unsupported_version"},
    "DescribeProducers": _NO_TOPIC,
    "DeleteRecords": _NO_TOPIC | {"policy_violation"},
}
"""API -> outcomes for which the state does not matter."""
CHANGES: Final = frozenset(
    {"DeleteTopics", "CreateTopics", "CreatePartitions", "IncrementalAlterConfigs"}
)


class Cell(msgspec.Struct, frozen=True, order=True):
    """A cell of the map: API, flow and state of a request, and the outcome."""

    level: int
    """Finalized level of ``transaction.version`` at that moment."""
    api: str
    flow: str
    state: str
    """Of the transactional id at its coordinator, or of the log."""
    outcome: str
    """``accepted``, or the name of an error."""


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """A difference between the two brokers, with the requests that led to it."""

    command: str
    operation: Operation | None
    lines: tuple[str, ...]
    trail: tuple[Operation, ...]
    """All that was asked in the shortest play that parts them."""

    def __str__(self) -> str:
        trail_text = "\n".join(f"      {operation}" for operation in self.trail)
        lines = "\n".join(f"    {line}" for line in self.lines)
        return f"{self.operation}\n{lines}\n    again: {self.command}\n    after\n{trail_text}"


class Result(msgspec.Struct, kw_only=True):
    """The results of all plays at one level."""

    level: int
    seed: int
    plays_per_seed: int
    plays: int = 0
    operations: int = 0
    succeeded: int = 0
    cells: Counter[Cell] = msgspec.field(default_factory=Counter)
    modes: Counter[tuple[str, str, str]] = msgspec.field(default_factory=Counter)
    """(API, flow, what was right or wrong)."""
    differences: list[Difference] = msgspec.field(default_factory=list)
    explained: Counter[str] = msgspec.field(default_factory=Counter)
    races: Counter[Race] = msgspec.field(default_factory=Counter)
    seconds: float = 0.0
    recorded_plays: list[RecordedPlay] | None = None
    """The plays to keep; None if none is kept."""

    def count(
        self, transaction_version: int, operation: Operation, state: str, outcomes: set[str]
    ) -> None:
        self.operations += 1
        errors = outcomes - {"none", ACCEPTED_ANEW}
        self.succeeded += not errors
        for outcome in errors or (outcomes - {"none"}) or {ACCEPTED}:
            api = operation.api
            is_stateless = api in CHANGES or outcome in STATELESS.get(api, ())
            counted_state = ANY if is_stateless else state
            self.cells[Cell(transaction_version, api, operation.flow, counted_state, outcome)] += 1
        self.modes[operation.api, operation.flow, operation.mode] += 1

    def command(self, seed: int, operation_count: int) -> str:
        return (
            f"python -m tests.conformance.random_play --level {self.level}"
            f" --operations {operation_count} --seed {seed} --plays {self.plays_per_seed}"
        )

    def as_json(self) -> dict[str, Any]:
        """The result as JSON values."""
        return {
            "level": self.level,
            "command": self.command(self.seed, self.operations),
            "seconds": round(self.seconds, 1),
            "plays": self.plays,
            "operations": self.operations,
            "succeeded": self.succeeded,
            "cells": [
                {**msgspec.to_builtins(cell), "times": times}
                for cell, times in sorted(self.cells.items())
            ],
            "races": {race.name: times for race, times in self.races.items()},
            "explained": dict(self.explained),
            "differences": [str(difference) for difference in self.differences],
        }
