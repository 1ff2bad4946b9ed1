"""The replicas of one broker: what it may serve, and what a new image changes."""

from __future__ import annotations

import uuid

import msgspec
import pytest

from tests.support.images import B1, B2, B3, TOPIC_ID, broker, cluster, error_of, partition, topic
from tests.support.logs import NOW, plain
from txnsim.errors import ErrorCode
from txnsim.log.config import LogConfig
from txnsim.log.leader_append import append_client
from txnsim.log.partition_log import PartitionLog
from txnsim.metadata.image import ClusterImage
from txnsim.releases.rules import LATEST_RULES, Rules
from txnsim.replica.broker_logs import BrokerLogs
from txnsim.replica.replicas import REPLICAS_PER_STEP, LeadershipChanges, Replicas, changed_roles
from txnsim.settings import DEFAULTS
from txnsim.types import BrokerId, TopicPartition

TP = TopicPartition("orders", 0)


class Brokers:
    """The replicas of three brokers."""

    def __init__(self, image: ClusterImage, rules: Rules = LATEST_RULES) -> None:
        self.image = cluster()
        self.disks = {broker: BrokerLogs(DEFAULTS, rules) for broker in (B1, B2, B3)}
        self.each = {
            broker: Replicas(
                broker_id=broker, logs=self.disks[broker], image=self.image, settings=DEFAULTS
            )
            for broker in (B1, B2, B3)
        }
        self.first = self.apply(image)

    def apply(self, image: ClusterImage) -> dict[BrokerId, LeadershipChanges]:
        self.image = image
        return {broker: replicas.apply(image, now_ms=7) for broker, replicas in self.each.items()}


def log_of(answer: object) -> PartitionLog:
    assert isinstance(answer, PartitionLog), answer
    return answer


# Lookups


@pytest.mark.parametrize(
    ("broker", "topic_partition", "epoch", "error_of_leader", "error_of_replica"),
    [
        (B1, TP, -1, ErrorCode.none, ErrorCode.none),
        (B1, TP, 4, ErrorCode.none, ErrorCode.none),
        (B1, TP, 3, ErrorCode.fenced_leader_epoch, ErrorCode.fenced_leader_epoch),
        (B1, TP, 5, ErrorCode.unknown_leader_epoch, ErrorCode.unknown_leader_epoch),
        (B2, TP, -1, ErrorCode.not_leader_or_follower, ErrorCode.none),
        # The epoch is judged before leadership is.
        (B2, TP, 3, ErrorCode.fenced_leader_epoch, ErrorCode.fenced_leader_epoch),
        (B2, TP, 0, ErrorCode.fenced_leader_epoch, ErrorCode.fenced_leader_epoch),
        (B2, TP, 4, ErrorCode.not_leader_or_follower, ErrorCode.none),
        (B3, TP, -1, ErrorCode.not_leader_or_follower, ErrorCode.not_leader_or_follower),
        (
            B1,
            TopicPartition("orders", 1),
            -1,
            ErrorCode.unknown_topic_or_partition,
            ErrorCode.unknown_topic_or_partition,
        ),
    ],
)
def test_who_may_serve_what(
    broker: BrokerId,
    topic_partition: TopicPartition,
    epoch: int,
    error_of_leader: ErrorCode,
    error_of_replica: ErrorCode,
) -> None:
    brokers = Brokers(cluster().with_topic(topic("orders", partition(1, replicas=(1, 2), epoch=4))))
    for answer, expected_error in (
        (
            brokers.each[broker].leader_log(topic_partition, current_leader_epoch=epoch),
            error_of_leader,
        ),
        (
            brokers.each[broker].replica_log(topic_partition, current_leader_epoch=epoch),
            error_of_replica,
        ),
    ):
        if expected_error is ErrorCode.none:
            assert log_of(answer).topic_partition == topic_partition
        else:
            assert error_of(answer) is expected_error


