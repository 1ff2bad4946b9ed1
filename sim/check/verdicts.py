"""What the facts of a story mean. One function per kind of story; armed and disarmed runs go
through the same one.
"""

from __future__ import annotations

from typing import Final

import msgspec

from sim.check.facts import Facts

HANGING_AND_REPAIRED: Final = "hanging-and-repaired"
HANGING: Final = "hanging"
REFUSED_BY_VERIFICATION: Final = "refused-by-verification"
REFUSED_BY_EPOCH: Final = "refused-by-epoch"
ABORTED_IN_TIME: Final = "aborted-in-time"
UNEXPLAINED: Final = "unexplained"

LATE_VALUE: Final = "late"
ENDED_STATES: Final = ("CompleteAbort", "Empty")
"""After the abort; Empty where the producer has bumped its epoch since (KIP-360)."""


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """A name that can be compared with the declared one, and why."""

    name: str
    because: str


def judge_late_produce(facts: Facts) -> Verdict:
    """What became of a Produce that may have arrived after its transaction was aborted.

    Only answers on the wire are looked at; a run whose fault never struck can't be told from a
    disarmed one, and should not.
    """
    seen = facts.after_release
    if seen is None or facts.marker_epoch is None or facts.late_epoch is None:
        return Verdict(name=UNEXPLAINED, because="the story did not get to the release")
    if facts.state_after_abort not in ENDED_STATES:
        return Verdict(
            name=UNEXPLAINED,
            because=f"the coordinator said {facts.state_after_abort} after the abort",
        )
    if LATE_VALUE in seen.committed:
        return Verdict(name=UNEXPLAINED, because="an aborted record was delivered as committed")
    if seen.open_transaction_offset is not None:
        return _judge_open(facts)
    if LATE_VALUE in seen.uncommitted:
        return Verdict(
            name=ABORTED_IN_TIME,
            because="the record was in the log before the marker, and is aborted with it",
        )
    if facts.marker_epoch > facts.late_epoch:
        return Verdict(
            name=REFUSED_BY_EPOCH,
            because=(
                f"the abort marker raised the producer's epoch on the partition to "
                f"{facts.marker_epoch}; the late record carries {facts.late_epoch}"
            ),
        )
    return Verdict(
        name=REFUSED_BY_VERIFICATION,
        because=(
            "epochs are equal, but the leader asked the coordinator, and the partition was in no "
            "transaction any more"
        ),
    )


def _judge_open(facts: Facts) -> Verdict:
    """A transaction is open on the partition after the coordinator has ended it."""
    seen, healed = facts.after_release, facts.after_repair
    assert seen is not None
    offset = seen.open_transaction_offset
    if not seen.starved or seen.last_stable_offset >= seen.high_watermark:
        return Verdict(
            name=UNEXPLAINED, because=f"a transaction is open at {offset}, but readers go on"
        )
    if not any(finding.start_offset == offset for finding in facts.found):
        return Verdict(
            name=HANGING,
            because=f"open at {offset}, readers starve, and find-hanging does not see it",
        )
    if (
        healed is None
        or healed.open_transaction_offset is not None
        or healed.last_stable_offset <= seen.last_stable_offset
        or not set(healed.committed) - set(seen.committed)
        or LATE_VALUE in healed.committed
    ):
        return Verdict(name=HANGING, because=f"open at {offset}, and the abort did not heal it")
    return Verdict(
        name=HANGING_AND_REPAIRED,
        because=(
            f"open at {offset} without an owner: the last stable offset stood at "
            f"{seen.last_stable_offset} of {seen.high_watermark}; after the abort it is "
            f"{healed.last_stable_offset}"
        ),
    )
