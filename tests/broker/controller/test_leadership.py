"""Who leads: elections, sessions of brokers, in-sync replicas, registrations."""

from __future__ import annotations

import uuid

import msgspec
import pytest

from tests.support.images import B1, B2, B3, TOPIC_ID, broker, cluster, image_of, partition, topic
from txnsim.controller.broker_sessions import BrokerSessions, BrokerState
from txnsim.controller.elections import (
    NOT_NEEDED,
    ElectionType,
    elect_leader,
    elect_unclean,
    rebalance_leaders,
    reelect_same_leader,
)
from txnsim.controller.isr_requests import decide_alter_partition
from txnsim.controller.leadership import (
    after_unclean_shutdown,
    has_elr,
    leads_any_partition,
    rules_of,
    updated_partition,
    with_broker_back,
    without_broker,
    without_elr,
)
from txnsim.controller.registrations import (
    begin_controlled_shutdown,
    fail_directory,
    fence_broker,
    has_stale_epoch,
    register_broker,
    unfence_broker,
)
from txnsim.errors import ErrorCode, Rejection
from txnsim.interbroker.lifecycle import BrokerHeartbeatCommand, BrokerRegistrationCommand
from txnsim.interbroker.replication import AlteredPartition, AlterPartitionCommand, IsrChange
from txnsim.metadata.image import ELIGIBLE_LEADER_REPLICAS, ClusterImage, PartitionImage
from txnsim.settings import DEFAULTS, Settings
from txnsim.types import BrokerId, LeaderEpoch, TopicPartition

# Elections on request: preferred and unclean, and when there is none.


P0 = TopicPartition("orders", 0)
PREFERRED, UNCLEAN = ElectionType.PREFERRED, ElectionType.UNCLEAN


def elect_for_p0(image: ClusterImage, election_type: ElectionType) -> PartitionImage:
    image_after = elect_leader(image, P0, election_type, DEFAULTS)
    assert isinstance(image_after, ClusterImage)
    changed_partition = image_after.partition(P0)
    assert changed_partition is not None
    return changed_partition


def test_the_preferred_replica_leads_again_in_the_next_epoch() -> None:
    changed_partition = elect_for_p0(image_of(partition(2, epoch=4)), PREFERRED)
    assert (
        changed_partition.leader,
        changed_partition.leader_epoch,
        changed_partition.partition_epoch,
    ) == (1, 5, 5)
    assert changed_partition.isr == (1, 2, 3)


@pytest.mark.parametrize(
    ("leader", "isr", "down", "expected"),
    [
        (-1, (3, 2), (), (2, (3, 2))),  # in sync first, in the order of the replicas
        (-1, (3,), (3,), (1, (1,))),  # out of sync, and alone from now on
        (-1, (), (1, 2), (3, (3,))),
    ],
)
def test_an_unclean_election_takes_a_live_replica(
    leader: int, isr: tuple[int, ...], down: tuple[int, ...], expected: tuple[int, tuple[int, ...]]
) -> None:
    changed_partition = elect_for_p0(
        image_of(partition(leader, isr=isr, epoch=4), down=down), UNCLEAN
    )
    assert (changed_partition.leader, changed_partition.isr) == expected
    assert changed_partition.leader_epoch == 5


@pytest.mark.parametrize(
    ("partition", "down", "election_type", "error"),
    [
        (partition(1), (), PREFERRED, ErrorCode.election_not_needed),
        (partition(2), (), UNCLEAN, ErrorCode.election_not_needed),
        (partition(2), (1,), PREFERRED, ErrorCode.preferred_leader_not_available),
        (partition(2, isr=(2, 3)), (), PREFERRED, ErrorCode.preferred_leader_not_available),
        (partition(-1), (1, 2, 3), UNCLEAN, ErrorCode.eligible_leaders_not_available),
    ],
)
def test_where_there_is_no_election(
    partition: PartitionImage, down: tuple[int, ...], election_type: ElectionType, error: ErrorCode
) -> None:
    rejection = elect_leader(image_of(partition, down=down), P0, election_type, DEFAULTS)
    assert isinstance(rejection, Rejection)
    assert rejection.error is error
    assert (rejection is NOT_NEEDED) is (error is ErrorCode.election_not_needed)


