"""A broker that contradicts itself: its answer lacks what was asked, has it twice, or has -1 for
what every log has. No such answer counts as one.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from typing import Any, Final

import pytest

from tests.broker.client.fake_broker import FakeBroker, Handler, ReceivedRequest, producers_of
from tests.broker.client.test_consumer import offsets
from tests.broker.client.test_fetching import fetch_answer
from txnsim.cli.decision_output import _summary
from txnsim.client._positions import committed_positions
from txnsim.client._requests_by_key import KeyedResponse
from txnsim.client._txn_admin import TransactionAdmin
from txnsim.client.admin import Admin
from txnsim.client.cluster import Cluster
from txnsim.client.connection import ClientSettings
from txnsim.client.errors import ClientError, check_unrepeated
from txnsim.client.fetching import fetch
from txnsim.client.inspection import groups
from txnsim.client.inspection._batch_headers import fetch_batches
from txnsim.client.inspection.decisions import check_decisions
from txnsim.client.inspection.survey import survey
from txnsim.client.offsets import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, list_offsets
from txnsim.client.versions import ClientApi
from txnsim.errors import ErrorCode
from txnsim.shell_text import command_line
from txnsim.txn.decision_report import ReportBuilder
from txnsim.types import TopicPartition

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
SETTINGS: Final = ClientSettings(retry_backoff_ms=1, retry_backoff_max_ms=2, api_timeout_ms=60)
TRANSACTION_LOG: Final = "__transaction_state"


def altered(handler: Handler, field: str, alter: Callable[[Any], Any]) -> Handler:
    """A handler whose answer has another value of a field."""

    def handle(request: ReceivedRequest) -> Any:
        answer = handler(request)
        return replace(answer, **{field: tuple(alter(getattr(answer, field)))})

    return handle


def without_partitions(topics: Any) -> Any:
    return [replace(topic, partitions=()) for topic in topics]


def with_partitions_twice(topics: Any) -> Any:
    return [replace(topic, partitions=topic.partitions * 2) for topic in topics]


def with_other_partitions(topics: Any) -> Any:
    return [
        replace(
            topic,
            partitions=tuple(
                replace(row, partition_index=type(row.partition_index)(7))
                for row in topic.partitions
            ),
        )
        for topic in topics
    ]


LIES: Final = {
    "nothing": lambda _: (),
    "no partition": without_partitions,
    "a topic twice": lambda topics: (*topics, *topics),
    "a partition twice": with_partitions_twice,
    "another partition": with_other_partitions,
}


@pytest.fixture
async def broker() -> AsyncIterator[FakeBroker]:
    async with FakeBroker() as fake_broker:
        yield fake_broker


@pytest.fixture
async def cluster(broker: FakeBroker) -> AsyncIterator[Cluster]:
    async with Cluster(broker.address, settings=SETTINGS) as connected_cluster:
        yield connected_cluster


@pytest.mark.parametrize("lie", LIES)
async def test_a_fetch_is_about_its_partition_alone(
    broker: FakeBroker, cluster: Cluster, lie: str
) -> None:
    broker.handlers[ClientApi.FETCH] = altered(fetch_answer(0, b"a"), "responses", LIES[lie])
    with pytest.raises(ClientError, match="Fetch: the broker answered"):
        await fetch(cluster, "t", 0, 0)
    with pytest.raises(ClientError, match="Fetch: the broker answered"):
        assert [batch async for batch in fetch_batches(cluster, T0, 0, 1)]


@pytest.mark.parametrize("timestamp_ms", [LATEST_TIMESTAMP, EARLIEST_TIMESTAMP])
async def test_every_log_has_a_start_and_an_end(
    broker: FakeBroker, cluster: Cluster, timestamp_ms: int
) -> None:
    broker.handlers[ClientApi.LIST_OFFSETS] = offsets(offset=-1)
    outcome = (await list_offsets(cluster, {T0: timestamp_ms}))[T0]
    assert str(outcome) == "ListOffsets of t-0: the broker answered with offset -1"
    no_such_time = (await list_offsets(cluster, {T0: 1}))[T0]
    assert not isinstance(no_such_time, ClientError)
    assert no_such_time.offset == -1


async def test_a_row_that_is_there_twice_is_none(broker: FakeBroker, cluster: Cluster) -> None:
    broker.handlers[ClientApi.LIST_OFFSETS] = altered(
        offsets(offset=1), "topics", with_partitions_twice
    )
    outcome = (await list_offsets(cluster, {T0: LATEST_TIMESTAMP}))[T0]
    assert str(outcome) == "the broker answered twice about t-0"


@pytest.mark.parametrize("second", ["complete", "refuse", "send_elsewhere", "wait"])
@pytest.mark.parametrize("first", ["complete", "refuse", "send_elsewhere", "wait"])
def test_no_two_rows_about_a_key_count(first: str, second: str) -> None:
    response: KeyedResponse[str, Any] = KeyedResponse()
    for take in (first, second):
        getattr(response, take)("a", ClientError("refused") if take == "refuse" else ErrorCode.none)
    assert str(response.error_by_key["a"]) == "the broker answered twice about a"
    assert response.error_by_key["a"].in_doubt


async def test_a_survey_names_a_partition_whose_producers_are_there_twice(
    broker: FakeBroker, cluster: Cluster
) -> None:
    broker.handlers[ClientApi.DESCRIBE_PRODUCERS] = altered(
        producers_of, "topics", with_partitions_twice
    )
    result = await survey(TransactionAdmin(cluster), now_ms=0, partitions=(T0, T1))
    assert set(result.unread) == {T0, T1}


@pytest.mark.parametrize("second_answer", [False, True])
async def test_a_search_names_a_topic_with_a_gap(
    broker: FakeBroker, cluster: Cluster, second_answer: bool
) -> None:
    def metadata(request: ReceivedRequest) -> Any:
        answer = broker.metadata(request)
        if (request.message.topics is None) is not second_answer:
            (topic,) = answer.topics
            return replace(answer, topics=(replace(topic, partitions=topic.partitions[1:]),))
        return answer

    broker.handlers[ClientApi.METADATA] = metadata
    admin = TransactionAdmin(cluster)
    if second_answer:
        with pytest.raises(ClientError, match="'t' is listed without partition 0"):
            await admin.search_targets()
    else:
        targets = await admin.search_targets()
        assert not targets.partitions
        assert "listed without partition 0" in str(targets.unread_topics["t"])


async def test_a_search_does_not_pass_over_a_topic_without_an_answer(
    broker: FakeBroker, cluster: Cluster
) -> None:
    def metadata(request: ReceivedRequest) -> Any:
        answer = broker.metadata(request)
        if request.message.topics:
            return replace(answer, topics=())
        return answer

    broker.handlers[ClientApi.METADATA] = metadata
    with pytest.raises(ClientError, match="no answer about 't'"):
        await TransactionAdmin(cluster).search_targets()


async def test_decisions_end_though_no_log_has_an_end(broker: FakeBroker, cluster: Cluster) -> None:
    broker.topics[TRANSACTION_LOG] = 1
    broker.handlers[ClientApi.LIST_OFFSETS] = offsets(offset=-1)
    with pytest.raises(ClientError, match="answered with offset -1"):
        await check_decisions(
            TransactionAdmin(cluster), now_ms=0, program=command_line("txnsim", "txns")
        )


def test_a_share_of_what_could_be_read_is_said_to_be_one() -> None:
    builder = ReportBuilder()
    builder.count_agreeing(1, None)
    assert _summary(builder.report()).endswith("could be judged: 100 %.")
    report = builder.report(["orders-0 could not be described"])
    assert _summary(report).endswith("could be judged: 100 % of what could be read.")


async def test_a_coordinator_that_is_there_twice_is_none(
    broker: FakeBroker, cluster: Cluster
) -> None:
    broker.handlers[ClientApi.FIND_COORDINATOR] = altered(
        broker.find_coordinator, "coordinators", lambda rows: (*rows, *rows)
    )
    found = await cluster.find_coordinators(("a", "b"), cluster.deadline())
    assert set(found.values()) == {(ErrorCode.unknown_server_error, -1)}


@pytest.mark.parametrize("partitions", [(), (0, 0)])
async def test_positions_are_those_of_the_partitions_that_were_asked(
    broker: FakeBroker, cluster: Cluster, partitions: tuple[int, ...]
) -> None:
    def offset_fetch(request: ReceivedRequest) -> Any:
        rows = [{"partition_index": index, "committed_offset": 1} for index in partitions]
        return request.answer(error_code=0, topics=[{"name": "t", "partitions": rows}])

    broker.handlers[ClientApi.OFFSET_FETCH] = offset_fetch
    with pytest.raises(ClientError, match="OffsetFetch: the broker answered"):
        await committed_positions(cluster, "g", (T0,))


def test_what_an_answer_lists_twice_is_named() -> None:
    check_unrepeated(("a", "b"), "broker 1 listed groups")
    with pytest.raises(ClientError, match="broker 1 listed groups, and answered twice about a"):
        check_unrepeated(("a", "b", "a"), "broker 1 listed groups")


async def test_a_group_that_a_broker_lists_twice_is_no_answer(
    broker: FakeBroker, cluster: Cluster
) -> None:
    group = {"group_id": "g", "protocol_type": "consumer"}
    broker.handlers[ClientApi.LIST_GROUPS] = lambda request: request.answer(groups=[group, group])
    with pytest.raises(ClientError, match="answered twice about g"):
        await groups.list_groups(Admin(cluster))


async def test_a_transaction_that_a_broker_lists_twice_is_no_answer(
    broker: FakeBroker, cluster: Cluster
) -> None:
    row = {"transactional_id": "x", "producer_id": 1, "transaction_state": "Ongoing"}
    broker.handlers[ClientApi.LIST_TRANSACTIONS] = lambda request: request.answer(
        transaction_states=[row, row]
    )
    (outcome,) = (await TransactionAdmin(cluster).list_transactions()).values()
    assert "answered twice about x" in str(outcome)
