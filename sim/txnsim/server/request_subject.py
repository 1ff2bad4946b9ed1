"""What a request is about, in the words of the trace."""

from __future__ import annotations

from typing import Any, Final

from txnsim.types import Subject

PARTITIONS_TOLD_MAX: Final = 8
"""A summary is a line: of more partitions it has the number."""


def summary_of(subject: Subject) -> str:
    """One line: whose transaction, which producer, commit or abort, which partitions."""
    words = []
    if subject.transactional_id is not None:
        words.append(subject.transactional_id)
    if subject.producer_id is not None and subject.producer_id >= 0:
        words.append(f"producer {subject.producer_id}")
    if subject.committed is not None:
        words.append("commit" if subject.committed else "abort")
    partitions = subject.partitions
    words += map(str, partitions[:PARTITIONS_TOLD_MAX])
    if len(partitions) > PARTITIONS_TOLD_MAX:
        words.append(f"and {len(partitions) - PARTITIONS_TOLD_MAX} more")
    if subject.others:
        words.append(f"and {len(subject.others)} more like it")
    return " ".join(words)


def tx_of(subject: Subject, message: Any) -> str:
    """The name of the transaction in the trace, as far as the request tells it."""
    name = subject.transactional_id
    if not name:
        return ""
    producer_id = subject.producer_id
    if producer_id is None:
        producer_id = getattr(message, "producer_id", -1)
    epoch = getattr(message, "producer_epoch", -1)
    return f"{name}/{producer_id}:{epoch}" if producer_id >= 0 and epoch >= 0 else name
