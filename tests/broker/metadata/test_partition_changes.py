"""One partition's ISR, leader, ELR and epochs after a change, in the cases of Kafka's
PartitionChangeBuilderTest.
"""

from __future__ import annotations

import msgspec
import pytest

from tests.support.images import partition
from txnsim.metadata.image import PartitionImage
from txnsim.metadata.partition_changes import (
    Election,
    PartitionChange,
    Placement,
    changed_partition,
)
from txnsim.types import BrokerId

ONLINE, UNCLEAN, PREFERRED = Election.ONLINE, Election.UNCLEAN, Election.PREFERRED


def after(
    found: PartitionImage,
    isr: tuple[int, ...],
    *,
    down: tuple[int, ...] = (),
    min_isr: int = 1,
    has_elr: bool = True,
    election: Election = ONLINE,
    unclean_shutdown: int | None = None,
    has_recovered: bool = False,
) -> PartitionImage | None:
    return changed_partition(
        found,
        PartitionChange(
            target_isr=tuple(map(BrokerId, isr)),
            is_acceptable=lambda replica: replica not in down,
            min_isr=min_isr,
            has_elr=has_elr,
            election=election,
            unclean_shutdown=None if unclean_shutdown is None else BrokerId(unclean_shutdown),
            has_recovered=has_recovered,
        ),
    )


def facts(changed: PartitionImage | None) -> tuple[object, ...]:
    assert changed is not None
    return (changed.leader, changed.isr, changed.elr, changed.last_known_elr)


def test_nothing_changes_where_nothing_is_different() -> None:
    assert after(partition(1), (1, 2, 3)) is None
    assert after(partition(2), (1, 2, 3)) is None, "a leader that may lead stays"


def test_a_smaller_isr_raises_the_partition_epoch_alone() -> None:
    changed = after(partition(1, epoch=4), (1, 2))
    assert facts(changed) == (1, (1, 2), (), ())
    assert changed is not None
    assert (changed.leader_epoch, changed.partition_epoch) == (4, 5)


def test_a_new_leader_raises_both_epochs() -> None:
    changed = after(partition(1, epoch=4), (2, 3), down=(1,))
    assert facts(changed) == (2, (2, 3), (), ())
    assert changed is not None
    assert (changed.leader_epoch, changed.partition_epoch) == (5, 5)


def test_leaders_are_looked_for_in_the_order_of_the_replicas() -> None:
    found = partition(1, replicas=(3, 1, 2), isr=(2, 1, 3))
    assert facts(after(found, (2, 3), down=(1,)))[0] == 3


@pytest.mark.parametrize(
    ("found", "isr", "min_isr", "expected"),
    [
        # below the minimum, who leaves is eligible still
        (partition(1), (1,), 2, (1, (1,), (2, 3), ())),
        (partition(1, isr=(1, 2)), (1,), 2, (1, (1,), (2,), ())),
        (partition(1, isr=(1,), elr=(2,)), (), 2, (-1, (), (1, 2), (1,))),
        # at the minimum nobody needs to be
        (partition(1, isr=(1,), elr=(2, 3)), (1, 2), 2, (1, (1, 2), (), ())),
        (partition(1, isr=(1,), elr=(3,)), (1, 2), 3, (1, (1, 2), (3,), ())),
    ],
)
def test_the_elr_follows_the_isr(
    found: PartitionImage, isr: tuple[int, ...], min_isr: int, expected: tuple[object, ...]
) -> None:
    down = () if isr else (1, 2, 3)
    assert facts(after(found, isr, min_isr=min_isr, down=down)) == expected


def test_an_eligible_replica_leads_alone_when_the_isr_is_empty() -> None:
    found = partition(-1, isr=(), elr=(1, 2), last_known=(1,), epoch=4)
    changed = after(found, (), down=(1, 3), min_isr=2)
    assert facts(changed) == (2, (2,), (1,), ())
    assert changed is not None
    assert not changed.is_recovering, "it has everything that was committed"