def test_the_leader_counts_the_replicas() -> None:
    brokers = Brokers(cluster().with_topic(topic("orders", partition(1, replicas=(1, 2)))))
    assert brokers.each[B1].replica_count(TP) == 2
    assert brokers.each[B1].replica_count(TopicPartition("orders", 1)) == 1


def test_each_replica_has_a_log_of_its_own() -> None:
    brokers = Brokers(cluster().with_topic(topic()))
    assert len({id(replicas.hosted[TP]) for replicas in brokers.each.values()}) == 3


@pytest.mark.parametrize(
    ("isr", "demanded", "are_enough"),
    [
        ((1, 2, 3), "3", True),
        ((1, 2), "2", True),
        ((1,), "2", False),
        ((1,), "1", True),
        ((1, 2, 3), "5", True),  # capped by the replication factor
        ((1, 2), "5", False),
    ],
)
def test_acks_all_needs_the_smaller_of_min_insync_replicas_and_the_replication_factor(
    isr: tuple[int, ...], demanded: str, are_enough: bool
) -> None:
    brokers = Brokers(
        cluster().with_topic(
            topic("orders", partition(1, isr=isr), configs={"min.insync.replicas": demanded})
        )
    )
    rejection = brokers.each[B1].too_few_in_sync(TP)
    assert (rejection is None) == are_enough
    if rejection is not None:
        assert error_of(rejection) is ErrorCode.not_enough_replicas
    assert brokers.each[B1].too_few_in_sync(TopicPartition("other", 0)) is None


@pytest.mark.parametrize("replicas", [(1,), (1, 2)])
def test_before_3_7_more_replicas_may_be_demanded_than_there_are(replicas: tuple[int, ...]) -> None:
    image = cluster().with_topic(
        topic("orders", partition(1, replicas=replicas), configs={"min.insync.replicas": "3"})
    )
    brokers = Brokers(image, Rules(min_isr_is_bounded=False))
    rejection = brokers.each[B1].too_few_in_sync(TP)
    assert error_of(rejection) is ErrorCode.not_enough_replicas
    assert Brokers(image).each[B1].too_few_in_sync(TP) is None


# Changes


def test_a_new_topic_is_hosted_by_its_replicas_and_led_by_one() -> None:
    brokers = Brokers(cluster())
    changes_by_broker_id = brokers.apply(
        cluster().with_topic(topic("orders", partition(2, replicas=(2, 3))))
    )
    assert {broker: list(replicas.hosted) for broker, replicas in brokers.each.items()} == {
        B1: [],
        B2: [TP],
        B3: [TP],
    }
    assert [len(replicas.led) for replicas in brokers.each.values()] == [0, 1, 0]
    assert changes_by_broker_id[B2].led_partitions == [(TP, 0)]
    assert changes_by_broker_id[B3].led_partitions == []


@pytest.mark.parametrize(("old_leader_id", "new_leader_id"), [(1, 2), (2, 1)])
def test_a_moved_leader_is_lost_by_one_and_gained_by_the_other(
    old_leader_id: int, new_leader_id: int
) -> None:
    image_before = cluster().with_topic(topic("orders", partition(old_leader_id)))
    brokers = Brokers(image_before)
    follower_log = brokers.each[BrokerId(new_leader_id)].hosted[TP]
    changes_by_broker_id = brokers.apply(
        image_before.with_partition(TP, partition(new_leader_id, epoch=1))
    )
    assert changes_by_broker_id[BrokerId(old_leader_id)].lost_partitions == [(TP, 1)]
    assert changes_by_broker_id[BrokerId(new_leader_id)].led_partitions == [(TP, 1)]
    assert changes_by_broker_id[BrokerId(new_leader_id)].unfollowed_partitions == [TP]
    assert brokers.each[BrokerId(new_leader_id)].led[TP] is follower_log, (
        "a follower's log is the leader's now"
    )
    assert {replicas.hosted[TP].leader_epoch for replicas in brokers.each.values()} == {1}
    assert (
        error_of(brokers.each[BrokerId(old_leader_id)].leader_log(TP))
        is ErrorCode.not_leader_or_follower
    )


