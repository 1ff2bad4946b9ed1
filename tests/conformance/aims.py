"""Aims: a transactional id is brought into a state by the right requests, and then asked something.

What is only met by chance is met too seldom: of seven states, a dozen kinds of requests and what
may be wrong with them, a play would see a fraction.
"""

from __future__ import annotations

from typing import Final

from tests.conformance import drawing
from tests.conformance.choices import Choices
from tests.conformance.model import ABSENT, EMPTY, ONGOING, PREPARED, Place, Producer, Transaction
from tests.conformance.stage import LONG_MS, Stage

INITS: Final = ("plain", "expected")
ADDS: Final = ("client", "verify", "broker", "offsets")
ENDS: Final = ("old, commit", "old, abort", "new, commit", "new, abort")
PRODUCES: Final = ("old", "old, 120 known", "new")
LOWERED: Final = (EMPTY, ONGOING, "CompleteCommit", "CompleteAbort")
"""States in which the level may be lowered under a transactional id."""
LAST_EPOCH: Final = 32_766
_TRIES: Final = 4


class Aim:
    """Brings producers into a state.

    Args:
        stage: Where.
        choices: Of the rule that asks.
    """

    def __init__(self, stage: Stage, choices: Choices) -> None:
        self._stage = stage
        self._choices = choices

    def producer_in(self, state: str) -> Producer:
        """A producer in a state, if the stage can bring one there."""
        producers = [
            producer for producer in self._stage.world.producers if producer.timeout_ms == LONG_MS
        ]
        ready_producers = [
            producer for producer in producers if producer.state == state and not producer.wedged
        ]
        if ready_producers:
            return self._choices.pick(ready_producers)
        free_producers = [
            producer
            for producer in producers
            if producer.state not in PREPARED and not producer.wedged
        ]
        producer = self._choices.pick(free_producers or producers)
        if state == ABSENT or not free_producers:
            self._stage.start_anew(producer)
        if state != ABSENT:
            self._bring(producer, state)
        return producer

    def producer_of_v2(self, state: str) -> Producer:
        """A producer that comes into a state by transactions v2, at any level of the cluster."""
        producer = self._stage.world.producers[0]
        self._stage.start_anew(producer)
        self._stage.ask(drawing.plain_init(producer))
        self._stage.ask(drawing.right_add(producer, self._choose_partition(), as_broker=True))
        if state != ONGOING:
            end = "abort" if state.endswith("Abort") else "commit"
            self._stage.ask(drawing.right_end(producer, f"new, {end}"))
        if state == EMPTY:
            self._stage.ask(drawing.plain_init(producer))
        return producer

    def end_at_the_last_epoch(self, producer: Producer, txn_flow: str) -> None:
        """A transaction that is ended where no epoch is left, or a new session there: a new
        producer id takes over.
        """
        for _ in range(_TRIES + _TRIES):
            is_last = producer.current is not None and producer.current.epoch >= LAST_EPOCH
            if is_last or producer.state in PREPARED or producer.wedged:
                break
            self._stage.ask(drawing.plain_init(producer))
        if producer.state == EMPTY and self._choices.rarely(2):
            self._stage.ask(drawing.plain_init(producer))
            return
        if producer.state == EMPTY:
            self._stage.ask(drawing.right_add(producer, self._choose_partition()))
        self._stage.ask(drawing.right_end(producer, txn_flow))

    def _bring(self, producer: Producer, state: str) -> None:
        for _ in range(_TRIES):
            if producer.state == EMPTY or (producer.state == ONGOING and state == ONGOING):
                break
            self._stage.ask(drawing.plain_init(producer))
        if state != EMPTY and producer.state == EMPTY:
            self._stage.ask(drawing.right_add(producer, self._choose_partition()))
        if state in (EMPTY, ONGOING) or not producer.added:
            return
        if state in PREPARED:
            topic_partition = sorted(producer.added)[0]
            assert producer.current is not None
            overtaken_transaction = Transaction(producer, producer.current, topic_partition)
            self._stage.ask(self._stage.others(self._choices).overtake(overtaken_transaction))
        protocol = "new" if self._stage.level and self._choices.rarely(2) else "old"
        end = "commit" if state.endswith("Commit") else "abort"
        self._stage.ask(drawing.right_end(producer, f"{protocol}, {end}"))

    def _choose_partition(self) -> Place:
        world = self._stage.world
        remaining_partitions = [
            topic_partition
            for topic_partition in world.places
            if topic_partition[0] not in world.deleted
        ]
        return self._choices.pick(remaining_partitions or world.places)
