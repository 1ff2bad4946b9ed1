"""Writes a story that makes a finding of ``txnsim logs decisions`` again on the simulator. Pure.

The logs of a real cluster tell what came about, and not everything of how: which broker died, what
an operator did and when. The story takes a way that is known to lead there, and says what is
guessed. Ways: the scenarios Z01 (late Produce), Z10 (a marker counted as done), Z27 (a commit
without a leader), Z34 (a coordinator that moved twice).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec
import yaml

from txnsim.txn.decision_audit import AuditState
from txnsim.txn.decision_report import DecisionFinding
from txnsim.txn.finding_facts import FindingFacts
from txnsim.types import INTERNAL_TOPICS, TopicPartition, partition_for
from txnsim_lab.scenario._cluster_options import TRANSACTION_LOG_PARTITIONS
from txnsim_lab.scenario.steps_model import PARTITIONS_MAX

RUN_NAME: Final = "as-found"
RECORDS_MAX: Final = 20
"""How many records of a finding the story writes."""
LEADER_MOVES_MAX: Final = 3
_OTHER_PARTITIONS_MAX: Final = 5
_PRODUCER: Final = "producer"
_OPERATOR: Final = "operator"
_WITNESS: Final = "witness"
_COORDINATOR_BROKER: Final = 1
_LEADING_BROKER: Final = 2
_THIRD_BROKER: Final = 3
_FIRST_PRODUCER_ID: Final = 0
"""The producer id of the first producer of a new cluster."""
_UNKNOWN_PRODUCER_ID: Final = 424_242
"""A producer id that no coordinator gives within a story."""
_LATER_COORDINATOR_EPOCH: Final = 100
"""A coordinator epoch above that of every marker of a story."""
_ELSEWHERE: Final = "elsewhere"
"""A topic beside that of the finding."""
_KAFKA_20734: Final = "KAFKA-20734"
_UNKNOWN_ID: Final = "unknown"

Step = dict[str, Any]


class NoStory(msgspec.Struct, frozen=True, kw_only=True):
    """Why a finding can't be made again by a story."""

    why: str


class FindingStory(msgspec.Struct, frozen=True, kw_only=True):
    """A scenario, and what in it is guessed."""

    finding_id: str
    document: Mapping[str, Any]
    """The scenario, as its file has it, without the verdict."""
    guesses: tuple[str, ...]
    """Sentences."""

    def to_yaml(self, verdict: tuple[str, ...] = ()) -> str:
        """The scenario's file, with the guesses as comments.

        Args:
            verdict: What the judges say of the run; healthy where empty.
        """
        (run_name,) = self.document["runs"]
        run_fields = {**self.document["runs"][run_name], "verdict": [*verdict] or "healthy"}
        story_document = {**self.document, "runs": {run_name: run_fields}}
        comments = [
            f"It makes the finding {self.finding_id} of `txnsim logs decisions` again.",
            *(f"Guessed: {guess}." for guess in self.guesses),
        ]
        yaml_text = yaml.safe_dump(
            story_document, sort_keys=False, allow_unicode=True, width=100, default_flow_style=None
        )
        return "".join(f"# {comment}\n" for comment in comments) + yaml_text


def story_of(facts: FindingFacts) -> FindingStory | NoStory:
    """Write the story of a finding."""
    finding = facts.finding
    why_not = _why_not(facts)
    if why_not:
        return NoStory(why=why_not)
    writer = _StoryWriter(facts)
    writer.write()
    return FindingStory(
        finding_id=finding.id,
        document={
            "name": re.sub(r"[^a-z0-9]+", "-", f"found-{finding.id}".lower()).strip("-"),
            "title": f"A finding on {finding.topic}-{finding.partition}: {finding.state}",
            "goal": "See a finding of txnsim logs decisions come into being.",
            "method": finding.explanation,
            "topics": writer.topics(),
            "actors": writer.actors,
            "runs": {RUN_NAME: writer.run()},
            "steps": writer.steps,
        },
        guesses=tuple(writer.guesses),
    )