@pytest.mark.parametrize("election_type", list(ElectionType))
@pytest.mark.parametrize(
    ("topic_partition", "reason"),
    [
        (TopicPartition("nope", 0), "No such topic as nope"),
        (TopicPartition("orders", 9), "No such partition as orders-9"),
        (TopicPartition("orders", -1), "No such partition as orders--1"),
    ],
)
def test_what_does_not_exist(
    election_type: ElectionType, topic_partition: TopicPartition, reason: str
) -> None:
    rejection = elect_leader(image_of(partition(1)), topic_partition, election_type, DEFAULTS)
    assert rejection == Rejection(error=ErrorCode.unknown_topic_or_partition, reason=reason)


def leaders(image: ClusterImage) -> list[int]:
    return [
        partition.leader
        for topic_name in sorted(image.topics)
        for partition in image.topics[topic_name].partitions
    ]


def test_topics_that_allow_it_get_a_live_leader_and_others_wait() -> None:
    leaderless_partition = partition(-1, isr=(), epoch=4)
    image = (
        cluster(broker(1, is_alive=False), broker(2), broker(3, is_alive=False))
        .with_topic(
            topic(
                "a",
                leaderless_partition,
                partition(2),
                configs={"unclean.leader.election.enable": "true"},
            )
        )
        .with_topic(topic("b", leaderless_partition))
        .with_topic(topic("c", partition(2)))
        .with_topic(
            topic(
                "d",
                partition(-1, replicas=(1, 3), isr=()),
                configs={"unclean.leader.election.enable": "true"},
            )
        )
    )
    image_after = elect_unclean(image, DEFAULTS)
    assert leaders(image_after) == [2, 2, -1, 2, -1]
    first_partition = image_after.topics["a"].partitions[0]
    assert (first_partition.isr, first_partition.leader_epoch, first_partition.is_recovering) == (
        (2,),
        5,
        True,
    )
    allowing_settings = Settings(unclean_leader_election_enable=True)
    assert leaders(elect_unclean(image, allowing_settings)) == [2, 2, 2, 2, -1]
    assert elect_unclean(image_after, DEFAULTS) is image_after, "nothing is left to do"


def test_leaders_go_back_to_their_preferred_replicas_where_those_may_lead() -> None:
    image = cluster(broker(1), broker(2), broker(3, is_alive=False)).with_topic(
        topic(
            "a",
            partition(2),
            partition(1),
            partition(1, replicas=(3, 1), isr=(1,)),
            partition(-1, isr=()),
        )
    )
    image_after = rebalance_leaders(image, DEFAULTS)
    assert leaders(image_after) == [1, 1, 1, -1]
    assert rebalance_leaders(image_after, DEFAULTS) is image_after


def test_a_leader_that_resigns_is_elected_again_two_epochs_later() -> None:
    topic_partition = TopicPartition("a", 0)
    image = cluster().with_topic(topic("a", partition(2, epoch=4)))
    resigned = reelect_same_leader(image, topic_partition)
    assert not isinstance(resigned, Rejection)
    image_without_leader, image_with_new_leader = (
        image_of_step.partition(topic_partition) for image_of_step in resigned
    )
    assert image_without_leader is not None
    assert image_with_new_leader is not None
    assert (
        image_without_leader.leader,
        image_without_leader.leader_epoch,
        image_without_leader.partition_epoch,
    ) == (
        -1,
        5,
        5,
    )
    assert (
        image_with_new_leader.leader,
        image_with_new_leader.leader_epoch,
        image_with_new_leader.partition_epoch,
    ) == (2, 6, 6)
    assert image_with_new_leader.isr == (1, 2, 3)


def test_who_is_not_there_can_not_resign() -> None:
    image = cluster(broker(1), broker(2, is_alive=False)).with_topic(topic("a", partition(2)))
    for topic_partition, error in (
        (TopicPartition("a", 7), ErrorCode.unknown_topic_or_partition),
        (TopicPartition("a", 0), ErrorCode.leader_not_available),
    ):
        rejection = reelect_same_leader(image, topic_partition)
        assert isinstance(rejection, Rejection)
        assert rejection.error is error


# Brokers that come and go: epochs, fencing, controlled shutdown.


FIRST, SECOND = uuid.UUID(int=1), uuid.UUID(int=2)


def command(
    broker_id: BrokerId = B1,
    *,
    incarnation_id: uuid.UUID = FIRST,
    cluster_id: str = "cluster",
    previous_epoch: int = -1,
) -> BrokerRegistrationCommand:
    return BrokerRegistrationCommand(
        broker_id=broker_id,
        cluster_id=cluster_id,
        incarnation_id=incarnation_id,
        host="h",
        port=7,
        addresses={"OTHER": ("h", 8)},
        rack="r",
        previous_broker_epoch=previous_epoch,
    )


