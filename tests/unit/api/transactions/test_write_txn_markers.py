"""WriteTxnMarkers v1 and v2: epochs, coordinator epochs, and whose results are told."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.handlers import Api, batch, produce, transaction
from txnsim.api.request import NoResponse
from txnsim.errors import ErrorCode

NONE, STALE, FENCED, FAILED, UNKNOWN = (
    ErrorCode.none,
    ErrorCode.invalid_producer_epoch,
    ErrorCode.transaction_coordinator_fenced,
    ErrorCode.unknown_server_error,
    ErrorCode.unknown_topic_or_partition,
)


def marker(
    pid: int, epoch: int, *partitions: int, coordinator: int = 0, tv: int = 0, name: str = "orders"
) -> dict[str, Any]:
    return {
        "producer_id": pid,
        "producer_epoch": epoch,
        "transaction_result": True,
        "coordinator_epoch": coordinator,
        "transaction_version": tv,
        "topics": [{"name": name, "partition_indexes": partitions}],
    }


def results(answer: Any) -> dict[int, dict[int, ErrorCode]]:
    """Errors by producer id and partition."""
    return {
        one.producer_id: {
            part.partition_index: part.error_code
            for topic in one.topics
            for part in topic.partitions
        }
        for one in answer.markers
    }


async def open_transaction(api: Api) -> tuple[int, int]:
    await api.producer("id")
    await api.ask("InitProducerId", 4, transactional_id="id", transaction_timeout=60_000)
    pid, epoch = await api.producer("id")
    await api.ask("AddPartitionsToTxn", 3, **transaction("id", (pid, epoch), {"orders": [0]}))
    records = batch(producer_id=pid, producer_epoch=epoch, base_sequence=0, transactional=True)
    await api.ask("Produce", 11, **produce("orders", records, transactional_id="id"))
    return pid, epoch


async def write(api: Api, version: int, *markers: dict[str, Any]) -> Any:
    return await api.ask("WriteTxnMarkers", version, markers=markers)


@pytest.mark.parametrize(
    ("version", "tv", "steps"),
    [
        (1, 0, [(-1, 0, STALE), (0, 5, NONE), (0, 5, NONE), (1, 4, FENCED), (1, 6, NONE)]),
        (2, 0, [(-1, 0, STALE), (0, 5, NONE), (0, 5, NONE), (1, 4, FENCED), (1, 6, NONE)]),
        (2, 1, [(-1, 0, STALE), (0, 5, NONE)]),
        # Transactions v2: an open transaction ends with a higher epoch only; a repeat is let in.
        (2, 2, [(-1, 0, STALE), (0, 5, STALE), (1, 5, NONE), (1, 5, NONE), (0, 5, STALE)]),
        (2, -1, [(-1, 0, STALE), (0, 5, FAILED), (1, -1, FAILED)]),
    ],
)
async def test_epochs_in_their_order(
    api: Api, version: int, tv: int, steps: list[tuple[int, int, ErrorCode]]
) -> None:
    pid, epoch = await open_transaction(api)
    for ahead, coordinator, error in steps:
        wanted = marker(pid, epoch + ahead, 0, coordinator=coordinator, tv=tv)
        assert results(await write(api, version, wanted)) == {pid: {0: error}}


@pytest.mark.parametrize("version", [1, 2])
async def test_a_marker_closes_the_transaction_on_its_partition(api: Api, version: int) -> None:
    pid, epoch = await open_transaction(api)
    await write(api, version, marker(pid, epoch, 0, coordinator=3))
    wanted = {"topics": [{"name": "orders", "partition_indexes": [0]}]}
    answer = await api.ask("DescribeProducers", 0, **wanted)
    (found,) = answer.topics[0].partitions[0].active_producers
    assert (found.current_txn_start_offset, found.coordinator_epoch) == (-1, 3)
    assert (await api.state("id", "Ongoing")).producer_id == pid, "the coordinator is not told"


@pytest.mark.parametrize("version", [1, 2])
async def test_producers_and_partitions(api: Api, version: int) -> None:
    answer = await write(
        api,
        version,
        marker(70, 0, 0, 9),
        marker(71, 0, 0, name="missing"),
        marker(72, 0),
        marker(73, -1, 0, name="missing"),
        marker(70, 0, 1),
    )
    assert results(answer) == {
        70: {0: NONE, 9: UNKNOWN, 1: NONE},
        71: {0: UNKNOWN},
        73: {0: UNKNOWN},
    }
    assert (await write(api, version)).markers == ()


@pytest.mark.parametrize("last", [(70, 0, 9), (70, 0)])
async def test_a_request_whose_last_marker_has_no_partition_here_is_not_answered(
    api: Api, last: tuple[int, ...]
) -> None:
    assert await write(api, 1, marker(71, 0, 0), marker(*last)) is NoResponse.NEVER
    assert results(await write(api, 1, marker(*last), marker(71, 0, 0)))[71] == {0: NONE}
    alone = await write(api, 1, marker(*last), marker(*last))
    assert results(alone) == ({70: {9: UNKNOWN}} if len(last) > 2 else {})


@pytest.mark.parametrize("bad", [(-1, 0), (73, -1)])
async def test_a_marker_without_a_producer_fails_the_request_that_it_is_in(
    api: Api, bad: tuple[int, int]
) -> None:
    # KafkaApis throws in the middle: what is before it is written, what is behind it is not.
    answer = await write(
        api, 1, marker(70, 0, 0), marker(70, 0, 1), marker(*bad, 0), marker(71, 0, 0)
    )
    assert results(answer) == {70: {1: FAILED}, bad[0]: {0: FAILED}, 71: {0: FAILED}}
    wanted = {"topics": [{"name": "orders", "partition_indexes": [0, 1]}]}
    described = await api.ask("DescribeProducers", 0, **wanted)
    assert [
        [producer.producer_id for producer in partition.active_producers]
        for partition in described.topics[0].partitions
    ] == [[70], [70]]


async def test_another_brokers_partition_is_not_led_here(api_of_three: Api) -> None:
    answer = await write(api_of_three, 2, marker(70, 0, 0, 1))
    assert results(answer) == {70: {0: NONE, 1: ErrorCode.not_leader_or_follower}}


async def test_refusal_and_subject(api: Api) -> None:
    wanted = {"markers": [marker(70, 0, 0, 1), marker(71, 0, 2)]}
    refused = api.refuse("WriteTxnMarkers", 2, STALE, **wanted)
    assert results(refused) == {70: {0: STALE, 1: STALE}, 71: {2: STALE}}
    about = api.subject("WriteTxnMarkers", 1, **wanted)
    assert (about.producer_id, about.committed) == (70, True)
    assert [one.producer_id for one in about.others] == [71]
