"""A Hypothesis state machine that plays the same to a real Apache Kafka and to the simulator.

Its bundles hold what a play has to go on with: producers (a transactional id each), idempotent
producers, transactions that were opened, and positions of readers. A rule asks both brokers one
question, seldom several, and fails where the answers differ; Hypothesis then looks for the shortest
play that parts them. Every play has fresh names, so that it can be played again on the same
brokers, and everything is drawn, so that it is the same play.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from hypothesis import assume
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    initialize,
    multiple,
    precondition,
    rule,
)

from tests.conformance import drawing
from tests.conformance.aims import ADDS, ENDS, INITS, LOWERED, PRODUCES, Aim
from tests.conformance.changes import TOPIC_CONFIGS
from tests.conformance.choices import Choices
from tests.conformance.model import ABSENT, ONGOING, STATES, Position, Producer, Transaction
from tests.conformance.operations import Operation
from tests.conformance.stage import (
    LONG_MS,
    NEARLY_LAST_EPOCH,
    SHORT_MS,
    AnswerDifferenceError,
    Stage,
)

PRODUCERS_MAX: Final = 6
EXHAUSTED_ONE_IN: Final = 8
"""Plays with a transactional id near its last epoch: it takes seconds to bring it there."""
STYLES: Final = ("mixed", "old", "new")

STATE: Final = st.sampled_from(STATES)
WRONG: Final = st.sampled_from((drawing.RIGHT, drawing.RIGHT, *drawing.WRONG))

REQUESTS: Final[Mapping[str, Callable[[drawing.Drawer, Producer], Operation]]] = {
    "plain": lambda draw, producer: draw.init_producer_id(producer, "plain"),
    "expected": lambda draw, producer: draw.init_producer_id(producer, "expected"),
    "client": lambda draw, producer: draw.add_partitions(producer),
    "broker": lambda draw, producer: draw.add_as_broker(producer, "broker"),
    "offsets": lambda draw, producer: draw.add_offsets(producer),
    "produce": lambda draw, producer: draw.produce(producer, "new"),
    "commit offsets": lambda draw, producer: draw.commit_offsets(producer, "new"),
    "old end": lambda draw, producer: draw.end_txn(producer, "old, commit"),
    "old abort": lambda draw, producer: draw.end_txn(producer, "old, abort"),
    "new end": lambda draw, producer: draw.end_txn(producer, "new, commit"),
    "new abort": lambda draw, producer: draw.end_txn(producer, "new, abort"),
}
"""Those that write a record, so that level 0 matters to them."""
REQUEST: Final = st.sampled_from(tuple(REQUESTS))


class PlayMachine(RuleBasedStateMachine):
    """One play.

    Args:
        stage: Where it is played.
        parted: Told where the brokers part.
    """

    producers: Bundle[Producer] = Bundle("producers")
    loose: Bundle[Producer] = Bundle("loose")
    transactions: Bundle[Transaction] = Bundle("transactions")
    positions: Bundle[Position] = Bundle("positions")

    def __init__(self, stage: Stage, parted: Callable[[AnswerDifferenceError], None]) -> None:
        super().__init__()
        self._parted = parted
        self._stage = stage
        self._world = self._stage.world

    def teardown(self) -> None:
        self._stage.close()

    # Producers

    @initialize(target=producers, styles=st.permutations(STYLES), percent=st.integers(1, 100))
    def begin(self, styles: list[str], percent: int) -> Any:
        """Three producers, one of them near its last epoch in some plays, one not initialized."""
        first_producer, second_producer, third_producer = (
            self._new_producer(style, LONG_MS) for style in styles
        )
        if percent > 100 - 100 // EXHAUSTED_ONE_IN:
            self._note_parting(lambda: self._stage.exhaust(first_producer))
        else:
            self._ask(drawing.plain_init(first_producer))
        self._ask(drawing.plain_init(second_producer))
        return multiple(first_producer, second_producer, third_producer)

    @precondition(lambda self: len(self._world.producers) < PRODUCERS_MAX)
    @rule(target=producers, style=st.sampled_from(STYLES), data=st.data())
    def another_producer(self, style: str, data: st.DataObject) -> Producer:
        """Ask for a new transactional id, or for an id whose transactions time out."""
        timeout_ms = SHORT_MS if Choices(data).rarely(3) else LONG_MS
        return self._new_producer(style, timeout_ms)

    @rule(target=loose, data=st.data())
    def idempotent_producer(self, data: st.DataObject) -> Any:
        """Ask for a producer id without a transactional id."""
        if len(self._world.loose) >= PRODUCERS_MAX:
            return multiple()
        self._ask(drawing.idempotent_producer(Choices(data)))
        return self._world.loose[-1]

    @rule(producer=producers, data=st.data())
    def init_producer_id(self, producer: Producer, data: st.DataObject) -> None:
        self._ask(self._drawer(data).init_producer_id(producer))

    # Transactions

    @rule(target=transactions, producer=producers, data=st.data())
    def transaction(self, producer: Producer, data: st.DataObject) -> Any:
        """Begin a transaction as a client: add partitions, by a request or by the first Produce."""
        if producer.timeout_ms == SHORT_MS:
            return self._overdue(producer, Choices(data))
        if producer.state == ABSENT:
            self._ask(drawing.plain_init(producer))
        drawer = self._drawer(data)
        operation = drawer.produce(producer)
        if operation.flow != "new" and producer.state != ONGOING:
            self._ask(drawer.add_partitions(producer))
            topic_partition = sorted(producer.added)[0] if producer.added else None
            operation = drawer.produce(producer, operation.flow, topic_partition=topic_partition)
        self._ask(operation)
        return self._open(producer)

    @rule(target=producers, data=st.data())
    def time_out(self, data: st.DataObject) -> Any:
        """Let a transaction with records time out."""
        choices = Choices(data)
        short_lived_producers = [
            producer for producer in self._world.producers if producer.timeout_ms == SHORT_MS
        ]
        producer = (
            short_lived_producers[0]
            if short_lived_producers
            else self._new_producer("mixed", SHORT_MS)
        )
        if choices.rarely(2.5):
            self._overdue(producer, choices)
        return multiple() if short_lived_producers else producer

    def _overdue(self, producer: Producer, choices: Choices) -> Any:
        if producer.state == ABSENT:
            self._ask(drawing.plain_init(producer))
        operation = self._stage.drawer(choices, wrong=drawing.RIGHT).produce(producer)
        requests: tuple[Operation, ...] = (operation,)
        if operation.flow != "new" and operation.partition is not None:
            requests = (drawing.right_add(producer, operation.partition), operation)
        in_time = self._note_parting(lambda: self._stage.ask_in_time(requests))
        assume(in_time)
        return multiple()

    @rule(target=transactions, producer=producers, data=st.data())
    def add_partitions(self, producer: Producer, data: st.DataObject) -> Any:
        """AddPartitionsToTxn of a client."""
        self._ask(self._drawer(data).add_partitions(producer))
        return self._open(producer)

    @rule(target=transactions, producer=producers, data=st.data())
    def add_as_broker(self, producer: Producer, data: st.DataObject) -> Any:
        """AddPartitionsToTxn of a broker, which verifies or adds."""
        self._ask(self._drawer(data).add_as_broker(producer))
        return self._open(producer)

    @rule(target=transactions, producer=producers, data=st.data())
    def produce(self, producer: Producer, data: st.DataObject) -> Any:
        """Produce of a transactional batch."""
        self._ask(self._drawer(data).produce(producer))
        return self._open(producer)

    @rule(transaction=transactions, data=st.data())
    def write_on(self, transaction: Transaction, data: st.DataObject) -> None:
        """Produce once more in a transaction that may have ended."""
        self._ask(
            self._drawer(data).produce(
                transaction.producer,
                right_identity=transaction.identity,
                topic_partition=transaction.place,
            )
        )

    @rule(transaction=transactions, data=st.data())
    def end(self, transaction: Transaction, data: st.DataObject) -> None:
        """EndTxn of a transaction that may have ended."""
        drawer = self._drawer(data)
        self._ask(drawer.end_txn(transaction.producer, right_identity=transaction.identity))

    @rule(producer=producers, data=st.data())
    def end_whatever_is_open(self, producer: Producer, data: st.DataObject) -> None:
        """EndTxn in any state of the transaction."""
        self._ask(self._drawer(data).end_txn(producer))

    @rule(producer=producers)
    def repeat(self, producer: Producer) -> None:
        """Repeat the producer's last request, as after a lost answer."""
        if producer.last is not None:
            self._ask(producer.last)

    # Aims

    @rule(state=STATE, txn_flow=st.sampled_from(INITS), wrong=WRONG, data=st.data())
    def aim_init(self, state: str, txn_flow: str, wrong: str, data: st.DataObject) -> None:
        """InitProducerId in a chosen state of the transactional id."""
        self._aim(
            state, wrong, data, lambda draw, producer: draw.init_producer_id(producer, txn_flow)
        )

    @rule(state=STATE, txn_flow=st.sampled_from(ADDS), wrong=WRONG, data=st.data())
    def aim_add(self, state: str, txn_flow: str, wrong: str, data: st.DataObject) -> None:
        """AddPartitionsToTxn or AddOffsetsToTxn in a chosen state of the transactional id."""

        def add(drawer: drawing.Drawer, producer: Producer) -> Operation:
            if txn_flow == "offsets":
                return drawer.add_offsets(producer)
            return (
                drawer.add_partitions(producer)
                if txn_flow == "client"
                else drawer.add_as_broker(producer, txn_flow)
            )

        self._aim(state, wrong, data, add)

    @rule(state=STATE, txn_flow=st.sampled_from(ENDS), wrong=WRONG, data=st.data())
    def aim_end(self, state: str, txn_flow: str, wrong: str, data: st.DataObject) -> None:
        """EndTxn in a chosen state of the transactional id."""
        self._aim(state, wrong, data, lambda draw, producer: draw.end_txn(producer, txn_flow))

    @rule(state=STATE, txn_flow=st.sampled_from(PRODUCES), wrong=WRONG, data=st.data())
    def aim_produce(self, state: str, txn_flow: str, wrong: str, data: st.DataObject) -> None:
        """Produce in a chosen state of the transactional id."""
        self._aim(state, wrong, data, lambda draw, producer: draw.produce(producer, txn_flow))

    @rule(state=STATE, txn_flow=st.sampled_from(PRODUCES), wrong=WRONG, data=st.data())
    def aim_commit_offsets(
        self, state: str, txn_flow: str, wrong: str, data: st.DataObject
    ) -> None:
        """TxnOffsetCommit in a chosen state of the transactional id."""
        self._aim(
            state, wrong, data, lambda draw, producer: draw.commit_offsets(producer, txn_flow)
        )

    @precondition(lambda self: self._exhausted_producer() is not None)
    @rule(txn_flow=st.sampled_from(ENDS), data=st.data())
    def aim_last_epoch(self, txn_flow: str, data: st.DataObject) -> None:
        """End a transaction at the last producer epoch."""
        producer = self._exhausted_producer()
        assert producer is not None
        aim = Aim(self._stage, Choices(data))
        self._note_parting(lambda: aim.end_at_the_last_epoch(producer, txn_flow))

    def _exhausted_producer(self) -> Producer | None:
        for producer in self._world.producers:
            if producer.current is not None and producer.current.epoch >= NEARLY_LAST_EPOCH:
                return producer
        return None

    @rule(
        state=st.sampled_from(LOWERED),
        first_request=REQUEST,
        second_request=REQUEST,
        data=st.data(),
    )
    def aim_lowered(
        self, state: str, first_request: str, second_request: str, data: st.DataObject
    ) -> None:
        """Ask a broker of level 0 about a transactional id that has known transactions v2."""
        choices = Choices(data)
        stage = self._stage
        home_partition = stage.level

        def ask() -> None:
            stage.switch_level(2)
            producer = Aim(stage, choices).producer_of_v2(state)
            stage.switch_level(0)
            drawer = stage.drawer(choices, wrong=drawing.RIGHT)
            for request in (first_request, second_request):
                stage.ask(REQUESTS[request](drawer, producer))
            stage.switch_level(home_partition)

        if choices.rarely(2):
            self._note_parting(ask)
        else:
            self._ask(stage.others(choices).list_transactions())

    @rule(producer=producers, data=st.data())
    def positions_of_a_group(self, producer: Producer, data: st.DataObject) -> None:
        """Add a group to the transaction and commit positions, as a transforming client does."""
        drawer = self._drawer(data)
        steps = Choices(data).pick(("both", "add", "commit"))
        if steps != "commit":
            self._ask(drawer.add_offsets(producer))
        if steps != "add":
            self._ask(drawer.commit_offsets(producer))

    def _aim(
        self,
        state: str,
        wrong: str,
        data: st.DataObject,
        request: Callable[[drawing.Drawer, Producer], Operation],
    ) -> None:
        choices = Choices(data)

        def ask() -> None:
            producer = Aim(self._stage, choices).producer_in(state)
            for mistake in choices.sample(drawing.WRONG[1:], choices.between(0, 3)):
                if producer.state != state:
                    break
                self._stage.ask(request(self._stage.drawer(choices, wrong=mistake), producer))
            self._stage.ask(request(self._stage.drawer(choices, wrong=wrong), producer))

        self._note_parting(ask)

    # Records of others

    @rule(data=st.data())
    def plain_produce(self, data: st.DataObject) -> None:
        """Produce without a producer id."""
        self._ask(self._drawer(data).plain_produce())

    @rule(producer=loose, data=st.data())
    def idempotent_produce(self, producer: Producer, data: st.DataObject) -> None:
        self._ask(self._drawer(data).idempotent_produce(producer))

    # Operators

    @rule(transaction=transactions, data=st.data())
    def operator_aborts(self, transaction: Transaction, data: st.DataObject) -> None:
        """A marker for a transaction, or one that overtakes the coordinator."""
        choices = Choices(data)
        others_drawer = self._stage.others(choices)
        if choices.rarely(3):
            self._ask(others_drawer.abort(transaction))
            return
        self._ask(others_drawer.overtake(transaction))
        producer = transaction.producer
        if producer.state == ONGOING and choices.rarely(1.5):
            self._ask(
                self._stage.drawer(choices).end_txn(producer, right_identity=producer.current)
            )

    @rule(producer=producers, data=st.data())
    def write_markers(self, producer: Producer, data: st.DataObject) -> None:
        """WriteTxnMarkers of any kind."""
        self._ask(self._others_drawer(data).write_markers(producer))

    @rule(data=st.data())
    def look(self, data: st.DataObject) -> None:
        """Describe the producers of a partition, or describe or list transactions."""
        others_drawer = self._others_drawer(data)
        kinds = (
            others_drawer.describe_producers,
            others_drawer.describe_transactions,
            others_drawer.list_transactions,
        )
        self._ask(Choices(data).pick(kinds)())

    # Readers

    @rule(target=positions, data=st.data())
    def fetch_somewhere(self, data: st.DataObject) -> Any:
        """Fetch from any offset."""
        return self._fetch(self._others_drawer(data).fetch_somewhere())

    @rule(target=positions, position=positions, data=st.data())
    def fetch_on(self, position: Position, data: st.DataObject) -> Any:
        return self._fetch(self._others_drawer(data).fetch(position.place, position.offset))

    @rule(data=st.data())
    def list_offsets(self, data: st.DataObject) -> None:
        """ListOffsets of the log's end, its start or a time."""
        self._ask(self._others_drawer(data).list_offsets())

    # Changes, which take a while

    @rule(data=st.data())
    def change(self, data: st.DataObject) -> None:
        """Change the cluster; mostly only describe a transactional id."""
        choices = Choices(data)
        kind = choices.some(
            *(("look", 25), ("level", 18), ("delete records", 14), ("topic config", 16)),
            *(("verification", 6), ("delete topic", 8), ("create topic", 8), ("grow topic", 5)),
        )
        self._note_parting(lambda: self._change(kind, choices))

    def _change(self, kind: str, choices: Choices) -> None:
        stage, world = self._stage, self._world
        topic = choices.pick(world.topics)
        match kind:
            case "look":
                stage.ask(stage.others(choices).describe_transactions())
            case "level":
                stage.switch_level(
                    choices.pick(
                        [
                            transaction_version
                            for transaction_version in (0, 1, 2)
                            if transaction_version != stage.level
                        ]
                    ),
                    choices,
                )
            case "delete records":
                stage.ask(stage.others(choices).delete_records())
            case "topic config":
                name, config_value = choices.pick(TOPIC_CONFIGS)
                is_set = name in world.altered.get(topic, {})
                stage.alter_topic(topic, name, None if is_set else config_value)
            case "verification":
                stage.verify(is_enabled=not world.verifies)
                if not world.verifies:  # only then an id that nobody knows may commit positions
                    absent_producer = Aim(stage, choices).producer_in(ABSENT)
                    drawer = stage.drawer(choices, wrong=drawing.RIGHT)
                    stage.ask(drawer.commit_offsets(absent_producer, choices.pick(PRODUCES)))
            case "delete topic" if topic not in world.deleted:
                stage.delete_topic(choices, topic)
            case "delete topic" | "create topic":
                stage.create_topic(choices, min(world.deleted, default=topic))
            case "grow topic":
                stage.grow_topic(choices, topic)

    # Asking

    def _drawer(self, data: st.DataObject) -> drawing.Drawer:
        return self._stage.drawer(Choices(data))

    def _others_drawer(self, data: st.DataObject) -> Any:
        return self._stage.others(Choices(data))

    def _new_producer(self, style: str, timeout_ms: int) -> Producer:
        name = f"{self._world.prefix}-id-{len(self._world.producers)}"
        producer = Producer(name, timeout_ms=timeout_ms, style=style)
        self._stage.await_coordinator(producer)
        self._world.producers.append(producer)
        return producer

    def _open(self, producer: Producer) -> Any:
        """The transaction that a producer has open, for the bundle."""
        if producer.state != ONGOING or not producer.added or producer.current is None:
            return multiple()
        topic_partition = sorted(producer.added)[0]
        return Transaction(producer, producer.current, topic_partition)

    def _fetch(self, operation: Operation) -> Any:
        real_answer = self._ask(operation)
        assert operation.partition is not None
        ends = [
            partition.high_watermark
            for topic in real_answer.responses
            for partition in topic.partitions
            if not partition.error_code
        ]
        if not ends:
            return multiple()
        return Position(operation.partition, ends[0])

    def _ask(self, operation: Operation) -> Any:
        return self._note_parting(lambda: self._stage.ask(operation))

    def _note_parting(self, call: Callable[[], Any]) -> Any:
        try:
            return call()
        except AnswerDifferenceError as parted:
            self._parted(parted)
            raise