def register(
    image: ClusterImage, command: BrokerRegistrationCommand, *, has_session: bool = False
) -> ClusterImage:
    image_after = register_broker(image, command, DEFAULTS, has_session=has_session)
    assert isinstance(image_after, ClusterImage)
    return image_after


def cluster_image(*, elr: int = 1) -> ClusterImage:
    image = cluster().with_feature(ELIGIBLE_LEADER_REPLICAS, elr)
    image = image.with_broker_configs("", {"min.insync.replicas": "3"})
    return image.with_topic(topic("orders", partition(1)))


def test_a_new_broker_is_fenced_and_its_epoch_is_where_it_was_registered() -> None:
    image = register(cluster_image(), command(BrokerId(4)))
    new_broker = image.brokers[BrokerId(4)]
    assert new_broker.epoch == image.offset == cluster_image().offset + 1
    assert not new_broker.alive
    assert (new_broker.host, new_broker.port, new_broker.rack) == ("h", 7, "r")
    assert new_broker.addresses == {"OTHER": ("h", 8)}
    assert has_stale_epoch(image, BrokerId(4), new_broker.epoch - 1)
    assert not has_stale_epoch(image, BrokerId(4), new_broker.epoch)
    assert has_stale_epoch(image, BrokerId(5), 1)


def test_a_request_that_is_repeated_keeps_the_epoch_and_the_state() -> None:
    image = unfence_broker(register(cluster_image(), command(BrokerId(4))), BrokerId(4), DEFAULTS)
    image_after = register(image, command(BrokerId(4)), has_session=True)
    assert image_after.brokers[BrokerId(4)] == image.brokers[BrokerId(4)]
    leaving_image = begin_controlled_shutdown(image, BrokerId(4), DEFAULTS)
    assert register(leaving_image, command(BrokerId(4))).brokers[BrokerId(4)].in_controlled_shutdown


def test_another_incarnation_is_fenced_and_is_not_leaving() -> None:
    image = unfence_broker(register(cluster_image(), command(BrokerId(4))), BrokerId(4), DEFAULTS)
    next_registration = command(BrokerId(4), incarnation_id=uuid.UUID(int=99))
    for image_before in (image, begin_controlled_shutdown(image, BrokerId(4), DEFAULTS)):
        registered_broker = register(image_before, next_registration).brokers[BrokerId(4)]
        assert (registered_broker.alive, registered_broker.in_controlled_shutdown) == (False, False)
        assert registered_broker.epoch > image_before.offset


@pytest.mark.parametrize(
    ("command", "has_session", "error"),
    [
        (command(cluster_id="other"), False, ErrorCode.inconsistent_cluster_id),
        (command(), True, ErrorCode.duplicate_broker_registration),
    ],
)
def test_who_can_not_be_registered(
    command: BrokerRegistrationCommand, has_session: bool, error: ErrorCode
) -> None:
    rejection = register_broker(cluster_image(), command, DEFAULTS, has_session=has_session)
    assert isinstance(rejection, Rejection)
    assert rejection.error is error


@pytest.mark.parametrize(
    ("elr", "previous_epoch", "eligible"),
    [
        (1, -1, ()),  # a crash: what it had may be gone
        (1, 1, (1,)),  # it stopped in order
        (0, -1, ()),
        (0, 1, ()),
    ],
)
def test_a_restart_takes_the_broker_out_of_the_isr(
    elr: int, previous_epoch: int, eligible: tuple[int, ...]
) -> None:
    image = register(cluster_image(elr=elr), command(previous_epoch=previous_epoch))
    partition = image.topics["orders"].partitions[0]
    assert (partition.leader, partition.isr, partition.elr) == (2, (2, 3), eligible)
    assert image.brokers[B1].epoch == image.offset
    assert not image.brokers[B1].alive


def test_a_fenced_broker_leads_nothing_and_an_unfenced_one_may_again() -> None:
    image = cluster_image().with_topic(topic("orders", partition(1, replicas=(1,))))
    fenced_image = fence_broker(image, B1, DEFAULTS)
    assert fenced_image.topics["orders"].partitions[0].leader == -1
    assert not fenced_image.is_alive(B1)
    assert fence_broker(fenced_image, B1, DEFAULTS) is fenced_image
    image_again = unfence_broker(fenced_image, B1, DEFAULTS)
    assert image_again.is_active(B1)
    assert image_again.topics["orders"].partitions[0].leader == 1


