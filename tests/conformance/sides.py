"""The two brokers of a random play, and when their answers may be compared.

Waiting happens here and nowhere else, always under the name of a ``Race``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import fields, is_dataclass
from typing import Any, Final

from tests.conformance.changes import LASTING
from tests.conformance.model import ABSENT, ONGOING, PARTITIONS, PREPARED
from tests.conformance.operations import Operation, Values, resolve_names
from tests.conformance.races import PATIENCE_S, Race
from txnsim.client.raw.connection import NoAnswer
from txnsim.errors import ErrorCode
from txnsim.runtime.blocking_world import world
from txnsim_lab.conformance._book.frame_player import FramePlayer
from txnsim_lab.conformance._book.transcript import differences

LASTS_S: Final = 0.3
"""PrepareX that both sides show unchanged for that long is taken for good."""
_PAUSE_S: Final = 0.002
_PAUSE_MAX_S: Final = 0.03
_OUTCOMES: Final = frozenset(outcome.value for outcome in NoAnswer)
_LOADING: Final = frozenset(
    {
        ErrorCode.coordinator_load_in_progress,
        ErrorCode.coordinator_not_available,
        ErrorCode.not_coordinator,
    }
)
_TAKE_PRODUCER_IDS: Final = ("InitProducerId", "EndTxn")


class Side:
    """One of the two brokers of a play."""

    def __init__(self, address: str, *, scene: str, transaction_version: int) -> None:
        self.player = FramePlayer(address, play_prefix=scene, level=transaction_version)
        self.races: Counter[Race] = Counter()
        self.acts: list[tuple[Any, ...]] = []
        """What was done at this broker: a method of this class, and its arguments."""
        self._pids: list[int] = []
        self._topic_ids: dict[str, Any] = {}
        self._newest_pid = -1
        """The producer id of the newest answer that was looked at."""

    def pid(self, pid_number: int) -> int:
        """The ``pid_number``-th producer id that this broker gave out."""
        return self._pids[pid_number]

    def topic_id(self, topic_name: str) -> Any:
        """The topic id that this broker gave to a topic."""
        return self._topic_ids[topic_name]

    def number(self, producer_id: int) -> int:
        """The number of a producer id of this broker; a new id gets the next number."""
        if producer_id not in self._pids:
            self._pids.append(producer_id)
            if producer_id == self._newest_pid:
                self.acts.append(("number_newest_pid",))
        return self._pids.index(producer_id)

    def number_newest_pid(self) -> None:
        """Give the producer id of the newest answer the next number."""
        self.number(self._newest_pid)

    def prepare(self, prefix: str, topics: Iterable[str]) -> None:
        """Make the topics of a play.

        Args:
            prefix: Of their names.
            topics: Their names.
        """
        self.acts.append(("prepare", prefix, [*topics]))
        configs = {name.replace(".", "_"): config_value for name, config_value in LASTING.items()}
        for topic_name in topics:
            short_name = topic_name.removeprefix(f"{prefix}-")
            _, self._topic_ids[topic_name] = self.player.create_plain_topic(
                short_name, PARTITIONS, **configs
            )

    def ask(self, operation: Operation) -> Any:
        """Send an operation's request; the answer goes into the transcript as well."""
        self.acts.append(("ask", operation))
        values = resolve_names(operation.values, self)
        label = f"{operation.api} ({operation.flow}, {operation.mode})"
        if operation.unanswered:
            self.player.ask_unanswered(operation.api, operation.version, label, **values)
            _, happened = self.player.transcript.entries[-1]
            return NoAnswer(happened) if happened in _OUTCOMES else happened
        deadline_s = world().monotonic_s() + PATIENCE_S
        while True:
            answer = self.player.ask_unrecorded(operation.api, operation.version, **values)
            code = getattr(answer, "error_code", None)
            is_loading = code == ErrorCode.coordinator_load_in_progress
            if not is_loading or operation.api not in _TAKE_PRODUCER_IDS:
                break
            assert world().monotonic_s() < deadline_s, f"{operation} stays {answer}"
            self.races[Race.PRODUCER_IDS] += 1
            world().sleep(_PAUSE_S)
        self.player.note(label, answer)
        self._newest_pid = getattr(answer, "producer_id", -1)
        return answer

    def note_state(self, transactional_id: str, row: Any) -> None:
        """Write down what the broker says of a transactional id (DescribeTransactions)."""
        self.acts.append(("await_state", transactional_id, state_name(row)))
        self.player.note(f"state of {transactional_id}", row)
        self._newest_pid = row.producer_id

    def await_state(self, transactional_id: str, expected_state: str) -> None:
        """Wait until the broker shows a transactional id in this state, and write down the row."""
        if expected_state in PREPARED:
            world().sleep(LASTS_S)  # it stays so, and markers that are written come until then
        answer = self.player.ask_until(
            lambda answer: state_name(answer.transaction_states[0]) == expected_state,
            "DescribeTransactions",
            0,
            transactional_ids=[transactional_id],
        )
        self.note_state(transactional_id, answer.transaction_states[0])

    def exhaust(self, transactional_id: str, epoch: int) -> None:
        """Bring a transactional id to an epoch."""
        self.acts.append(("exhaust", transactional_id, epoch))
        self.player.raise_epoch(transactional_id, epoch)

    # Until the broker has heard of a change

    def await_level(self, transaction_version: int) -> None:
        """Wait until the broker shows this finalized level of ``transaction.version``."""
        self.acts.append(("await_level", transaction_version))
        self.player.ask_until(
            lambda answer: _finalized_level(answer) == transaction_version,
            "ApiVersions",
            4,
            client_software_name="play",
            client_software_version="1",
        )

    def await_topic(self, topic_name: str, partitions: int) -> None:
        """Wait until a topic has ``partitions`` led partitions; 0 for a deleted topic."""
        self.acts.append(("await_topic", topic_name, partitions))
        expected_error = ErrorCode.none if partitions else ErrorCode.unknown_topic_or_partition

        def has_led_partitions(answer: Any) -> bool:
            topic = answer.topics[0]
            led_partitions = [
                partition for partition in topic.partitions if partition.leader_id >= 0
            ]
            return bool(topic.error_code == expected_error and len(led_partitions) == partitions)

        values: Values = {"topics": [{"name": topic_name}], "allow_auto_topic_creation": False}
        answer = self.player.ask_until(has_led_partitions, "Metadata", 12, **values)
        if partitions:
            self._topic_ids[topic_name] = answer.topics[0].topic_id
        for partition_index in range(partitions or PARTITIONS):
            partition = {"partition_index": partition_index, "timestamp": -1}
            self.player.ask_until(
                lambda answer: answer.topics[0].partitions[0].error_code == expected_error,
                "ListOffsets",
                7,
                replica_id=-1,
                topics=[{"name": topic_name, "partitions": [partition]}],
            )

    def await_config(
        self, resource_type: int, name: str, key: str, config_value: str | None
    ) -> None:
        """Wait until the broker shows this value of a config; None means no own value."""
        self.acts.append(("await_config", resource_type, name, key, config_value))
        own_source = {2: 1, 4: 3}[resource_type]
        resource = {
            "resource_type": resource_type,
            "resource_name": name if resource_type == 2 else "1",
            "configuration_keys": [key],
        }

        def has_config_value(answer: Any) -> bool:
            (config,) = answer.results[0].configs
            is_own = config.config_source == own_source
            return bool(
                is_own and config.value == config_value if config_value is not None else not is_own
            )

        self.player.ask_until(has_config_value, "DescribeConfigs", 4, resources=[resource])
        if resource_type == 2:
            # Configs are told before they are in force; a later topic is served after that.
            self.player.await_metadata()

    def await_group(self, group: str) -> None:
        """Wait until the group has a loaded coordinator."""
        self.acts.append(("await_group", group))
        values: Values = {"key": group, "key_type": 0}
        self.player.ask_until(
            lambda answer: answer.error_code == ErrorCode.none, "FindCoordinator", 1, **values
        )
        self.player.ask_until(
            lambda answer: answer.groups[0].error_code not in _LOADING,
            "DescribeGroups",
            5,
            groups=[group],
        )

    def await_coordinator(self, transactional_id: str) -> None:
        """Wait until the transactional id has a loaded coordinator."""
        self.acts.append(("await_coordinator", transactional_id))
        self.player.await_coordinator(transactional_id)


