"""What to ask next: requests drawn at random, most of them sensible.

Each function draws one API. Weights are chosen so that about half of the requests succeed and every
refusal comes up: an identity may be right, stale, ahead or somebody else's; a sequence right,
repeated or with a gap; a version any that Apache Kafka 4.3 serves.
"""

from __future__ import annotations

import random  # noqa: TID251 - for the type; the stream is seeded by the caller
from collections.abc import Callable
from typing import Any, Final

from tests.conformance.model import ABSENT, ONGOING, Identity, Place, Producer, World
from tests.conformance.operations import FOREIGN, Batch, Operation, Pid, TopicId, Values
from tests.real.stories.player import STAMP_MS, fetch, produce
from tests.real.stories.txn import add_values

RIGHT: Final = "right"
NO_IDENTITY: Final = Identity(-1, -1)
MISSING_PARTITION: Final = 9
EPOCH_MAX: Final = 32_767


class Drawer:
    """Draws operations.

    Args:
        chance: The stream of the seed.
        world: What is there.
        level: Finalized level of ``transaction.version``.
    """

    def __init__(self, chance: random.Random, world: World, level: int) -> None:
        self._chance = chance
        self.world = world
        self.level = level
        self._names = 0

    def draw(self) -> Operation:
        """The next operation."""
        kinds = list(_WEIGHTS)
        kind = self._chance.choices(kinds, weights=[_WEIGHTS[one] for one in kinds])[0]
        if kind in _TRANSACTIONAL:
            producer = self._producer()
            if producer.state == ABSENT and self._one_in(1.4):
                return self.init_producer_id(producer)
            if producer.state == ONGOING and kind == "add_partitions" and self._one_in(2):
                kind = "produce"
            return _TRANSACTIONAL[kind](self, producer)
        return _OTHERS[kind](self)

    # Chance

    def _one_in(self, times: float) -> bool:
        return self._chance.random() * times < 1

    def _some(self, *choices: tuple[Any, float]) -> Any:
        return self._chance.choices(
            [one for one, _ in choices], weights=[weight for _, weight in choices]
        )[0]

    def _producer(self) -> Producer:
        return self._chance.choice(self.world.producers)

    def _place(self) -> Place:
        return self._chance.choice(self.world.places)

    def _identity(self, producer: Producer) -> tuple[str, Identity, Pid]:
        """An identity to use, what is wrong with it, and its producer id."""
        right = producer.identity
        if right is None:
            others = self.world.identities
            if not others:
                return "nobody's", NO_IDENTITY, Pid(-1, 5)
            right = self._chance.choice(others)
            return "another's", right, Pid(right.pid)
        kind = self._some(
            (RIGHT, 82), ("stale", 7), ("epoch ahead", 4), ("epoch behind", 3), ("foreign pid", 4)
        )
        match kind:
            case "stale":
                old = self._chance.choice(producer.history)
                return (RIGHT if old == right else "stale"), old, Pid(old.pid)
            case "epoch ahead":
                return kind, _ahead(right, 1), Pid(right.pid)
            case "epoch behind":
                return kind, Identity(right.pid, right.epoch - 1), Pid(right.pid)
            case "foreign pid":
                return kind, right, Pid(right.pid, FOREIGN)
        return RIGHT, right, Pid(right.pid)

    def _speaks_new(self, producer: Producer) -> bool:
        """The new protocol at level 0 leaves the transactional id stuck for good: seldom."""
        if self.level == 0:
            return self._one_in(150)
        if producer.style == "mixed":
            return self._one_in(2)
        return (producer.style == "new") != self._one_in(20)

    # Transactions

    def init_producer_id(self, producer: Producer) -> Operation:
        """With and without an expected identity."""
        version = self._chance.randint(0, 5)
        name, timeout_ms = producer.name, producer.timeout_ms
        mode, pid, epoch = "plain", Pid(-1, -1), -1
        if version >= 3 and self._one_in(1.8):
            wrong, identity, pid = self._identity(producer)
            mode, epoch = f"expects {wrong}", identity.epoch
        odd = self._some(("", 94), ("bad timeout", 2), ("no name", 2), ("half", 2))
        match odd:
            case "bad timeout":
                mode, timeout_ms = odd, self._chance.choice((0, -1, 900_001))
            case "no name":
                mode, name = odd, ""
            case "half" if version >= 3:
                mode, epoch = odd, (-1 if epoch >= 0 else 3)
        values = {
            "transactional_id": name,
            "transaction_timeout": timeout_ms,
            "producer_id": pid,
            "producer_epoch": epoch,
        }
        return self._operation("InitProducerId", version, mode, values, producer)

    def plain_init(self, producer: Producer) -> Operation:
        """An identity, as a starting client asks for it."""
        values = {"transactional_id": producer.name, "transaction_timeout": producer.timeout_ms}
        return self._operation("InitProducerId", 4, "plain", values, producer)

    def idempotent_producer(self) -> Operation:
        """A producer id without a transactional id."""
        values = {"transactional_id": None, "transaction_timeout": 0}
        return Operation(
            api="InitProducerId",
            version=self._chance.randint(0, 5),
            mode="idempotent",
            values=values,
        )

    def add_partitions(self, producer: Producer) -> Operation:
        """v0 to v3 of clients, v4 and v5 of brokers: verify, or add."""
        mode, identity, pid = self._identity(producer)
        version = self._chance.randint(0, 3)
        verify = False
        if self._one_in(4) if self.level else self._one_in(40):
            version, verify = self._chance.randint(4, 5), self._one_in(2)
            mode += ", verify" if verify else ", broker's"
        places = self._chance.sample(self.world.places, self._chance.randint(1, 3))
        if self._one_in(25):
            places.append(("missing", 0))
            mode += ", unknown topic"
        name = "" if self._one_in(60) else producer.name
        values = _added(name, pid, identity, places, verify=verify)
        also = None
        if version >= 4 and self._one_in(4):
            # One entry for each id, as brokers send it; a batch with two is a known deviation.
            also = self._chance.choice([one for one in self.world.producers if one != producer])
            other, its, its_pid = self._identity(also)
            more = _added(also.name, its_pid, its, places[:1], verify=False)
            values["transactions"] += more["transactions"]
            mode += f", and {other} of another"
        return Operation(
            api="AddPartitionsToTxn",
            version=version,
            mode=mode,
            values=values,
            transactional_id=producer.name,
            also=None if also is None else also.name,
        )

    def produce(self, producer: Producer) -> Operation:
        """Transactional records; from v12 on a Produce adds its partition itself."""
        mode, identity, pid = self._identity(producer)
        new = self._speaks_new(producer)
        version = self._chance.randint(12, 13) if new else self._chance.randint(3, 11)
        place = self._place()
        if producer.added and (not new or self._one_in(2)) and not self._one_in(8):
            place = self._chance.choice(sorted(producer.added))
        odd, sequence = self._sequence(producer, identity, place)
        transactional = not self._one_in(40)
        name = None if self._one_in(60) else producer.name
        mode = f"{mode}, sequence {odd}"
        mode += "" if transactional else ", not transactional"
        mode += "" if name else ", nameless"
        batches = {place: self._batch(pid, identity.epoch, sequence, transactional=transactional)}
        if self._one_in(6):
            other = (place[0], 1 - place[1])
            odd, sequence = self._sequence(producer, identity, other)
            batches[other] = self._batch(pid, identity.epoch, sequence, transactional=True)
            mode += f", and {odd} elsewhere"
        return self._produce(version, mode, batches, name, producer)

    def end_txn(self, producer: Producer) -> Operation:
        """Commit or abort, by either protocol."""
        mode, identity, pid = self._identity(producer)
        new = self._speaks_new(producer)
        committed = self._one_in(1.5)
        name = "" if self._one_in(80) else producer.name
        values = {
            "transactional_id": name,
            "producer_id": pid,
            "producer_epoch": identity.epoch,
            "committed": committed,
        }
        mode = f"{'commit' if committed else 'abort'}, {mode}"
        return self._operation(
            "EndTxn", 5 if new else self._chance.randint(0, 4), mode, values, producer
        )

    # Records

    def loose_produce(self) -> Operation:
        """Idempotent records, and records of nobody."""
        place = self._place()
        version = self._chance.randint(3, 13)
        if not self.world.loose or self._one_in(8):
            batch = Batch(values=("n",))
            return self._produce(version, "no producer", {place: batch})
        producer = self._chance.choice(self.world.loose)
        mode, identity, pid = self._identity(producer)
        odd, sequence = self._sequence(producer, identity, place)
        batch = self._batch(pid, identity.epoch, sequence, transactional=False)
        mode = f"idempotent {mode}, sequence {odd}"
        return self._produce(version, mode, {place: batch})

    def _sequence(self, producer: Producer, identity: Identity, place: Place) -> tuple[str, int]:
        right = producer.next_sequence(identity, place)
        odd = str(self._some((RIGHT, 84), ("repeated", 8), ("gap", 5), ("zero", 3)))
        match odd:
            case "repeated" if right:
                return odd, max(0, right - self._chance.randint(1, 3))
            case "gap":
                return odd, right + 7
            case "zero" if right:
                return odd, 0
        return RIGHT, right

    def _batch(self, pid: Pid, epoch: int, sequence: int, *, transactional: bool) -> Batch:
        count = self._chance.randint(1, 2)
        return Batch(
            values=("a", "b")[:count],
            pid=pid,
            epoch=epoch,
            sequence=sequence,
            transactional=transactional,
        )

    def _produce(
        self,
        version: int,
        mode: str,
        batches: dict[Place, Batch],
        name: str | None = None,
        producer: Producer | None = None,
    ) -> Operation:
        """A Produce of one batch for each partition; the partitions are of one topic."""
        (topic, first), *_ = batches
        values = produce(
            (topic, TopicId(topic)),
            None,
            version,
            transactional_id=name,
            acks=self._chance.choice((-1, -1, 1)),
        )
        values["topic_data"][0]["partition_data"] = [
            {"index": index, "records": batch} for (_, index), batch in batches.items()
        ]
        return Operation(
            api="Produce",
            version=version,
            mode=mode,
            values=values,
            transactional_id=None if producer is None else producer.name,
            partition=(topic, first),
        )

    # Operators

    def write_markers(self) -> Operation:
        """What an operator does with a hanging transaction, and what he should not do."""
        producer = self._producer()
        mode, identity, pid = self._identity(producer)
        version = self._chance.randint(1, 2)
        places = self._chance.sample(self.world.places, self._some((1, 4), (2, 1), (3, 1)))
        if producer.added and self._one_in(1.5):
            places = [self._chance.choice(sorted(producer.added))]
            if self._one_in(2.5):
                # The coordinator's own marker is fenced by this one: PrepareX will last.
                mode, identity = "epoch ahead", _ahead(identity, self._chance.randint(1, 4))
        coordinator_epoch = self._some((0, 80), (-1, 17), (2, 3))
        marker = {
            "producer_id": pid,
            "producer_epoch": identity.epoch,
            "transaction_result": self._one_in(2),
            "coordinator_epoch": coordinator_epoch,
            "transaction_version": self._chance.randint(0, 2),
            "topics": [
                {"name": topic, "partition_indexes": indexes}
                for topic, indexes in _by_topic(places).items()
            ],
        }
        markers = [marker]
        if self._one_in(8):
            _, its, its_pid = self._identity(self._producer())
            epoch = -1 if self._one_in(4) else its.epoch
            markers.append({**marker, "producer_id": its_pid, "producer_epoch": epoch})
            self._chance.shuffle(markers)
        values = {"markers": markers}
        mode = f"{mode}, coordinator epoch {coordinator_epoch}"
        return Operation(
            api="WriteTxnMarkers", version=version, mode=mode, values=values, partition=places[0]
        )

    def describe_producers(self) -> Operation:
        """Of one partition, or of one that is not there."""
        topic, index = self._place()
        known = not self._one_in(20)
        values = {
            "topics": [
                {"name": topic, "partition_indexes": [index if known else MISSING_PARTITION]}
            ]
        }
        return Operation(
            api="DescribeProducers",
            version=0,
            mode="known" if known else "unknown",
            values=values,
            partition=(topic, index),
        )

    def describe_transactions(self) -> Operation:
        """Several at once, some of them unknown."""
        names = [one.name for one in self.world.producers]
        some = self._chance.sample(names, self._chance.randint(1, len(names)))
        if self._one_in(10):
            some.append(self._chance.choice(("", "nobody")))
        return Operation(
            api="DescribeTransactions",
            version=0,
            mode=f"{min(2, len(some))} names",
            values={"transactional_ids": some},
        )

    def list_transactions(self) -> Operation:
        """By state, producer id, duration and pattern."""
        version = self._chance.randint(0, 2)
        values: Values = {}
        mode = "all"
        identities = self.world.identities
        if version < 2 or self._one_in(3):
            some = self._chance.choices(identities, k=3) if identities else []
            values["producer_id_filters"] = [Pid(one.pid) for one in some] or [Pid(-1, 0)]
            mode = "pids"
        else:
            values["transactional_id_pattern"] = self.world.prefix + self._chance.choice(
                ("-.*", "-.*", "-id-[0-4]", "-(id|x)-.*?1", "(")
            )
        if self._one_in(2):
            states = ("Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit")
            more = ("CompleteAbort", "Dead", "ongoing", "Nonsense")
            values["state_filters"] = self._chance.sample(states + more, self._chance.randint(1, 3))
            mode += ", states"
        if version >= 1 and self._one_in(3):
            values["duration_filter"] = self._chance.choice((-1, -7, 3_600_000))
            mode += ", duration"
        return Operation(api="ListTransactions", version=version, mode=mode, values=values)

    # Readers

    def list_offsets(self) -> Operation:
        """Ends, beginnings and times; -3 depends on ties of the clock and is told in a story."""
        place = self._place()
        isolation = self._chance.randint(0, 1)
        version = self._chance.randint(1 if isolation == 0 else 2, 11)
        when, timestamp = self._some(
            (("latest", -1), 6),
            (("earliest", -2), 2),
            (("records", STAMP_MS), 1),
            (("markers", STAMP_MS + 1), 1),
            (("none", 1 << 60), 1),
        )
        index = MISSING_PARTITION if self._one_in(40) else place[1]
        values = {
            "replica_id": -1,
            "isolation_level": isolation,
            "topics": [
                {
                    "name": place[0],
                    "partitions": [{"partition_index": index, "timestamp": timestamp}],
                }
            ],
        }
        mode = f"{when}, isolation {isolation}"
        return Operation(
            api="ListOffsets", version=version, mode=mode, values=values, partition=place
        )

    def fetch(self) -> Operation:
        """From the start, or from somewhere."""
        place = self._place()
        isolation = self._chance.randint(0, 1)
        offset = self._some((0, 2), (self._chance.randint(0, 40), 3), (100_000, 0.2))
        limit = self._some((1 << 20, 4), (self._chance.randint(0, 400), 1))
        values = fetch(
            (place[0], TopicId(place[0])),
            offset,
            partition=place[1],
            isolation=isolation,
            partition_max_bytes=limit,
        )
        return Operation(
            api="Fetch",
            version=self._chance.randint(4, 18),
            mode=f"isolation {isolation}, {'all' if limit == 1 << 20 else 'little'}",
            values=values,
            partition=place,
        )

    def delete_records(self) -> Operation:
        """Up to an offset, or all."""
        place = self._place()
        offset = self._some((-1, 1), (self._chance.randint(0, 30), 4), (100_000, 1))
        values = {
            "timeout": 1_000,
            "topics": [
                {
                    "name": place[0],
                    "partitions": [{"partition_index": place[1], "offset": offset}],
                }
            ],
        }
        return Operation(
            api="DeleteRecords",
            version=self._chance.randint(0, 2),
            mode={-1: "all", 100_000: "beyond"}.get(offset, "some"),
            values=values,
            partition=place,
        )

    def update_features(self, level: int, *, surely: bool) -> Operation:
        """Another level of ``transaction.version``; version 0 can't lower it."""
        values = {
            "timeout": 5_000,
            "feature_updates": [
                {
                    "feature": "transaction.version",
                    "max_version_level": level,
                    "upgrade_type": 1 if level > self.level else 2,
                    "allow_downgrade": level < self.level,
                }
            ],
        }
        return Operation(
            api="UpdateFeatures",
            version=self._chance.randint(1 if surely else 0, 2),
            mode=f"{self.level} to {level}",
            values=values,
        )

    def _operation(
        self, api: str, version: int, mode: str, values: Values, producer: Producer
    ) -> Operation:
        return Operation(
            api=api,
            version=version,
            mode=mode,
            values=values,
            transactional_id=producer.name,
        )