def test_an_election_of_the_same_leader_is_a_new_epoch() -> None:
    image_before = cluster().with_topic(topic())
    brokers = Brokers(image_before)
    changes_by_broker_id = brokers.apply(image_before.with_partition(TP, partition(1, epoch=3)))
    assert changes_by_broker_id[B1].led_partitions == [(TP, 3)]
    assert brokers.each[B1].led[TP].leader_epoch == 3


def test_what_does_not_change_is_no_change() -> None:
    image = cluster().with_topic(topic())
    brokers = Brokers(image)
    changes_by_broker_id = brokers.apply(image.with_topic(topic("more", topic_id=uuid.UUID(int=9))))
    assert changes_by_broker_id[B1].led_partitions == [(TopicPartition("more", 0), 0)]


def test_a_deleted_topic_is_forgotten_with_its_log() -> None:
    image = cluster().with_topic(topic())
    brokers = Brokers(image)
    old_replica_log = brokers.each[B1].led[TP]
    changes_by_broker_id = brokers.apply(image.without_topic("orders"))
    assert changes_by_broker_id[B1].deleted_partitions == [TP]
    assert brokers.each[B1].hosted == {}
    assert error_of(brokers.each[B1].leader_log(TP)) is ErrorCode.unknown_topic_or_partition
    brokers.apply(image)
    assert brokers.each[B1].led[TP] is not old_replica_log


@pytest.mark.parametrize(("replicas", "has_tail"), [((1, 2), True), ((1,), False)])
def test_a_leader_keeps_new_batches_for_its_followers(
    replicas: tuple[int, ...], has_tail: bool
) -> None:
    brokers = Brokers(cluster().with_topic(topic("orders", partition(1, replicas=replicas))))
    assert (brokers.each[B1].led[TP].local.tail is not None) is has_tail


@pytest.mark.parametrize(("min_isr", "is_watched"), [(1, False), (2, True)])
def test_a_partition_that_wants_more_replicas_than_it_has_is_watched(
    min_isr: int, is_watched: bool
) -> None:
    single_replica_image = partition(1, replicas=(1,))
    image = cluster().with_topic(
        topic("orders", single_replica_image, configs={"min.insync.replicas": str(min_isr)})
    )
    brokers = Brokers(image, Rules(min_isr_is_bounded=False))
    assert (TP in brokers.each[B1].replicated) is is_watched


def test_a_topic_is_forgotten_with_a_break_after_every_sixteen_replicas() -> None:
    image = cluster().with_topic(topic("orders", *[partition(1)] * (2 * REPLICAS_PER_STEP)))
    replicas = Brokers(image).each[B1]
    steps = list(replicas.apply_in_steps(image.without_topic("orders"), now_ms=7))
    assert steps.count(REPLICAS_PER_STEP) == 2
    assert not replicas.hosted


def test_a_topic_made_anew_under_its_old_name_is_another_topic() -> None:
    image = cluster().with_topic(topic("orders", partition(1), partition(2, replicas=(2,))))
    brokers = Brokers(image)
    old_replica_log = brokers.each[B1].led[TP]
    changes_by_broker_id = brokers.apply(
        image.without_topic("orders").with_topic(topic(topic_id=uuid.UUID(int=9)))
    )
    assert changes_by_broker_id[B1].deleted_partitions == [TP]
    assert changes_by_broker_id[B1].led_partitions == [(TP, 0)]
    assert brokers.each[B1].led[TP] is not old_replica_log
    assert TopicPartition("orders", 1) not in brokers.each[B2].hosted


def test_configs_reach_the_logs_at_once() -> None:
    image = cluster().with_topic(topic())
    brokers = Brokers(image)
    log = brokers.each[B1].led[TP]
    image = image.with_topic_configs("orders", {"max.message.bytes": "77"})
    brokers.apply(image)
    assert log.config.max_message_bytes == 77
    brokers.apply(image.with_broker_configs("", {"producer.id.expiration.ms": "5"}))
    assert log.config.producer_id_expiration_ms == 5
    assert log.config.max_message_bytes == 77


