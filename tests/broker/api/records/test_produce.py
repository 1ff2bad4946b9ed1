"""Produce v3 to v13: who may write where, slices, the subject; the casebook has its answers."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tests.support.handlers import NO_SUCH_ID, Api, batch, produce
from txnsim.api._records import produce as produce_module
from txnsim.api._records.produce import OPERATIONS, handle, refuse
from txnsim.api.request import NoResponse
from txnsim.broker.verification import TransactionOperation
from txnsim.errors import ErrorCode
from txnsim.runtime.turns import Pace

GOOD = batch(b"a", b"b")


def values(api: Api, records: bytes | None, **more: Any) -> dict[str, Any]:
    return produce("orders", records, topic_id=api.topic_id("orders"), **more)


def part(answer: Any) -> Any:
    (partition,) = answer.responses[0].partition_responses
    return partition


@pytest.mark.parametrize("version", [3, 13])
async def test_less_than_the_header_of_a_batch_is_no_batch(api: Api, version: int) -> None:
    found = part(await api.ask("Produce", version, **values(api, GOOD[:16])))
    assert found.error_code is ErrorCode.invalid_record


@pytest.mark.parametrize("version", [3, 13])
async def test_null_records_are_never_answered(api: Api, version: int) -> None:
    assert await api.ask("Produce", version, **values(api, None)) is NoResponse.NEVER


async def test_internal_topics_belong_to_the_admin_client(api: Api) -> None:
    await api.producer("id")
    values = produce("__transaction_state", GOOD)
    found = part(await api.ask("Produce", 8, **values))
    assert found.error_code is ErrorCode.invalid_topic_exception
    admin = part(await api.ask("Produce", 8, client_id="__admin_client", **values))
    assert admin.error_code is not ErrorCode.invalid_topic_exception


@pytest.mark.parametrize(
    ("version", "operation"),
    [
        (10, TransactionOperation.DEFAULT_ERROR),
        (11, TransactionOperation.GENERIC_ERROR_SUPPORTED),
        (12, TransactionOperation.ADD_PARTITION),
        (13, TransactionOperation.ADD_PARTITION),
    ],
)
def test_what_a_version_supports(version: int, operation: TransactionOperation) -> None:
    assert OPERATIONS[version] is operation


async def test_refusal_and_subject(api: Api) -> None:
    error = ErrorCode.request_timed_out
    assert part(api.refuse("Produce", 13, error, **values(api, GOOD))).error_code is error
    records = batch(producer_id=7, producer_epoch=0, base_sequence=0)
    about = api.subject("Produce", 13, **values(api, records, transactional_id="id"))
    assert (about.transactional_id, about.producer_id) == ("id", 7)
    assert [str(one) for one in about.partitions] == ["orders-0"]
    assert api.subject("Produce", 8, **produce("orders", b"junk")).producer_id is None


class CountedPace(Pace):
    """Counts the elements that are reported to it."""

    elements = 0

    def has_done(self, elements: int) -> bool:
        self.elements += elements
        return super().has_done(elements)


async def test_many_partitions_are_read_and_answered_in_slices(api: Api) -> None:
    partitions = [{"index": index, "records": GOOD} for index in range(3_000)]
    topic = {"topic_id": NO_SUCH_ID, "partition_data": partitions}
    request = api.request("Produce", 13, acks=-1, topic_data=[topic])
    pace = CountedPace(api.broker.environment.tasks.turns, lambda: 0)
    request.pace = pace
    answer = await handle(request)
    assert pace.elements == 2 * 3_000, "once when it is read, once when it is answered"
    assert answer == refuse(request, ErrorCode.unknown_topic_id)


@pytest.mark.parametrize(("further", "is_found"), [(0, True), (3, True), (4, False)])
def test_of_batches_that_are_too_many_so_many_are_looked_at(
    further: int, monkeypatch: pytest.MonkeyPatch, *, is_found: bool
) -> None:
    """Fifty megabytes of the smallest messages of format 0 took a second."""
    monkeypatch.setattr(produce_module, "FURTHER_BATCHES_MAX", 3)
    old = bytes(8) + (14).to_bytes(4, "big") + bytes(14)
    transactional = batch(
        b"v", producer_id=7, producer_epoch=0, base_sequence=0, transactional=True
    )
    records = [old * further + transactional, GOOD, GOOD + GOOD]
    parts = [SimpleNamespace(records=one) for one in records]
    message = SimpleNamespace(topic_data=[SimpleNamespace(partition_data=parts)])
    assert produce_module.carries_transactions(message) is is_found
    parts.append(SimpleNamespace(records=transactional))
    assert produce_module.carries_transactions(message), "the first one of each partition"
