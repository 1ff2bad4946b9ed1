"""One play: asks both brokers, compares, and learns from what they answer.

Each play has topics and transactional ids of its own, so that what one leaves behind can't spoil
the next, and a play can be played again on the same brokers.
"""

from __future__ import annotations

import re
import time  # noqa: TID251 - how long a transaction with a short time-out has been open
from typing import Any, Final

from tests.conformance import changes
from tests.conformance.choices import Choices
from tests.conformance.drawing import Drawer, plain_init
from tests.conformance.drawing_others import OthersDrawer
from tests.conformance.model import ONGOING, PREPARED, Identity, Place, Producer, World
from tests.conformance.operations import Batch, Operation
from tests.conformance.races import Race
from tests.conformance.recorded_play import RecordedPlay, to_json, without_repeats
from tests.conformance.result import ACCEPTED_ANEW, TIME_OUT, Cell, Result
from tests.conformance.sides import Pair, outcomes, state_name
from txnsim.errors import ErrorCode

LONG_MS: Final = 600_000
SHORT_MS: Final = 500
"""Transactions of that timeout are always waited for until they have timed out."""
TOO_LATE_S: Final = 0.6 * SHORT_MS / 1_000
NEARLY_LAST_EPOCH: Final = 32_764
STUCK_MAX: Final = 8
"""So many operations on a transactional id that can't go on, then another takes its place."""

EXPLAINED: Final[dict[str, str]] = {}
"""Pattern of a difference -> the entry of DEVIATIONS.md that tells users of it."""


class AnswerDifferenceError(AssertionError):
    """The brokers answered differently, and nothing explains it.

    Args:
        lines: Where they differ, the real one first.
        trail: All that was asked before.
    """

    def __init__(self, lines: list[str], trail: list[Operation]) -> None:
        super().__init__("\n".join(lines))
        self.lines = tuple(lines)
        self.trail = tuple(trail)


