"""Bugs that were put in by hand: each takes one thing away that the cores do.

A mutation patches a function for the time of its exam. None of them was looked at when the weights
of runs were chosen (``txnsim.simulation.defaults``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from txnsim.group.offsets import Offsets
from txnsim.log.partition_log import PartitionLog
from txnsim.log.producer_state import ProducerState
from txnsim.log.producer_state_manager import ProducerStateManager, Snapshots
from txnsim.log.txn_index import TxnIndex

Patch = Callable[[Any], Any]
"""The function as it is -> the one with the bug."""


def _seldom(times: int, otherwise: Callable[..., Any]) -> Patch:
    """Every so many times something else is done."""

    def patch(function: Any) -> Any:
        seen = 0

        def wrong(*args: Any, **named: Any) -> Any:
            nonlocal seen
            seen += 1
            if seen % times == 0:
                return otherwise(function, *args, **named)
            return function(*args, **named)

        return wrong

    return patch


def _nothing(_function: Any, *_args: Any, **_named: Any) -> None:
    """It is not done at all."""


def _one_too_far(function: Any) -> Any:
    getter = function.fget

    def stable(log: PartitionLog) -> int:
        found: int = getter(log)
        return min(found + 1, log.high_watermark)

    return property(stable)


def _no_open_transactions(_function: Any, state: ProducerState) -> Any:
    return tuple(
        msgspec.structs.replace(entry, txn_first_offset=-1) for entry in state_snapshot(state)
    )


state_snapshot: Final = ProducerState.to_snapshot


def _cutting(function: Any) -> Any:
    def wrong(log: PartitionLog, leader_epoch: int) -> None:
        function(log, leader_epoch)
        if log.log_end_offset > log.log_start_offset:
            log.truncate_to(log.log_end_offset - 1, now_ms=0)

    return wrong


class Mutation(msgspec.Struct, frozen=True):
    """One bug."""

    owner: Any
    name: str
    patch: Patch
    what: str


MUTATIONS: Final[Mapping[str, Mutation]] = {
    "lso-one-too-far": Mutation(
        PartitionLog, "last_stable_offset", _one_too_far, "readers see one offset too many"
    ),
    "aborted-range-forgotten": Mutation(
        TxnIndex, "append", _seldom(5, _nothing), "one aborted range in five is not noted"
    ),
    "pending-positions-kept": Mutation(
        Offsets, "apply_marker", _seldom(4, _nothing), "one marker in four changes no position"
    ),
    "snapshot-without-open-transactions": Mutation(
        ProducerState,
        "to_snapshot",
        lambda function: lambda state: _no_open_transactions(function, state),
        "a snapshot of producers has none of their open transactions (Redpanda #30003)",
    ),
    "snapshot-never-taken": Mutation(
        Snapshots, "take", _seldom(3, _nothing), "one snapshot in three is not taken"
    ),
    "truncation-forgets-producers": Mutation(
        ProducerStateManager, "reload", _seldom(1, _nothing), "producers survive a truncation"
    ),
    "acknowledged-record-cut": Mutation(
        PartitionLog,
        "become_follower",
        _cutting,
        "a new follower cuts its last record off, committed or not",
    ),
}
