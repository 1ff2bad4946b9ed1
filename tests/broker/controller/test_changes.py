"""Changes of topics and features: growth, placement, replicas on the move."""

from __future__ import annotations

import pytest

from tests.support.images import B1, B2, B3, broker, cluster, error_of, image_of, partition, topic
from txnsim.controller.controller import initial_image
from txnsim.controller.features import FeatureUpdate, update_features
from txnsim.controller.partition_growth import ADDED_MAX, Assignments, grown_topic, refuse_many
from txnsim.controller.reassignments import NO_REASSIGNMENT, cancel, reassign, reassigned_partitions
from txnsim.controller.replica_placement import (
    UsableBrokers,
    UsableByFactor,
    new_partition,
    usable_brokers,
)
from txnsim.errors import ErrorCode, Rejection
from txnsim.metadata.image import TRANSACTION_VERSION, ClusterImage, PartitionImage, TopicImage
from txnsim.settings import DEFAULTS, Settings
from txnsim.types import BrokerId, TopicPartition

# Replicas on the move: what begins, what is refused, what a cancellation gives back.


P0 = TopicPartition("orders", 0)


def reassign_p0(
    image: ClusterImage, *replicas: int, may_change_factor: bool = True
) -> PartitionImage | Rejection:
    partition_or_rejection = reassign(
        image,
        P0,
        tuple(map(BrokerId, replicas)),
        DEFAULTS,
        may_change_factor=may_change_factor,
    )
    return (
        partition_or_rejection
        if isinstance(partition_or_rejection, Rejection)
        else partition_or_rejection.topics["orders"].partitions[0]
    )


def replica_sets(moved_partition: PartitionImage | Rejection) -> tuple[tuple[int, ...], ...]:
    assert isinstance(moved_partition, PartitionImage), moved_partition
    return (moved_partition.replicas, moved_partition.adding, moved_partition.removing)


@pytest.mark.parametrize(
    ("image_before", "new_replicas", "expected"),
    [
        (partition(1, replicas=(1, 2)), (1, 3), ((1, 3, 2), (3,), (2,))),
        (partition(1, replicas=(1, 2)), (1, 2, 3), ((1, 2, 3), (3,), ())),
        (partition(1, replicas=(1, 2)), (3,), ((3, 1, 2), (3,), (1, 2))),
        # what needs no new replica is over at once
        (partition(1, replicas=(1, 2)), (2, 1), ((2, 1), (), ())),
        (partition(1, replicas=(1, 2)), (2,), ((2,), (), ())),
        (partition(1, replicas=(1, 2)), (1, 2), ((1, 2), (), ())),
    ],
)
def test_a_reassignment_begins_with_both_the_old_replicas_and_the_new(
    image_before: PartitionImage,
    new_replicas: tuple[int, ...],
    expected: tuple[tuple[int, ...], ...],
) -> None:
    assert replica_sets(reassign_p0(image_of(image_before), *new_replicas)) == expected


def test_what_is_as_wanted_is_no_change() -> None:
    image = image_of(partition(1, replicas=(1, 2)))
    assert reassign(image, P0, (BrokerId(1), BrokerId(2)), DEFAULTS) is image


ON_THE_WAY = partition(1, replicas=(1, 3, 2), isr=(1, 2), adding=(3,), removing=(2,))


@pytest.mark.parametrize(
    ("new_replicas", "expected"),
    [
        # As measured on a real broker: a list that would be empty stays as it was.
        ((1, 2), ((1, 2, 3), (3,), (3,))),
        ((1, 2, 3), ((1, 2, 3), (3,), (2,))),
        ((2, 3), ((2, 3, 1), (3,), (1,))),
        ((2,), ((2, 1, 3), (3,), (1, 3))),
        ((3,), ((3, 1, 2), (3,), (1, 2))),
    ],
)
def test_a_reassignment_can_be_turned_elsewhere(
    new_replicas: tuple[int, ...], expected: tuple[tuple[int, ...], ...]
) -> None:
    assert replica_sets(reassign_p0(image_of(ON_THE_WAY, down=(3,)), *new_replicas)) == expected


@pytest.mark.parametrize(
    ("new_replicas", "reason"),
    [
        ((), "The manual partition assignment includes an empty replica list."),
        ((1, 1), "The manual partition assignment includes the broker 1 more than once."),
        (
            (1, 9),
            "The manual partition assignment includes broker 9, but no such broker is registered.",
        ),
    ],
)
def test_replicas_have_to_be_brokers_and_different(
    new_replicas: tuple[int, ...], reason: str
) -> None:
    moved_partition = reassign_p0(image_of(partition(1)), *new_replicas)
    assert moved_partition == Rejection(error=ErrorCode.invalid_replica_assignment, reason=reason)


