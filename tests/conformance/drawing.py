"""What a producer asks: requests drawn at random, most of them sensible.

An identity may be right, stale, ahead or somebody else's; a sequence right, repeated or with a gap;
a version any that the reference release serves.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from tests.conformance.choices import Choices
from tests.conformance.model import Identity, Place, Producer, World
from tests.conformance.operations import FOREIGN, Batch, Operation, Pid, TopicId, Values
from txnsim_lab.conformance._book.frame_player import add_partitions_values, produce

RIGHT: Final = "right"
NO_IDENTITY: Final = Identity(-1, -1)
EPOCH_MAX: Final = 32_767
WRONG: Final = (RIGHT, "epoch ahead", "epoch behind", "stale", "foreign pid")
"""What may be wrong with an identity."""
_MISSING_TOPIC: Final = "missing"
_VERSIONS_OF_COMMIT: Final = {"old": (0, 3), "old, 120 known": (4, 4), "new": (5, 5)}
_VERSIONS_OF_PRODUCE: Final = {"old": (3, 10), "old, 120 known": (11, 11), "new": (12, 13)}


class DrawnIdentity(NamedTuple):
    """A drawn identity of a producer."""

    mode: str
    identity: Identity
    pid: Pid
    """Its producer id, as it is sent."""


class Drawer:
    """Draws operations of producers.

    Args:
        choices: Of the rule that asks.
        world: What is there.
        level: Finalized level of ``transaction.version``.
        wrong: What is wrong with every identity; drawn unless given.
    """

    def __init__(
        self, choices: Choices, world: World, transaction_version: int, *, wrong: str | None = None
    ) -> None:
        self._choices = choices
        self._world = world
        self._level = transaction_version
        self._wrong = wrong

    # Identities

    def identity(
        self, producer: Producer, *, right_identity: Identity | None = None
    ) -> DrawnIdentity:
        """An identity to use, and what is wrong with it."""
        own_identity = right_identity or producer.identity
        if own_identity is None:
            identities = self._world.identities
            if not identities:
                return DrawnIdentity("nobody's", NO_IDENTITY, Pid(-1, 5))
            other_identity = self._choices.pick(identities)
            return DrawnIdentity("another's", other_identity, Pid(other_identity.pid))
        kind = self._wrong or self._choices.some(
            *((RIGHT, 78), ("coordinator's", 6), ("stale", 5)),
            *(("epoch ahead", 4), ("epoch behind", 3), ("foreign pid", 4)),
        )
        match kind:
            case "coordinator's" if producer.current is not None:
                current_identity = producer.current
                return DrawnIdentity(
                    RIGHT if current_identity == own_identity else kind,
                    current_identity,
                    Pid(current_identity.pid),
                )
            case "stale" if producer.history:
                old_identity = self._choices.pick(producer.history)
                return DrawnIdentity(
                    RIGHT if old_identity == own_identity else kind,
                    old_identity,
                    Pid(old_identity.pid),
                )
            case "epoch ahead":
                return DrawnIdentity(kind, ahead(own_identity, 1), Pid(own_identity.pid))
            case "epoch behind":
                return DrawnIdentity(
                    kind, Identity(own_identity.pid, own_identity.epoch - 1), Pid(own_identity.pid)
                )
            case "foreign pid":
                return DrawnIdentity(kind, own_identity, Pid(own_identity.pid, FOREIGN))
        return DrawnIdentity(RIGHT, own_identity, Pid(own_identity.pid))

    def _speaks_new(self, producer: Producer, txn_flow: str | None) -> bool:
        """Draw whether to use the new protocol; rarely at level 0, where the id gets stuck."""
        if txn_flow is not None:
            return txn_flow.startswith("new")
        if self._level == 0:
            return self._choices.rarely(40)
        if producer.style == "mixed":
            return self._choices.rarely(2)
        return (producer.style == "new") != self._choices.rarely(20)

    # Transactions

    def init_producer_id(self, producer: Producer, txn_flow: str | None = None) -> Operation:
        """An InitProducerId request, with or without an expected identity."""
        expects = not self._choices.rarely(2.5) if txn_flow is None else txn_flow == "expected"
        version = self._choices.between(3 if txn_flow == "expected" else 0, 5)
        transactional_id, timeout_ms = producer.name, producer.timeout_ms
        txn_flow, mode, pid, epoch = "plain", RIGHT, Pid(-1, -1), -1
        if version >= 3 and expects:
            drawn_identity = self.identity(producer)
            txn_flow, mode, pid, epoch = (
                "expected",
                drawn_identity.mode,
                drawn_identity.pid,
                drawn_identity.identity.epoch,
            )
        odd_case = self._choices.some(("", 91), ("bad timeout", 4), ("no name", 3), ("half", 2))
        match odd_case:
            case "bad timeout":
                mode, timeout_ms = odd_case, self._choices.pick((0, -1, 900_001))
            case "no name":
                mode, transactional_id = odd_case, ""
            case "half" if version >= 3:
                mode, epoch = odd_case, (-1 if epoch >= 0 else 3)
        values = {
            "transactional_id": transactional_id,
            "transaction_timeout": timeout_ms,
            "producer_id": pid,
            "producer_epoch": epoch,
        }
        return _operation_of("InitProducerId", version, txn_flow, mode, values, producer)

    def add_partitions(self, producer: Producer) -> Operation:
        """An AddPartitionsToTxn request of a client (v0 to v3)."""
        drawn_identity = self.identity(producer)
        version = self._choices.between(0, 3)
        places, mode = self._some_places(drawn_identity.mode)
        name = "" if self._choices.rarely(60) else producer.name
        values = _add_values(name, drawn_identity, places, is_verification=False)
        return _operation_of("AddPartitionsToTxn", version, "client", mode, values, producer)

    def add_as_broker(self, producer: Producer, txn_flow: str | None = None) -> Operation:
        """An AddPartitionsToTxn request of a broker (v4 and v5), to verify or to add."""
        drawn_identity = self.identity(producer)
        version = self._choices.between(4, 5)
        is_verification = self._level == 0 or self._choices.rarely(2)
        is_verification = is_verification and not self._choices.rarely(20)
        if txn_flow is not None:
            is_verification = txn_flow == "verify"
        places, mode = self._some_places(drawn_identity.mode)
        if producer.added and self._choices.rarely(2):
            places = [self._choices.pick(sorted(producer.added))]
        name = "" if self._choices.rarely(60) else producer.name
        values = _add_values(name, drawn_identity, places, is_verification=is_verification)
        other_producers = [
            one_producer for one_producer in self._world.producers if one_producer is not producer
        ]
        also_producer = None
        if other_producers and self._choices.rarely(5):
            # One entry for each id, as brokers send it; a batch with two is a known deviation.
            also_producer = self._choices.pick(other_producers)
            its = self.identity(also_producer)
            verify_also = self._level == 0 or self._choices.rarely(2)
            values["transactions"] += _add_values(
                also_producer.name, its, places[:1], is_verification=verify_also
            )["transactions"]
            mode += f", and {its.mode} of another"
        return Operation(
            api="AddPartitionsToTxn",
            version=version,
            flow="verify" if is_verification else "broker",
            mode=mode,
            values=values,
            transactional_id=producer.name,
            also=None if also_producer is None else also_producer.name,
        )

    def end_txn(
        self,
        producer: Producer,
        txn_flow: str | None = None,
        *,
        right_identity: Identity | None = None,
    ) -> Operation:
        """An EndTxn request by the old or by the new protocol."""
        drawn_identity = self.identity(producer, right_identity=right_identity)
        is_new_flow = self._speaks_new(producer, txn_flow)
        committed = (
            not self._choices.rarely(2.5) if txn_flow is None else txn_flow.endswith("commit")
        )
        transactional_id = "" if self._choices.rarely(60) else producer.name
        values = {
            "transactional_id": transactional_id,
            "producer_id": drawn_identity.pid,
            "producer_epoch": drawn_identity.identity.epoch,
            "committed": committed,
        }
        txn_flow = f"{'new' if is_new_flow else 'old'}, {'commit' if committed else 'abort'}"
        version = 5 if is_new_flow else self._choices.between(0, 4)
        return _operation_of("EndTxn", version, txn_flow, drawn_identity.mode, values, producer)

    def add_offsets(self, producer: Producer) -> Operation:
        """An AddOffsetsToTxn request (v0 to v4)."""
        drawn_identity = self.identity(producer)
        version = self._choices.between(0, 4)
        values = {
            "transactional_id": "" if self._choices.rarely(60) else producer.name,
            "producer_id": drawn_identity.pid,
            "producer_epoch": drawn_identity.identity.epoch,
            "group_id": self._world.group,
        }
        return _operation_of(
            "AddOffsetsToTxn", version, "client", drawn_identity.mode, values, producer
        )

    def commit_offsets(self, producer: Producer, txn_flow: str | None = None) -> Operation:
        """A TxnOffsetCommit request for a group without members."""
        drawn_identity = self.identity(producer)
        is_new_flow = self._speaks_new(producer, txn_flow)
        versions = _VERSIONS_OF_COMMIT.get(txn_flow or "", (5, 5) if is_new_flow else (0, 4))
        version = self._choices.between(*versions)
        topic, partition_index = self._choices.pick(self._world.places)
        partition = {
            "partition_index": partition_index,
            "committed_offset": self._choices.between(0, 9),
            "committed_leader_epoch": -1,
            "committed_metadata": "",
        }
        values = {
            "transactional_id": producer.name,
            "group_id": self._world.group,
            "producer_id": drawn_identity.pid,
            "producer_epoch": drawn_identity.identity.epoch,
            "generation_id": -1,
            "member_id": "",
            "group_instance_id": None,
            "topics": [{"name": topic, "partitions": [partition]}],
        }
        txn_flow = "new" if version >= 5 else "old, 120 known" if version == 4 else "old"
        return _operation_of(
            "TxnOffsetCommit", version, txn_flow, drawn_identity.mode, values, producer
        )

    # Records

    def produce(
        self,
        producer: Producer,
        txn_flow: str | None = None,
        *,
        right_identity: Identity | None = None,
        topic_partition: Place | None = None,
    ) -> Operation:
        """A transactional Produce request; from v12 on it adds its partition itself."""
        drawn_identity = self.identity(producer, right_identity=right_identity)
        is_new_flow = self._speaks_new(producer, txn_flow)
        versions = _VERSIONS_OF_PRODUCE.get(txn_flow or "", (12, 13) if is_new_flow else (3, 11))
        version = self._choices.between(*versions)
        if topic_partition is None or self._choices.rarely(8):
            topic_partition = self._choices.pick(self._world.places)
            if producer.added and not self._choices.rarely(2 if is_new_flow else 8):
                topic_partition = self._choices.pick(sorted(producer.added))
        sequence_kind, sequence = self._sequence(producer, drawn_identity.identity, topic_partition)
        is_transactional = not self._choices.rarely(40)
        name = None if self._choices.rarely(60) else producer.name
        mode = f"{drawn_identity.mode}, sequence {sequence_kind}"
        mode += "" if is_transactional else ", not transactional"
        mode += "" if name else ", nameless"
        batches = {
            topic_partition: self._batch(
                drawn_identity, sequence, is_transactional=is_transactional
            )
        }
        if self._choices.rarely(6):
            partitions = self._world.partitions[topic_partition[0]]
            next_partition = (topic_partition[0], (topic_partition[1] + 1) % partitions)
            sequence_kind, sequence = self._sequence(
                producer, drawn_identity.identity, next_partition
            )
            batches[next_partition] = self._batch(
                drawn_identity, sequence, is_transactional=is_transactional
            )
            mode += f", and {sequence_kind} elsewhere"
        if not is_transactional:
            return self._produce(version, mode, batches, transactional_id=name)
        return self._produce(version, mode, batches, transactional_id=name, producer=producer)

    def plain_produce(self) -> Operation:
        """A Produce request without a producer id."""
        batch = Batch(values=("n",))
        version = self._choices.between(3, 13)
        is_unanswered = self._choices.rarely(25)
        topic_partition = self._choices.pick(self._world.places)
        return self._produce(
            version, "no producer", {topic_partition: batch}, is_unanswered=is_unanswered
        )

    def idempotent_produce(self, producer: Producer) -> Operation:
        """A Produce request of a producer without a transactional id."""
        topic_partition = self._choices.pick(self._world.places)
        drawn_identity = self.identity(producer)
        sequence_kind, sequence = self._sequence(producer, drawn_identity.identity, topic_partition)
        batch = self._batch(drawn_identity, sequence, is_transactional=False)
        mode = f"idempotent {drawn_identity.mode}, sequence {sequence_kind}"
        return self._produce(self._choices.between(3, 13), mode, {topic_partition: batch})

    def _some_places(self, mode: str) -> tuple[list[Place], str]:
        places = self._choices.sample(self._world.places, self._choices.between(1, 3))
        if self._choices.rarely(25):
            return [*places, (_MISSING_TOPIC, 0)], f"{mode}, unknown topic"
        return places, mode

    def _sequence(
        self, producer: Producer, identity: Identity, topic_partition: Place
    ) -> tuple[str, int]:
        right_sequence = producer.next_sequence(identity, topic_partition)
        sequence_kind = self._choices.some((RIGHT, 84), ("repeated", 8), ("gap", 5), ("zero", 3))
        match sequence_kind:
            case "repeated" if right_sequence:
                return sequence_kind, max(0, right_sequence - self._choices.between(1, 3))
            case "gap":
                return sequence_kind, right_sequence + 7
            case "zero" if right_sequence:
                return sequence_kind, 0
        return RIGHT, right_sequence

    def _batch(
        self, drawn_identity: DrawnIdentity, sequence: int, *, is_transactional: bool
    ) -> Batch:
        return Batch(
            values=("a", "b")[: self._choices.between(1, 2)],
            pid=drawn_identity.pid,
            epoch=drawn_identity.identity.epoch,
            sequence=sequence,
            transactional=is_transactional,
        )

    def _produce(
        self,
        version: int,
        mode: str,
        batches: dict[Place, Batch],
        *,
        transactional_id: str | None = None,
        producer: Producer | None = None,
        is_unanswered: bool = False,
    ) -> Operation:
        """A Produce of one batch for each partition; the partitions are of one topic."""
        (topic, first_topic_partition), *_ = batches
        acks = 0 if is_unanswered else self._choices.some((-1, 6), (1, 3), (2, 0.2))
        values = produce(
            (topic, TopicId(topic)), None, version, transactional_id=transactional_id, acks=acks
        )
        values["topic_data"][0]["partition_data"] = [
            {"index": batch_index, "records": batch} for (_, batch_index), batch in batches.items()
        ]
        return Operation(
            api="Produce",
            version=version,
            flow=produce_flow(version, None if producer is None else producer.name),
            mode=mode,
            values=values,
            transactional_id=None if producer is None else producer.name,
            partition=(topic, first_topic_partition),
            unanswered=is_unanswered,
        )


def idempotent_producer(choices: Choices) -> Operation:
    """An InitProducerId request without a transactional id."""
    return Operation(
        api="InitProducerId",
        version=choices.between(0, 5),
        flow="no transactional id",
        mode=RIGHT,
        values={"transactional_id": None, "transaction_timeout": 0},
    )


def right_add(producer: Producer, topic_partition: Place, *, as_broker: bool = False) -> Operation:
    """A partition added as a client does it right, or as a leader does it for transactions v2."""
    values = _add_values(producer.name, _right(producer), [topic_partition], is_verification=False)
    version, txn_flow = (5, "broker") if as_broker else (3, "client")
    return _operation_of("AddPartitionsToTxn", version, txn_flow, RIGHT, values, producer)


def right_end(producer: Producer, txn_flow: str) -> Operation:
    """An EndTxn request that a client with the right identity sends."""
    drawn_identity = _right(producer)
    values = {
        "transactional_id": producer.name,
        "producer_id": drawn_identity.pid,
        "producer_epoch": drawn_identity.identity.epoch,
        "committed": txn_flow.endswith("commit"),
    }
    version = 5 if txn_flow.startswith("new") else 4
    return _operation_of("EndTxn", version, txn_flow, RIGHT, values, producer)


def _right(producer: Producer) -> DrawnIdentity:
    identity = producer.current or NO_IDENTITY
    return DrawnIdentity(RIGHT, identity, Pid(identity.pid))


def plain_init(producer: Producer) -> Operation:
    """An InitProducerId request of a starting client, or of ``fenceProducers``."""
    values = {"transactional_id": producer.name, "transaction_timeout": producer.timeout_ms}
    return _operation_of("InitProducerId", 4, "plain", RIGHT, values, producer)


def produce_flow(version: int, name: str | None) -> str:
    """What a Produce of that version asks of the coordinator (TransactionSupportedOperation)."""
    if name is None:
        return "no transactional id"
    return "new" if version >= 12 else "old, 120 known" if version == 11 else "old"


def ahead(identity: Identity, epoch_count: int) -> Identity:
    """The identity some epochs later, as far as an int16 goes."""
    return Identity(identity.pid, min(identity.epoch + epoch_count, EPOCH_MAX))


def by_topic(partitions_drawn: list[Place]) -> dict[str, list[int]]:
    """Partitions grouped by topic."""
    topics: dict[str, list[int]] = {}
    for topic, index in partitions_drawn:
        topics.setdefault(topic, []).append(index)
    return topics


def _operation_of(
    api: str, version: int, txn_flow: str, mode: str, values: Values, producer: Producer
) -> Operation:
    return Operation(
        api=api,
        version=version,
        flow=txn_flow,
        mode=mode,
        values=values,
        transactional_id=producer.name,
    )


def _add_values(
    name: str | None,
    drawn_identity: DrawnIdentity,
    partitions_drawn: list[Place],
    *,
    is_verification: bool,
) -> Values:
    """Values of AddPartitionsToTxn, in the shapes of old and of new versions."""
    unresolved: Any = drawn_identity.pid
    topics = list(by_topic(partitions_drawn).items())
    return add_partitions_values(
        name or "", unresolved, drawn_identity.identity.epoch, topics, only_verifies=is_verification
    )