class Stage:
    """One play on one pair of brokers.

    Args:
        addresses: Of the real broker and of ours.
        prefix: Of every name.
        level: Finalized level of ``transaction.version``, to which the play returns.
        result: Where it counts.
        counts: Whether its operations are counted; not while a play is shrunk.
    """

    def __init__(
        self,
        addresses: tuple[str, str],
        prefix: str,
        *,
        transaction_version: int,
        result: Result,
        counts_transactions: bool,
    ) -> None:
        self.world = World(prefix, "a", "b")
        self.level = transaction_version
        self.trail: list[Operation] = []
        self._home = transaction_version
        self._result = result
        self._counts = counts_transactions
        self._renamed = 0
        self._pair = Pair(addresses, scene=prefix, transaction_version=transaction_version)
        self._pair.both(lambda side: side.prepare(self.world.prefix, self.world.topics))
        self._pair.both(lambda side: side.await_group(self.world.group))

    def close(self) -> None:
        """Bring the cluster back to what it was and close the connections."""
        self._pair.differences()  # those of a play that was given up were told already
        try:
            self.switch_level(self._home)
            if not self.world.verifies:
                self.verify(is_enabled=True)
            self._pair.differences()
            if self._counts and self._result.recorded_plays is not None:
                self._result.recorded_plays.append(self._recorded_play())
        finally:
            self._result.races.update(self._pair.races())
            self._pair.close()

    def _recorded_play(self) -> RecordedPlay:
        return RecordedPlay(
            name=self.world.prefix,
            transaction_version=self._home,
            acts=tuple(
                [name, *map(to_json, arguments)] for name, *arguments in self._pair.real.acts
            ),
            answers=tuple(without_repeats(self._pair.real_answers)),
        )

    def drawer(self, choices: Choices, *, wrong: str | None = None) -> Drawer:
        """Draws what producers ask; with identities that are wrong in one way, if given."""
        return Drawer(choices, self.world, self.level, wrong=wrong)

    def others(self, choices: Choices) -> OthersDrawer:
        """The drawer of requests of operators and readers."""
        return OthersDrawer(choices, self.world, self.drawer(choices))

    # Asking

    def ask(self, operation: Operation) -> Any:
        """Ask both, compare, learn; the real answer.

        Raises:
            Parted: The answers differ.
        """
        real, ours = self._ask_both(operation)
        self._take_answers(operation, real, ours)
        self._look_at_producers(operation)
        return real

    def ask_in_time(self, operations: tuple[Operation, ...]) -> bool:
        """Requests to a transaction with a short time-out, one right after the other; False if
        that took so long that it may be over on one of the brokers.
        """
        begun_s = time.monotonic()
        for operation in operations:
            real, ours = self._ask_both(operation)
            if time.monotonic() - begun_s > TOO_LATE_S:
                self._result.races[Race.TOO_LATE] += 1
                return False
            self._take_answers(operation, real, ours)
        self._look_at_producers(*operations)
        return True

    def _ask_both(self, operation: Operation) -> tuple[Any, Any]:
        self.trail.append(operation)
        try:
            return self._pair.ask(operation)
        except AssertionError as failure:
            raise AnswerDifferenceError([str(failure)], self.trail) from failure

    def _take_answers(self, operation: Operation, real: Any, ours: Any) -> None:
        """Count the operation, compare the answers, and learn identities from them."""
        state = self._state_before(operation)
        producer = self.world.named(operation.transactional_id)
        outcomes_found = outcomes(_answer_of_operation(operation, real))
        pid_before = None if producer is None or producer.current is None else producer.current.pid
        self._compare()
        if outcomes_found <= {"none"} and operation.api in ("InitProducerId", "EndTxn"):
            number = self._learn_identity(operation, producer, real, ours)
            if pid_before not in (None, number):
                outcomes_found = {ACCEPTED_ANEW}
        if self._counts:
            self._result.count(self.level, operation, state, outcomes_found)
        if operation.api == "Produce":
            self._learn_sequences(operation, real)
        if producer is not None:
            producer.last = operation
            producer.wedged |= "unsupported_version" in outcomes_found

    def _state_before(self, operation: Operation) -> str:
        producer = self.world.named(operation.transactional_id)
        if producer is not None:
            return producer.state
        if operation.partition is not None:
            return "open" if self.world.has_open(operation.partition) else "not open"
        return "any"

    def _compare(self) -> None:
        unexplained_lines = []
        for difference_line in self._pair.differences():
            reason = next(
                (
                    reason
                    for pattern, reason in EXPLAINED.items()
                    if re.search(pattern, difference_line)
                ),
                None,
            )
            if reason is None:
                unexplained_lines.append(difference_line)
            else:
                self._result.explained[reason] += 1
        if unexplained_lines:
            raise AnswerDifferenceError(unexplained_lines, self.trail)

    def _waited_for_time_out(self) -> bool:
        races = self._pair.races()
        self._result.races.update(races)
        return Race.TIME_OUT in races

    # Learning

    def _look_at_producers(self, *operations: Operation) -> None:
        """Ask both coordinators about the producers that these operations may have changed."""
        touched_names = {
            name
            for operation in operations
            for name in (operation.transactional_id, operation.also)
        } - {None}
        for producer in self.world.producers:
            if producer.name in touched_names:
                self._look_at_producer(producer)
                if producer.stuck_for > STUCK_MAX:
                    self.start_anew(producer)

    def start_anew(self, producer: Producer) -> None:
        """Let a producer go on under a new transactional id."""
        self._renamed += 1
        producer.start_anew(f"{self.world.prefix}-x-{self._renamed}")
        self.await_coordinator(producer)

    def _look_at_producer(self, producer: Producer) -> None:
        assert producer.name is not None
        times_out = producer.timeout_ms == SHORT_MS
        real, ours = self._pair.state_of(
            producer.name, times_out=times_out, is_stuck=producer.state in PREPARED
        )
        self._compare()
        state = state_name(real)
        if times_out and self._waited_for_time_out() and self._counts:
            self._result.cells[Cell(self.level, TIME_OUT, "", ONGOING, state)] += 1
        current_identity = None
        if not real.error_code:
            current_identity = Identity(self._equal_number(real, ours), real.producer_epoch)
        added_partitions = set()
        if state == ONGOING:
            topics = self.world.partitions  # not __consumer_offsets
            added_partitions = {
                (topic.topic, partition_index)
                for topic in real.topics
                for partition_index in topic.partitions
                if topic.topic in topics
            }
        producer.take_over(state, current_identity, added_partitions)

    def _learn_identity(
        self, operation: Operation, producer: Producer | None, real: Any, ours: Any
    ) -> int | None:
        if operation.api == "EndTxn" and operation.version < 5:
            return None if producer is None or producer.current is None else producer.current.pid
        producer_id = self._equal_number(real, ours)
        if producer is None:
            producer = Producer(None, timeout_ms=0, style="mixed")
            self.world.loose.append(producer)
        producer.takes(Identity(producer_id, real.producer_epoch))
        return producer_id

    def _equal_number(self, real: Any, ours: Any) -> int:
        numbers = [
            self._pair.real.number(real.producer_id),
            self._pair.ours.number(ours.producer_id),
        ]
        if numbers[0] != numbers[1]:
            raise AnswerDifferenceError([f"producer ids handed out: {numbers}"], self.trail)
        return numbers[0]

    def _learn_sequences(self, operation: Operation, real: Any) -> None:
        assert operation.partition is not None
        topic, _ = operation.partition
        if operation.unanswered or not hasattr(real, "responses"):
            return
        accepted = {
            row.index
            for row in real.responses[0].partition_responses
            if row.error_code == ErrorCode.none
        }
        for row in operation.values["topic_data"][0]["partition_data"]:
            batch: Batch = row["records"]
            is_known_producer = (
                batch.pid is not None and not batch.pid.shift and batch.pid.number >= 0
            )
            if row["index"] in accepted and is_known_producer:
                self._wrote(batch, (topic, row["index"]))

    def _wrote(self, batch: Batch, topic_partition: Place) -> None:
        assert batch.pid is not None
        identity = Identity(batch.pid.number, batch.epoch)
        next_sequence = batch.sequence + len(batch.values)
        for producer in (*self.world.producers, *self.world.loose):
            if identity in producer.history or identity == producer.current:
                producer.wrote(
                    identity,
                    topic_partition,
                    max(next_sequence, producer.next_sequence(identity, topic_partition)),
                )

    # Changes

    def await_coordinator(self, producer: Producer) -> None:
        """Wait until both brokers know the coordinator of a new transactional id."""
        producer_name = producer.name
        assert producer_name is not None
        self._pair.both(lambda side: side.await_coordinator(producer_name))

    def exhaust(self, producer: Producer) -> None:
        """Bring a transactional id near its last epoch (KIP-360: then comes a new producer id)."""
        producer_name = producer.name
        assert producer_name is not None
        self._pair.both(lambda side: side.exhaust(producer_name, NEARLY_LAST_EPOCH))
        self.ask(plain_init(producer))

    def switch_level(self, transaction_version: int, choices: Choices | None = None) -> None:
        """Finalize another level of ``transaction.version``; surely unless it is drawn how."""
        if transaction_version == self.level:
            return
        operation = changes.update_features(
            choices, level_now=self.level, transaction_version=transaction_version
        )
        if self.ask(operation).error_code == ErrorCode.none:
            self._pair.await_change(lambda side: side.await_level(transaction_version))
            self.level = transaction_version

    def verify(self, *, is_enabled: bool) -> None:
        """Enable or disable ``transaction.partition.verification.enable``."""
        self.ask(changes.alter_verification(is_enabled=is_enabled))
        setting = None if is_enabled else "false"
        key = changes.VERIFICATION
        self._pair.await_change(lambda side: side.await_config(4, "", key, setting))
        self.world.verifies = is_enabled

    def alter_topic(self, topic: str, name: str, config_value: str | None) -> None:
        """Change a config of a topic."""
        real_answer = self.ask(changes.alter_topic(topic, name, config_value))
        if real_answer.responses[0].error_code != ErrorCode.none:
            return
        self._pair.await_change(lambda side: side.await_config(2, topic, name, config_value))
        altered_configs = self.world.altered.setdefault(topic, {})
        if config_value is None:
            altered_configs.pop(name, None)
        else:
            altered_configs[name] = config_value

    def delete_topic(self, choices: Choices, topic: str) -> None:
        """Delete a topic with all its records."""
        real_answer = self.ask(changes.delete_topic(choices, topic))
        if real_answer.responses[0].error_code == ErrorCode.none:
            self._pair.await_change(lambda side: side.await_topic(topic, 0))
            self.world.deletes(topic)

    def create_topic(self, choices: Choices, topic: str) -> None:
        """Create a topic on both sides, mostly one that was deleted before."""
        real_answer = self.ask(changes.create_topic(choices, topic))
        if real_answer.topics[0].error_code == ErrorCode.none:
            partition_count = self.world.partitions[topic]
            self._pair.await_change(lambda side: side.await_topic(topic, partition_count))
            self.world.deleted.discard(topic)

    def grow_topic(self, choices: Choices, topic: str) -> None:
        """A topic gets another partition."""
        real_answer = self.ask(changes.create_partitions(choices, self.world, topic))
        if real_answer.results[0].error_code == ErrorCode.none:
            self.world.partitions[topic] += 1
            partition_count = self.world.partitions[topic]
            self._pair.await_change(lambda side: side.await_topic(topic, partition_count))


def _answer_of_operation(operation: Operation, answer: Any) -> Any:
    """The part of a batch's answer that is about the operation's own transactional id."""
    if operation.also is None or not hasattr(answer, "results_by_transaction"):
        return answer
    its = operation.also
    return [result for result in answer.results_by_transaction if result.transactional_id != its]