def _ahead(identity: Identity, epochs: int) -> Identity:
    """The identity some epochs later, as far as an int16 goes."""
    return Identity(identity.pid, min(identity.epoch + epochs, EPOCH_MAX))


def _added(
    name: str | None, pid: Pid, identity: Identity, places: list[Place], *, verify: bool
) -> Values:
    """Values of AddPartitionsToTxn in both shapes."""
    topics = list(_by_topic(places).items())
    unresolved: Any = pid
    return add_values(name or "", unresolved, identity.epoch, topics, verify=verify)


def _by_topic(places: list[Place]) -> dict[str, list[int]]:
    """Partitions grouped by topic."""
    topics: dict[str, list[int]] = {}
    for topic, index in places:
        topics.setdefault(topic, []).append(index)
    return topics


_TRANSACTIONAL: Final[dict[str, Callable[[Drawer, Producer], Operation]]] = {
    "init_producer_id": Drawer.init_producer_id,
    "add_partitions": Drawer.add_partitions,
    "produce": Drawer.produce,
    "end_txn": Drawer.end_txn,
}
_OTHERS: Final[dict[str, Callable[[Drawer], Operation]]] = {
    "idempotent_producer": Drawer.idempotent_producer,
    "loose_produce": Drawer.loose_produce,
    "write_markers": Drawer.write_markers,
    "describe_producers": Drawer.describe_producers,
    "describe_transactions": Drawer.describe_transactions,
    "list_transactions": Drawer.list_transactions,
    "list_offsets": Drawer.list_offsets,
    "fetch": Drawer.fetch,
    "delete_records": Drawer.delete_records,
}
_WEIGHTS: Final[dict[str, float]] = {
    "init_producer_id": 10,
    "add_partitions": 15,
    "produce": 26,
    "end_txn": 15,
    "idempotent_producer": 1,
    "loose_produce": 5,
    "write_markers": 4,
    "describe_producers": 6,
    "describe_transactions": 3,
    "list_transactions": 4,
    "list_offsets": 6,
    "fetch": 6,
    "delete_records": 0.7,
}
