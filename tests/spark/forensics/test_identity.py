"""Which replicas are of the topic that has their name: a table."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.broker_dirs import BrokerDir
from tests.support.logs import driven_log
from tests.support.remade_topic import GONE_ID, NEW_ID, OLD_ID, remade_topic
from txnsim.errors import BadInputError
from txnsim_spark.forensics._metadata_copies import KnownTopics
from txnsim_spark.forensics.identity import (
    Identities,
    Stale,
    identified,
    identities_in,
    stale_words,
)
from txnsim_spark.scan.segments import Replica

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


def told(known: KnownTopics, *ids: str | None, partitions: int = 1) -> Identities:
    """Of brokers 1, 2 and so on, whose replicas have these ids."""
    found = [
        (replica(broker, partition=partition), topic_id)
        for broker, topic_id in enumerate(ids, 1)
        for partition in range(partitions)
    ]
    return identified(found, known)


@pytest.mark.parametrize(
    ("known", "ids", "stale"),
    [
        (KnownTopics(), ("new", "new"), []),
        (KnownTopics(), ("new", None), []),
        (KnownTopics(topic_ids=LIVES), ("new", None), []),
        (KnownTopics(topic_ids=LIVES, brokers=frozenset({1, 2})), ("new", "old"), [2]),
        (KnownTopics(topic_ids=LIVES, brokers=frozenset({2})), ("new", "old"), [2]),
        (KnownTopics(topic_ids=LIVES, removed=frozenset({"old"})), ("new", "old"), [2]),
        (KnownTopics(topic_ids=LIVES, removed=frozenset({"old"})), ("old", None, "old"), [1, 3]),
        (KnownTopics(topic_ids={}, brokers=frozenset({1})), ("old",), [1]),
        (KnownTopics(topic_ids={}), ("maybe newer than the copy",), []),
    ],
)
def test_the_metadata_log_says_which_ones_are_stale(
    known: KnownTopics, ids: tuple[str | None, ...], stale: list[int]
) -> None:
    found = told(known, *ids)
    assert [one.broker for one in found.stale] == stale
    assert found.undecided == {}
    assert [broker for broker in range(1, 4) if found.is_stale(replica(broker))] == stale


@pytest.mark.parametrize(
    ("known", "ids"),
    [
        (KnownTopics(), ("one", "other")),
        (KnownTopics(topic_ids=LIVES), ("new", "maybe newer than the copy")),
        (KnownTopics(topic_ids=LIVES), ("maybe newer than the copy",)),
        (KnownTopics(topic_ids=LIVES, brokers=frozenset({1})), ("new", "maybe newer")),
        (KnownTopics(topic_ids={}), ("one", "other")),
    ],
)
def test_where_nothing_decides_nothing_is_guessed(known: KnownTopics, ids: tuple[str, ...]) -> None:
    found = told(known, *ids)
    assert found.stale == ()
    assert found.undecided.keys() == {"orders"}
    assert f"id {ids[0]} on broker 1" in found.undecided["orders"]


def test_ids_are_compared_over_all_partitions_of_a_topic() -> None:
    """Each partition was seen on one broker."""
    found = identified([(replica(1), "one"), (replica(2, partition=1), "other")], KnownTopics())
    assert found.undecided.keys() == {"orders"}


@pytest.mark.parametrize(
    ("known", "other_has_one", "stale"),
    [
        (KnownTopics(topic_ids=LIVES), True, True),
        (KnownTopics(topic_ids=LIVES), False, False),  # the files were left out of a copy
        (KnownTopics(), True, False),  # a cluster with ZooKeeper, for all we know
    ],
)
def test_a_replica_without_an_id_beside_others_is_set_aside_by_its_broker(
    known: KnownTopics, *, other_has_one: bool, stale: bool
) -> None:
    """LogManager.isStrayReplica; it counted to those with an id."""
    beside = (replica(1, partition=1), "new" if other_has_one else None)
    found = identified([(replica(1), None), beside, (replica(2), "new")], known)
    assert found.is_stale(replica(1)) is stale
    assert not found.is_stale(replica(1, partition=1))
    assert not found.is_stale(replica(2))
    assert found.undecided == {}
    if stale:
        assert stale_words(found.stale) == (
            "stale: orders, partition 0, on broker 1 has no partition.metadata: its broker sets it"
            " aside when it starts",
        )


def test_the_metadata_log_itself_is_not_stale() -> None:
    known = KnownTopics(topic_ids={}, brokers=frozenset({1}))
    other = (replica(1), "its own")
    for topic_id in ("its own", None):
        own = [(replica(1, "__cluster_metadata"), topic_id)]
        assert identified(own, known) == Identities()
        assert not identified([*own, other], known).is_stale(own[0][0])


def test_people_read_a_line_per_topic_and_broker() -> None:
    known = KnownTopics(topic_ids=LIVES, brokers=frozenset({2}))
    assert stale_words(told(known, "new", "old", partitions=3).stale) == (
        "stale: orders, partition 0, 1, 2, on broker 2 has topic id old: that topic was deleted,"
        " the one of this name has id new",
    )


@pytest.mark.parametrize(("copies", "forgets"), [((1, 2), False), ((1, 2), True), ((1,), False)])
def test_directories_tell_it(tmp_path: Path, copies: tuple[int, ...], *, forgets: bool) -> None:
    found = identities_in([remade_topic(tmp_path, copies=copies, forgets=forgets)])
    stale = [(one.topic, one.broker, one.topic_id, one.living_topic_id) for one in found.stale]
    assert stale == [("gone", 2, GONE_ID, None), ("orders", 2, OLD_ID, NEW_ID)]
    assert found.undecided == {}


@pytest.mark.parametrize(("copies", "forgets"), [((), False), ((2,), False), ((1,), True)])
def test_directories_that_do_not_tell_it(
    tmp_path: Path, copies: tuple[int, ...], *, forgets: bool
) -> None:
    found = identities_in([remade_topic(tmp_path, copies=copies, forgets=forgets)])
    assert found.stale == ()
    assert found.undecided.keys() == {"orders"}


def test_a_torn_copy_does_not_say_that_a_topic_is_not_there(tmp_path: Path) -> None:
    path = remade_topic(tmp_path, copies=(2,))
    for log in path.glob("broker-2/__cluster_metadata-0/*.log"):
        with log.open("ab") as file:
            file.write(b"torn")
    found = identities_in([path / "broker-2"])
    assert found == Identities()
    assert identities_in([path]).undecided.keys() == {"orders"}


def test_directories_of_two_clusters_are_refused(tmp_path: Path) -> None:
    for broker, cluster_id in ((1, "one"), (2, "other"), (3, "one")):
        made = BrokerDir(tmp_path / f"b{broker}", broker, cluster_id=cluster_id)
        made.replica(driven_log())
    with pytest.raises(BadInputError, match=r"b1 is of cluster one, .*b2 of cluster other"):
        identities_in([tmp_path])
    assert identities_in([tmp_path / "b1", tmp_path / "b3"]) == Identities()


def test_a_row_of_a_stale_replica_is_left_out() -> None:
    stale = Stale(
        topic="t", partition=0, topic_id="a", living_topic_id=None, broker=1, log_dir="/b"
    )
    rows = [{"log_dir": "/b", "topic": "t", "partition": number} for number in (0, 1)]
    assert list(Identities(stale=(stale,)).living(rows)) == rows[1:]
