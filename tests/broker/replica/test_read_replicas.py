"""The replica that a consumer is led to by its rack (RackAwareReplicaSelector)."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from tests.support.images import B1, B2, B3, TOPIC_ID, partition
from tests.support.logs import make_log
from txnsim.log.config import LogConfig
from txnsim.metadata.image import BrokerImage
from txnsim.releases import LATEST_RULES
from txnsim.replica.partition import LeaderPartition
from txnsim.replica.read_replicas import preferred_replica
from txnsim.types import BrokerId

END = 4
CAUGHT_UP_MS = 1_000


def led_partition(*, isr: tuple[int, ...] = (1, 2, 3)) -> LeaderPartition:
    """A partition of broker 1 whose followers have four records."""
    log = make_log(LogConfig(rules=LATEST_RULES), leader_epoch=0)
    leader_partition = LeaderPartition(
        leader=B1, log=log, topic_id=TOPIC_ID, may_join=lambda *_: True
    )
    leader_partition.apply_image(partition(1, isr=isr), min_isr=1, now_ms=0)
    for follower in leader_partition.followers.values():
        follower.log_start_offset, follower.log_end_offset = 0, END
        follower.caught_up_ms = CAUGHT_UP_MS
    return leader_partition


def brokers(
    rack_by_broker_id: Mapping[BrokerId, str | None], *, dead_brokers: tuple[BrokerId, ...] = ()
) -> dict[BrokerId, BrokerImage]:
    return {
        broker_id: BrokerImage(
            broker_id=broker_id,
            epoch=1,
            host="h",
            port=1,
            rack=rack,
            alive=broker_id not in dead_brokers,
        )
        for broker_id, rack in rack_by_broker_id.items()
    }


APART = brokers({B1: "a", B2: "b", B3: "c"})
TOGETHER = brokers({B1: "a", B2: "b", B3: "b"})


def choose(
    leader_partition: LeaderPartition,
    rack: str,
    *,
    offset: int = 0,
    broker_by_broker_id: Mapping[BrokerId, BrokerImage] = APART,
) -> BrokerId | None:
    return preferred_replica(
        leader_partition,
        leader_id=B1,
        brokers=broker_by_broker_id,
        client_rack=rack,
        fetch_offset=offset,
    )


@pytest.mark.parametrize(
    ("rack", "expected_broker"), [("a", None), ("b", B2), ("c", B3), ("d", None)]
)
def test_a_follower_in_the_rack_is_chosen_and_the_leader_needs_no_word(
    rack: str, expected_broker: BrokerId | None
) -> None:
    assert choose(led_partition(), rack) == expected_broker


def test_a_leader_in_the_rack_wins_over_followers_there() -> None:
    assert (
        choose(led_partition(), "a", broker_by_broker_id=brokers(dict.fromkeys((B1, B2, B3), "a")))
        is None
    )


@pytest.mark.parametrize(
    ("offset", "expected_broker"), [(0, None), (1, B2), (END, B2), (END + 1, None)]
)
def test_a_follower_must_have_the_offset(offset: int, expected_broker: BrokerId | None) -> None:
    leader_partition = led_partition()
    leader_partition.followers[B2].log_start_offset = 1
    assert choose(leader_partition, "b", offset=offset) == expected_broker


def test_a_follower_outside_of_the_isr_or_fenced_is_not_chosen() -> None:
    assert choose(led_partition(isr=(1, 3)), "b") is None
    rack_by_broker_id = {B1: "a", B2: "b", B3: "c"}
    assert (
        choose(
            led_partition(), "b", broker_by_broker_id=brokers(rack_by_broker_id, dead_brokers=(B2,))
        )
        is None
    )
    assert choose(led_partition(), "b", broker_by_broker_id=brokers({B1: "a", B3: "c"})) is None


def test_of_several_the_one_with_most_records_wins_then_the_latest_then_the_highest_id() -> None:
    leader_partition = led_partition()
    assert choose(leader_partition, "b", broker_by_broker_id=TOGETHER) == B3
    leader_partition.followers[B2].caught_up_ms += 1
    assert choose(leader_partition, "b", broker_by_broker_id=TOGETHER) == B2
    leader_partition.followers[B3].log_end_offset += 1
    assert choose(leader_partition, "b", broker_by_broker_id=TOGETHER) == B3
