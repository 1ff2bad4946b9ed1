"""Where a bug makes a difference, told from the arguments of a call: conditions of patches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def is_old(_found: Any, args: tuple[Any, ...], _named: object) -> bool:
    txn, command = args
    return txn is not None and command.producer_epoch < txn.producer_epoch


def has_markers(args: tuple[Any, ...], _named: object) -> bool:
    queue, partition = args
    return any(one.txn_partition == partition for one in queue._owing.values()) or any(
        (queue._waiting, queue._queued, queue.unknown)
    )


def has_epoch(args: tuple[Any, ...], named: dict[str, Any]) -> bool:
    entry = args[0].find(named["producer_id"])
    return entry is not None and bool(entry.producer_epoch != named["producer_epoch"])


def has_stray(args: tuple[Any, ...], named: dict[str, Any]) -> bool:
    return any(not named["above"] < one <= named["up_to"] for one in args[0]._by_offset)


def is_another(args: tuple[Any, ...], _named: object) -> Callable[[], bool]:
    """Whether producers are others after a reload than before it."""

    def known() -> Any:
        state = args[0].state
        entries = [
            (one.producer_id, one.producer_epoch, one.coordinator_epoch, one.batches)
            for one in state.by_id.values()
        ]
        return entries, dict(state._ongoing), dict(state.ended)

    before = known()
    return lambda: bool(known() != before)


def are_old(_found: object, args: tuple[Any, ...], named: dict[str, Any]) -> bool:
    now_ms, old_ms = named["now_ms"], named["expiration_ms"]
    return any(now_ms - one.last_timestamp >= old_ms for one in args[0].by_id.values())


def is_owned(args: tuple[Any, ...], named: dict[str, Any]) -> bool:
    partition = named["partition"] if "partition" in named else args[1]
    return partition in args[0].owned or partition in args[0].loading
