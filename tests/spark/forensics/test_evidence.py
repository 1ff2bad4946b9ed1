"""When a verdict can be trusted."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from tests.spark.forensics.opened import FACTS as SOUND
from tests.spark.forensics.opened import HERE, ends, no_marker_since, txn
from tests.support.broker_dirs import BrokerDir
from tests.support.logs import driven_log
from tests.support.metadata_logs import partition, remove_topic, topic, write_metadata_log
from tests.support.remade_topic import GONE_ID, NEW_ID, OLD_ID, remade_topic
from txnsim.errors import BadInputError
from txnsim.storage.metadata_log import StoredMetadata
from txnsim.types import TRANSACTION_STATE_TOPIC, TopicPartition, partition_for, uuid_text
from txnsim_spark.forensics._coordinator_entries import (
    CoordinatorEntry,
    Coordinators,
    EntryBuilder,
    TxnRecord,
    coordinators_of,
    partitions_of_log,
)
from txnsim_spark.forensics._evidence import (
    Evidence,
    ReplicaAssignment,
    ReplicaBasis,
    StartBatch,
    Status,
    evidence_of,
)
from txnsim_spark.forensics._metadata_copies import (
    KnownTopics,
    complete_coordinators,
    known_topics_in,
)
from txnsim_spark.forensics._read_notes import CutOff, Gap, ReadNotes
from txnsim_spark.forensics.identity import (
    Identities,
    Stale,
    identify_replicas,
    identities_in,
    stale_words,
)
from txnsim_spark.forensics.verdicts import TxnSpread, opinion_on
from txnsim_spark.scan.segments import Replica

ENDS = ends(mark=10)
FACTS = msgspec.structs.replace(
    SOUND, state=msgspec.structs.replace(SOUND.state, ends=ENDS), brokers_seen=(1,)
)
EMPTY = TxnRecord(log_partition=1, offset=0, transactional_id="a", state="Empty", producer_id=7)
"""``a`` belongs to partition 1 of 2."""
KNOWN = coordinators_of(
    [CoordinatorEntry(newest_record=EMPTY)], forgotten_id_by_producer={}, partitions_on_disk=[0, 1]
)


def evidence_for(
    replica_basis: ReplicaBasis = FACTS, coordinators: Coordinators = KNOWN
) -> Evidence:
    spread = TxnSpread(transaction=txn(), deciding_replica=ENDS, open_on=(ENDS,))
    return evidence_of(
        spread,
        opinion_on(txn(), HERE, coordinators, as_of_ms=0, markers=no_marker_since),
        coordinators,
        replica_basis,
    )


def test_a_snapshot_at_the_end_and_its_start_batch_are_sound() -> None:
    evidence = evidence_for()
    assert (evidence.status, evidence.reasons, evidence.is_sound) == (
        Status.SOUND,
        (),
        True,
    )
    assert (evidence.read_from, evidence.read_until, evidence.snapshot_offset) == (None, None, 10)
    assert (evidence.coordinator.log_partition, evidence.replicas.seen) == (1, (1,))


def test_what_was_read_is_told() -> None:
    evidence = evidence_for(msgspec.structs.replace(FACTS, notes=ReadNotes(read_from=2)))
    assert (evidence.read_from, evidence.read_until, evidence.is_sound) == (2, 10, True)


Change = Callable[[ReplicaBasis], ReplicaBasis]


def replaced_facts(**values: object) -> Change:
    return lambda evidence: msgspec.structs.replace(evidence, **values)


def state(**values: object) -> Change:
    return lambda evidence: msgspec.structs.replace(
        evidence, state=msgspec.structs.replace(evidence.state, **values)
    )


CUT = CutOff(file="/b/o/0.log", position=9, offset=10, reason="torn")


@pytest.mark.parametrize(
    ("change", "status", "reason"),
    [
        (replaced_facts(notes=ReadNotes(damage=("x: CRC",))), "damaged", "x: CRC"),
        (state(damage=("x: a folder",)), "damaged", "x: a folder"),
        (
            replaced_facts(notes=ReadNotes(cut_off=CUT)),
            "damaged",
            "a starting broker cuts the log off: /b/o/0.log, byte 9: torn",
        ),
        (
            replaced_facts(gaps=(Gap(first_offset=6, next_offset=8),)),
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
            replaced_facts(start_batch=StartBatch.ANOTHERS),
            "damaged",
            "at offset 5 no sound batch of producer 7 and epoch 3 begins: the snapshot may be of"
            " another partition",
        ),
        (
            replaced_facts(start_batch=StartBatch.NOT_THERE),
            "incomplete",
            "the batch at offset 5 is not there: the log begins at 0 and ends at 10",
        ),
        (
            replaced_facts(assignment=ReplicaAssignment(replicas=(1, 2), in_sync=(2,), leader=2)),
            "incomplete",
            "the leader's replica, broker 2's, is not among the directories",
        ),
    ],
)
def test_what_is_wrong_with_a_replica(change: Change, status: str, reason: str) -> None:
    evidence = evidence_for(change(FACTS))
    assert (evidence.status, evidence.reasons) == (status, (reason,))


def test_a_deleted_beginning_is_sound_where_the_last_batch_is_there() -> None:
    assert evidence_for(replaced_facts(start_batch=StartBatch.DELETED)(FACTS)).is_sound


def test_missing_followers_are_named_and_do_no_harm() -> None:
    evidence = evidence_for(
        replaced_facts(assignment=ReplicaAssignment(replicas=(1, 2), in_sync=(1,), leader=1))(FACTS)
    )
    assert evidence.is_sound
    assert (evidence.replicas.exist, evidence.replicas.in_sync, evidence.replicas.leader) == (
        (1, 2),
        (1,),
        1,
    )
    assert evidence.replicas.missing == (2,)
    assert evidence.replicas.summary == (
        "1 of 2 replicas seen, in sync {1}, leader 1; not seen: broker 2"
    )


def test_replicas_are_told_in_a_few_words() -> None:
    three_replicas = ReplicaAssignment(replicas=(1, 2, 3), in_sync=(1, 2), leader=2)
    assert evidence_for(
        replaced_facts(assignment=three_replicas, brokers_seen=(1, 2))(FACTS)
    ).replicas.summary == ("2 of 3 replicas seen, in sync {1,2}, leader 2; not seen: broker 3")
    headless_assignment = ReplicaAssignment(replicas=(1,), in_sync=(1,), leader=-1)
    assert evidence_for(replaced_facts(assignment=headless_assignment)(FACTS)).replicas.summary == (
        "1 of 1 replicas seen, in sync {1}, no leader"
    )
    assert (
        evidence_for().replicas.summary == "1 replicas seen; no copy of the metadata log is there"
    )


def test_damage_weighs_more_than_what_is_missing() -> None:
    worse_basis = replaced_facts(
        gaps=(Gap(first_offset=6, next_offset=8),), start_batch=StartBatch.ANOTHERS
    )(FACTS)
    assert evidence_for(worse_basis).status is Status.DAMAGED
    assert len(evidence_for(worse_basis).reasons) == 2


# Coordinators


def known_coordinators(has_entry: bool = True, **values: object) -> Coordinators:
    coordinator_entries = [CoordinatorEntry(newest_record=EMPTY)] if has_entry else []
    all_coordinators = coordinators_of(
        coordinator_entries, forgotten_id_by_producer={}, partitions_on_disk=[0, 1]
    )
    return msgspec.structs.replace(all_coordinators, **values)


@pytest.mark.parametrize(
    ("coordinators", "status"),
    [
        (Coordinators(), Status.INCOMPLETE),
        (known_coordinators(missing_partitions=(0,)), Status.INCOMPLETE),
        (known_coordinators(damaged_partitions=frozenset({1})), Status.DAMAGED),
        (known_coordinators(cut_off_by_partition={1: "torn"}), Status.DAMAGED),
        (known_coordinators(damaged_partitions=frozenset({0})), Status.SOUND),
        (known_coordinators(cut_off_by_partition={0: "torn"}), Status.SOUND),
        (
            known_coordinators(not_in_sync_text_by_partition={1: "was seen on broker 3 only"}),
            Status.INCOMPLETE,
        ),
        (
            known_coordinators(not_in_sync_text_by_partition={0: "was seen on broker 3 only"}),
            Status.SOUND,
        ),
        (known_coordinators(has_entry=False, damaged_partitions=frozenset({0})), Status.DAMAGED),
        (known_coordinators(has_entry=False, cut_off_by_partition={0: "torn"}), Status.DAMAGED),
    ],
)
def test_the_coordinators_logs_must_be_there_and_the_one_that_matters_be_whole(
    coordinators: Coordinators, status: Status
) -> None:
    assert evidence_for(coordinators=coordinators).status is status


# Which replicas are of the topic that has their name: a table.


LIVES = {"orders": "new"}


def replica(broker: int, topic: str = "orders", partition: int = 0) -> Replica:
    log_dir = f"/b{broker}"
    return Replica(
        log_dir=log_dir,
        broker=broker,
        topic=topic,
        partition=partition,
        path=f"{log_dir}/{topic}-{partition}",
    )


def identities_of(known_topics: KnownTopics, *ids: str | None, partitions: int = 1) -> Identities:
    """Return identities of brokers 1, 2 and so on, whose replicas have these ids."""
    identities = [
        (replica(broker, partition=partition), topic_id)
        for broker, topic_id in enumerate(ids, 1)
        for partition in range(partitions)
    ]
    return identify_replicas(identities, known_topics)


@pytest.mark.parametrize(
    ("topics", "ids", "stale_brokers"),
    [
        (KnownTopics(), ("new", "new"), []),
        (KnownTopics(), ("new", None), []),
        (KnownTopics(topic_ids=LIVES), ("new", None), []),
        (KnownTopics(topic_ids=LIVES, brokers=frozenset({1, 2})), ("new", "old"), [2]),
        (KnownTopics(topic_ids=LIVES, brokers=frozenset({2})), ("new", "old"), [2]),
        (KnownTopics(topic_ids=LIVES, removed_topic_ids=frozenset({"old"})), ("new", "old"), [2]),
        (
            KnownTopics(topic_ids=LIVES, removed_topic_ids=frozenset({"old"})),
            ("old", None, "old"),
            [1, 3],
        ),
        (KnownTopics(topic_ids={}, brokers=frozenset({1})), ("old",), [1]),
        (KnownTopics(topic_ids={}), ("maybe newer than the copy",), []),
    ],
)
def test_the_metadata_log_says_which_ones_are_stale(
    topics: KnownTopics, ids: tuple[str | None, ...], stale_brokers: list[int]
) -> None:
    identities = identities_of(topics, *ids)
    assert [stale_evidence.broker for stale_evidence in identities.stale] == stale_brokers
    assert identities.undecided_reason_by_topic == {}
    assert [
        broker for broker in range(1, 4) if identities.is_stale(replica(broker))
    ] == stale_brokers


@pytest.mark.parametrize(
    ("topics", "ids"),
    [
        (KnownTopics(), ("one", "other")),
        (KnownTopics(topic_ids=LIVES), ("new", "maybe newer than the copy")),
        (KnownTopics(topic_ids=LIVES), ("maybe newer than the copy",)),
        (KnownTopics(topic_ids=LIVES, brokers=frozenset({1})), ("new", "maybe newer")),
        (KnownTopics(topic_ids={}), ("one", "other")),
    ],
)
def test_where_nothing_decides_nothing_is_guessed(
    topics: KnownTopics, ids: tuple[str, ...]
) -> None:
    identities = identities_of(topics, *ids)
    assert identities.stale == ()
    assert identities.undecided_reason_by_topic.keys() == {"orders"}
    assert f"id {ids[0]} on broker 1" in identities.undecided_reason_by_topic["orders"]


def test_a_living_partition_of_which_only_stale_replicas_are_here_is_named() -> None:
    known_topics = KnownTopics(topic_ids=LIVES, brokers=frozenset({1, 2}))
    replicas = [(replica(1), "other"), (replica(2), "other"), (replica(2, partition=1), "other")]
    identities = identify_replicas(
        [*replicas, (replica(1, partition=1), LIVES["orders"])], known_topics
    )
    living_replicas = [replica(1, partition=1)]
    assert list(identities.unjudged_partitions(living_replicas)) == [
        f"orders-0 of topic id {LIVES['orders']}: only replicas of another topic id are here, so"
        " nothing is known of it"
    ]
    assert not list(identities.unjudged_partitions([replica(1), *living_replicas]))


def test_ids_are_compared_over_all_partitions_of_a_topic() -> None:
    """The two replicas are of different partitions, on one broker each."""
    identities = identify_replicas(
        [(replica(1), "one"), (replica(2, partition=1), "other")], KnownTopics()
    )
    assert identities.undecided_reason_by_topic.keys() == {"orders"}


@pytest.mark.parametrize(
    ("topics", "other_has_one", "is_stale"),
    [
        (KnownTopics(topic_ids=LIVES), True, True),
        (KnownTopics(topic_ids=LIVES), False, False),  # the files were left out of a copy
        (KnownTopics(), True, False),  # a cluster with ZooKeeper, for all we know
    ],
)
def test_a_replica_without_an_id_beside_others_is_set_aside_by_its_broker(
    topics: KnownTopics, *, other_has_one: bool, is_stale: bool
) -> None:
    """As in LogManager.isStrayReplica, a replica without an id is stray where others have an id."""
    neighbour = (replica(1, partition=1), "new" if other_has_one else None)
    identities = identify_replicas([(replica(1), None), neighbour, (replica(2), "new")], topics)
    assert identities.is_stale(replica(1)) is is_stale
    assert not identities.is_stale(replica(1, partition=1))
    assert not identities.is_stale(replica(2))
    assert identities.undecided_reason_by_topic == {}
    if is_stale:
        assert stale_words(identities.stale) == (
            "stale: orders, partition 0, on broker 1 has no partition.metadata: its broker sets it"
            " aside when it starts",
        )


def test_the_metadata_log_itself_is_not_stale() -> None:
    known_topics = KnownTopics(topic_ids={}, brokers=frozenset({1}))
    other_evidence = (replica(1), "its own")
    for topic_id in ("its own", None):
        own_evidence = [(replica(1, "__cluster_metadata"), topic_id)]
        assert identify_replicas(own_evidence, known_topics) == Identities()
        assert not identify_replicas([*own_evidence, other_evidence], known_topics).is_stale(
            own_evidence[0][0]
        )


def test_people_read_a_line_per_topic_and_broker() -> None:
    known_topics = KnownTopics(topic_ids=LIVES, brokers=frozenset({2}))
    assert stale_words(identities_of(known_topics, "new", "old", partitions=3).stale) == (
        "stale: orders, partition 0, 1, 2, on broker 2 has topic id old: that topic was deleted,"
        " the one of this name has id new",
    )


@pytest.mark.parametrize(
    ("copies", "has_lost_records"), [((1, 2), False), ((1, 2), True), ((1,), False)]
)
def test_directories_tell_it(
    tmp_path: Path, copies: tuple[int, ...], *, has_lost_records: bool
) -> None:
    identities = identities_in(
        [remade_topic(tmp_path, copies=copies, has_lost_records=has_lost_records)]
    )
    stale_rows = [
        (
            stale_evidence.topic,
            stale_evidence.broker,
            stale_evidence.topic_id,
            stale_evidence.living_topic_id,
        )
        for stale_evidence in identities.stale
    ]
    assert stale_rows == [("gone", 2, GONE_ID, None), ("orders", 2, OLD_ID, NEW_ID)]
    assert identities.undecided_reason_by_topic == {}


@pytest.mark.parametrize(("copies", "has_lost_records"), [((), False), ((2,), False), ((1,), True)])
def test_directories_that_do_not_tell_it(
    tmp_path: Path, copies: tuple[int, ...], *, has_lost_records: bool
) -> None:
    identities = identities_in(
        [remade_topic(tmp_path, copies=copies, has_lost_records=has_lost_records)]
    )
    assert identities.stale == ()
    assert identities.undecided_reason_by_topic.keys() == {"orders"}


def test_a_torn_copy_does_not_say_that_a_topic_is_not_there(tmp_path: Path) -> None:
    path = remade_topic(tmp_path, copies=(2,))
    for log in path.glob("broker-2/__cluster_metadata-0/*.log"):
        with log.open("ab") as file:
            file.write(b"torn")
    identities = identities_in([path / "broker-2"])
    assert identities == Identities()
    assert identities_in([path]).undecided_reason_by_topic.keys() == {"orders"}


def test_directories_of_two_clusters_are_refused(tmp_path: Path) -> None:
    for broker, cluster_id in ((1, "one"), (2, "other"), (3, "one")):
        broker_dir = BrokerDir(tmp_path / f"b{broker}", broker, cluster_id=cluster_id)
        broker_dir.replica(driven_log())
    with pytest.raises(BadInputError, match=r"b1 is of cluster one, .*b2 of cluster other"):
        identities_in([tmp_path])
    assert identities_in([tmp_path / "b1", tmp_path / "b3"]) == Identities()


def test_a_row_of_a_stale_replica_is_left_out() -> None:
    stale_evidence = Stale(
        topic="t", partition=0, topic_id="a", living_topic_id=None, broker=1, log_dir="/b"
    )
    rows = [{"log_dir": "/b", "topic": "t", "partition": partition} for partition in (0, 1)]
    assert list(Identities(stale=(stale_evidence,)).living_rows(rows)) == rows[1:]


# Coordinators' entries, by producer id.


PARTITION = TopicPartition("orders", 0)


def record(
    offset: int, state: str, *, transactional_id: str = "app", producer_id: int = 7
) -> TxnRecord:
    return TxnRecord(
        log_partition=0,
        offset=offset,
        transactional_id=transactional_id,
        state=state,
        producer_id=producer_id,
        last_update_timestamp_ms=100 + offset,
        partitions=frozenset({PARTITION}),
    )


def fold_entries(*records: TxnRecord) -> EntryBuilder:
    entry_builder = EntryBuilder()
    for record in records:
        entry_builder.take_record(record)
    return entry_builder


def test_the_newest_record_of_an_id_is_its_entry() -> None:
    entry_builder = fold_entries(
        record(0, "Empty"), record(1, "Ongoing"), record(2, "Empty", transactional_id="other")
    )
    assert {
        entry.newest_record.transactional_id: entry.newest_record.offset
        for entry in entry_builder.entries
    } == {
        "app": 1,
        "other": 2,
    }


def test_the_last_decision_stays_with_the_entry_after_it_is_complete() -> None:
    entry_builder = fold_entries(
        record(0, "PrepareCommit"), record(1, "CompleteCommit"), record(2, "Ongoing")
    )
    (entry,) = entry_builder.entries
    assert entry.newest_record.state == "Ongoing"
    assert entry.decision is not None
    assert entry.decision.offset == 0


def test_a_tombstone_forgets_the_id_and_keeps_the_name_for_its_producer() -> None:
    entry_builder = fold_entries(
        record(0, "CompleteAbort"), record(1, ""), record(2, "", transactional_id="never seen")
    )
    assert entry_builder.entries == ()
    assert entry_builder.forgotten_id_by_producer == {7: "app"}


def test_entries_are_found_by_present_and_by_former_or_next_producer_id() -> None:
    entry = CoordinatorEntry(
        newest_record=TxnRecord(
            log_partition=0,
            offset=0,
            transactional_id="app",
            state="PrepareAbort",
            producer_id=8,
            previous_producer_id=7,
            next_producer_id=9,
        )
    )
    coordinators = coordinators_of([entry], forgotten_id_by_producer={}, partitions_on_disk=[0])
    assert coordinators.entry_by_producer == {8: entry}
    assert coordinators.entry_by_other_producer == {7: entry, 9: entry}
    assert coordinators.owing_entries == (entry,)


def test_the_number_of_partitions_follows_from_where_ids_lie() -> None:
    coordinated_ids = [f"app-{id_number}" for id_number in range(60)]
    all_evidence = {
        (coordinated_id, partition_for(coordinated_id, 50)) for coordinated_id in coordinated_ids
    }
    few_partitions = frozenset(range(30))
    assert (
        partitions_of_log(
            few_partitions, {evidence for evidence in all_evidence if evidence[1] in few_partitions}
        )
        == 50
    )
    assert partitions_of_log(frozenset(), ()) == 0
    assert partitions_of_log(frozenset({4}), ()) == 5


def test_ids_that_lie_where_no_number_would_put_them_tell_nothing() -> None:
    names = [f"app-{id_number}" for id_number in range(200)]
    assert partitions_of_log(frozenset({0, 1}), {(name, 1) for name in names}) == 2


def test_what_is_missing_is_said() -> None:
    assert Coordinators().gap_text == "the directories hold no partition of __transaction_state"
    assert not Coordinators().is_complete
    coordinators = Coordinators(
        partition_count=3, missing_partitions=(1,), damaged_partitions=frozenset({2})
    )
    assert not coordinators.is_complete
    assert coordinators.gap_text == (
        "the directories lack __transaction_state, partition 1; __transaction_state, partition 2,"
        " can't be read to its end"
    )
    assert Coordinators(partition_count=3).is_complete
    assert Coordinators(partition_count=3).gap_text == ""
    lacking_coordinators = coordinators_of(
        [], forgotten_id_by_producer={}, partitions_on_disk=[0, 3], damaged_partitions=[3]
    )
    assert (lacking_coordinators.missing_partitions, lacking_coordinators.damaged_partitions) == (
        (1, 2),
        frozenset({3}),
    )


# Replicas by the metadata log.


ID = uuid.UUID(int=7)


def copy_in(log_dir: Path, *records: bytes) -> Path:
    log_dir.mkdir()
    write_metadata_log(log_dir / StoredMetadata.FOLDER, records)
    return log_dir


def test_the_newest_copy_counts(tmp_path: Path) -> None:
    old_copy_directory = copy_in(
        tmp_path / "b1", topic("orders", ID), partition(ID, replicas=(1, 2, 3))
    )
    new_copy_directory = copy_in(
        tmp_path / "b2",
        topic("orders", ID),
        partition(ID, replicas=(1, 2, 3)),
        partition(ID, replicas=(1, 2, 3), isr=(1, 2), leader=2),
    )
    expected_assignment = ReplicaAssignment(replicas=(1, 2, 3), in_sync=(1, 2), leader=2)
    for order in (
        [old_copy_directory, new_copy_directory],
        [new_copy_directory, old_copy_directory],
    ):
        known_topics = known_topics_in(order, print)
        assert known_topics.assignments == {TopicPartition("orders", 0): expected_assignment}
        assert known_topics.topic_ids == {"orders": uuid_text(ID)}


def test_an_eligible_leader_counts_where_the_last_one_in_sync_has_stopped(tmp_path: Path) -> None:
    stopped_partition = partition(ID, replicas=(1,), isr=(), leader=-1, elr=(1,))
    log_dir = copy_in(tmp_path / "b1", topic("orders", ID), stopped_partition)
    expected_assignment = ReplicaAssignment(replicas=(1,), in_sync=(1,), leader=-1)
    known_topics = known_topics_in([log_dir], print)
    assert known_topics.assignments == {TopicPartition("orders", 0): expected_assignment}


def test_without_a_copy_nothing_is_known(tmp_path: Path) -> None:
    assert known_topics_in([tmp_path], print) == KnownTopics()


def test_a_copy_that_can_not_be_read_is_told(tmp_path: Path) -> None:
    log_dir = copy_in(tmp_path / "b1", b"\x01\x02\x63what?")
    problems: list[str] = []
    assert known_topics_in([log_dir], problems.append) == KnownTopics()
    assert len(problems) == 1
    assert problems[0].startswith(str(log_dir))


def test_deleted_topics_and_the_owners_of_whole_copies_are_told(tmp_path: Path) -> None:
    broker_dir = BrokerDir(tmp_path / "b1", 1)
    write_metadata_log(
        broker_dir.path / StoredMetadata.FOLDER, [topic("orders", ID), remove_topic(ID)]
    )
    torn_broker = BrokerDir(tmp_path / "b2", 2)
    write_metadata_log(torn_broker.path / StoredMetadata.FOLDER, [topic("orders", ID)])
    (log,) = torn_broker.path.glob("*/*.log")
    log.write_bytes(log.read_bytes() + b"torn")
    known_topics = known_topics_in([broker_dir.path, torn_broker.path], print)
    assert known_topics == KnownTopics(
        topic_ids={},
        removed_topic_ids=frozenset({uuid_text(ID)}),
        brokers=frozenset({1}),
        age=(1, 2),
    )


STATE = {
    TopicPartition(TRANSACTION_STATE_TOPIC, partition): ReplicaAssignment(
        replicas=(1, 2, 3), in_sync=(1, 2), leader=1
    )
    for partition in range(3)
}
GUESSED = coordinators_of([], forgotten_id_by_producer={}, partitions_on_disk=[0])
"""One partition was there, so one is thought to exist."""


def test_the_metadata_log_says_how_many_coordinators_logs_there_are() -> None:
    assert (GUESSED.partition_count, GUESSED.is_complete) == (1, True)
    coordinators_of_identities = complete_coordinators(GUESSED, STATE, {0: {1, 3}})
    assert (
        coordinators_of_identities.partition_count,
        coordinators_of_identities.missing_partitions,
        coordinators_of_identities.not_in_sync_text_by_partition,
    ) == (
        3,
        (1, 2),
        {},
    )
    assert not coordinators_of_identities.is_complete
    assert complete_coordinators(GUESSED, {}, {0: {1}}) == GUESSED


def test_a_coordinators_log_that_was_seen_out_of_sync_only_is_named() -> None:
    brokers_seen = {0: {2}, 1: {3}, 2: {-1}}
    assert complete_coordinators(GUESSED, STATE, brokers_seen).not_in_sync_text_by_partition == {
        1: "was seen on broker 3 only; in sync are 1, 2"
    }