@pytest.mark.parametrize(
    ("image_before", "new_replicas", "texts"),
    [
        (partition(1, replicas=(1, 2)), (2, 3), None),
        (partition(1, replicas=(1, 2)), (2,), "2 to 1"),
        (partition(1, replicas=(1, 2)), (1, 2, 3), "2 to 3"),
        (ON_THE_WAY, (2, 1), None),
        (ON_THE_WAY, (1, 2, 3), "2 to 3"),
    ],
)
def test_the_factor_can_be_insisted_on(
    image_before: PartitionImage, new_replicas: tuple[int, ...], texts: str | None
) -> None:
    moved_partition = reassign_p0(image_of(image_before), *new_replicas, may_change_factor=False)
    if texts is None:
        assert isinstance(moved_partition, PartitionImage)
    else:
        assert moved_partition == Rejection(
            error=ErrorCode.invalid_replication_factor,
            reason=f"The replication factor is changed from {texts}",
        )


@pytest.mark.parametrize(
    ("topic_partition", "reason"),
    [
        (TopicPartition("absent", 0), "Unable to find a topic named absent."),
        (TopicPartition("orders", 7), "Unable to find partition orders:7."),
    ],
)
def test_what_does_not_exist_can_neither_move_nor_stay(
    topic_partition: TopicPartition, reason: str
) -> None:
    image = image_of(partition(1))
    expected_rejection = Rejection(error=ErrorCode.unknown_topic_or_partition, reason=reason)
    assert reassign(image, topic_partition, (BrokerId(1),), DEFAULTS) == expected_rejection
    assert cancel(image, topic_partition, DEFAULTS) == expected_rejection


def test_a_cancelled_reassignment_leaves_the_replicas_that_were_there() -> None:
    image_after = cancel(image_of(ON_THE_WAY), P0, DEFAULTS)
    assert isinstance(image_after, ClusterImage)
    partition = image_after.topics["orders"].partitions[0]
    assert replica_sets(partition) == ((1, 2), (), ())
    assert (partition.leader, partition.leader_epoch, partition.isr) == (1, 1, (1, 2))


def test_only_what_moves_can_be_cancelled() -> None:
    assert cancel(image_of(partition(1)), P0, DEFAULTS) is NO_REASSIGNMENT


def test_a_cancellation_that_loses_records_needs_the_topics_leave() -> None:
    image_of_only_new = partition(3, replicas=(1, 3), isr=(3,), adding=(3,))
    rejection = cancel(image_of(image_of_only_new), P0, DEFAULTS)
    assert isinstance(rejection, Rejection)
    assert rejection.error is ErrorCode.invalid_replica_assignment
    assert rejection.reason.endswith("it would require an unclean leader election.")
    unclean_settings = Settings(unclean_leader_election_enable=True)
    image_after = cancel(image_of(image_of_only_new), P0, unclean_settings)
    assert isinstance(image_after, ClusterImage)
    partition_after = image_after.topics["orders"].partitions[0]
    assert (partition_after.leader, partition_after.isr, partition_after.replicas) == (
        1,
        (1,),
        (1,),
    )


def test_a_cancellation_in_which_nothing_changes_hands_is_one_still() -> None:
    image = image_of(partition(1, replicas=(1, 2), isr=(1,), removing=(2,)))
    image_after = cancel(image, P0, DEFAULTS)
    assert isinstance(image_after, ClusterImage)
    assert reassigned_partitions(image_after) == {}


def test_all_reassignments_are_listed() -> None:
    image = cluster().with_topic(topic("orders", partition(1), ON_THE_WAY))
    assert reassigned_partitions(image) == {TopicPartition("orders", 1): ON_THE_WAY}


# CreatePartitions decided: counts, placement, assignments by hand, every refusal.


E = ErrorCode
TWO = topic("orders", partition(1, replicas=(1, 2)), partition(2, replicas=(2, 3)))
IMAGE = cluster().with_topic(TWO)


def by_hand(*replicas: tuple[int, ...]) -> Assignments:
    return tuple(tuple(map(BrokerId, brokers)) for brokers in replicas)


def grow_orders(
    partition_count: int, assignments: Assignments | None = None, *, image: ClusterImage = IMAGE
) -> TopicImage:
    topic = grown_topic(image, "orders", partition_count=partition_count, assignments=assignments)
    assert isinstance(topic, TopicImage)
    return topic


def growth_rejection(
    partition_count: int, assignments: Assignments | None = None, *, image: ClusterImage = IMAGE
) -> Rejection:
    rejection = grown_topic(
        image, "orders", partition_count=partition_count, assignments=assignments
    )
    assert isinstance(rejection, Rejection)
    return rejection


