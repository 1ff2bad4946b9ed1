"""Consumer groups of real clients: consume, transform, produce, with positions in the transaction.

Workers take over from one another, in the middle of a transaction, too; every input leads to one
output. What the client matrix asks of every library is written in ``tests/clients/python``; here is
what goes beyond it. Kafka's counterpart: GroupCoordinatorIntegrationTest, and KIP-447 for what
fences whom.
"""

from __future__ import annotations

import itertools
from contextlib import AbstractContextManager
from typing import Any, Final

import pytest

from tests.clients.conftest import Server
from tests.clients.drivers import aiokafka, confluent_kafka, kafka_python
from tests.clients.drivers.base import ConsumedRecord, Driver
from tests.clients.python.groups import PARTITIONS, Pipeline, Worker, until_shared, worker
from tests.clients.python.lab import error_of, until

pytestmark = pytest.mark.clients

PROTOCOLS: Final[dict[str, dict[str, Any]]] = {
    "range": {**confluent_kafka.CLASSIC, "partition.assignment.strategy": "range"},
    "cooperative": {
        **confluent_kafka.CLASSIC,
        "partition.assignment.strategy": "cooperative-sticky",
    },
    "consumer": {"group.protocol": "consumer"},
}

_numbers = itertools.count(1)


def pipeline_of(driver: Driver) -> Pipeline:
    """A pipeline; a group of librdkafka has positions before its first member comes.

    librdkafka 2.16 does not give up the look for a first offset (ListOffsets) when it loses the
    partition meanwhile: ``rd_kafka_toppar_handle_Offset`` starts it again, and the member is handed
    records of a partition that is another's. Who has a position looks for none.
    """
    pipeline = Pipeline(driver, f"groups-{next(_numbers)}")
    if isinstance(driver, confluent_kafka.Driver):
        driver.set_positions(pipeline.group, pipeline.source, [0] * PARTITIONS)
    return pipeline


def worker_of(pipeline: Pipeline, name: str, protocol: str) -> AbstractContextManager[Worker]:
    """Return a group member of librdkafka, which knows all protocols."""
    driver = pipeline.driver
    assert isinstance(driver, confluent_kafka.Driver)
    member = driver.member(pipeline.group, pipeline.source, **PROTOCOLS[protocol])
    return worker(pipeline, name, member)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_workers_come_and_go_and_every_input_has_one_output(server: Server, protocol: str) -> None:
    pipeline = pipeline_of(confluent_kafka.Driver(server.bootstrap))
    with worker_of(pipeline, "second", protocol) as second_worker:
        with worker_of(pipeline, "first", protocol) as first_worker:

            def have_halves() -> bool:
                first_worker.step()
                second_worker.step()
                halves = (
                    len(first_worker.member.assigned_partitions()),
                    len(second_worker.member.assigned_partitions()),
                )
                return halves == (PARTITIONS // 2, PARTITIONS // 2)

            until("both have partitions", have_halves)
            pipeline.feed()
            until("one of them takes some", lambda: first_worker.step() + second_worker.step() > 0)
        until("inputs are left", lambda: not second_worker.step() and pipeline.is_done())
    pipeline.expect_each_input_once()


@pytest.mark.parametrize("protocol", ["range", "consumer"])
def test_a_member_of_an_older_generation_can_not_commit(server: Server, protocol: str) -> None:
    pipeline = pipeline_of(confluent_kafka.Driver(server.bootstrap))
    with worker_of(pipeline, "zombie", protocol) as zombie_worker:
        zombie_worker.take()
        old_metadata = zombie_worker.member.metadata()
        with worker_of(pipeline, "other", protocol) as succeeding_worker:
            until_shared(zombie_worker, succeeding_worker)
            lost = [
                ConsumedRecord(partition, 0, None, b"of a zombie", (), 0)
                for partition in succeeding_worker.member.assigned_partitions()
            ]
            zombie_worker.begin(lost)
            error = error_of(lambda: zombie_worker.commit(lost, old_metadata))
            assert pipeline.driver.is_left_behind(error), repr(error)
            zombie_worker.abort()
    assert pipeline.positions() == [0] * PARTITIONS
    assert pipeline.driver.read(pipeline.sink, committed=True) == []


def test_classic_members_and_those_of_the_consumer_protocol_share_a_group(server: Server) -> None:
    pipeline = pipeline_of(confluent_kafka.Driver(server.bootstrap))
    with worker_of(pipeline, "old", "cooperative") as old_worker:
        until("nothing to consume", lambda: old_worker.step() > 0)
        with worker_of(pipeline, "new", "consumer") as new_worker:

            def is_shared() -> bool:
                old_worker.step()
                new_worker.step()
                return (
                    len(old_worker.member.assigned_partitions())
                    == len(new_worker.member.assigned_partitions())
                    == 2
                )

            until("the group is not shared", is_shared)
        until("inputs are left", lambda: not old_worker.step() and pipeline.is_done())
    pipeline.expect_each_input_once()


@pytest.mark.parametrize("library", [aiokafka, kafka_python, confluent_kafka])
def test_a_worker_takes_over_where_the_last_transaction_ended(server: Server, library: Any) -> None:
    pipeline = pipeline_of(library.Driver(server.bootstrap))
    with worker(pipeline, "worker") as first_worker:
        until("nothing to consume", lambda: first_worker.step() > 0)
        until("nothing more to consume", lambda: first_worker.step() > 0)
    consumed_input_count = sum(pipeline.positions())
    assert 0 < consumed_input_count < pipeline.inputs
    with worker(pipeline, "worker") as second_worker:
        until("inputs are left", lambda: not second_worker.step() and pipeline.is_done())
    pipeline.expect_each_input_once()
