"""Where a bug makes a difference, told from the arguments of a call: conditions of patches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def is_old(_result: Any, args: tuple[Any, ...], _named: object) -> bool:
    txn, command = args
    return txn is not None and command.producer_epoch < txn.producer_epoch


def has_markers(args: tuple[Any, ...], _named: object) -> bool:
    queue, partition = args
    return any(debt.txn_partition == partition for debt in queue._debts.values()) or any(
        (queue._markers_to_route, queue._markers_to_send, queue.leader_unknown)
    )


def has_epoch(args: tuple[Any, ...], keywords: dict[str, Any]) -> bool:
    entry = args[0].find(keywords["producer_id"])
    return entry is not None and bool(entry.producer_epoch != keywords["producer_epoch"])


def has_stray(args: tuple[Any, ...], keywords: dict[str, Any]) -> bool:
    return any(
        not keywords["log_start_offset"] < offset <= keywords["end_offset"]
        for offset in args[0]._by_offset
    )


def is_another(args: tuple[Any, ...], _named: object) -> Callable[[], bool]:
    """Whether the producers' state differs after a reload of the log."""

    def known_entries() -> Any:
        state = args[0].state
        entries = [
            (
                producer.producer_id,
                producer.producer_epoch,
                producer.coordinator_epoch,
                producer.batches,
            )
            for producer in state.by_id.values()
        ]
        return entries, dict(state._ongoing), dict(state.ended)

    known_before = known_entries()
    return lambda: bool(known_entries() != known_before)


def are_old(_result: object, args: tuple[Any, ...], keywords: dict[str, Any]) -> bool:
    now_ms, old_ms = keywords["now_ms"], keywords["expiration_ms"]
    return any(now_ms - entry.last_timestamp >= old_ms for entry in args[0].by_id.values())


def is_owned(args: tuple[Any, ...], keywords: dict[str, Any]) -> bool:
    partition = keywords["partition"] if "partition" in keywords else args[1]
    return partition in args[0].owned or partition in args[0].loading