def test_eligible_replicas_do_not_lead_while_another_is_in_sync() -> None:
    found = partition(1, isr=(1,), elr=(2,), epoch=4)
    assert facts(after(found, (1,), down=(1,), min_isr=2)) == (-1, (1,), (2,), (1,))


def test_the_last_leader_is_elected_again_when_no_other_is_left() -> None:
    found = partition(-1, isr=(), last_known=(1,), epoch=4)
    assert after(found, (), down=(1,), min_isr=2) is None
    changed = after(found, (), down=(3,), min_isr=2)
    assert facts(changed) == (1, (1,), (), ())
    assert changed is not None
    assert changed.is_recovering


def test_brokers_that_a_reassignment_leaves_out_stay_eligible_and_keep_it_without_a_leader() -> (
    None
):
    """As the classes of a real 4.4.0 do, of partition 0 too: its minimum is that of before."""
    found = msgspec.structs.replace(
        partition(1, isr=(1, 2)), replicas=(BrokerId(3), BrokerId(1), BrokerId(2))
    )
    found = msgspec.structs.replace(found, removing=(BrokerId(1), BrokerId(2)))
    alone = after(found, (1, 2, 3), min_isr=2)
    assert facts(alone) == (3, (3,), (1, 2), ())
    assert alone is not None
    dead = after(alone, (), down=(3,))
    assert facts(dead) == (-1, (), (1, 2, 3), (3,))
    assert dead is not None
    unclean = after(dead, (), down=(3,), unclean_shutdown=3)
    assert facts(unclean) == (-1, (), (1, 2), (3,))
    assert unclean is not None
    assert after(unclean, ()) is None, "3 is back, and nobody leads"


def test_without_elr_no_replica_is_eligible_and_an_isr_does_not_get_empty() -> None:
    found = partition(1, isr=(1,), elr=(2,), last_known=(3,))
    changed = after(found, (), down=(1, 2), has_elr=False, min_isr=2)
    assert facts(changed) == (-1, (1,), (), (3,))


def test_after_an_unclean_shutdown_a_replica_is_not_eligible() -> None:
    found = partition(-1, isr=(), elr=(1, 2), last_known=(1,))
    changed = after(found, (), down=(1, 2, 3), min_isr=2, unclean_shutdown=1)
    assert facts(changed) == (-1, (), (2,), (1,))


def test_an_unclean_election_takes_any_live_replica_and_it_is_alone() -> None:
    found = partition(-1, isr=(1,), elr=(2,), last_known=(1,), epoch=4)
    changed = after(found, (1,), down=(1, 2), min_isr=3, election=UNCLEAN)
    assert facts(changed) == (3, (3,), (), ())
    assert changed is not None
    assert (changed.is_recovering, changed.leader_epoch) == (True, 5)
    assert after(found, (1,), down=(1, 2, 3), min_isr=3, election=UNCLEAN) is None


def test_an_unclean_election_prefers_a_replica_in_sync() -> None:
    changed = after(partition(-1, isr=(3,)), (3,), down=(2,), election=UNCLEAN)
    assert facts(changed) == (3, (3,), (), ())


@pytest.mark.parametrize(
    ("leader", "isr", "down", "expected"),
    [
        (2, (1, 2, 3), (), 1),
        (2, (2, 3), (), None),
        (2, (1, 2, 3), (1,), None),
        (-1, (2, 3), (1,), 2),
        (-1, (), (1, 2, 3), None),
    ],
)
def test_a_preferred_election_wants_the_first_replica_and_takes_another_over_none(
    leader: int, isr: tuple[int, ...], down: tuple[int, ...], expected: int | None
) -> None:
    changed = after(partition(leader, isr=isr), isr, down=down, election=PREFERRED)
    assert (None if changed is None else changed.leader) == expected


def test_a_leader_that_is_up_has_recovered() -> None:
    found = partition(3, isr=(3,), is_recovering=True)
    changed = after(found, (2, 3), has_recovered=True)
    assert changed is not None
    assert not changed.is_recovering
    again = after(found, (2, 3))
    assert again is not None
    assert again.is_recovering


# Reassignments


