"""Observes the whole cluster through its protocol at the end of a story, for the judges. Open
transactions are observed before and after the coordinators are asked, because a single
contradiction between two answers proves nothing.
"""

from __future__ import annotations

from typing import Final

import msgspec

from txnsim.client.backoff import Deadline, pause
from txnsim.client.inspection.txn_views import TransactionListing
from txnsim.errors import ClientError
from txnsim.types import IsolationLevel
from txnsim_lab.scenario.actors._share_member import ShareMemberActor
from txnsim_lab.scenario.stage import LOOKER_NAME, RunningStory

SETTLED_LOOKS: Final = 3
"""After this number of equal observations in a row, the cluster counts as settled."""
SETTLE_POLL_MS: Final = 40
SETTLE_MAX_MS: Final = 5_000
DECIDED_POLL_MS: Final = 1_000
DECIDED_MAX_MS: Final = 35_000
"""A little longer than the 30 s after which brokers retry."""
LATE_GAUGE: Final = "PartitionsWithLateTransactionsCount"
SECOND_LOOK_PAUSE_MS: Final = 21 * 60_000
"""Longer than the 15 minutes of find-hanging and the 20 minutes of the gauge of late transactions.
"""


async def observe_everything(running_story: RunningStory) -> None:
    """Observe open transactions, coordinators, open transactions again, readers, share groups,
    gauges.
    """
    with running_story.recorder.asking():
        await _observe_producers(running_story)
        await running_story.operator.describe_all()
        await _observe_producers(running_story)
        for partition in running_story.partitions:
            await running_story.reader.read(partition, IsolationLevel.READ_COMMITTED)
            await running_story.reader.read(partition, IsolationLevel.READ_UNCOMMITTED)
        for actor in running_story.actors.values():
            if isinstance(actor, ShareMemberActor):
                await actor.look()
    late_count = running_story.target.late_partition_count()
    if late_count is not None:
        running_story.recorder.note_gauge(LOOKER_NAME, LATE_GAUGE, late_count)


async def observe_twice(running_story: RunningStory) -> None:
    """Observe everything when the cluster has settled, and again after longer than any timeout."""
    is_stuck = await wait_until_settled(running_story)
    await observe_everything(running_story)
    late_count_before = running_story.target.late_partition_count()
    await running_story.target.wait_out(SECOND_LOOK_PAUSE_MS)
    await wait_until_settled(running_story, is_patient=not is_stuck, is_overdue=True)
    await observe_everything(running_story)
    late_count_after = running_story.target.late_partition_count()
    if late_count_before or late_count_after:
        running_story.say(
            "metrics", f"{LATE_GAUGE} was {late_count_before} and is {late_count_after}"
        )


async def wait_until_settled(
    running_story: RunningStory, *, is_patient: bool = True, is_overdue: bool = False
) -> bool:
    """Wait until the observable state stops changing, at most for a limit.

    A coordinator may have to repeat its decision to brokers, which takes a request timeout.

    Args:
        running_story: The story that is being played.
        is_patient: Whether to wait that long for decided transactions.
        is_overdue: Whether the timeout of each open transaction has passed. Then its coordinator is
            about to abort it, and the abort is visible only when it is replicated.

    Returns:
        Whether a transaction still waits for its markers or its abort.
    """
    clock = running_story.environment.clock
    peace_deadline, decision_deadline = (
        Deadline(clock, SETTLE_MAX_MS),
        Deadline(clock, DECIDED_MAX_MS * is_patient),
    )
    snapshot, equal_looks = await _take_snapshot(running_story), 1
    while equal_looks < SETTLED_LOOKS or (
        snapshot.is_due(is_overdue=is_overdue) and not decision_deadline.has_passed
    ):
        if (
            equal_looks < SETTLED_LOOKS
            and peace_deadline.has_passed
            and not snapshot.is_due(is_overdue=is_overdue)
        ):
            break
        await pause(clock, SETTLE_POLL_MS if equal_looks < SETTLED_LOOKS else DECIDED_POLL_MS)
        newer_snapshot = await _take_snapshot(running_story)
        equal_looks = equal_looks + 1 if newer_snapshot == snapshot else 1
        snapshot = newer_snapshot
    return snapshot.is_due(is_overdue=is_overdue)


async def _observe_producers(running_story: RunningStory) -> None:
    for partition in running_story.partitions:
        try:
            await running_story.operator.producers(partition)
        except ClientError as error:
            running_story.say(LOOKER_NAME, f"it is not known who writes to {partition}: {error}")


class _Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """The state that changes while transactions are unfinished."""

    states: tuple[str, ...]
    """States of transactional ids, per broker."""
    open: tuple[str, ...]
    """Producers with an open transaction, and its start, per partition."""

    def is_due(self, *, is_overdue: bool) -> bool:
        """Whether a transaction is decided and its markers are not all written, or is open and
        ``is_overdue``.
        """
        states_due = ("Prepare", "Ongoing") if is_overdue else ("Prepare",)
        return any(
            state in states_of_part for states_of_part in self.states for state in states_due
        )


async def _take_snapshot(running_story: RunningStory) -> _Snapshot:
    admin = await running_story.operator.admin()
    listings_by_broker = await admin.list_transactions()
    producers = await admin.describe_producers(running_story.partitions)
    return _Snapshot(
        states=tuple(
            f"{broker} {_without_foreign_ids(listings, running_story)}"
            for broker, listings in sorted(listings_by_broker.items())
        ),
        open=tuple(
            f"{partition} {producer_states}"
            for partition, producer_states in sorted(producers.items())
        ),
    )


def _without_foreign_ids(
    listings: tuple[TransactionListing, ...] | ClientError, running_story: RunningStory
) -> tuple[TransactionListing, ...] | ClientError:
    """Remove the ids of others who use the same cluster."""
    prefix = running_story.target.prefix
    if not prefix or isinstance(listings, ClientError):
        return listings
    return tuple(listing for listing in listings if listing.transactional_id.startswith(prefix))