def test_a_broker_on_its_way_out_leads_nothing_but_lives() -> None:
    leaving_image = begin_controlled_shutdown(cluster_image(), B1, DEFAULTS)
    assert leaving_image.is_alive(B1)
    assert not leaving_image.is_active(B1)
    assert leaving_image.topics["orders"].partitions[0].leader == 2
    image_after = fence_broker(leaving_image, B1, DEFAULTS)
    assert not image_after.is_alive(B1)
    assert not image_after.brokers[B1].in_controlled_shutdown


def test_others_are_left_alone() -> None:
    image = fence_broker(cluster_image(), B3, DEFAULTS)
    assert image.brokers[B2] == msgspec.structs.replace(broker(2))
    assert not image.is_active(BrokerId(9))


def test_a_failed_directory_takes_leaders_and_isrs_away_until_the_broker_registers_anew() -> None:
    image_after = fail_directory(cluster_image(elr=0), B1, DEFAULTS)
    orders_image = image_after.topics["orders"].partitions[0]
    assert (orders_image.leader, orders_image.isr) == (2, (2, 3))
    assert (image_after.is_alive(B1), image_after.is_active(B1), image_after.is_offline(B1)) == (
        True,
        False,
        True,
    )
    assert fail_directory(image_after, B1, DEFAULTS) is image_after, (
        "it is told with every heartbeat"
    )
    restarted_image = unfence_broker(
        register(image_after, command(incarnation_id=SECOND)), B1, DEFAULTS
    )
    assert (restarted_image.is_active(B1), restarted_image.is_offline(B1)) == (True, False)


def test_replicas_of_brokers_that_are_away_or_unknown_are_offline() -> None:
    image = fence_broker(cluster_image(), B3, DEFAULTS)
    assert [
        broker_id for broker_id in (B1, B2, B3, BrokerId(9)) if image.is_offline(broker_id)
    ] == [B3, BrokerId(9)]


# What a broker's coming or going means for every partition, and the rules of a topic.


def leadership_image(*, elr: int = 1) -> ClusterImage:
    image = cluster().with_feature(ELIGIBLE_LEADER_REPLICAS, elr)
    image = image.with_broker_configs("", {"min.insync.replicas": "2"})
    return image.with_topic(
        topic("orders", partition(1), partition(2), partition(3, isr=(2, 3)))
    ).with_topic(topic("one", partition(1, replicas=(1,)), topic_id=uuid.UUID(int=9)))


def leadership_rows(image: ClusterImage, topic_name: str = "orders") -> list[tuple[object, ...]]:
    return [
        (partition.leader, partition.isr, partition.elr)
        for partition in image.topics[topic_name].partitions
    ]


@pytest.mark.parametrize(
    ("configs", "settings", "expected"),
    [
        ({}, DEFAULTS, (2, False)),
        ({"min.insync.replicas": "9"}, DEFAULTS, (3, False)),
        ({"unclean.leader.election.enable": "TRUE"}, DEFAULTS, (2, True)),
        ({}, Settings(unclean_leader_election_enable=True), (2, True)),
        (
            {"unclean.leader.election.enable": "false"},
            Settings(unclean_leader_election_enable=True),
            (2, False),
        ),
    ],
)
def test_the_rules_of_a_topic(
    configs: dict[str, str], settings: Settings, expected: tuple[int, bool]
) -> None:
    topic_rules = rules_of(topic(configs=configs), leadership_image(), settings)
    assert (topic_rules.min_isr, topic_rules.allows_unclean) == expected


def test_a_broker_that_stops_leaves_every_isr_and_leads_nothing() -> None:
    image_without_b1 = without_broker(leadership_image(), B1, DEFAULTS)
    assert leadership_rows(image_without_b1) == [(2, (2, 3), ()), (2, (2, 3), ()), (3, (2, 3), ())]
    assert leadership_rows(image_without_b1, "one") == [(-1, (), (1,))]
    assert not leads_any_partition(image_without_b1, B1)
    assert leads_any_partition(image_without_b1, B2)
    assert image_without_b1.offset == leadership_image().offset + 1, "all of it is one step"
    image_after_repetition = without_broker(image_without_b1, B1, DEFAULTS)
    assert image_after_repetition is image_without_b1


