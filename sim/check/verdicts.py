"""What the facts of a story mean. One function per kind of story; armed and disarmed runs go
through the same one, which does not ask which of them it has before it.

A verdict needs evidence for everything it says: facts that are missing or do not fit together are
``unexplained``, which no scenario declares.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from sim.check.facts import Facts, PartitionFacts

HANGING_AND_REPAIRED: Final = "hanging-and-repaired"
HANGING: Final = "hanging"
REFUSED_BY_VERIFICATION: Final = "refused-by-verification"
REFUSED_BY_EPOCH: Final = "refused-by-epoch"
ABORTED_IN_TIME: Final = "aborted-in-time"
UNEXPLAINED: Final = "unexplained"

DECLARABLE: Final = (
    HANGING_AND_REPAIRED,
    HANGING,
    REFUSED_BY_VERIFICATION,
    REFUSED_BY_EPOCH,
    ABORTED_IN_TIME,
)
"""What a scenario may expect."""

LATE_VALUE: Final = "late"
ENDED_STATES: Final = ("CompleteAbort", "Empty")
"""After the abort; Empty where the producer has bumped its epoch since (KIP-360)."""


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """A name that can be compared with the declared one, and why."""

    name: str
    because: str


def judge_late_produce(facts: Facts) -> Verdict:
    """What became of a Produce that may have arrived after its transaction was aborted."""
    seen = facts.after_release
    if seen is None or facts.late_epoch is None or not facts.appended:
        return _unexplained("the story did not get to the release and what follows it")
    if facts.state_after_abort not in ENDED_STATES:
        return _unexplained(
            f"after the abort the coordinator said {facts.state_after_abort or 'nothing'}"
        )
    for looked in (seen, facts.after_repair):
        if looked is not None and LATE_VALUE in (*looked.committed, *looked.reader.values):
            return _unexplained("an aborted record was delivered as committed")
    if seen.open_transaction_offset is not None:
        return _judge_open(facts, seen, seen.open_transaction_offset)
    return _judge_closed(facts, seen)


JUDGES: Final[Mapping[str, Callable[[Facts], Verdict]]] = {"late-produce": judge_late_produce}
"""The judges that a scenario may name."""


def _unexplained(because: str) -> Verdict:
    return Verdict(name=UNEXPLAINED, because=because)


# A transaction is open on the partition after the coordinator has ended it


def _judge_open(facts: Facts, seen: PartitionFacts, offset: int) -> Verdict:
    reader = seen.reader
    if LATE_VALUE not in seen.uncommitted:
        return _unexplained(f"a transaction is open at {offset}, but not with the late record")
    if not reader.starved or reader.last_stable_offset != offset:
        return _unexplained(f"a transaction is open at {offset}, but readers go on")
    if (facts.late_gauge_before, facts.late_gauge_after) != (0, 1):
        return _unexplained(
            f"a transaction is open at {offset}, but the late gauge went from "
            f"{facts.late_gauge_before} to {facts.late_gauge_after}"
        )
    if not any(finding.start_offset == offset for finding in facts.found):
        return Verdict(
            name=HANGING,
            because=(
                f"a transaction is open at {offset}, readers starve, and find-hanging does not "
                "see it"
            ),
        )
    wrong = _not_healed(facts, seen)
    if wrong:
        return Verdict(
            name=HANGING,
            because=f"a transaction was open at {offset}, and after the repair {wrong}",
        )
    return Verdict(
        name=HANGING_AND_REPAIRED,
        because=(
            f"a transaction without an owner, open at offset {offset}, kept readers from all "
            "that follows, and the operator's abort gave it back"
        ),
    )


def _not_healed(facts: Facts, seen: PartitionFacts) -> str:
    """What is still wrong after the repair; empty if nothing is."""
    healed = facts.after_repair
    if healed is None:
        return "nobody looked"
    if healed.open_transaction_offset is not None:
        return f"a transaction is open at {healed.open_transaction_offset}"
    if healed.reader.asked != seen.reader.asked:
        return "another Fetch was asked"
    if healed.reader.values != facts.appended:
        return "the same Fetch does not bring the later records"
    return ""


# None is


def _judge_closed(facts: Facts, seen: PartitionFacts) -> Verdict:
    if facts.found or facts.late_gauge_before or facts.late_gauge_after:
        return _unexplained("no transaction is open, but find-hanging or the late gauge sees one")
    if seen.reader.values != facts.appended:
        return _unexplained("no transaction is open, but the reader does not get what follows")
    if LATE_VALUE in seen.uncommitted:
        if facts.handled:
            return _unexplained("released after the marker, the record is in the log and aborted")
        return Verdict(
            name=ABORTED_IN_TIME,
            because="the record was in the log before the marker, and is aborted with it",
        )
    if not facts.handled:
        return _unexplained("the record is nowhere, and no request that carried it was handled")
    return _judge_refused(facts)


def _judge_refused(facts: Facts) -> Verdict:
    """The late record was handled and is not in the log: which defence stopped it?"""
    late_epoch = facts.late_epoch
    assert late_epoch is not None
    if facts.marker_epoch is None:
        # No marker was owed, because the partition never joined (transactions v2, KIP-890 part 2).
        if facts.epoch_after_abort is None or facts.epoch_after_abort <= late_epoch:
            return _unexplained("neither a marker nor a higher epoch stood against the record")
        return Verdict(
            name=REFUSED_BY_EPOCH,
            because=(
                f"the abort raised the producer's epoch at the coordinator to "
                f"{facts.epoch_after_abort}; the late record carries {late_epoch}"
            ),
        )
    if facts.marker_epoch > late_epoch:
        return Verdict(
            name=REFUSED_BY_EPOCH,
            because=(
                f"the abort marker raised the producer's epoch on the partition to "
                f"{facts.marker_epoch}; the late record carries {late_epoch}"
            ),
        )
    return Verdict(
        name=REFUSED_BY_VERIFICATION,
        because=(
            f"on the partition the producer's epoch is still {late_epoch}, that of the late "
            "record; but the leader asked the coordinator, which did not vouch for it"
        ),
    )
