"""Facts of stories, made by hand: what a run would have seen."""

from __future__ import annotations

from typing import Any

import msgspec

from sim.check.facts import Facts, Finding, PartitionFacts, ReaderFetch

LATER = ("after-1", "after-2")


def reader_fetch(**changes: Any) -> ReaderFetch:
    """A read_committed Fetch at offset 1 that brings everything."""
    given: dict[str, Any] = {
        "offset": 1,
        "isolation": "read_committed",
        "max_wait_ms": 0,
        "max_bytes": 1_000_000,
        "values": LATER,
        "last_stable_offset": 3,
        "high_watermark": 3,
    }
    return ReaderFetch(**(given | changes))


def partition(**changes: Any) -> PartitionFacts:
    """A partition without an open transaction, whose reader goes on."""
    given: dict[str, Any] = {
        "open_transaction_offset": None,
        "producer_epoch": 0,
        "uncommitted": LATER,
        "committed": LATER,
        "reader": reader_fetch(),
    }
    return PartitionFacts(**(given | changes))


STUCK = partition(
    open_transaction_offset=1,
    uncommitted=("late", *LATER),
    committed=(),
    reader=reader_fetch(values=(), last_stable_offset=1, high_watermark=4),
)
"""The late record has opened a transaction at offset 1."""
HEALED = partition(
    uncommitted=("late", *LATER),
    reader=reader_fetch(last_stable_offset=5, high_watermark=5),
)
FOUND = Finding(topic="payments", partition=0, producer_id=0, producer_epoch=0, start_offset=1)


def _facts(**changes: Any) -> Facts:
    given: dict[str, Any] = {
        "scenario": "late-produce-after-abort",
        "mode": "V-",
        "armed": True,
        "player": "own client",
        "struck": 1,
        "handled": 1,
        "late_epoch": 0,
        "state_after_abort": "CompleteAbort",
        "epoch_after_abort": 0,
        "marker_epoch": 0,
        "reader_offset": 1,
        "appended": LATER,
        "after_release": partition(),
        "late_gauge_before": 0,
        "late_gauge_after": 0,
        "after_repair": partition(),
    }
    return Facts(**(given | changes))


def hanging(**changes: Any) -> Facts:
    """A hanging transaction that was found and repaired."""
    given: dict[str, Any] = {
        "after_release": STUCK,
        "late_gauge_after": 1,
        "found": (FOUND,),
        "after_repair": HEALED,
    }
    return _facts(**(given | changes))


def refused_by_verification(**changes: Any) -> Facts:
    """The late record was handled under the epoch that the partition knows, and is not there."""
    return _facts(**changes)


def refused_by_epoch(**changes: Any) -> Facts:
    """The marker has raised the epoch on the partition."""
    return _facts(**({"marker_epoch": 1, "epoch_after_abort": 1} | changes))


def aborted_in_time(**changes: Any) -> Facts:
    """Nothing was held: the record came before the marker."""
    in_time = partition(
        uncommitted=("late", *LATER),
        reader=reader_fetch(offset=2, last_stable_offset=4, high_watermark=4),
    )
    given: dict[str, Any] = {
        "armed": False,
        "struck": 0,
        "handled": 0,
        "reader_offset": 2,
        "after_release": in_time,
        "after_repair": in_time,
    }
    return _facts(**(given | changes))


def changed(facts: PartitionFacts, **changes: Any) -> PartitionFacts:
    """The same but for some fields."""
    return msgspec.structs.replace(facts, **changes)