def test_without_elr_the_last_in_sync_replica_stays_in_the_isr() -> None:
    image = leadership_image(elr=0)
    assert not has_elr(image)
    assert leadership_rows(without_broker(image, B1, DEFAULTS), "one") == [(-1, (1,), ())]


def test_a_cluster_that_has_never_finalized_elr_keeps_none() -> None:
    image = cluster()
    assert ELIGIBLE_LEADER_REPLICAS not in image.features
    assert not has_elr(image)


def test_a_crashed_broker_is_not_eligible_any_more() -> None:
    image_without_both = without_broker(
        without_broker(leadership_image(), B1, DEFAULTS), B2, DEFAULTS
    )
    assert leadership_rows(image_without_both) == [
        (3, (3,), (2,)),
        (3, (3,), (2,)),
        (3, (3,), (2,)),
    ]
    crashed_image = after_unclean_shutdown(image_without_both, B2, DEFAULTS)
    assert leadership_rows(crashed_image) == [(3, (3,), ()), (3, (3,), ()), (3, (3,), ())]
    assert leadership_rows(crashed_image, "one") == [(-1, (), (1,))], "it has no replica there"
    image_still_with_it = after_unclean_shutdown(leadership_image(), B1, DEFAULTS)
    assert leadership_rows(image_still_with_it)[0] == (2, (2, 3), ())
    assert leadership_rows(image_still_with_it, "one") == [(-1, (), ())]


def test_an_allowed_unclean_election_happens_at_once() -> None:
    image = leadership_image(elr=0).with_topic_configs(
        "orders", {"unclean.leader.election.enable": "true"}
    )
    image = image.with_partition(P0, partition(1, isr=(1,)))
    assert leadership_rows(without_broker(image, B1, DEFAULTS))[0] == (2, (2,), ())


def test_leaderless_partitions_get_a_broker_that_comes_back() -> None:
    image = without_broker(leadership_image(), B1, DEFAULTS).with_broker(broker(1, is_alive=False))
    image_again = with_broker_back(image, B1, DEFAULTS)
    assert leadership_rows(image_again, "one") == [(1, (1,), ())]
    assert leadership_rows(image_again) == leadership_rows(image), "others keep their leaders"
    image_after = with_broker_back(image, B3, DEFAULTS)
    assert image_after is image, "it has no replica there"


def test_one_partition_follows_the_rules_of_its_topic() -> None:
    image = leadership_image()
    assert updated_partition(image, P0, DEFAULTS) is None
    shrunk_partition = updated_partition(image, P0, DEFAULTS, target_isr=(B1,))
    assert shrunk_partition is not None
    assert (shrunk_partition.isr, shrunk_partition.elr) == ((1,), (2, 3))
    image = image.with_topic_configs("orders", {"unclean.leader.election.enable": "true"})
    image = image.with_partition(P0, partition(-1, isr=()))
    elected_image = updated_partition(image, P0, DEFAULTS)
    assert elected_image is not None
    assert elected_image.leader == BrokerId(1)


def test_replicas_that_were_eligible_are_not_any_more() -> None:
    image = without_broker(without_broker(leadership_image(), B3, DEFAULTS), B1, DEFAULTS)
    image_of_two_topics = image.with_topic(
        topic("two", partition(2, isr=(2,), elr=(1, 3)), topic_id=uuid.UUID(int=8))
    )
    cleared_image = without_elr(image_of_two_topics, "orders")
    assert {partition.elr for partition in cleared_image.topics["orders"].partitions} == {()}
    assert cleared_image.topics["two"] is image_of_two_topics.topics["two"]
    image_before, partition_after = (
        image_of_two_topics.topics["orders"].partitions[0],
        cleared_image.topics["orders"].partitions[0],
    )
    assert (image_before.elr, partition_after.isr) == ((1,), image_before.isr)
    assert partition_after.partition_epoch == image_before.partition_epoch + 1
    assert partition_after.leader_epoch == image_before.leader_epoch
    image_after = without_elr(image_of_two_topics)
    assert not any(
        partition.elr for topic in image_after.topics.values() for partition in topic.partitions
    )
    assert without_elr(image_after) is image_after
    last_known_image = image_after.with_topic(
        topic("two", partition(2, isr=(2,), last_known=(3,)), topic_id=uuid.UUID(int=8))
    )
    assert without_elr(last_known_image).topics["two"].partitions[0].last_known_elr == ()
    off_image = image_of_two_topics.with_feature(ELIGIBLE_LEADER_REPLICAS, 0)
    assert without_elr(off_image) is off_image


