"""AlterPartition judged: every refusal in Kafka's order, and what a grant says."""

from __future__ import annotations

import uuid

import pytest

from tests.support.images import TOPIC_ID, broker, cluster, partition, topic
from txnsim.controller.isr_requests import decide_alter_partition
from txnsim.errors import ErrorCode
from txnsim.interbroker.replication import AlteredPartition, AlterPartitionCommand, IsrChange
from txnsim.settings import DEFAULTS
from txnsim.types import BrokerId, LeaderEpoch, TopicPartition

E = ErrorCode
IMAGE = cluster(broker(1), broker(2), broker(3, alive=False), broker(4, leaving=True)).with_topic(
    topic("orders", partition(1, replicas=(1, 2, 3, 4), isr=(1, 2), epoch=5))
)


def wanted(
    isr: tuple[tuple[int, int], ...] = ((1, 1),),
    *,
    leader_epoch: int = 5,
    partition_epoch: int = 5,
    index: int = 0,
    topic_id: uuid.UUID = TOPIC_ID,
) -> IsrChange:
    return IsrChange(
        topic_id=topic_id,
        topic_partition=TopicPartition("orders", index),
        leader_epoch=LeaderEpoch(leader_epoch),
        partition_epoch=partition_epoch,
        new_isr=tuple((BrokerId(replica), epoch) for replica, epoch in isr),
    )


def command(*changes: IsrChange, sender: int = 1, epoch: int = 1) -> AlterPartitionCommand:
    return AlterPartitionCommand(broker_id=BrokerId(sender), broker_epoch=epoch, partitions=changes)


@pytest.mark.parametrize(("sender", "epoch"), [(1, 9), (7, 7)])
def test_another_incarnation_is_refused_as_a_whole(sender: int, epoch: int) -> None:
    outcome = decide_alter_partition(IMAGE, command(wanted(), sender=sender, epoch=epoch), DEFAULTS)
    assert outcome.image is IMAGE
    assert (outcome.reply.error, outcome.reply.partitions) == (E.stale_broker_epoch, ())


@pytest.mark.parametrize(
    ("change", "sender", "error"),
    [
        (wanted(topic_id=uuid.UUID(int=1)), 1, E.unknown_topic_id),
        (wanted(index=7), 1, E.unknown_topic_or_partition),
        (wanted(leader_epoch=6), 1, E.not_controller),
        (wanted(partition_epoch=6), 1, E.not_controller),
        (wanted(leader_epoch=4, partition_epoch=4), 2, E.fenced_leader_epoch),
        (wanted(((2, 2),)), 2, E.invalid_request),  # not the leader
        (wanted(partition_epoch=4), 1, E.invalid_update_version),
        (wanted(((1, 1), (9, 9))), 1, E.invalid_request),  # no replica
        (wanted(((1, 1), (1, 1))), 1, E.invalid_request),
        (wanted(((2, 2),)), 1, E.invalid_request),  # without the leader
        (wanted(((1, 1), (3, 3))), 1, E.ineligible_replica),  # fenced
        (wanted(((1, 1), (4, 4))), 1, E.ineligible_replica),  # on its way out
        (wanted(((1, 1), (2, 8))), 1, E.ineligible_replica),  # restarted meanwhile
    ],
)
def test_a_refused_change_changes_nothing(change: IsrChange, sender: int, error: ErrorCode) -> None:
    outcome = decide_alter_partition(IMAGE, command(change, sender=sender, epoch=sender), DEFAULTS)
    assert outcome.image is IMAGE
    assert outcome.reply.error == E.none
    (answer,) = outcome.reply.partitions
    assert answer == AlteredPartition(
        topic_id=change.topic_id, topic_partition=change.topic_partition, error=error
    )


@pytest.mark.parametrize("known_epoch", [2, -1])
def test_a_granted_change_answers_with_the_partition_as_it_is(known_epoch: int) -> None:
    image = IMAGE.with_partition(
        TopicPartition("orders", 0), partition(1, isr=(1,), epoch=5, is_recovering=True)
    )
    outcome = decide_alter_partition(image, command(wanted(((1, 1), (2, known_epoch)))), DEFAULTS)
    changed = outcome.image.topics["orders"].partitions[0]
    assert (changed.isr, changed.leader_epoch, changed.partition_epoch) == ((1, 2), 5, 6)
    assert not changed.is_recovering
    (answer,) = outcome.reply.partitions
    assert (answer.error, answer.isr, answer.leader) == (0, (1, 2), 1)
    assert (answer.leader_epoch, answer.partition_epoch) == (5, 6)


def test_what_is_as_asked_already_is_granted_without_a_change() -> None:
    outcome = decide_alter_partition(IMAGE, command(wanted(((1, 1), (2, 2)))), DEFAULTS)
    assert outcome.image is IMAGE
    (answer,) = outcome.reply.partitions
    assert (answer.error, answer.partition_epoch) == (0, 5)


def test_each_change_is_judged_by_itself() -> None:
    image = IMAGE.with_topic(
        topic("orders", IMAGE.topics["orders"].partitions[0], partition(1, epoch=2))
    )
    outcome = decide_alter_partition(
        image,
        command(wanted(leader_epoch=4), wanted(leader_epoch=2, partition_epoch=2, index=1)),
        DEFAULTS,
    )
    assert [one.error for one in outcome.reply.partitions] == [E.fenced_leader_epoch, E.none]
    assert outcome.image.topics["orders"].partitions[1].isr == (1,)
    assert outcome.image.offset == image.offset + 1


def test_a_leader_that_ends_its_reassignment_learns_that_it_leads_no_more() -> None:
    image = cluster().with_topic(
        topic(
            "orders",
            partition(1, replicas=(2, 3, 1), isr=(1, 2), epoch=5, removing=(1,), adding=(3,)),
        )
    )
    outcome = decide_alter_partition(image, command(wanted(((1, 1), (2, 2), (3, 3)))), DEFAULTS)
    (answer,) = outcome.reply.partitions
    assert answer.error == E.new_leader_elected
    changed = outcome.image.topics["orders"].partitions[0]
    assert (changed.leader, changed.leader_epoch, changed.replicas) == (2, 6, (2, 3))