# Followers


def test_thousands_of_topics_of_one_partition_have_breaks_and_one_config() -> None:
    image = cluster()
    for topic_number in range(500):
        image = image.with_topic(
            topic(f"t{topic_number}", topic_id=uuid.UUID(int=topic_number + 1))
        )
    settled_image = image.with_topic(
        topic("own", topic_id=uuid.UUID(int=900), configs={"segment.ms": "5"})
    )
    brokers = Brokers(cluster())
    replicas = brokers.each[B1]
    steps = list(replicas.apply_in_steps(settled_image, now_ms=7))
    assert len(steps) >= 501
    configs = {id(log.config) for log in replicas.hosted.values()}
    assert len(configs) == 2
    assert replicas.hosted[TopicPartition("own", 0)].config.segment_ms == 5
    assert len(list(replicas.apply_in_steps(cluster(), now_ms=7))) >= 501
    assert not replicas.hosted


def test_each_epoch_says_which_leader_a_replica_follows() -> None:
    image = cluster().with_topic(topic("orders", partition(1, replicas=(1, 2), epoch=4)))
    brokers = Brokers(image)
    (first_followed,) = brokers.first[B2].followed_replicas
    assert (first_followed.leader, first_followed.leader_epoch) == (B1, 4)
    assert first_followed.topic_id == TOPIC_ID
    assert first_followed.log is brokers.each[B2].hosted[TP]
    assert brokers.first[B1].followed_replicas == brokers.first[B3].followed_replicas == []
    moved_image = image.with_partition(TP, partition(1, replicas=(1, 2), epoch=5))
    assert [
        followed_replica.leader_epoch
        for followed_replica in brokers.apply(moved_image)[B2].followed_replicas
    ] == [5]
    shrunk_image = moved_image.with_partition(
        TP,
        msgspec.structs.replace(
            partition(1, replicas=(1, 2), isr=(1,), epoch=5), partition_epoch=6
        ),
    )
    assert brokers.apply(shrunk_image)[B2].followed_replicas == []


def test_without_a_leader_a_replica_follows_none() -> None:
    image = cluster().with_topic(topic("orders", partition(1, replicas=(1, 2))))
    brokers = Brokers(image)
    leaderless_image = image.with_partition(TP, partition(-1, replicas=(1, 2), epoch=1))
    changes_by_broker_id = brokers.apply(leaderless_image)
    assert changes_by_broker_id[B2].unfollowed_partitions == [TP]
    assert changes_by_broker_id[B1].lost_partitions == [(TP, 1)]
    assert changes_by_broker_id[B1].unfollowed_partitions == []
    image_again = image.with_partition(TP, partition(1, replicas=(1, 2), epoch=2))
    assert [
        followed_replica.leader
        for followed_replica in brokers.apply(image_again)[B2].followed_replicas
    ] == [B1]


def test_a_led_partition_with_followers_knows_them() -> None:
    image = cluster().with_topic(topic("orders", partition(1, replicas=(1, 2))))
    brokers = Brokers(image)
    led_partition = brokers.each[B1].replicated[TP]
    assert brokers.first[B1].regrouped_partitions == [led_partition]
    assert list(led_partition.followers) == [B2]
    assert brokers.each[B2].replicated == {}
    brokers.apply(image.without_topic("orders"))
    assert brokers.each[B1].replicated == {}


def test_without_followers_all_is_replicated_at_once() -> None:
    logs = BrokerLogs(DEFAULTS, LATEST_RULES)
    image = cluster().with_topic(topic("orders", partition(1, replicas=(1,))))
    log = logs.log(image.topics["orders"], 0, LogConfig(rules=LATEST_RULES))
    log.become_leader(0)
    append_client(log, plain(), guard=0, now_ms=NOW)
    replicas = Replicas(broker_id=B1, logs=logs, image=cluster(), settings=DEFAULTS)
    replicas.apply(image, now_ms=0)
    assert replicas.led[TP].high_watermark == 1
    assert replicas.replicated == {}