def moved(
    found: PartitionImage,
    isr: tuple[int, ...],
    replicas: tuple[int, ...],
    *,
    removing: tuple[int, ...] = (),
    adding: tuple[int, ...] = (),
    down: tuple[int, ...] = (),
) -> PartitionImage | None:
    return changed_partition(
        found,
        PartitionChange(
            target_isr=tuple(map(BrokerId, isr)),
            is_acceptable=lambda replica: replica not in down,
            min_isr=1,
            has_elr=True,
            placement=Placement(
                replicas=tuple(map(BrokerId, replicas)),
                removing=tuple(map(BrokerId, removing)),
                adding=tuple(map(BrokerId, adding)),
            ),
        ),
    )


@pytest.mark.parametrize(
    ("isr", "replicas", "removing", "adding", "over"),
    [
        # PartitionReassignmentReplicasTest: every new replica has to be in sync
        ((1, 2), (1, 3, 2), (2,), (3,), None),
        ((1, 2, 3), (1, 3, 2), (2,), (3,), ((1, 3), (1, 3))),
        ((1, 2, 3), (1, 2, 3, 4), (), (3, 4), None),
        ((1, 2, 3, 4), (1, 2, 3, 4), (), (3, 4), ((1, 2, 3, 4), (1, 2, 3, 4))),
        # somebody in sync must be left
        ((2,), (1, 2), (2,), (), None),
        ((1,), (1, 2), (2,), (), ((1,), (1,))),
        ((1, 2), (1, 2), (1, 2), (), None),
        # fewer replicas than before: all that are left have to be in sync
        ((1, 3), (2, 3, 1), (1,), (), None),
        ((1, 2, 3), (2, 3, 1), (1,), (), ((2, 3), (2, 3))),
        ((1, 4), (2, 4, 1, 3), (1, 3), (4,), None),
        ((2, 4), (2, 4, 1, 3), (1, 3), (4,), ((2, 4), (2, 4))),
        # as many as before: those that stay may be late
        ((1, 4), (2, 4, 1), (1,), (4,), ((2, 4), (4,))),
    ],
)
def test_a_reassignment_is_over_when_its_replicas_are_in_sync(
    isr: tuple[int, ...],
    replicas: tuple[int, ...],
    removing: tuple[int, ...],
    adding: tuple[int, ...],
    over: tuple[tuple[int, ...], tuple[int, ...]] | None,
) -> None:
    found = partition(isr[0], replicas=replicas, isr=isr[:1], epoch=4)
    changed = moved(found, isr, replicas, removing=removing, adding=adding)
    assert changed is not None
    if over is None:
        assert (changed.removing, changed.adding) == (removing, adding)
        assert (changed.replicas, changed.isr) == (replicas, isr)
        assert changed.leader_epoch == 4
    else:
        assert not changed.is_reassigning
        assert (changed.replicas, changed.isr) == over
        # Who is gone has to hear of it by a new epoch, even if the leader stays.
        assert changed.leader_epoch == (5 if removing else 4)
    assert changed.partition_epoch == 5


def test_a_leader_that_goes_is_followed_by_a_replica_that_stays() -> None:
    found = partition(1, replicas=(2, 3, 1), isr=(1, 2), epoch=4)
    changed = moved(found, (1, 2, 3), (2, 3, 1), removing=(1,), adding=(3,))
    assert facts(changed) == (2, (2, 3), (), ())
    found = partition(1, replicas=(2, 3, 1), isr=(1, 2), epoch=4)
    changed = moved(found, (1, 2, 3), (2, 3, 1), removing=(1,), adding=(3,), down=(2,))
    assert facts(changed)[0] == 3


def test_an_isr_that_changes_by_itself_ends_what_it_can() -> None:
    found = partition(1, replicas=(1, 3, 2), isr=(1, 2), epoch=4, removing=(2,), adding=(3,))
    assert after(found, (1, 2)) is None
    changed = after(found, (1, 2, 3))
    assert changed is not None
    assert (changed.replicas, changed.isr, changed.is_reassigning) == ((1, 3), (1, 3), False)
