"""A coordinator's log on its broker; what both coordinators share."""

from __future__ import annotations

from tests.support.group_api import GROUP, GroupApi, group_api
from tests.support.handlers import batch
from txnsim.broker._coordinator_host import CoordinatorHost
from txnsim.errors import ErrorCode, Rejection
from txnsim.log.answers import Appended
from txnsim.log.verification import SENTINEL
from txnsim.types import CONSUMER_OFFSETS_TOPIC, BrokerId, partition_for

E = ErrorCode
HOME = partition_for(GROUP, 3)


def host(groups: GroupApi, broker: int = 1) -> CoordinatorHost:
    return groups.api.cluster.brokers[BrokerId(broker)].group_host


async def test_the_log_of_a_partition(groups: GroupApi) -> None:
    log = host(groups)
    before = log.replicated(HOME)
    appended = log.append(HOME, batch(b"v"), guard=SENTINEL)
    assert isinstance(appended, Appended)
    assert log.replicated(HOME) == before + 1
    assert log.committed(HOME, appended.last_offset, timeout_ms=1_000) is None


async def test_a_partition_that_another_broker_leads(of_two: GroupApi) -> None:
    image = of_two.api.cluster.metadata.image
    topic = image.topics[CONSUMER_OFFSETS_TOPIC]
    elsewhere = next(n for n, each in enumerate(topic.partitions) if each.leader != 1)
    log = host(of_two)
    refused = log.append(elsewhere, batch(b"v"), guard=SENTINEL)
    assert isinstance(refused, Rejection)
    assert refused.error is E.not_leader_or_follower
    assert log.replicated(elsewhere) == 0
    waiting = log.committed(elsewhere, 0, timeout_ms=1_000)
    assert waiting is not None
    assert await waiting is E.not_leader_or_follower


async def test_too_few_replicas_refuse_a_coordinators_records() -> None:
    async with group_api(
        brokers=2, offsets_topic_replication_factor=2, min_insync_replicas=2
    ) as groups:
        await groups.api.cluster.stop_broker(BrokerId(2))
        refused = host(groups).append(HOME, batch(b"v"), guard=SENTINEL)
        assert isinstance(refused, Rejection)
        assert refused.error is E.not_enough_replicas


async def test_nothing_is_appended_once_the_directory_has_failed(groups: GroupApi) -> None:
    log = host(groups)
    log.directory_failed()
    refused = log.append(HOME, batch(b"v"))
    assert isinstance(refused, Rejection)
    assert refused.error is E.not_leader_or_follower