@pytest.mark.parametrize(
    ("image", "epoch", "may_join"),
    [
        (cluster(), -1, True),
        (cluster(), 2, True),
        (cluster(), 1, False),
        (cluster(broker(1), broker(2, is_alive=False)), 2, False),
        (cluster(broker(1)), 2, False),
    ],
)
def test_only_a_live_broker_of_the_same_process_may_join_an_isr(
    image: ClusterImage, epoch: int, may_join: bool
) -> None:
    image = image.with_topic(topic("orders", partition(1, replicas=(1, 2), isr=(1,))))
    partition_of_two = Brokers(image).each[B1].replicated[TP]
    follower = partition_of_two.followers[B2]
    follower.note_fetch(
        fetch_offset=0, log_start_offset=0, leader_end=0, broker_epoch=epoch, now_ms=8
    )
    assert (partition_of_two.expand_isr(follower) is not None) == may_join


# Reassignments


def test_a_replica_that_was_moved_away_is_gone_with_its_log() -> None:
    brokers = Brokers(cluster().with_topic(topic("orders", partition(1, replicas=(1, 2)))))
    log = brokers.each[B1].hosted[TP]
    moved_cluster = cluster().with_topic(topic("orders", partition(3, replicas=(3, 2), epoch=1)))
    changes_by_broker_id = brokers.apply(moved_cluster)
    assert (
        changes_by_broker_id[B1].deleted_partitions,
        changes_by_broker_id[B1].lost_partitions,
    ) == ([TP], [])
    assert TP not in brokers.each[B1].hosted
    assert TP not in brokers.each[B1].led
    assert TP not in brokers.each[B1].replicated
    assert error_of(brokers.each[B1].leader_log(TP)) is ErrorCode.not_leader_or_follower
    assert changes_by_broker_id[B3].led_partitions == [(TP, 1)]
    changes_by_broker = brokers.apply(
        cluster().with_topic(topic("orders", partition(3, replicas=(3,), epoch=2)))
    )
    assert (
        changes_by_broker[B2].deleted_partitions,
        changes_by_broker[B2].unfollowed_partitions,
    ) == ([TP], [TP])
    back_by_broker_id = brokers.apply(
        cluster().with_topic(topic("orders", partition(1, replicas=(1,), epoch=3)))
    )
    assert back_by_broker_id[B1].led_partitions == [(TP, 3)]
    assert brokers.each[B1].hosted[TP] is not log


def test_who_was_followed_is_so_until_the_leader_changes() -> None:
    brokers = Brokers(cluster().with_topic(topic("orders", partition(1, replicas=(1,)))))
    assert brokers.each[B1].replicated == {}
    changes_by_broker_id = brokers.apply(
        cluster().with_topic(
            topic("orders", partition(1, replicas=(1, 2), isr=(1,), epoch=1, adding=(2,)))
        )
    )
    (led_partition,) = changes_by_broker_id[B1].regrouped_partitions
    assert list(led_partition.followers) == [B2]
    changes_by_broker = brokers.apply(
        cluster().with_topic(topic("orders", partition(1, replicas=(1,), epoch=2)))
    )
    assert changes_by_broker[B1].regrouped_partitions == [led_partition]
    assert (list(led_partition.followers), led_partition.isr) == ([], (1,))


# A failed log directory


def brokers_with_failed_directory() -> Brokers:
    """Broker 1 leads partition 0 and follows in partition 1; its directory has failed."""
    image = cluster().with_topic(topic("orders", partition(1), partition(2)))
    brokers = Brokers(image)
    brokers.disks[B1].has_failed = True
    assert brokers.each[B1].take_offline() == (TopicPartition("orders", 1),)
    return brokers


