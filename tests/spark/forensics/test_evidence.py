"""When a verdict can be trusted."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from tests.spark.forensics.opened import FACTS as SOUND
from tests.spark.forensics.opened import HERE, ends, txn
from txnsim_spark.forensics._coordinator_entries import (
    Coordinators,
    Entry,
    TxnRecord,
    coordinators_of,
)
from txnsim_spark.forensics._evidence import (
    Assignment,
    Evidence,
    ReplicaFacts,
    StartBatch,
    Status,
    evidence_of,
)
from txnsim_spark.forensics._read_notes import CutOff, Gap, ReadNotes
from txnsim_spark.forensics.verdicts import Spread, opinion_on

ENDS = ends(mark=10)
FACTS = msgspec.structs.replace(
    SOUND, state=msgspec.structs.replace(SOUND.state, ends=ENDS), seen=(1,)
)
EMPTY = TxnRecord(log_partition=1, offset=0, transactional_id="a", state="Empty", producer_id=7)
"""``a`` belongs to partition 1 of 2."""
KNOWN = coordinators_of([Entry(newest=EMPTY)], forgotten={}, held=[0, 1])


def judged(facts: ReplicaFacts = FACTS, known: Coordinators = KNOWN) -> Evidence:
    spread = Spread(transaction=txn(), counts=ENDS, open_on=(ENDS,))
    return evidence_of(spread, opinion_on(txn(), HERE, known, as_of_ms=0), known, facts)


def test_a_snapshot_at_the_end_and_its_start_batch_are_sound() -> None:
    one = judged()
    assert (one.status, one.reasons, one.is_sound) == (Status.SOUND, (), True)
    assert (one.read_from, one.read_until, one.snapshot_offset) == (None, None, 10)
    assert (one.coordinator.log_partition, one.replicas.seen) == (1, (1,))


def test_what_was_read_is_told() -> None:
    one = judged(msgspec.structs.replace(FACTS, notes=ReadNotes(read_from=2)))
    assert (one.read_from, one.read_until, one.is_sound) == (2, 10, True)


Change = Callable[[ReplicaFacts], ReplicaFacts]


def facts(**values: object) -> Change:
    return lambda one: msgspec.structs.replace(one, **values)


def state(**values: object) -> Change:
    return lambda one: msgspec.structs.replace(
        one, state=msgspec.structs.replace(one.state, **values)
    )


CUT = CutOff(file="/b/o/0.log", position=9, offset=10, reason="torn")


@pytest.mark.parametrize(
    ("change", "status", "reason"),
    [
        (facts(notes=ReadNotes(damage=("x: CRC",))), "damaged", "x: CRC"),
        (state(damage=("x: a folder",)), "damaged", "x: a folder"),
        (
            facts(notes=ReadNotes(cut_off=CUT)),
            "damaged",
            "a starting broker cuts the log off: /b/o/0.log, byte 9: torn",
        ),
        (
            facts(gaps=(Gap(first_offset=6, next_offset=8),)),
            "incomplete",
            "offsets 6 to 7 are missing",
        ),
        (
            state(ends=msgspec.structs.replace(ENDS, high_watermark=11)),
            "incomplete",
            "the log ends at offset 10, below its high watermark 11",
        ),
        (
            state(recovery_point=12),
            "incomplete",
            "the log ends at offset 10, below its recovery point 12",
        ),
        (state(lost_end="it was longer"), "incomplete", "it was longer"),
        (
            facts(start_batch=StartBatch.ANOTHERS),
            "damaged",
            "at offset 5 no sound batch of producer 7 and epoch 3 begins: the snapshot may be of"
            " another partition",
        ),
        (
            facts(start_batch=StartBatch.NOT_THERE),
            "incomplete",
            "the batch at offset 5 is not there: the log begins at 0 and ends at 10",
        ),
        (
            facts(assignment=Assignment(replicas=(1, 2), in_sync=(2,), leader=2)),
            "incomplete",
            "the leader's replica, broker 2's, is not among the directories",
        ),
    ],
)
def test_what_is_wrong_with_a_replica(change: Change, status: str, reason: str) -> None:
    one = judged(change(FACTS))
    assert (one.status, one.reasons) == (status, (reason,))


def test_a_deleted_beginning_is_sound_where_the_last_batch_is_there() -> None:
    assert judged(facts(start_batch=StartBatch.DELETED)(FACTS)).is_sound


def test_missing_followers_are_named_and_do_no_harm() -> None:
    one = judged(facts(assignment=Assignment(replicas=(1, 2), in_sync=(1,), leader=1))(FACTS))
    assert one.is_sound
    assert (one.replicas.exist, one.replicas.in_sync, one.replicas.leader) == ((1, 2), (1,), 1)
    assert one.replicas.missing == (2,)
    assert one.replicas.summary == (
        "1 of 2 replicas seen, in sync {1}, leader 1; not seen: broker 2"
    )


def test_replicas_are_told_in_a_few_words() -> None:
    three = Assignment(replicas=(1, 2, 3), in_sync=(1, 2), leader=2)
    assert judged(facts(assignment=three, seen=(1, 2))(FACTS)).replicas.summary == (
        "2 of 3 replicas seen, in sync {1,2}, leader 2; not seen: broker 3"
    )
    headless = Assignment(replicas=(1,), in_sync=(1,), leader=-1)
    assert judged(facts(assignment=headless)(FACTS)).replicas.summary == (
        "1 of 1 replicas seen, in sync {1}, no leader"
    )
    assert judged().replicas.summary == "1 replicas seen; no copy of the metadata log is there"


def test_damage_weighs_more_than_what_is_missing() -> None:
    worse = facts(gaps=(Gap(first_offset=6, next_offset=8),), start_batch=StartBatch.ANOTHERS)(
        FACTS
    )
    assert judged(worse).status is Status.DAMAGED
    assert len(judged(worse).reasons) == 2


# Coordinators


def known(entry: bool = True, **values: object) -> Coordinators:
    entries = [Entry(newest=EMPTY)] if entry else []
    there = coordinators_of(entries, forgotten={}, held=[0, 1])
    return msgspec.structs.replace(there, **values)


@pytest.mark.parametrize(
    ("coordinators", "status"),
    [
        (Coordinators(), Status.INCOMPLETE),
        (known(missing=(0,)), Status.INCOMPLETE),
        (known(damaged=frozenset({1})), Status.DAMAGED),
        (known(cut_off={1: "torn"}), Status.DAMAGED),
        (known(damaged=frozenset({0})), Status.SOUND),
        (known(cut_off={0: "torn"}), Status.SOUND),
        (known(not_in_sync={1: "was seen on broker 3 only"}), Status.INCOMPLETE),
        (known(not_in_sync={0: "was seen on broker 3 only"}), Status.SOUND),
        (known(entry=False, damaged=frozenset({0})), Status.DAMAGED),
        (known(entry=False, cut_off={0: "torn"}), Status.DAMAGED),
    ],
)
def test_the_coordinators_logs_must_be_there_and_the_one_that_matters_be_whole(
    coordinators: Coordinators, status: Status
) -> None:
    assert judged(known=coordinators).status is status