def test_new_partitions_go_on_round_the_brokers_with_the_topics_factor() -> None:
    topic = grow_orders(5)
    assert topic.partitions[:2] == TWO.partitions
    assert [partition.replicas for partition in topic.partitions[2:]] == [(3, 1), (1, 2), (2, 3)]
    assert [(partition.leader, partition.leader_epoch) for partition in topic.partitions[2:]] == [
        (3, 0),
        (1, 0),
        (2, 0),
    ]
    assert (topic.name, topic.topic_id) == (TWO.name, TWO.topic_id)


def test_placement_starts_anew_where_the_last_broker_is_gone() -> None:
    image = IMAGE.with_broker(broker(2, is_alive=False))
    assert grow_orders(3, image=image).partitions[2].replicas == (1, 3)


def test_partitions_may_be_placed_by_hand() -> None:
    topic = grow_orders(4, by_hand((3, 2), (2, 1)))
    assert [partition.replicas for partition in topic.partitions[2:]] == [(3, 2), (2, 1)]
    assert topic.partitions[2].leader == 3


def test_a_replica_that_is_down_does_not_lead() -> None:
    image = IMAGE.with_broker(broker(3, is_alive=False))
    added_partition = grow_orders(3, by_hand((3, 2)), image=image).partitions[2]
    assert (added_partition.leader, added_partition.isr) == (2, (2,))


def test_an_unknown_topic_is_refused_without_a_word() -> None:
    rejection = grown_topic(IMAGE, "nope", partition_count=3)
    assert rejection == Rejection(error=E.unknown_topic_or_partition, reason="")


@pytest.mark.parametrize(
    ("count", "assignments", "error", "reason"),
    [
        (2, None, E.invalid_partitions, "Topic already has 2 partition(s)."),
        (2, by_hand((1, 2)), E.invalid_partitions, "Topic already has 2 partition(s)."),
        (
            1,
            None,
            E.invalid_partitions,
            "The topic orders currently has 2 partition(s); 1 would not be an increase.",
        ),
        (
            -1,
            None,
            E.invalid_partitions,
            "The topic orders currently has 2 partition(s); -1 would not be an increase.",
        ),
        (
            4,
            by_hand((1, 2)),
            E.invalid_replica_assignment,
            "Attempted to add 2 additional partition(s), but only 1 assignment(s) were specified.",
        ),
        (
            3,
            (),
            E.invalid_replica_assignment,
            "Attempted to add 1 additional partition(s), but only 0 assignment(s) were specified.",
        ),
        (
            3,
            by_hand(()),
            E.invalid_replica_assignment,
            "The manual partition assignment includes an empty replica list.",
        ),
        (
            3,
            by_hand((1, 9)),
            E.invalid_replica_assignment,
            "The manual partition assignment includes broker 9, but no such broker is registered.",
        ),
        (
            3,
            by_hand((2, 2)),
            E.invalid_replica_assignment,
            "The manual partition assignment includes the broker 2 more than once.",
        ),
        (
            3,
            by_hand((1,)),
            E.invalid_replica_assignment,
            "The manual partition assignment includes a partition with 1 replica(s), but this is "
            "not consistent with previous partitions, which have 2 replica(s).",
        ),
    ],
)
def test_what_is_refused(
    count: int, assignments: Assignments | None, error: ErrorCode, reason: str
) -> None:
    assert growth_rejection(count, assignments) == Rejection(error=error, reason=reason)


def test_a_partition_needs_a_live_replica() -> None:
    image = IMAGE.with_broker(broker(1, is_alive=False)).with_broker(broker(2, is_alive=False))
    rejection = growth_rejection(3, by_hand((1, 2)), image=image)
    assert rejection.error is E.invalid_replica_assignment
    assert rejection.reason.startswith(
        "All brokers specified in the manual partition assignment for"
    )
    assert "partition 2" in rejection.reason


def test_there_must_be_brokers_enough() -> None:
    image = IMAGE.with_broker(broker(1, is_leaving=True)).with_broker(broker(2, is_leaving=True))
    assert growth_rejection(3, image=image).error is E.invalid_replication_factor


def test_a_request_adds_ten_thousand_partitions_at_most() -> None:
    partition_count = len(IMAGE.topics["orders"].partitions)
    as_many_as_may_be = ("orders", partition_count + ADDED_MAX)
    others = [("nope", ADDED_MAX), ("orders", 0), ("orders", -1)]
    assert refuse_many(IMAGE, [as_many_as_may_be, *others]) is None
    rejection = refuse_many(IMAGE, [as_many_as_may_be, ("orders", partition_count + 1)])
    assert rejection == Rejection(
        error=E.policy_violation,
        reason="Excessively large number of additional partitions per request.",
    )


# Feature levels: which one may be set, by which kind of update.