# AlterPartition judged: every refusal in Kafka's order, and what a grant says.


E = ErrorCode
IMAGE = cluster(
    broker(1), broker(2), broker(3, is_alive=False), broker(4, is_leaving=True)
).with_topic(topic("orders", partition(1, replicas=(1, 2, 3, 4), isr=(1, 2), epoch=5)))


def isr_change(
    isr: tuple[tuple[int, int], ...] = ((1, 1),),
    *,
    leader_epoch: int = 5,
    partition_epoch: int = 5,
    partition_index: int = 0,
    topic_id: uuid.UUID = TOPIC_ID,
) -> IsrChange:
    return IsrChange(
        topic_id=topic_id,
        topic_partition=TopicPartition("orders", partition_index),
        leader_epoch=LeaderEpoch(leader_epoch),
        partition_epoch=partition_epoch,
        new_isr=tuple((BrokerId(replica), epoch) for replica, epoch in isr),
    )


def command_of_isr_requests(
    *changes: IsrChange, sender_id: int = 1, epoch: int = 1
) -> AlterPartitionCommand:
    return AlterPartitionCommand(
        broker_id=BrokerId(sender_id), broker_epoch=epoch, partitions=changes
    )


@pytest.mark.parametrize(("sender_id", "epoch"), [(1, 9), (7, 7)])
def test_another_incarnation_is_refused_as_a_whole(sender_id: int, epoch: int) -> None:
    outcome = decide_alter_partition(
        IMAGE, command_of_isr_requests(isr_change(), sender_id=sender_id, epoch=epoch), DEFAULTS
    )
    assert outcome.image is IMAGE
    assert (outcome.reply.error, outcome.reply.partitions) == (E.stale_broker_epoch, ())


@pytest.mark.parametrize(
    ("change", "sender_id", "error"),
    [
        (isr_change(topic_id=uuid.UUID(int=1)), 1, E.unknown_topic_id),
        (isr_change(partition_index=7), 1, E.unknown_topic_or_partition),
        (isr_change(leader_epoch=6), 1, E.not_controller),
        (isr_change(partition_epoch=6), 1, E.not_controller),
        (isr_change(leader_epoch=4, partition_epoch=4), 2, E.fenced_leader_epoch),
        (isr_change(((2, 2),)), 2, E.invalid_request),  # not the leader
        (isr_change(partition_epoch=4), 1, E.invalid_update_version),
        (isr_change(((1, 1), (9, 9))), 1, E.invalid_request),  # no replica
        (isr_change(((1, 1), (1, 1))), 1, E.invalid_request),
        (isr_change(((2, 2),)), 1, E.invalid_request),  # without the leader
        (isr_change(((1, 1), (3, 3))), 1, E.ineligible_replica),  # fenced
        (isr_change(((1, 1), (4, 4))), 1, E.ineligible_replica),  # on its way out
        (isr_change(((1, 1), (2, 8))), 1, E.ineligible_replica),  # restarted meanwhile
    ],
)
def test_a_refused_change_changes_nothing(
    change: IsrChange, sender_id: int, error: ErrorCode
) -> None:
    outcome = decide_alter_partition(
        IMAGE, command_of_isr_requests(change, sender_id=sender_id, epoch=sender_id), DEFAULTS
    )
    assert outcome.image is IMAGE
    assert outcome.reply.error == E.none
    (altered_partition,) = outcome.reply.partitions
    assert altered_partition == AlteredPartition(
        topic_id=change.topic_id, topic_partition=change.topic_partition, error=error
    )


@pytest.mark.parametrize("known_epoch", [2, -1])
def test_a_granted_change_answers_with_the_partition_as_it_is(known_epoch: int) -> None:
    image = IMAGE.with_partition(
        TopicPartition("orders", 0), partition(1, isr=(1,), epoch=5, is_recovering=True)
    )
    outcome = decide_alter_partition(
        image, command_of_isr_requests(isr_change(((1, 1), (2, known_epoch)))), DEFAULTS
    )
    changed_partition = outcome.image.topics["orders"].partitions[0]
    assert (
        changed_partition.isr,
        changed_partition.leader_epoch,
        changed_partition.partition_epoch,
    ) == ((1, 2), 5, 6)
    assert not changed_partition.is_recovering
    (altered_partition,) = outcome.reply.partitions
    assert (altered_partition.error, altered_partition.isr, altered_partition.leader) == (
        0,
        (1, 2),
        1,
    )
    assert (altered_partition.leader_epoch, altered_partition.partition_epoch) == (5, 6)


