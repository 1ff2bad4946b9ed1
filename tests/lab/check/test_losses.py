from __future__ import annotations

from tests.support.told import T0, UNKNOWN, Told, hangs, kinds
from txnsim_lab.check._losses import losses


def test_what_was_acknowledged_outside_of_a_transaction_must_come() -> None:
    told = Told()
    told.wrote(None, "r0", outcome=UNKNOWN)
    wrote = told.wrote(None, "r1", 1)
    told.wrote(None, "r2", 2)
    read = told.read(0, {2: "r2"}, 3)
    (anomaly,) = losses(told.history)
    assert (anomaly.kind, anomaly.evidence) == ("lost-write", (wrote, read))
    assert anomaly.because.startswith("'r1' on t-0 was acknowledged")


def test_one_record_of_a_commit_is_a_lost_write_and_several_a_lost_commit() -> None:
    told = Told()
    told.wrote("T1", "r1", 0)
    told.committed("T1")
    told.wrote("T2", "r2", 2)
    told.wrote("T2", "r3", 3)
    told.wrote("T2", "r4", outcome=UNKNOWN)
    told.committed("T2")
    told.read(0, {}, 5)
    found = {str(anomaly.kind): anomaly for anomaly in losses(told.history)}
    assert set(found) == {"lost-write", "lost-commit"}
    assert "'r1' on t-0 of T1" in found["lost-write"].because
    assert found["lost-commit"].because.startswith("T2 was acknowledged")
    assert found["lost-commit"].evidence == (2, 3, 5, 6)


def test_a_part_is_torn_off_whatever_the_end() -> None:
    told = Told()
    told.wrote("T1", "r1", 0)
    told.wrote("T1", "r2", 1)
    told.read(0, {0: "r1"}, 3)
    assert kinds(losses(told.history)) == ["torn-transaction"]
    told.committed("T1", outcome=UNKNOWN)
    assert kinds(losses(told.history)) == ["torn-transaction"]
    told.committed("T1")
    assert kinds(losses(told.history)) == ["lost-write", "torn-transaction"]


def test_a_part_that_nobody_has_asked_for_may_be_there() -> None:
    told = Told()
    told.wrote("T1", "r1", 0)
    told.wrote("T1", "r2", 0, partition=1)
    told.committed("T1")
    told.read(0, {}, 2)
    assert kinds(losses(told.history)) == ["lost-write"]


def test_an_aborted_transaction_loses_nothing() -> None:
    told = Told()
    told.wrote("T1", "r1", 0)
    told.aborted("T1")
    told.read(0, {}, 2)
    assert losses(told.history) == ()


def test_what_a_hanging_transaction_holds_of_a_commit_is_lost() -> None:
    told = Told()
    wrote = told.wrote("T2", "r2", 1, producer_id=7)
    elsewhere = told.wrote("T2", "r3", 0, producer_id=7, partition=1)
    committed = told.committed("T2")
    hangs(told)
    read = told.read(0, {0: "r3"}, 2, partition=1)
    lost, torn = sorted(losses(told.history), key=lambda anomaly: anomaly.kind)
    assert (lost.kind, torn.kind) == ("lost-write", "torn-transaction")
    assert {wrote, committed} <= set(lost.evidence)
    assert {wrote, read, committed} <= set(torn.evidence)
    assert elsewhere not in lost.evidence


def test_what_somebody_has_read_before_it_hung_is_not_lost_by_that() -> None:
    told = Told()
    told.wrote("T2", "r2", 1, producer_id=7)
    told.committed("T2")
    told.read(1, {1: "r2"}, 2)
    hangs(told)
    assert losses(told.history) == ()


def test_what_was_committed_after_it_was_seen_hanging_may_have_been_freed() -> None:
    told = Told()
    told.wrote("T2", "r2", 1, producer_id=7)
    hangs(told)
    told.described("Ongoing", T0, producer_id=9)
    told.committed("T2")
    assert losses(told.history) == ()
    told.producers((7, 1))
    assert kinds(losses(told.history)) == ["lost-write"]


def test_what_lies_before_the_hanging_transaction_or_belongs_to_others_is_not_held() -> None:
    told = Told()
    told.wrote("T2", "r2", 2, producer_id=8)
    told.committed("T2")
    hangs(told)
    assert losses(told.history) == ()


def test_a_record_that_one_reader_got_and_another_did_not_is_visible_and_lost() -> None:
    told = Told()
    told.wrote("T1", "r1", 0)
    told.wrote("T1", "r2", 1)
    told.committed("T1")
    told.read(0, {}, 2)
    assert kinds(losses(told.history)) == ["lost-commit"]
    told.read(0, {0: "r1"}, 1)
    assert kinds(losses(told.history)) == ["lost-write", "lost-write", "torn-transaction"]


def test_a_record_is_not_torn_off_from_itself() -> None:
    told = Told()
    told.wrote("T1", "r1", 0)
    told.committed("T1")
    told.read(0, {0: "r1"}, 1)
    told.read(0, {}, 2)
    assert kinds(losses(told.history)) == ["lost-write"]


def test_a_record_that_was_acknowledged_twice_is_one_record() -> None:
    told = Told()
    told.wrote("T1", "r1", 0)
    told.wrote("T1", "r1", 0)
    told.committed("T1")
    told.read(0, {}, 2)
    assert set(kinds(losses(told.history))) == {"lost-write"}