UPGRADE, SAFE, UNSAFE = 1, 2, 3


def at_level(transaction_version: int) -> ClusterImage:
    return initial_image(
        cluster_id="c", brokers=(broker(1),), transaction_version=transaction_version
    )


def test_a_formatted_cluster_has_every_feature_at_its_level() -> None:
    image = at_level(1)
    assert image.features[TRANSACTION_VERSION] == 1
    assert image.features["metadata.version"] == 33
    assert image.features["kraft.version"] == 0, "a fixed list of voters"
    assert image.broker_configs[""] == {"min.insync.replicas": "1"}, "pinned by KIP-966"
    assert image.is_alive(B1)
    assert image.features_epoch == image.offset


@pytest.mark.parametrize(
    ("current", "new_level", "upgrade_type", "is_allowed"),
    [
        (0, 1, UPGRADE, True),
        (0, 2, UPGRADE, True),
        (2, 2, UPGRADE, True),
        (2, 1, SAFE, True),
        (2, 0, UNSAFE, True),
        (1, 1, SAFE, True),
        (2, 1, UPGRADE, False),
        (1, 2, SAFE, False),
        (1, 2, UNSAFE, False),
        (2, 3, UPGRADE, False),
        (2, -1, SAFE, False),
        (2, 1, 4, False),
        (2, 1, 0, False),
    ],
)
def test_levels_go_up_by_an_upgrade_and_down_by_a_downgrade(
    current: int, new_level: int, upgrade_type: int, is_allowed: bool
) -> None:
    update = FeatureUpdate(name=TRANSACTION_VERSION, level=new_level, upgrade_type=upgrade_type)
    changed_image = update_features(at_level(current), (update,))
    if is_allowed:
        assert isinstance(changed_image, ClusterImage)
        assert changed_image.features[TRANSACTION_VERSION] == new_level
    else:
        assert error_of(changed_image) is ErrorCode.invalid_update_version


def test_an_unknown_feature_is_refused_and_stops_the_others() -> None:
    updates = (
        FeatureUpdate(name=TRANSACTION_VERSION, level=2, upgrade_type=UPGRADE),
        FeatureUpdate(name="no.such", level=1, upgrade_type=UPGRADE),
    )
    assert error_of(update_features(at_level(1), updates)) is ErrorCode.invalid_update_version


@pytest.mark.parametrize(
    ("name", "transaction_version", "upgrade_type", "reason"),
    [
        ("no.such", 1, UPGRADE, "Local controller 1 does not support this feature."),
        ("no.such", 0, SAFE, "Feature no.such not found."),
        ("group.version", 2, UPGRADE, "Local controller 1 only supports versions 0-1"),
        ("metadata.version", 29, SAFE, "it might delete metadata information."),
        ("metadata.version", 29, UNSAFE, "Unsafe metadata downgrade is not supported"),
    ],
)
def test_a_refused_feature_says_why(
    name: str, transaction_version: int, upgrade_type: int, reason: str
) -> None:
    update = FeatureUpdate(name=name, level=transaction_version, upgrade_type=upgrade_type)
    rejection = update_features(at_level(2), (update,))
    assert isinstance(rejection, Rejection)
    assert reason in rejection.reason


def test_what_is_so_already_is_no_change() -> None:
    image = at_level(1)
    update = FeatureUpdate(name=TRANSACTION_VERSION, level=1, upgrade_type=UPGRADE)
    assert update_features(image, (update,)) is image


# Where the replicas of new partitions go.


def test_active_brokers_come_in_a_row_and_fenced_ones_behind_them() -> None:
    usable = UsableBrokers(active=(B1, B2), fenced=(B3,))
    assert [usable.choose_replicas(start, 2) for start in range(3)] == [
        (B1, B2),
        (B2, B1),
        (B1, B2),
    ]
    assert usable.choose_replicas(1, 3) == (B2, B1, B3)


def test_more_replicas_than_brokers_are_refused() -> None:
    rejection = usable_brokers(cluster(broker(1), broker(2)), 3)
    assert isinstance(rejection, Rejection)
    assert rejection.error is ErrorCode.invalid_replication_factor


def test_a_new_partition_is_led_by_its_first_active_replica() -> None:
    partition = new_partition((B1, B2), cluster(broker(1, is_alive=False), broker(2)))
    assert (partition.leader, partition.isr, partition.replicas) == (B2, (B2,), (B1, B2))


def test_partitions_of_one_request_on_the_same_brokers_are_the_same_value() -> None:
    usable = UsableByFactor(cluster(broker(1), broker(2)))
    assert usable[2] is usable[2]
    assert usable.fresh[B1, B2] is usable.fresh[B1, B2]
    assert usable.fresh[B1, B2] is not usable.fresh[B2, B1]
