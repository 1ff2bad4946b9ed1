"""Coordinators' entries, by producer id."""

from __future__ import annotations

from txnsim.types import TopicPartition, partition_for
from txnsim_spark.forensics._coordinator_entries import (
    Coordinators,
    Entry,
    EntryFolder,
    TxnRecord,
    coordinators_of,
    partitions_of_log,
)

PARTITION = TopicPartition("orders", 0)


def record(offset: int, state: str, *, name: str = "app", producer_id: int = 7) -> TxnRecord:
    return TxnRecord(
        log_partition=0,
        offset=offset,
        transactional_id=name,
        state=state,
        producer_id=producer_id,
        last_update_timestamp_ms=100 + offset,
        partitions=frozenset({PARTITION}),
    )


def folded(*records: TxnRecord) -> EntryFolder:
    folder = EntryFolder()
    for one in records:
        folder.take(one)
    return folder


def test_the_newest_record_of_an_id_is_its_entry() -> None:
    folder = folded(record(0, "Empty"), record(1, "Ongoing"), record(2, "Empty", name="other"))
    assert {one.newest.transactional_id: one.newest.offset for one in folder.entries} == {
        "app": 1,
        "other": 2,
    }


def test_the_last_decision_stays_with_the_entry_after_it_is_complete() -> None:
    folder = folded(record(0, "PrepareCommit"), record(1, "CompleteCommit"), record(2, "Ongoing"))
    (entry,) = folder.entries
    assert entry.newest.state == "Ongoing"
    assert entry.decision is not None
    assert entry.decision.offset == 0


def test_a_tombstone_forgets_the_id_and_keeps_the_name_for_its_producer() -> None:
    folder = folded(record(0, "CompleteAbort"), record(1, ""), record(2, "", name="never seen"))
    assert folder.entries == ()
    assert folder.gone == {7: "app"}


def test_entries_are_found_by_present_and_by_former_or_next_producer_id() -> None:
    entry = Entry(
        newest=TxnRecord(
            log_partition=0,
            offset=0,
            transactional_id="app",
            state="PrepareAbort",
            producer_id=8,
            previous_producer_id=7,
            next_producer_id=9,
        )
    )
    found = coordinators_of([entry], forgotten={}, held=[0])
    assert found.by_producer == {8: entry}
    assert found.by_other_id == {7: entry, 9: entry}
    assert found.owing == (entry,)


def test_the_number_of_partitions_follows_from_where_ids_lie() -> None:
    names = [f"app-{number}" for number in range(60)]
    places = {(name, partition_for(name, 50)) for name in names}
    few = frozenset(range(30))
    assert partitions_of_log(few, {one for one in places if one[1] in few}) == 50
    assert partitions_of_log(frozenset(), ()) == 0
    assert partitions_of_log(frozenset({4}), ()) == 5


def test_ids_that_lie_where_no_number_would_put_them_tell_nothing() -> None:
    names = [f"app-{number}" for number in range(200)]
    assert partitions_of_log(frozenset({0, 1}), {(name, 1) for name in names}) == 2


def test_what_is_missing_is_said() -> None:
    assert Coordinators().gap == "the directories hold no partition of __transaction_state"
    assert not Coordinators().is_complete
    some = Coordinators(partitions=3, missing=(1,), damaged=frozenset({2}))
    assert not some.is_complete
    assert some.gap == (
        "the directories lack __transaction_state, partition 1; __transaction_state, partition 2,"
        " can't be read to its end"
    )
    assert Coordinators(partitions=3).is_complete
    assert Coordinators(partitions=3).gap == ""
    lacking = coordinators_of([], forgotten={}, held=[0, 3], damaged=[3])
    assert (lacking.missing, lacking.damaged) == ((1, 2), frozenset({3}))