class Pair:
    """Both brokers; every question goes to both.

    Args:
        addresses: Of the real one and of ours.
        scene: Prefix of all names.
        level: Finalized level of ``transaction.version``.
    """

    def __init__(self, addresses: tuple[str, str], *, scene: str, transaction_version: int) -> None:
        self.real, self.ours = (
            Side(address, scene=scene, transaction_version=transaction_version)
            for address in addresses
        )
        self.real_answers: list[tuple[str, Any]] = []
        """All that the real broker has answered."""
        self._races: Counter[Race] = Counter()

    def close(self) -> None:
        self.real.player.close()
        self.ours.player.close()

    def ask(self, operation: Operation) -> tuple[Any, Any]:
        """Send an operation's request to both brokers; return both answers."""
        return self.real.ask(operation), self.ours.ask(operation)

    def both(self, call: Callable[[Side], object]) -> None:
        call(self.real)
        call(self.ours)

    def await_change(self, call: Callable[[Side], object]) -> None:
        """Wait until both brokers know of a change."""
        self._races[Race.CHANGES] += 1
        self.both(call)

    def differences(self) -> list[str]:
        """The differences of the answers since the last call, the real broker's answer first."""
        differences_found = list(
            differences(self.real.player.transcript, self.ours.player.transcript)
        )
        self.real_answers += self.real.player.transcript.entries
        self.real.player.transcript.entries.clear()
        self.ours.player.transcript.entries.clear()
        return differences_found

    def races(self) -> Counter[Race]:
        """How often anything was waited for since the last call."""
        all_races = self._races + self.real.races + self.ours.races
        for races in (self._races, self.real.races, self.ours.races):
            races.clear()
        return all_races

    def state_of(
        self, transactional_id: str, *, times_out: bool, is_stuck: bool
    ) -> tuple[Any, Any]:
        """What both say of a transactional id once nothing is on its way any more, written down.

        Args:
            transactional_id: Of what.
            times_out: Its transactions are over by themselves.
            is_stuck: It was found to stay in PrepareX already.
        """
        on_the_way = PREPARED | {ONGOING} if times_out else PREPARED
        values: Values = {"transactional_ids": [transactional_id]}

        def rows() -> tuple[Any, Any]:
            real, ours = (
                side.player.ask_unrecorded("DescribeTransactions", 0, **values).transaction_states[
                    0
                ]
                for side in (self.real, self.ours)
            )
            return real, ours

        begun_s = unchanged_s = world().monotonic_s()
        rows_before, pause_s = None, _PAUSE_S
        while True:
            real, ours = rows()
            states = {real.transaction_state, ours.transaction_state}
            now_s = world().monotonic_s()
            if (real, ours) != rows_before:
                rows_before, unchanged_s = (real, ours), now_s
            seems_done = is_stuck or now_s - unchanged_s > LASTS_S
            lasts = seems_done and len(states) == 1 and states <= PREPARED
            if not states & on_the_way or lasts or now_s - begun_s > PATIENCE_S:
                break
            self._races[Race.TIME_OUT if times_out and ONGOING in states else Race.MARKERS] += 1
            world().sleep(pause_s)
            pause_s = min(2 * pause_s, _PAUSE_MAX_S)
        self.real.note_state(transactional_id, real)
        self.ours.note_state(transactional_id, ours)
        return real, ours


def _finalized_level(answer: Any) -> int:
    transaction_versions = {
        finalized_feature.name: finalized_feature.max_version_level
        for finalized_feature in answer.finalized_features
    }
    return int(transaction_versions.get("transaction.version", 0))


def state_name(row: Any) -> str:
    """The state in a row of DescribeTransactions."""
    return ABSENT if row.error_code else str(row.transaction_state)


def outcomes(answer: Any) -> set[str]:
    """Every error in an answer by name, or what came instead of an answer."""
    return {code.name if isinstance(code, ErrorCode) else code.value for code in _codes_in(answer)}


def _codes_in(answer: Any) -> Iterator[ErrorCode | NoAnswer]:
    if isinstance(answer, ErrorCode | NoAnswer):
        yield answer
    elif is_dataclass(answer):
        for field in fields(answer):
            yield from _codes_in(getattr(answer, field.name))
    elif isinstance(answer, tuple | list):
        for element in answer:
            yield from _codes_in(element)
