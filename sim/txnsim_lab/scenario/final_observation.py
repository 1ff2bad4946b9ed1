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
from txnsim_lab.scenario.stage import LOOKER, Stage

SETTLED_LOOKS: Final = 3
"""After this number of equal observations in a row, the cluster counts as settled."""
SETTLE_POLL_MS: Final = 40
SETTLE_MAX_MS: Final = 5_000
DECIDED_POLL_MS: Final = 1_000
DECIDED_MAX_MS: Final = 35_000
"""A little longer than the 30 s after which brokers retry."""
LATE_GAUGE: Final = "PartitionsWithLateTransactionsCount"
LONG_MS: Final = 21 * 60_000
"""Longer than the 15 minutes of find-hanging and the 20 minutes of the gauge of late transactions.
"""


async def look_at_everything(stage: Stage) -> None:
    """Observe open transactions, coordinators, open transactions again, readers, share groups,
    gauges.
    """
    with stage.recorder.asking():
        await _look_at_producers(stage)
        await stage.operator.describe_all()
        await _look_at_producers(stage)
        for partition in stage.partitions:
            await stage.reader.read(partition, IsolationLevel.READ_COMMITTED)
            await stage.reader.read(partition, IsolationLevel.READ_UNCOMMITTED)
        for actor in stage.actors.values():
            if isinstance(actor, ShareMemberActor):
                await actor.look()
    late = stage.target.late()
    if late is not None:
        stage.recorder.note_gauge(LOOKER, LATE_GAUGE, late)


async def look_twice(stage: Stage) -> None:
    """Observe everything when the cluster has settled, and again after longer than any timeout."""
    stuck = await settle(stage)
    await look_at_everything(stage)
    late_before = stage.target.late()
    await stage.target.wait_out(LONG_MS)
    await settle(stage, patient=not stuck, overdue=True)
    await look_at_everything(stage)
    late_after = stage.target.late()
    if late_before or late_after:
        stage.say("metrics", f"{LATE_GAUGE} was {late_before} and is {late_after}")


async def settle(stage: Stage, *, patient: bool = True, overdue: bool = False) -> bool:
    """Wait until the observable state stops changing, at most for a limit.

    A coordinator may have to repeat its decision to brokers, which takes a request timeout.

    Args:
        stage: The stage of the run.
        patient: Whether to wait that long for decided transactions.
        overdue: Whether the timeout of each open transaction has passed. Then its coordinator is
            about to abort it, and the abort is visible only when it is replicated.

    Returns:
        Whether a transaction still waits for its markers or its abort.
    """
    clock = stage.environment.clock
    peace, decided = Deadline(clock, SETTLE_MAX_MS), Deadline(clock, DECIDED_MAX_MS * patient)
    snapshot, times = await _snapshot(stage), 1
    while times < SETTLED_LOOKS or (snapshot.is_due(overdue=overdue) and not decided.has_passed):
        if times < SETTLED_LOOKS and peace.has_passed and not snapshot.is_due(overdue=overdue):
            break
        await pause(clock, SETTLE_POLL_MS if times < SETTLED_LOOKS else DECIDED_POLL_MS)
        newer = await _snapshot(stage)
        times = times + 1 if newer == snapshot else 1
        snapshot = newer
    return snapshot.is_due(overdue=overdue)


async def _look_at_producers(stage: Stage) -> None:
    for partition in stage.partitions:
        try:
            await stage.operator.producers(partition)
        except ClientError as error:
            stage.say(LOOKER, f"it is not known who writes to {partition}: {error}")


class _Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """The state that changes while transactions are unfinished."""

    states: tuple[str, ...]
    """States of transactional ids, per broker."""
    open: tuple[str, ...]
    """Producers with an open transaction, and its start, per partition."""

    def is_due(self, *, overdue: bool) -> bool:
        """Whether a transaction is decided and its markers are not all written, or is open and
        ``overdue``.
        """
        due = ("Prepare", "Ongoing") if overdue else ("Prepare",)
        return any(state in states for states in self.states for state in due)


async def _snapshot(stage: Stage) -> _Snapshot:
    admin = await stage.operator.admin()
    listed = await admin.list_transactions()
    producers = await admin.describe_producers(stage.partitions)
    return _Snapshot(
        states=tuple(
            f"{broker} {_of_ours(listings, stage)}" for broker, listings in sorted(listed.items())
        ),
        open=tuple(f"{partition} {states}" for partition, states in sorted(producers.items())),
    )


def _of_ours(
    listings: tuple[TransactionListing, ...] | ClientError, stage: Stage
) -> tuple[TransactionListing, ...] | ClientError:
    """Remove the ids of others who use the same cluster."""
    prefix = stage.target.prefix
    if not prefix or isinstance(listings, ClientError):
        return listings
    return tuple(listing for listing in listings if listing.transactional_id.startswith(prefix))
