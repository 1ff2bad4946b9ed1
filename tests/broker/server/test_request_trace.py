"""What a request is about, in one line."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from txnsim.faults.subjects import Subject
from txnsim.server.request_trace import PARTITIONS_TOLD_MAX, summary_of, tx_of
from txnsim.types import TopicPartition

TWO = (TopicPartition("t", 0), TopicPartition("u", 1))
MANY = tuple(TopicPartition("t", index) for index in range(PARTITIONS_TOLD_MAX + 2))


@pytest.mark.parametrize(
    ("subject", "line"),
    [
        (Subject(), ""),
        (Subject(transactional_id="app", producer_id=7, committed=True), "app producer 7 commit"),
        (Subject(committed=False, partitions=TWO), "abort t-0 u-1"),
        (Subject(partitions=MANY), "t-0 t-1 t-2 t-3 t-4 t-5 t-6 t-7 and 2 more"),
        (Subject(transactional_id="app", others=(Subject(),)), "app and 1 more like it"),
    ],
)
def test_a_summary_is_a_line(subject: Subject, line: str) -> None:
    assert summary_of(subject) == line


@pytest.mark.parametrize(
    ("subject", "message", "name"),
    [
        (Subject(), SimpleNamespace(producer_id=7, producer_epoch=0), ""),
        (Subject(transactional_id="app"), SimpleNamespace(), "app"),
        (
            Subject(transactional_id="app"),
            SimpleNamespace(producer_id=-1, producer_epoch=-1),
            "app",
        ),
        (
            Subject(transactional_id="app"),
            SimpleNamespace(producer_id=7, producer_epoch=3),
            "app/7:3",
        ),
        (
            Subject(transactional_id="app", producer_id=7),
            SimpleNamespace(producer_epoch=3),
            "app/7:3",
        ),
    ],
)
def test_a_transaction_is_named_as_far_as_the_request_tells_it(
    subject: Subject, message: object, name: str
) -> None:
    assert tx_of(subject, message) == name