def test_replicas_in_a_failed_directory_are_offline() -> None:
    replicas = brokers_with_failed_directory().each[B1]
    for topic_partition in (TP, TopicPartition("orders", 1)):
        assert error_of(replicas.leader_log(topic_partition)) is ErrorCode.kafka_storage_error
        assert error_of(replicas.replica_log(topic_partition)) is ErrorCode.kafka_storage_error
    assert replicas.offline == {TP, TopicPartition("orders", 1)}
    assert {**replicas.hosted, **replicas.led, **replicas.replicated} == {}


def test_what_comes_to_a_failed_directory_is_offline_too() -> None:
    brokers = brokers_with_failed_directory()
    changes_by_broker_id = brokers.apply(
        brokers.image.with_topic(topic("new", partition(1), topic_id=uuid.UUID(int=5)))
    )
    assert changes_by_broker_id[B1] == LeadershipChanges()
    assert TopicPartition("new", 0) in brokers.each[B1].offline


def test_a_leader_that_is_offline_resigns_once_another_one_leads() -> None:
    brokers = brokers_with_failed_directory()
    moved_partition = partition(2, isr=(2, 3), epoch=1)
    changes_by_broker_id = brokers.apply(brokers.image.with_partition(TP, moved_partition))
    assert changes_by_broker_id[B1] == LeadershipChanges(
        lost_partitions=[(TP, moved_partition.leader_epoch)]
    )
    changes_by_broker = brokers.apply(
        brokers.image.with_partition(TP, partition(3, isr=(2, 3), epoch=2))
    )
    assert changes_by_broker[B1] == LeadershipChanges()


def test_an_offline_replica_can_be_deleted_or_moved_away() -> None:
    brokers = brokers_with_failed_directory()
    image_elsewhere = partition(2, replicas=(2, 3), epoch=1)
    changes_by_broker_id = brokers.apply(brokers.image.with_partition(TP, image_elsewhere))
    assert changes_by_broker_id[B1].deleted_partitions == [TP]
    changes_by_broker_id = brokers.apply(brokers.image.without_topic("orders"))
    assert changes_by_broker_id[B1].deleted_partitions == [TopicPartition("orders", 1)]
    assert brokers.each[B1].offline == set()


def test_a_topic_that_is_made_again_has_lost_no_leader_to_the_deleted_one() -> None:
    brokers = brokers_with_failed_directory()
    brokers.apply(brokers.image.without_topic("orders"))
    topic_made_again = topic("orders", partition(2), topic_id=uuid.UUID(int=7))
    changes_by_broker_id = brokers.apply(brokers.image.with_topic(topic_made_again))
    assert brokers.each[B1].offline == {TP}
    assert changes_by_broker_id[B1] == LeadershipChanges()


# Roles


def test_roles_change_with_leaders_epochs_replicas_and_topics() -> None:
    old_image = (
        cluster()
        .with_topic(topic("orders", partition(1), partition(2), partition(1), partition(1)))
        .with_topic(topic("gone", partition(1), topic_id=uuid.UUID(int=6)))
    )
    changed_topic = topic(
        "orders", partition(2, epoch=1), partition(2), partition(1, isr=(1,)), partition(1, epoch=1)
    )
    new_image = old_image.without_topic("gone").with_topic(changed_topic)
    orders_partitions = [TopicPartition("orders", order_index) for order_index in range(4)]
    assert changed_roles(old_image, new_image, B1) == (
        TopicPartition("gone", 0),
        orders_partitions[0],
        orders_partitions[3],
    )
    assert changed_roles(old_image, old_image, B1) == ()
    image_away = new_image.with_topic(topic("orders", partition(2, replicas=(2, 3), epoch=2)))
    assert changed_roles(new_image, image_away, B1) == tuple(orders_partitions)
    assert (
        changed_roles(new_image, new_image.with_topic(topic("x", partition(2, replicas=(2,)))), B1)
        == ()
    )