def _why_not(facts: FindingFacts) -> str:
    finding = facts.finding
    partition_name = f"{finding.topic}-{finding.partition}"
    if finding.topic in INTERNAL_TOPICS:
        return f"{partition_name} keeps positions of groups: a story writes records of topics only"
    if finding.partition >= PARTITIONS_MAX:
        return f"{partition_name}: a topic of a story has {PARTITIONS_MAX} partitions at most"
    if finding.state is AuditState.NO_MARKER and not finding.records and facts.is_v2:
        return (
            f"no record of the transaction is on {partition_name}: by transactions v2 a partition"
            " joins a transaction with a record, and which one it was is gone"
        )
    return ""


class _StoryWriter:
    """Writes the steps. It knows the epoch and the end of the partition's log at each of them."""

    def __init__(self, facts: FindingFacts) -> None:
        self.facts = facts
        self.steps: list[Step] = []
        self.guesses: list[str] = []
        self._finding: DecisionFinding = facts.finding
        self._partition = TopicPartition(facts.finding.topic, facts.finding.partition)
        self._transactional_id = self._finding.transactional_id or _UNKNOWN_ID
        self.actors: dict[str, dict[str, str]] = {
            _PRODUCER: {"plays": "wire", "transactional-id": self._transactional_id}
        }
        self._other_partitions: list[TopicPartition] = []
        self._mode = "TV2" if facts.is_v2 else "V-"
        self._has_one_replica = False
        self._is_as_4_3 = False
        self._epoch = 0
        self._marker_epoch = 0
        self._end_offset = 0
        """End of the partition's log, as far as the story has written it."""
        self._written_count = 0
        """Records of the story so far."""
        self._next_sentence = ""
        """What the next step says."""

    def write(self) -> None:
        """Write all steps of the story, and the guesses behind them."""
        self._choose_others()
        if self._finding.transactional_id is None:
            self._note_guess("the transactional id, as no coordinator's log has the producer")
        self._note_guess("values of records, producer ids and times; epochs begin at 0")
        self._move_coordinator(_COORDINATOR_BROKER, only=None)
        writer_by_state: Mapping[AuditState, Callable[[], None]] = {
            AuditState.NO_MARKER: self._lose_marker,
            AuditState.CONTRADICTS: self._write_contradiction,
            AuditState.TWICE: self._mark_twice,
            AuditState.RECORDS_BEHIND: self._write_behind,
            AuditState.WITHOUT_DECISION: self._mark_without_decision,
            AuditState.EPOCH_BACK: self._go_back,
        }
        writer_by_state[self._finding.state]()

    # The head

    def topics(self) -> dict[str, Any]:
        """The topics: the finding's partition is led by broker 2, the others by broker 1."""
        partition_counts: dict[str, int] = {}
        for partition in (self._partition, *self._other_partitions):
            partition_counts[partition.topic] = max(
                partition_counts.get(partition.topic, 0), partition.partition + 1
            )
        topics: dict[str, Any] = {}
        for topic, partition_count in partition_counts.items():
            leader_ids = [_COORDINATOR_BROKER] * partition_count
            if topic == self._partition.topic:
                leader_ids[self._partition.partition] = _LEADING_BROKER
            topics[topic] = {"partitions": partition_count, "leaders": leader_ids}
        if self._has_one_replica:
            topics[self._partition.topic]["replication-factor"] = 1
        return topics

    def run(self) -> dict[str, Any]:
        run_fields = {"mode": self._mode}
        if self._is_as_4_3:
            run_fields |= {"as-version": "4.3"}
        return run_fields

    def _choose_others(self) -> None:
        other_partitions = [
            partition
            for partition in self.facts.other_partitions
            if partition.topic not in INTERNAL_TOPICS and partition.partition < PARTITIONS_MAX
        ]
        self._other_partitions = other_partitions[:_OTHER_PARTITIONS_MAX]
        left_out_count = len(self.facts.other_partitions) - len(self._other_partitions)
        if left_out_count:
            self._note_guess(
                f"{left_out_count} of the decision's other partitions make no difference, and are"
                " left out"
            )
        elif not self.facts.other_partitions and self._finding.decision is None:
            self._note_guess("the transaction had no other partition")

    # States

    def _lose_marker(self) -> None:
        decision = self._finding.decision
        assert decision is not None
        is_commit = decision.outcome == "commit"
        self._init()
        self._begin_transaction(self._finding.records)
        if self._finding.explained_by == _KAFKA_20734:
            self._end_without_leader(is_commit=is_commit)
        else:
            self._end_without_marker(is_commit=is_commit)
        ending = self.facts.ended_by
        if ending is None:
            return
        if ending.is_decided:
            self._say_with_next_step(
                "The producer goes on. The end of its next transaction ends both."
            )
            self._note_guess("the next transaction wrote one record to this partition")
            self._begin_transaction(1, with_others=False)
            self._end_transaction(is_commit=ending.is_commit)
        else:
            self._advance_clock("1h")
            self._write_marker(is_commit=ending.is_commit, start_offset=0)

    def _write_contradiction(self) -> None:
        decision = self._finding.decision
        assert decision is not None
        is_commit = decision.outcome == "commit"
        marker_outcomes = [marker.outcome for marker in self._finding.markers]
        if self._finding.explained_by == _OPERATOR and not self.facts.is_late_marker:
            for broker in (_THIRD_BROKER, _COORDINATOR_BROKER):
                self._move_coordinator(broker)
        self._init()
        self._begin_transaction(self._finding.records or 1)
        if decision.outcome not in marker_outcomes:
            if self.facts.is_late_marker and self.facts.leader_moves:
                self._end_without_leader(is_commit=is_commit)
            else:
                self._move_leader_as_found()
                self._end_without_marker(is_commit=is_commit)
            if self.facts.is_late_marker:
                self._advance_clock("1h")
            is_operators = self._finding.explained_by == _OPERATOR
            self._write_marker(
                is_commit=not is_commit,
                start_offset=0,
                coordinator_epoch=None if is_operators else _LATER_COORDINATOR_EPOCH,
            )
            return
        self._move_leader_as_found()
        if marker_outcomes[0] == decision.outcome:
            self._end_transaction(is_commit=is_commit)
            self._note_guess("the other marker was written by an operator, at once")
            self._write_marker(
                is_commit=not is_commit,
                producer_id=_FIRST_PRODUCER_ID,
                coordinator_epoch=_LATER_COORDINATOR_EPOCH,
            )
            return
        self._hold_markers("peer.request", "The coordinator's marker is slow.")
        self._call_end(is_commit=is_commit)
        self._wait_until("struck", "markers")
        self._write_marker(is_commit=not is_commit, start_offset=0)
        self._release_rule("markers")
        self._wait_complete(is_commit=is_commit)

    def _mark_twice(self) -> None:
        decision = self._finding.decision
        assert decision is not None
        is_commit = decision.outcome == "commit"
        epochs = {marker.coordinator_epoch for marker in self._finding.markers}
        self._init()
        if self._finding.records and len(epochs) == 1 and not self.facts.is_v2:
            self._begin_transaction(1)
            self._end_transaction(is_commit=is_commit)
            self._note_guess(
                "records between the two markers came late, and an operator ended them"
            )
            self._say_with_next_step("A record arrives after its transaction has ended.")
            start_offset = self._end_offset
            self._produce(self._finding.records, only="armed")
            self._move_leader_as_found()
            self._write_marker(is_commit=is_commit, start_offset=start_offset)
            return
        self._begin_transaction(max(1, self._finding.records))
        self._move_leader_as_found()
        if len(epochs) > 1:
            self._hold_markers("peer.response", "The answer to the marker is slow.")
            self._call_end(is_commit=is_commit)
            self._wait_until("struck", "markers")
            self._say_with_next_step(
                "The coordinator moves. The new one sends the marker again, as it must."
            )
            self._move_coordinator(_THIRD_BROKER)
            self._wait_complete(is_commit=is_commit)
            self._release_rule("markers")
            return
        self._note_guess("the marker was sent again at once")
        self._hold_markers("peer.request", "The marker is sent twice.")
        self._call_end(is_commit=is_commit)
        self._wait_until("struck", "markers")
        self.steps.append({"release": {"rule": "markers", "as": "duplicate"}})
        self._wait_complete(is_commit=is_commit)

    def _write_behind(self) -> None:
        if self._finding.explained_by == "z34" or self.facts.is_v2:
            self._write_with_cut_off_entry()
        else:
            self._write_late()
        self._move_leader_as_found()

    def _mark_without_decision(self) -> None:
        is_commit = self._finding.markers[0].outcome == "commit"
        if self._finding.transactional_id is None or not self._finding.records:
            self._mark_nothing(is_commit=is_commit)
            return
        if self.facts.is_v2:
            self._write_with_cut_off_entry()
            start_offset = 0
        else:
            start_offset = self._write_late(
                with_newer_coordinator=self._finding.explained_by == _OPERATOR
            )
        self._move_leader_as_found()
        self._advance_clock("1h")
        self._write_marker(is_commit=is_commit, start_offset=start_offset)

    def _mark_nothing(self, *, is_commit: bool) -> None:
        """A finding of a marker that ends no record, which an operator wrote."""
        is_known = self._finding.transactional_id is not None
        self._init()
        self._other_partitions = [TopicPartition(_ELSEWHERE, 0)]
        self._begin_elsewhere()
        self._end_transaction(is_commit=True)
        if is_known and self._finding.explained_by == _OPERATOR:
            self._move_coordinator_with_witness()
        if not is_known:
            self._marker_epoch = self._finding.producer_epoch
        self._note_guess("an operator wrote the marker, an hour later")
        self._advance_clock("1h")
        self._write_marker(
            is_commit=is_commit,
            producer_id=_FIRST_PRODUCER_ID if is_known else _UNKNOWN_PRODUCER_ID,
            coordinator_epoch=0,
        )

    def _go_back(self) -> None:
        if self.facts.is_v2:
            self._note_guess("the producer used the old flow")
        self._note_guess("the leader forgot the producer as its entry expired, within a day")
        self._mode = "V-"
        self._init()
        self._add_call(_PRODUCER, "init-producer-id", bump=True)
        self._epoch = self._marker_epoch = 1
        self._begin_transaction(1)
        self._end_transaction(is_commit=True)
        self._say_with_next_step("The leader forgets the producer, and its newest epoch with it.")
        self._advance_clock("25h")
        self._say_with_next_step("A record of an older epoch arrives.")
        start_offset = self._end_offset
        self._produce(self._finding.records or 1, only="armed", epoch=0, sequence=0)
        self._move_leader_as_found()
        if not self._finding.reads_as.startswith("unread"):
            is_commit = self._finding.reads_as.startswith("committed")
            self._write_marker(is_commit=is_commit, start_offset=start_offset)

    # Ways

    def _end_without_leader(self, *, is_commit: bool) -> None:
        """A transaction is decided while the partition has no leader (KAFKA-20734, as in Z27)."""
        self._is_as_4_3 = self._has_one_replica = True
        if self._mode == "V-":
            self._mode = "V+"
        self._note_guess(
            f"broker {_LEADING_BROKER} had the only replica of {self._partition}, and was killed"
            " between the records and the decision: the logs show a new leader only"
        )
        self._say_with_next_step(
            f"Broker {_LEADING_BROKER} dies. It has the only replica of {self._partition}."
        )
        self._add_cluster_act("kill", only="armed", broker=_LEADING_BROKER)
        error_action = {"partition": str(self._partition), "is": "none"}
        self.steps.append({"only": "armed", "wait-until": {"leader": error_action}})
        self._call_end(is_commit=is_commit)
        self._wait_complete(is_commit=is_commit)
        self._add_cluster_act("start", only="armed", broker=_LEADING_BROKER)
        leader = {"partition": str(self._partition), "is": _LEADING_BROKER}
        self.steps.append({"wait-until": {"leader": leader}})

    def _end_without_marker(self, *, is_commit: bool) -> None:
        """A marker that its coordinator counts as done, as in Z10."""
        self._note_guess(
            "the coordinator was answered that the partition needs no marker: how it was lost, the"
            " logs don't tell"
        )
        self._say_with_next_step("The leader answers that this partition needs no marker.")
        rule_fields = {
            "id": "needless",
            "point": "log.append",
            "kind": "marker",
            "role": "leader",
            "topic": self._partition.topic,
            "partition": self._partition.partition,
            "action": {"do": "error", "error": "UNSUPPORTED_FOR_MESSAGE_FORMAT"},
        }
        self._arm_rule("arm", rule_fields)
        self._call_end(is_commit=is_commit)
        self._wait_until("struck", "needless")
        self._wait_complete(is_commit=is_commit)
        self.steps.append({"disarm": "needless"})

    def _write_late(self, *, with_newer_coordinator: bool = False) -> int:
        """A Produce that arrives behind its transaction's marker, as in Z01; returns the offset of
        its first record.
        """
        self._note_guess("the Produce was held on its way until its transaction had ended")
        self._init()
        self._begin_transaction(1)
        self._say_with_next_step("The next Produce is slow.")
        rule_fields = {
            "id": "late",
            "point": "client.request",
            "api": "Produce",
            "transactional_id": self._transactional_id,
        }
        self._arm_rule("hold", rule_fields)
        end_offset = self._end_offset
        self._produce(max(1, self._finding.records), connection="slow", background="late")
        late_records = self._end_offset - end_offset
        self._wait_until("struck", "late")
        self._end_offset = end_offset
        self._end_transaction(is_commit=self.facts.last_outcome_is_commit or False)
        if with_newer_coordinator:
            self._move_coordinator_with_witness()
        start_offset = self._end_offset
        self._say_with_next_step("The Produce arrives.")
        self._release_rule("late")
        self.steps.append({"only": "armed", "await": "late"})
        self._end_offset += late_records
        return start_offset

    def _write_with_cut_off_entry(self) -> None:
        """A transaction that its coordinator has forgotten, as in Z34."""
        self._has_one_replica = True
        self._note_guess(
            "the last leader of the coordinator's partition was in sync and had not fetched the"
            " entry yet"
        )
        self._init()
        self._add_call(_PRODUCER, "begin")
        self._say_with_next_step(
            "The third replica of the coordinator's partition is slow to fetch."
        )
        third_fetch_match = {
            "point": "peer.request",
            "api": "Fetch",
            "source": f"broker/{_THIRD_BROKER}",
        }
        self._arm_rule("hold", {"id": "third", **third_fetch_match})
        self._wait_until("struck", {"rule": "third", "times": 2})
        second_fetch_match = {
            "point": "peer.response",
            "api": "Fetch",
            "source": f"broker/{_LEADING_BROKER}",
        }
        self._arm_rule("arm", {"id": "second", **second_fetch_match, "action": {"do": "pass"}})
        if self.facts.is_v2:
            self._produce(max(1, self._finding.records), background="joining")
        else:
            partitions = str(self._partition)
            self._add_call(_PRODUCER, "add-partitions", partitions=partitions, background="joining")
        self._wait_until("struck", {"rule": "second", "times": 4})
        self._say_with_next_step(
            "The coordinator moves to the second replica, which has the entry."
        )
        self._move_coordinator(_LEADING_BROKER)
        self.steps.append({"wait-until": {"answered": "joining"}})
        if self.facts.is_v2:
            self._repeat_last_produce(only="armed")
        else:
            partitions = str(self._partition)
            self._add_call(_PRODUCER, "add-partitions", only="armed", partitions=partitions)
            self._produce(max(1, self._finding.records))
        self._say_with_next_step("The coordinator moves to the third replica, which has not.")
        self._move_coordinator(_THIRD_BROKER)
        self._release_rule("third")
        self._add_call(_PRODUCER, "commit", only="disarmed")
        state_fields = {"id": self._transactional_id, "is": "CompleteCommit"}
        self.steps.append({"only": "disarmed", "wait-until": {"transaction": state_fields}})

    def _move_coordinator_with_witness(self) -> None:
        """Raise the coordinator's epoch, and have another producer write in it."""
        self._note_guess("another producer showed the coordinator's new epoch")
        log_partition = partition_for(self._transactional_id, TRANSACTION_LOG_PARTITIONS)
        witness_id = next(
            witness_name
            for witness_number in range(1_000)
            if partition_for(
                witness_name := f"witness-{witness_number}", TRANSACTION_LOG_PARTITIONS
            )
            == log_partition
            and witness_name != self._transactional_id
        )
        self.actors[_WITNESS] = {"plays": "wire", "transactional-id": witness_id}
        self._say_with_next_step("The coordinator moves twice, and another producer writes.")
        for broker in (_THIRD_BROKER, _COORDINATOR_BROKER):
            self._move_coordinator(broker)
        partition = str(self._partition)
        self._add_call(_WITNESS, "init-producer-id")
        self._add_call(_WITNESS, "begin")
        self._add_call(_WITNESS, "add-partitions", partitions=partition)
        self._add_call(_WITNESS, "produce", partition=partition, value="witness")
        self._add_call(_WITNESS, "commit")
        completed_state = {"id": witness_id, "is": "CompleteCommit"}
        self.steps.append({"wait-until": {"transaction": completed_state}})
        self._end_offset += 2

    def _move_leader_as_found(self) -> None:
        """Give the partition the new leaders that its leader epochs show."""
        if self._has_one_replica:
            return
        move_count = min(self.facts.leader_moves, LEADER_MOVES_MAX)
        if move_count < self.facts.leader_moves:
            self._note_guess(
                f"{move_count} of {self.facts.leader_moves} moves of the leader are enough"
            )
        for number in range(move_count):
            broker = _THIRD_BROKER if number % 2 == 0 else _LEADING_BROKER
            self._add_cluster_act(
                "move-leader", only="armed", partition=str(self._partition), to=broker
            )

    # Steps of a transaction

    def _init(self) -> None:
        self._add_call(_PRODUCER, "init-producer-id")

    def _begin_transaction(self, record_count: int, *, with_others: bool = True) -> None:
        """Begin a transaction and write its records, on the other partitions as well by default."""
        other_partitions = self._other_partitions if with_others else []
        self._add_call(_PRODUCER, "begin")
        partitions = [str(partition) for partition in (self._partition, *other_partitions)]
        self._add_call(_PRODUCER, "add-partitions", partitions=partitions)
        if record_count:
            self._produce(record_count)
        for partition in other_partitions:
            self._written_count += 1
            record_value = f"record {self._written_count}"
            self._add_call(_PRODUCER, "produce", partition=str(partition), value=record_value)

    def _begin_elsewhere(self) -> None:
        """Begin a transaction on another topic, without the partition of the finding."""
        partition = str(TopicPartition(_ELSEWHERE, 0))
        self._add_call(_PRODUCER, "begin")
        self._add_call(_PRODUCER, "add-partitions", partitions=partition)
        self._add_call(_PRODUCER, "produce", partition=partition, value="elsewhere")

    def _produce(self, record_count: int, **fields: Any) -> None:
        count = min(record_count, RECORDS_MAX)
        if count < record_count:
            self._note_guess(f"{count} of {record_count:,} records are enough")
        values = [f"record {self._written_count + number}" for number in range(1, count + 1)]
        self._written_count += count
        self._end_offset += count
        partition = str(self._partition)
        self._add_call(_PRODUCER, "produce", partition=partition, values=values, **fields)

    def _repeat_last_produce(self, **fields: Any) -> None:
        """Send the last Produce again, as a client does that got an error."""
        last_call = next(
            step["call"] for step in reversed(self.steps) if step.get("call", {}).get("values")
        )
        self._add_call(
            _PRODUCER,
            "produce",
            partition=last_call["partition"],
            values=[*last_call["values"]],
            sequence=0,
            **fields,
        )

    def _end_transaction(self, *, is_commit: bool) -> None:
        """Ask for a commit or abort, and wait until its markers are written."""
        self._call_end(is_commit=is_commit)
        self._wait_complete(is_commit=is_commit)
        self._end_offset += 1

    def _call_end(self, *, is_commit: bool) -> None:
        self._add_call(_PRODUCER, "commit" if is_commit else "abort")
        if self.facts.is_v2 and self._mode == "TV2":
            self._epoch += 1
        self._marker_epoch = self._epoch

    def _wait_complete(self, *, is_commit: bool) -> None:
        state = "CompleteCommit" if is_commit else "CompleteAbort"
        self.steps.append(
            {"wait-until": {"transaction": {"id": self._transactional_id, "is": state}}}
        )

    def _write_marker(
        self,
        *,
        is_commit: bool,
        start_offset: int | None = None,
        producer_id: int | None = None,
        coordinator_epoch: int | None = None,
    ) -> None:
        """Let an operator write a marker for what is open since an offset, or for a producer id."""
        ending_word = "commit" if is_commit else "abort"
        marker_fields = {
            "start-offset": start_offset,
            "producer-id": producer_id,
            "coordinator-epoch": coordinator_epoch,
        }
        marker_fields = {
            name: number for name, number in marker_fields.items() if number is not None
        }
        self._say_with_next_step(f"An operator writes {ending_word.upper()}.")
        self._add_call(
            _OPERATOR,
            "abort",
            only="armed",
            partition=str(self._partition),
            **marker_fields,
            epoch=self._marker_epoch,
            decision=ending_word,
        )

    # Single steps

    def _say_with_next_step(self, sentence: str) -> None:
        """Keep a sentence that the next step will say."""
        self._next_sentence = sentence

    def _add_call(
        self, actor_name: str, verb: str, *, only: str | None = None, **fields: Any
    ) -> None:
        self._add_step("call", {"who": actor_name, "do": verb, **fields}, only=only)

    def _add_cluster_act(self, do: str, *, only: str | None = None, **fields: Any) -> None:
        self._add_step("cluster", {"do": do, **fields}, only=only)

    def _move_coordinator(self, broker_id: int, *, only: str | None = "armed") -> None:
        move_fields: dict[str, Any] = {"coordinator-of": self._transactional_id, "to": broker_id}
        self._add_cluster_act("move-leader", only=only, **move_fields)

    def _advance_clock(self, duration: str) -> None:
        self._add_step("advance", duration)

    def _hold_markers(self, point: str, sentence: str) -> None:
        self._say_with_next_step(sentence)
        self._arm_rule("hold", {**self._marker_rule("markers", point), "limit": 1})

    def _marker_rule(self, rule_id: str, point: str) -> dict[str, Any]:
        return {
            "id": rule_id,
            "point": point,
            "api": "WriteTxnMarkers",
            "topic": self._partition.topic,
            "partition": self._partition.partition,
        }

    def _arm_rule(self, kind: str, rule_fields: Mapping[str, Any]) -> None:
        self._add_step(kind, {**rule_fields})

    def _release_rule(self, rule_id: str) -> None:
        self._add_step("release", rule_id)

    def _wait_until(self, condition: str, subject: object) -> None:
        self.steps.append({"wait-until": {condition: subject}})

    def _add_step(self, kind: str, content: object, *, only: str | None = None) -> None:
        step: Step = {}
        if only is not None:
            step["only"] = only
        if self._next_sentence:
            step["say"], self._next_sentence = self._next_sentence, ""
        self.steps.append({**step, kind: content})

    def _note_guess(self, sentence: str) -> None:
        if sentence not in self.guesses:
            self.guesses.append(sentence)