def test_what_is_as_asked_already_is_granted_without_a_change() -> None:
    outcome = decide_alter_partition(
        IMAGE, command_of_isr_requests(isr_change(((1, 1), (2, 2)))), DEFAULTS
    )
    assert outcome.image is IMAGE
    (altered_partition,) = outcome.reply.partitions
    assert (altered_partition.error, altered_partition.partition_epoch) == (0, 5)


def test_each_change_is_judged_by_itself() -> None:
    image = IMAGE.with_topic(
        topic("orders", IMAGE.topics["orders"].partitions[0], partition(1, epoch=2))
    )
    outcome = decide_alter_partition(
        image,
        command_of_isr_requests(
            isr_change(leader_epoch=4),
            isr_change(leader_epoch=2, partition_epoch=2, partition_index=1),
        ),
        DEFAULTS,
    )
    assert [partition.error for partition in outcome.reply.partitions] == [
        E.fenced_leader_epoch,
        E.none,
    ]
    assert outcome.image.topics["orders"].partitions[1].isr == (1,)
    assert outcome.image.offset == image.offset + 1


def test_a_leader_that_ends_its_reassignment_learns_that_it_leads_no_more() -> None:
    image = cluster().with_topic(
        topic(
            "orders",
            partition(1, replicas=(2, 3, 1), isr=(1, 2), epoch=5, removing=(1,), adding=(3,)),
        )
    )
    outcome = decide_alter_partition(
        image, command_of_isr_requests(isr_change(((1, 1), (2, 2), (3, 3)))), DEFAULTS
    )
    (altered_partition,) = outcome.reply.partitions
    assert altered_partition.error == E.new_leader_elected
    changed_partition = outcome.image.topics["orders"].partitions[0]
    assert (
        changed_partition.leader,
        changed_partition.leader_epoch,
        changed_partition.replicas,
    ) == (2, 6, (2, 3))


# Sessions of brokers, as BrokerHeartbeatManagerTest has them.


FENCED, UNFENCED, LEAVING, GONE = BrokerState


def heartbeat_command(
    broker_id: BrokerId = B1,
    *,
    offset: int = 10,
    wants_fence: bool = False,
    wants_shutdown: bool = False,
) -> BrokerHeartbeatCommand:
    return BrokerHeartbeatCommand(
        broker_id=broker_id,
        broker_epoch=1,
        metadata_offset=offset,
        want_fence=wants_fence,
        want_shut_down=wants_shutdown,
    )


def sessions(*states: BrokerState) -> BrokerSessions:
    """Sessions of brokers 1, 2, … in these states, renewed at time 0."""
    broker_sessions = BrokerSessions(timeout_ms=9_000)
    for number, state in enumerate(states, 1):
        broker_id = BrokerId(number)
        broker_sessions.register(broker_id, is_fenced=True, now_ms=0)
        broker_sessions.note_heartbeat(
            heartbeat_command(broker_id), state, now_ms=0, metadata_offset=10
        )
    return broker_sessions


@pytest.mark.parametrize(
    ("state_before", "command", "is_leader", "expected"),
    [
        (FENCED, heartbeat_command(offset=10), False, UNFENCED),
        (FENCED, heartbeat_command(offset=9), False, FENCED),
        (FENCED, heartbeat_command(wants_fence=True), False, FENCED),
        (FENCED, heartbeat_command(wants_shutdown=True), False, GONE),
        (UNFENCED, heartbeat_command(offset=0), True, UNFENCED),
        (UNFENCED, heartbeat_command(wants_fence=True), True, FENCED),
        (UNFENCED, heartbeat_command(wants_fence=True, wants_shutdown=True), True, GONE),
        (UNFENCED, heartbeat_command(wants_shutdown=True), True, LEAVING),
        (UNFENCED, heartbeat_command(wants_shutdown=True), False, GONE),
        (LEAVING, heartbeat_command(wants_shutdown=True), True, LEAVING),
        (LEAVING, heartbeat_command(wants_shutdown=True), False, GONE),
    ],
)
def test_what_a_heartbeat_leads_to(
    state_before: BrokerState,
    command: BrokerHeartbeatCommand,
    is_leader: bool,
    expected: BrokerState,
) -> None:
    state_after = sessions(state_before).next_state(
        command, registration_offset=10, is_leader=lambda: is_leader
    )
    assert state_after is expected
    assert state_after.counts_as_fenced == (state_after in (FENCED, GONE))


