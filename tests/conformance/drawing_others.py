"""What operators and readers ask, drawn at random."""

from __future__ import annotations

from typing import Final

from tests.conformance.choices import Choices
from tests.conformance.drawing import Drawer, ahead, by_topic
from tests.conformance.model import Place, Producer, Transaction, World
from tests.conformance.operations import Operation, Pid, TopicId, Values
from txnsim_lab.conformance._book.batches import STAMP_MS
from txnsim_lab.conformance._book.frame_player import fetch

MISSING_PARTITION: Final = 9
_LITTLE_BYTES: Final = 400
_ALL_BYTES: Final = 1 << 20


class OthersDrawer:
    """Draws operations of operators and readers.

    Args:
        choices: Of the rule that asks.
        world: What is there.
        producers: Draws identities.
    """

    def __init__(self, choices: Choices, world: World, producers_drawer: Drawer) -> None:
        self._choices = choices
        self._world = world
        self._producers = producers_drawer

    # Operators

    def abort(self, transaction: Transaction) -> Operation:
        """The marker that ``kafka-transactions.sh abort`` sends to end a hanging transaction."""
        identity = transaction.identity
        marker = _marker(Pid(identity.pid), identity.epoch, [transaction.place])
        return _markers(1, "operator's abort", "right", [marker])

    def overtake(self, transaction: Transaction) -> Operation:
        """A marker with an epoch so far ahead that the coordinator's own is refused: PrepareX will
        last.
        """
        producer = transaction.producer
        identity = ahead(producer.current or transaction.identity, self._choices.between(2, 4))
        topic_partition = transaction.place
        if producer.added and topic_partition not in producer.added:
            topic_partition = self._choices.pick(sorted(producer.added))
        marker = _marker(Pid(identity.pid), identity.epoch, [topic_partition])
        version = self._choices.between(1, 2)
        marker["transaction_version"] = self._choices.between(0, 2)
        return _markers(version, f"v{version}", "epoch ahead", [marker])

    def write_markers(self, producer: Producer) -> Operation:
        drawn_identity = self._producers.identity(producer)
        version = self._choices.between(1, 2)
        count = self._choices.some((1, 4), (2, 1), (3, 1))
        places = self._choices.sample(self._world.places, count)
        if producer.added and self._choices.rarely(1.5):
            places = [self._choices.pick(sorted(producer.added))]
        coordinator_epoch = self._choices.some((0, 80), (-1, 17), (2, 3))
        marker = _marker(drawn_identity.pid, drawn_identity.identity.epoch, places)
        marker["transaction_result"] = bool(self._choices.between(0, 1))
        marker["coordinator_epoch"] = coordinator_epoch
        marker["transaction_version"] = self._choices.between(0, 2)
        markers = [marker]
        if self._choices.rarely(8):
            its = self._producers.identity(self._choices.pick(self._world.producers))
            epoch = -1 if self._choices.rarely(4) else its.identity.epoch
            other_marker = {**marker, "producer_id": its.pid, "producer_epoch": epoch}
            markers = [other_marker, marker] if self._choices.rarely(2) else [marker, other_marker]
        mode = f"{drawn_identity.mode}, coordinator epoch {coordinator_epoch}"
        return _markers(version, f"v{version}", mode, markers)

    def describe_producers(self) -> Operation:
        """A DescribeProducers request for a partition, sometimes for a missing one."""
        topic, index = self._choose_partition()
        is_known = not self._choices.rarely(20)
        indexes = [index if is_known else MISSING_PARTITION]
        return Operation(
            api="DescribeProducers",
            version=0,
            mode="known" if is_known else "unknown",
            values={"topics": [{"name": topic, "partition_indexes": indexes}]},
            partition=(topic, index),
        )

    def describe_transactions(self) -> Operation:
        """A DescribeTransactions request for several ids, some of them unknown."""
        names = [producer.name for producer in self._world.producers]
        names_asked = self._choices.sample(names, self._choices.between(1, len(names)))
        if self._choices.rarely(10):
            names_asked.append(self._choices.pick(("", "nobody")))
        return Operation(
            api="DescribeTransactions",
            version=0,
            mode=f"{min(2, len(names_asked))} names",
            values={"transactional_ids": names_asked},
        )

    def list_transactions(self) -> Operation:
        """A ListTransactions request by state, producer id, duration or pattern."""
        version = self._choices.between(0, 2)
        values: Values = {}
        if version < 2 or self._choices.rarely(3):
            mode = "pids"
            identities = self._world.identities
            identities_asked = (
                [self._choices.pick(identities) for _ in range(3)] if identities else []
            )
            values["producer_id_filters"] = [
                Pid(identity.pid) for identity in identities_asked
            ] or [Pid(-1, 0)]
        else:
            mode = "pattern"
            values["transactional_id_pattern"] = self._world.prefix + self._choices.pick(
                ("-.*", "-id-[0-4]", "-(id|x)-.*?1", "(?i)-ID-.*", "-(?!id).*", "(")
            )
        if self._choices.rarely(2):
            mode += ", states"
            states = ("Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit")
            more_states = ("CompleteAbort", "Dead", "ongoing", "Nonsense")
            values["state_filters"] = self._choices.sample(
                states + more_states, self._choices.between(1, 3)
            )
        if version >= 1 and self._choices.rarely(3):
            mode += ", duration"
            values["duration_filter"] = self._choices.pick((-1, -7, 3_600_000))
        return Operation(api="ListTransactions", version=version, mode=mode, values=values)

    # Readers

    def list_offsets(self) -> Operation:
        """Ends, beginnings and times; -3 depends on ties of the clock and is told in a story."""
        topic_partition = self._choose_partition()
        isolation_level = self._choices.between(0, 1)
        version = self._choices.between(1 if isolation_level == 0 else 2, 11)
        time_kind, timestamp = self._choices.some(
            (("latest", -1), 6),
            (("earliest", -2), 2),
            (("records", STAMP_MS), 1),
            (("markers", STAMP_MS + 1), 1),
            (("none", 1 << 60), 1),
            (("local", -4), 0.5),
            (("tiered", -5), 0.5),
        )
        partition_index = MISSING_PARTITION if self._choices.rarely(40) else topic_partition[1]
        partition = {"partition_index": partition_index, "timestamp": timestamp}
        return Operation(
            api="ListOffsets",
            version=version,
            flow=_ISOLATION[isolation_level],
            mode=time_kind,
            values={
                "replica_id": -1,
                "isolation_level": isolation_level,
                "topics": [{"name": topic_partition[0], "partitions": [partition]}],
            },
            partition=topic_partition,
        )

    def fetch(self, topic_partition: Place, offset: int) -> Operation:
        isolation_level = self._choices.between(0, 1)
        limit = _ALL_BYTES if not self._choices.rarely(5) else self._choices.between(0, 400)
        values = fetch(
            (topic_partition[0], TopicId(topic_partition[0])),
            offset,
            partition=topic_partition[1],
            isolation=isolation_level,
            partition_max_bytes=limit,
        )
        return Operation(
            api="Fetch",
            version=self._choices.between(4, 18),
            flow=_ISOLATION[isolation_level],
            mode="all" if limit > _LITTLE_BYTES else "little",
            values=values,
            partition=topic_partition,
        )

    def fetch_somewhere(self) -> Operation:
        """A Fetch request at the log's start, inside the log or beyond its end."""
        offset = self._choices.some((0, 2), (self._choices.between(0, 40), 3), (100_000, 0.2))
        deleted_partitions = [
            topic_partition
            for topic_partition in self._world.places
            if topic_partition[0] in self._world.deleted
        ]
        topic_partition = (
            self._choices.pick(deleted_partitions)
            if deleted_partitions and self._choices.rarely(2)
            else self._choose_partition()
        )
        return self.fetch(topic_partition, offset)

    def delete_records(self) -> Operation:
        topic_partition = self._choose_partition()
        offset = self._choices.some((self._choices.between(0, 30), 4), (-1, 1), (100_000, 1))
        partition = {"partition_index": topic_partition[1], "offset": offset}
        return Operation(
            api="DeleteRecords",
            version=self._choices.between(0, 2),
            mode={-1: "all", 100_000: "beyond"}.get(offset, "some"),
            values={
                "timeout": 1_000,
                "topics": [{"name": topic_partition[0], "partitions": [partition]}],
            },
            partition=topic_partition,
        )

    def _choose_partition(self) -> Place:
        return self._choices.pick(self._world.places)


_ISOLATION: Final = ("read_uncommitted", "read_committed")


def _marker(pid: Pid, epoch: int, partitions_drawn: list[Place]) -> Values:
    """The values of an ABORT marker, as Kafka's tool sends it."""
    return {
        "producer_id": pid,
        "producer_epoch": epoch,
        "transaction_result": False,
        "coordinator_epoch": 0,
        "topics": [
            {"name": topic, "partition_indexes": indexes}
            for topic, indexes in by_topic(partitions_drawn).items()
        ],
    }


def _markers(version: int, txn_flow: str, mode: str, markers: list[Values]) -> Operation:
    topic = markers[0]["topics"][0]
    return Operation(
        api="WriteTxnMarkers",
        version=version,
        flow=txn_flow,
        mode=mode,
        values={"markers": markers},
        partition=(topic["name"], topic["partition_indexes"][0]),
    )