def test_a_controlled_shutdown_waits_until_the_others_know() -> None:
    broker_sessions = sessions(UNFENCED, UNFENCED, FENCED)
    broker_sessions.note_heartbeat(
        heartbeat_command(wants_shutdown=True), LEAVING, now_ms=1, metadata_offset=12
    )
    ask = heartbeat_command(wants_shutdown=True, offset=12)
    assert (
        broker_sessions.next_state(ask, registration_offset=1, is_leader=lambda: False) is LEAVING
    )
    broker_sessions.note_heartbeat(
        heartbeat_command(wants_shutdown=True), LEAVING, now_ms=2, metadata_offset=99
    )
    broker_sessions.note_heartbeat(
        heartbeat_command(B2, offset=12), UNFENCED, now_ms=2, metadata_offset=12
    )
    assert broker_sessions.next_state(ask, registration_offset=1, is_leader=lambda: False) is GONE
    broker_sessions.note_heartbeat(ask, GONE, now_ms=3, metadata_offset=12)
    assert broker_sessions.state(B1) is FENCED


def test_a_session_ends_without_a_heartbeat_and_goes_on_with_one() -> None:
    broker_sessions = sessions(UNFENCED, UNFENCED, UNFENCED)
    assert broker_sessions.next_deadline_ms() == 9_000
    broker_sessions.note_heartbeat(
        heartbeat_command(B2), UNFENCED, now_ms=5_000, metadata_offset=10
    )
    assert broker_sessions.expired_broker(8_999) is None
    assert broker_sessions.expired_broker(9_000) is B1
    assert broker_sessions.has_session(B1, 8_999)
    assert not broker_sessions.has_session(B1, 9_000)
    broker_sessions.fence(B1)
    assert broker_sessions.state(B1) is FENCED
    assert not broker_sessions.has_session(B1, 0), "until it is heard of again"
    assert broker_sessions.expired_broker(9_000) is B3
    broker_sessions.fence(B3)
    assert broker_sessions.next_deadline_ms() == 14_000
    broker_sessions.fence(B2)
    assert broker_sessions.next_deadline_ms() is None


def test_a_broker_whose_session_ends_on_its_way_out_is_fenced() -> None:
    broker_sessions = sessions(LEAVING, UNFENCED)
    assert broker_sessions.state(B1) is LEAVING
    broker_sessions.fence(B1)
    assert broker_sessions.state(B1) is FENCED
    state_after = broker_sessions.next_state(
        heartbeat_command(wants_shutdown=True), registration_offset=1, is_leader=lambda: False
    )
    assert state_after is GONE, "the others need not know first"


def test_where_no_broker_could_be_heard_open_sessions_begin_anew() -> None:
    broker_sessions = sessions(UNFENCED, UNFENCED)
    broker_sessions.fence(B2)
    broker_sessions.renew(5_000)
    assert broker_sessions.next_deadline_ms() == 14_000
    assert broker_sessions.expired_broker(14_000) is B1
    assert not broker_sessions.has_session(B2, 5_000), "it had ended before"


def test_an_advance_leaves_open_sessions_a_moment() -> None:
    broker_sessions = sessions(UNFENCED, UNFENCED)
    broker_sessions.fence(B2)
    broker_sessions.grant(8_000, 500)
    assert broker_sessions.next_deadline_ms() == 9_000, "it goes on for longer anyhow"
    broker_sessions.grant(20_000, 500)
    assert broker_sessions.next_deadline_ms() == 20_500
    assert not broker_sessions.has_session(B2, 20_000), "it had ended before"


def test_a_broker_that_is_not_registered_has_neither_state_nor_session() -> None:
    broker_sessions = sessions()
    assert broker_sessions.state(B1) is None
    assert not broker_sessions.has_session(B1, 0)


def test_a_new_incarnation_starts_over() -> None:
    broker_sessions = sessions(LEAVING)
    broker_sessions.register(B1, is_fenced=True, now_ms=100)
    assert broker_sessions.state(B1) is FENCED
    assert broker_sessions.next_deadline_ms() == 9_100
