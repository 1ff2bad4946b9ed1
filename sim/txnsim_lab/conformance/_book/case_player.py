"""Plays cases to a broker at any address and writes its answers down.

Cases do not affect each other, since each uses its own names, so many are played at the same time.
Cases that change the whole broker are played afterwards, one by one. ``ListTransactions`` shows the
transactional ids of all plays; those of other plays are removed from the answer.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextvars import copy_context
from dataclasses import replace
from types import TracebackType
from typing import Any, Final, Self

import msgspec

from txnsim.client.raw.connection import NoAnswer, RawConnection
from txnsim.errors import ErrorCode
from txnsim_lab.conformance._book.casebook_reader import Case, rules
from txnsim_lab.conformance._book.frame_player import API_KEYS, FramePlayer, NotOfferedError
from txnsim_lab.conformance._book.model import CLOSED, SILENT, CaseStep
from txnsim_lab.conformance._book.targets import NO_OTHER_USERS, BlockingTarget, PlaySurroundings
from txnsim_lab.conformance._book.transcript import Transcript
from txnsim_lab.conformance._book.values import (
    CaseError,
    PlayTopic,
    Producer,
    TooLateError,
    Variables,
    check_fields,
    error_codes,
    resolve_placeholders,
    value_at_path,
)
from txnsim_lab.conformance._book.verbs import (
    DESCRIBE_TRANSACTIONS,
    TIMEOUT_MS,
    VerbRequest,
    partition_of,
)
from txnsim_lab.conformance._book.vocabulary import requests_of
from txnsim_lab.target.cluster import Ability, TargetError, require_ability

WORKERS: Final = 6
"""Number of cases that are played at the same time. With more of them each takes longer, until
transactions time out between two steps of a case.
"""
STOP_WAIT_S: Final = 1.0
"""How long plays that are stopped may take to end."""
ATTEMPTS_MAX: Final = 5
ANSWER_VERB: Final = "answer"
FEATURE: Final = "transaction.version"
_UPGRADE: Final = 1
_UNSAFE_DOWNGRADE: Final = 3
_RETRY_PAUSE_S: Final = 0.01
_LATER_REQUEST_COUNT: Final = 3
_BUSY_ERRORS: Final = frozenset(
    {
        ErrorCode.coordinator_not_available,
        ErrorCode.coordinator_load_in_progress,
        ErrorCode.not_coordinator,
        ErrorCode.concurrent_transactions,
    }
)
_OUTCOME_NAMES: Final = {NoAnswer.CLOSED: CLOSED, NoAnswer.SILENT: SILENT}


class Play(msgspec.Struct, frozen=True, kw_only=True):
    """The transcript of one case at one level of ``transaction.version``, with the rules that it
    shows.
    """

    transcript: Transcript
    seconds: float = 0.0
    racy_entries: frozenset[int]
    """Indexes of transcript entries for which a real broker may give different answers."""
    rule_ids: tuple[tuple[str, ...], ...]
    """Rules that each transcript entry shows, by index."""
    unshown_rules: tuple[str, ...]
    """Rules that a step names although its answer does not show them."""


class CasePlayer:
    """Plays one case, as a context manager.

    Args:
        case: What to play.
        target: The brokers.
        level: Finalized level of ``transaction.version``.
        play_suffix: Distinguishes this play from others of the same case.
        surroundings: The limits on a cluster with other users.
    """

    def __init__(
        self,
        case: Case,
        target: BlockingTarget,
        level: int,
        *,
        play_suffix: str = "0",
        surroundings: PlaySurroundings = NO_OTHER_USERS,
    ) -> None:
        self._case = case
        self._level = level
        self._surroundings = surroundings
        self._play_prefix = (
            f"{surroundings.run_prefix}{case.id.replace('/', '-')}-tv{level}-{play_suffix}"
        )
        self._broker_addresses = target.bootstrap.split(",")
        self._player = FramePlayer(
            self._broker_addresses[0],
            play_prefix=self._play_prefix,
            level=level,
            surroundings=surroundings,
        )
        self._connections: dict[str, RawConnection] = {}
        self._awaited_requests: dict[str, tuple[VerbRequest, str]] = {}
        self._transcript = Transcript(
            play_prefix=f"{self._play_prefix}-",
            run_prefix=surroundings.run_prefix,
            broker_id=surroundings.broker_id,
        )
        self._rule_ids: list[tuple[str, ...]] = []
        self._variables: Variables = {**case.chosen_values, "level": level}
        self._racy_entry_indexes: set[int] = set()
        self._target = target
        self._ended_brokers: set[int] = set()
        self._unshown_rules: list[str] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        self._player.close()
        for connection in self._connections.values():
            connection.close()
        for broker_id in tuple(self._ended_brokers):
            self._start_broker(broker_id)

    def _end_if_stopping(self) -> None:
        if self._surroundings.is_stopping():
            raise CaseError(f"{self._case.id}: stopped")

    def play(self) -> Play:
        """Play all steps in order.

        Raises:
            CaseError: A step can't be played; the message names the step.
        """
        start_s = RawConnection.now_s()
        for name, topic in self._case.topics().items():
            self._end_if_stopping()
            configs = resolve_placeholders(topic.configs, self._variables, self._player.full_name)
            configs = {"segment.ms": str(2**63 - 1), "retention.ms": "-1", **configs}
            name_and_id = self._player.create_plain_topic(name, topic.partitions, **configs)
            self._variables[name] = PlayTopic(name=name_and_id[0], id=name_and_id[1])
        for step_number, step in enumerate(self._case.steps(self._level), start=1):
            self._end_if_stopping()
            try:
                for repeated_step in self._repeated_steps(step):
                    self._play_step(repeated_step)
            except TooLateError:
                raise
            except (
                CaseError,
                TargetError,
                ValueError,
                TypeError,
                AssertionError,
                OSError,
            ) as error:
                step_label = (
                    f"{self._case.id} at level {self._level}, step {step_number} ({step.verb})"
                )
                raise CaseError(f"{step_label}: {error}") from error
        return Play(
            transcript=self._transcript,
            racy_entries=frozenset(self._racy_entry_indexes),
            rule_ids=tuple(self._rule_ids),
            seconds=RawConnection.now_s() - start_s,
            unshown_rules=tuple(self._unshown_rules),
        )

    # Steps

    def _repeated_steps(self, step: CaseStep) -> Iterator[CaseStep]:
        if step.times == 1:
            yield step
            return
        for ordinal in range(1, step.times + 1):
            self._variables["nth"] = ordinal_text = f"n{ordinal}"
            later_name = step.later and f"{step.later}-{ordinal_text}"
            given_name = f"{step.given}-{ordinal_text}" if step.verb == ANSWER_VERB else step.given
            yield step.model_copy(update={"later": later_name, "given": given_name})

    def _play_step(self, step: CaseStep) -> None:
        parameters = resolve_placeholders(step.given, self._variables, self._player.full_name)
        preparation = _PREPARATIONS.get(step.verb)
        if preparation is not None:
            preparation(self, parameters)
            return
        if step.verb == ANSWER_VERB:
            self._receive_later_answer(step)
            return
        for request in self._requests_of_step(step, parameters):
            check_fields(API_KEYS[request.api], request.fields)
            offered_version = self._surroundings.chosen_version(request.api, request.version)
            if offered_version != request.version and not step.closes and not step.silent:
                raise NotOfferedError(request.api, request.version)
            if step.later:
                self._send_request(step, request)
                continue
            answer = self._answer_of(step, request)
            if step.promptly and set(error_codes(answer)) != {ErrorCode.none}:
                error_names = ", ".join(
                    error_code.name.upper() for error_code in set(error_codes(answer))
                )
                raise TooLateError(f"{request.api} came too late: {error_names}")
            self._process_answer(step, request, answer, step.note or _parameter_text(step.given))

    def _send_request(self, step: CaseStep, request: VerbRequest) -> None:
        """Send a request without waiting; a later step reads the answer."""
        if step.later in self._awaited_requests:
            raise CaseError(f"{step.later} is asked already")
        connection = self._connection_of(step.model_copy(update={"over": step.later}))
        assert connection is not None
        connection.send(API_KEYS[request.api], request.version, **request.fields)
        self._awaited_requests[step.later] = (request, step.note or _parameter_text(step.given))

    def _receive_later_answer(self, step: CaseStep) -> None:
        if step.given not in self._awaited_requests:
            raise CaseError(f"{step.given} was not asked")
        request, label = self._awaited_requests.pop(step.given)
        connection = self._connection_of(step.model_copy(update={"over": step.given}))
        assert connection is not None
        answer = connection.receive(API_KEYS[request.api], request.version)
        self._process_answer(step, request, answer, step.note or label)

    def _process_answer(
        self, step: CaseStep, request: VerbRequest, answer: Any, label: str
    ) -> None:
        if not step.quiet:
            self._note_answer(step, request, answer, label)
        self._compare_with_rules(step, answer)
        self._save_variables(step, answer)

    def _requests_of_step(self, step: CaseStep, parameters: Any) -> list[VerbRequest]:
        api_and_version = step.request
        if api_and_version is None:
            return requests_of(step.verb, parameters, self._variables)
        api, version = api_and_version
        if api not in API_KEYS:
            raise CaseError(f"there is no {api}")
        chosen_version = self._variables[version[1:]] if version.startswith("$") else version
        return [VerbRequest(api, int(chosen_version), parameters or {})]

    def _answer_of(self, step: CaseStep, request: VerbRequest) -> Any:
        if step.silent or step.closes:
            return self._ask_without_answer(request, closes_connection=step.closes)
        return self._ask_until(step, request)

    def _ask_until(self, step: CaseStep, request: VerbRequest) -> Any:
        deadline_s = RawConnection.now_s() + self._surroundings.patience_s
        awaited_values = resolve_placeholders(step.until, self._variables, self._player.full_name)
        while True:
            answer = self._ask_request(step, request)
            is_busy = step.settled and bool(_BUSY_ERRORS & set(error_codes(answer)))
            if not is_busy and all(
                _matches(value_at_path(answer, path), awaited_value)
                for path, awaited_value in awaited_values.items()
            ):
                return answer
            if RawConnection.now_s() > deadline_s:
                raise CaseError(f"{request.api} stays {answer}")
            RawConnection.pause(_RETRY_PAUSE_S)

    def _ask_request(self, step: CaseStep, request: VerbRequest) -> Any:
        connection = self._connection_of(step)
        if connection is None:
            answer = self._player.ask_unrecorded(request.api, request.version, **request.fields)
        else:
            answer = connection.ask(API_KEYS[request.api], request.version, **request.fields)
        if request.api == "ListTransactions":
            own_transactions = [
                transaction
                for transaction in answer.transaction_states
                if self._is_own_transaction(transaction)
            ]
            answer = replace(answer, transaction_states=tuple(own_transactions))
        elif request.api == "ListGroups":
            own_groups = [
                group
                for group in answer.groups
                if group.group_id.startswith(f"{self._play_prefix}-")
            ]
            answer = replace(answer, groups=tuple(own_groups))
        elif request.api == "ApiVersions":
            # Which APIs there are is a matter of the release, and compared there.
            answer = replace(answer, api_keys=())
        return answer

    def _is_own_transaction(self, transaction: Any) -> bool:
        return str(transaction.transactional_id).startswith(f"{self._play_prefix}-")

    def _ask_without_answer(self, request: VerbRequest, *, closes_connection: bool) -> Any:
        """Send a request that should get no answer; returns what happens instead."""
        with RawConnection(self._broker_addresses[0]) as connection:
            connection.send(API_KEYS[request.api], request.version, **request.fields)
            # A broker that has answered later questions has had its time for this one, too.
            for _ in range(_LATER_REQUEST_COUNT):
                self._player.ask_unrecorded("ApiVersions", 0)
            answer = connection.receive_frame() if closes_connection else connection.silence()
        return answer if isinstance(answer, NoAnswer) else f"answered {len(answer)} bytes"

    def _note_answer(
        self, step: CaseStep, request: VerbRequest, answer: Any, parameters: str
    ) -> None:
        if step.racy:
            self._racy_entry_indexes.add(len(self._transcript.entries))
        self._rule_ids.append(step.row)
        label = f"{request.api} v{request.version} {parameters} {request.note}"
        if step.parts:
            answer = {
                field_path: value_at_path(answer, field_path)
                for field_path in step.parts
                if hasattr(answer, field_path.partition(".")[0])
            }
        self._transcript.note(" ".join(label.split()), answer)

    def _compare_with_rules(self, step: CaseStep, answer: Any) -> None:
        if not step.row:
            return
        answer_names = {_OUTCOME_NAMES[answer]} if isinstance(answer, NoAnswer) else set()
        answer_names |= {error_code.name.upper() for error_code in error_codes(answer)}
        answer_names = answer_names or {
            ErrorCode.none.name.upper()
        }  # an answer without a place for errors
        for rule_id in step.row:
            file_and_rule = rules().get(rule_id)
            expected = () if file_and_rule is None else file_and_rule[1].answers
            if not answer_names & set(expected):
                outcome_names = " ".join(sorted(answer_names))
                self._unshown_rules.append(
                    f"{rule_id} is {' or '.join(expected)}, found {outcome_names}"
                )

    def _save_variables(self, step: CaseStep, answer: Any) -> None:
        if isinstance(step.save, str):
            if step.save:
                value_before = self._variables.get(step.save)
                transactional_id = value_before.id if isinstance(value_before, Producer) else None
                self._variables[step.save] = Producer(
                    id=transactional_id, pid=answer.producer_id, epoch=answer.producer_epoch
                )
            return
        for variable_name, answer_path in step.save.items():
            self._variables[variable_name] = value_at_path(answer, answer_path)

    # Who is asked

    def _connection_of(self, step: CaseStep) -> RawConnection | None:
        if not step.via and not step.over:
            return None
        address = self._broker_address(step.via) if step.via else self._broker_addresses[0]
        connection_key = f"{step.over} {address}"
        if connection_key not in self._connections:
            self._connections[connection_key] = RawConnection(address)
        return self._connections[connection_key]

    def _broker_address(self, route: str) -> str:
        *route_words, address_kind = route.split()
        if route_words == ["broker"]:
            return self._broker_addresses[int(address_kind) - 1]
        if route_words[-2:] == ["coordinator", "of"]:
            coordinator = self._coordinator_address(self._variables[address_kind].id)
            if route_words[0] == "not":
                return next(address for address in self._broker_addresses if address != coordinator)
            return coordinator
        if route_words not in (["leader", "of"], ["not", "leader", "of"]):
            raise CaseError(f"via {route}: unknown")
        topic, _, partition = address_kind.partition(".")
        metadata = self._player.ask_unrecorded(
            "Metadata", 12, topics=[{"name": self._variables[topic].name}]
        )
        leader = metadata.topics[0].partitions[int(partition or 0)].leader_id
        broker = next(
            candidate
            for candidate in metadata.brokers
            if (candidate.node_id == leader) is (route_words[0] == "leader")
        )
        return f"{broker.host}:{broker.port}"

    def _coordinator_address(self, transactional_id: str) -> str:
        answer = self._player.ask_until(
            lambda answer: answer.error_code is ErrorCode.none,
            "FindCoordinator",
            1,
            key=transactional_id,
            key_type=1,
        )
        return f"{answer.host}:{answer.port}"

    # Words that only prepare: nothing of them is written down

    def _init_producer(self, parameters: Any) -> None:
        """Step ``producer: p``, or a mapping with ``name``, ``id``, ``timeout``, ``transactional``:
        gets a producer id and epoch.
        """
        producer_fields = parameters if isinstance(parameters, Mapping) else {"name": parameters}
        variable_name = producer_fields["name"]
        is_transactional = producer_fields.get("transactional", True)
        transactional_id = (
            producer_fields.get("id", self._player.full_name(variable_name))
            if is_transactional
            else None
        )
        answer = self._player.init_producer(
            transactional_id, producer_fields.get("timeout", TIMEOUT_MS)
        )
        if answer.error_code is not ErrorCode.none:
            raise CaseError(f"producer {variable_name}: {answer}")
        self._variables[variable_name] = Producer(
            id=transactional_id, pid=answer.producer_id, epoch=answer.producer_epoch
        )

    def _prepare_unused_id(self, short_name: str) -> None:
        """Step ``nobody: p``: makes a transactional id that has a coordinator but was never
        initialized.
        """
        transactional_id = self._player.full_name(short_name)
        address = self._coordinator_address(transactional_id)
        with contextlib.closing(
            FramePlayer(address, play_prefix=self._play_prefix, level=self._level)
        ) as coordinator_player:
            coordinator_player.await_coordinator(transactional_id)
        self._variables[short_name] = Producer(id=transactional_id, pid=4_000_000_000, epoch=0)

    def _end_many(self, parameters: Mapping[str, Any]) -> None:
        """Step ``crowd: {name: c, count: 33, to: u}``: makes producers c0, c1 and so on, each of
        which commits a transaction with that partition; waits for no marker.
        """
        for id_number in range(parameters["count"]):
            name = f"{parameters['name']}{id_number}"
            self._prepare_unused_id(name)
            address = self._coordinator_address(self._variables[name].id)
            with contextlib.closing(
                FramePlayer(address, play_prefix=self._play_prefix, level=self._level)
            ) as coordinator_player:
                producer_identity = coordinator_player.init_producer(self._variables[name].id)
                self._variables[name] = Producer(
                    id=self._variables[name].id,
                    pid=producer_identity.producer_id,
                    epoch=producer_identity.producer_epoch,
                )
                for verb, verb_parameters in (
                    ("add", {"of": name, "to": parameters["to"]}),
                    ("end", {"of": name}),
                ):
                    (request,) = requests_of(verb, verb_parameters, self._variables)
                    coordinator_player.ask_until(
                        lambda answer: set(error_codes(answer)) == {ErrorCode.none},
                        request.api,
                        request.version,
                        **request.fields,
                    )

    def _await_state(self, parameters: Mapping[str, Any]) -> None:
        """Step ``wait: {of: p, state: CompleteCommit}``: waits until the producer's transaction has
        that state.
        """
        awaited_states = (
            parameters["state"] if isinstance(parameters["state"], list) else [parameters["state"]]
        )
        self._player.ask_until(
            lambda answer: answer.transaction_states[0].transaction_state in awaited_states,
            *DESCRIBE_TRANSACTIONS,
            transactional_ids=[self._variables[parameters["of"]].id],
        )

    def _raise_epoch(self, parameters: Mapping[str, Any]) -> None:
        """Step ``climb: {of: p, to: 32766}``: initializes the producer until it has that epoch."""
        producer = self._variables[parameters["of"]]
        self._player.raise_epoch(producer.id, parameters["to"] - 1)
        self._init_producer({"name": parameters["of"], "id": producer.id})

    def _finalize_level(self, level: int) -> None:
        """Step ``finalize: 1``: sets that level of ``transaction.version``; only in cases that are
        played alone.
        """
        finalize_level(self._broker_addresses[0], level)

    def _await_level(self, level: int) -> None:
        """Step ``level: 1``: waits until the broker knows that level of ``transaction.version``."""
        await_level(self._player, level)

    def _create_topic(self, parameters: Mapping[str, Any]) -> None:
        """Step ``topic: {name: t, brokers: [[1, 2], [3]]}``: creates a topic whose partitions have
        these brokers as replicas, the first ones as leaders, and waits until all brokers know it.
        """
        topic_variable = parameters["name"]
        topic_name = self._create_assigned(topic_variable, parameters["brokers"])
        # A broker that leads what came later has heard of the topic.
        broker_numbers = range(1, 1 + len(self._broker_addresses))
        later_topic = self._create_assigned(
            f"{topic_variable}-later", [[broker_number] for broker_number in broker_numbers]
        )
        for partition, address in enumerate(self._broker_addresses):
            asked_partition = {"partition_index": partition, "timestamp": -1}
            with contextlib.closing(
                FramePlayer(address, play_prefix=self._play_prefix, level=self._level)
            ) as broker_player:
                broker_player.ask_until(
                    lambda answer: answer.topics[0].partitions[0].error_code is ErrorCode.none,
                    "ListOffsets",
                    7,
                    replica_id=-1,
                    topics=[{"name": later_topic, "partitions": [asked_partition]}],
                )
        metadata = self._player.ask_unrecorded("Metadata", 12, topics=[{"name": topic_name}])
        self._variables[topic_variable] = PlayTopic(name=topic_name, id=metadata.topics[0].topic_id)

    def _create_assigned(self, short_name: str, replica_lists: Sequence[Sequence[int]]) -> str:
        topic_name = self._player.full_name(short_name)
        assignments = [
            {"partition_index": partition, "broker_ids": list(broker_ids)}
            for partition, broker_ids in enumerate(replica_lists)
        ]
        topic_fields = {"num_partitions": -1, "replication_factor": -1, "assignments": assignments}
        request_fields = {"topics": [{"name": topic_name, **topic_fields}], "timeout": 10_000}
        answer = self._player.ask_unrecorded("CreateTopics", 7, **request_fields)
        if answer.topics[0].error_code is not ErrorCode.none:
            raise CaseError(f"topic {short_name}: {answer}")
        return topic_name

    def _await_metadata(self, _no_parameters: None) -> None:
        """Step ``caught-up:``: waits until the broker has applied all that the controller has
        decided so far.
        """
        self._player.await_metadata()

    def _kill_broker(self, broker_id: int) -> None:
        """Step ``kill: 3``: kills that broker; the controller notices when its session expires."""
        require_ability(self._target.abilities, Ability.BROKERS, "kill")
        self._ended_brokers.add(broker_id)
        self._target.kill(broker_id)

    def _stop_broker(self, broker_id: int) -> None:
        """Step ``stop: 3``: stops that broker with a controlled shutdown."""
        require_ability(self._target.abilities, Ability.BROKERS, "stop")
        self._ended_brokers.add(broker_id)
        self._target.stop(broker_id)

    def _start_broker(self, broker_id: int) -> None:
        self._target.start(broker_id)
        self._ended_brokers.discard(broker_id)

    def _prepare_share_group(self, parameters: Mapping[str, Any]) -> None:
        """Step ``sharing: {group: ~g, of: [t.0], start: 0, epoch: 0, configs: {name: value}}``: a
        share group with state and configs, as its coordinator creates them.
        """
        group, configs = parameters["group"], parameters.get("configs", {})
        for partition_name in parameters.get("of", ["t.0"]):
            topic, partition = partition_of(self._variables, partition_name)
            share_key = resolve_placeholders(
                {"$share": [group, topic.id, partition]}, self._variables, str
            )
            self._player.ask_until(
                lambda answer: answer.coordinators[0].error_code is ErrorCode.none,
                *("FindCoordinator", 6),
                key_type=2,
                coordinator_keys=[share_key],
            )
            state_fields = {
                "state_epoch": parameters.get("epoch", 0),
                "start_offset": parameters.get("start", 0),
            }
            partitions = [{"partition": partition, **state_fields}]
            self._player.ask_until(
                lambda answer: answer.results[0].partitions[0].error_code is ErrorCode.none,
                *("InitializeShareGroupState", 0),
                group_id=group,
                topics=[{"topic_id": topic.id, "partitions": partitions}],
            )
        if not configs:
            return
        group_resource = {"resource_type": 32, "resource_name": group}
        config_changes = [
            {"name": name, "config_operation": 0, "value": value} for name, value in configs.items()
        ]
        self._player.ask_until(
            lambda answer: answer.responses[0].error_code is ErrorCode.none,
            *("IncrementalAlterConfigs", 1),
            resources=[{**group_resource, "configs": config_changes}],
        )
        self._player.ask_until(
            lambda answer: (
                configs.items()
                <= {config.name: config.value for config in answer.results[0].configs}.items()
            ),
            *("DescribeConfigs", 4),
            resources=[{**group_resource, "configuration_keys": list(configs)}],
        )

    def _pause_play(self, pause_ms: int) -> None:
        """Step ``pause: 300``: waits that many milliseconds, for times that are compared."""
        RawConnection.pause(pause_ms / 1000)


_PREPARATIONS: Final[Mapping[str, Callable[[CasePlayer, Any], None]]] = {
    "producer": CasePlayer._init_producer,
    "nobody": CasePlayer._prepare_unused_id,
    "wait": CasePlayer._await_state,
    "climb": CasePlayer._raise_epoch,
    "crowd": CasePlayer._end_many,
    "topic": CasePlayer._create_topic,
    "caught-up": CasePlayer._await_metadata,
    "pause": CasePlayer._pause_play,
    "sharing": CasePlayer._prepare_share_group,
    "kill": CasePlayer._kill_broker,
    "stop": CasePlayer._stop_broker,
    "start": CasePlayer._start_broker,
    "finalize": CasePlayer._finalize_level,
    "level": CasePlayer._await_level,
}


def _matches(actual: Any, expected: Any) -> bool:
    """Whether a value is as expected: equal to the value, to one of several, or to a list with
    ``is`` or ``has``; errors have Kafka's names.
    """
    match expected:
        case {"is": exactly}:
            return sorted(actual or ()) == sorted(exactly)  # of sets, in any order
        case {"has": choice}:
            return choice in (actual or ())
    if isinstance(expected, list):
        return any(_matches(actual, choice) for choice in expected)
    if isinstance(actual, ErrorCode) and isinstance(expected, str):
        return actual.name.upper() == expected
    return bool(actual == expected)


def _parameter_text(parameters: Any) -> str:
    """The parameters of a step as text for the transcript."""
    if isinstance(parameters, Mapping):
        return ", ".join(
            f"{key} {_parameter_text(value)}" for key, value in parameters.items() if key != "v"
        )
    if isinstance(parameters, list | tuple):
        return "[" + ", ".join(map(_parameter_text, parameters)) + "]"
    return (
        ""
        if parameters is None
        else str(parameters).lower()
        if isinstance(parameters, bool)
        else str(parameters)
    )


# Many


def play(
    case: Case,
    target: BlockingTarget,
    level: int,
    *,
    repetition: int = 0,
    surroundings: PlaySurroundings = NO_OTHER_USERS,
) -> Play:
    """Play one case; repeat it if the machine was too busy for its timeouts.

    Raises:
        CaseError: A step can't be played, or was too late every time.
    """
    last_error: TooLateError | None = None
    for attempt in range(ATTEMPTS_MAX):
        try:
            play_suffix = f"{repetition}-{attempt}"
            with CasePlayer(
                case, target, level, play_suffix=play_suffix, surroundings=surroundings
            ) as player:
                return player.play()
        except TooLateError as error:
            last_error = error
    raise CaseError(f"{case.id} at level {level}, {ATTEMPTS_MAX} times: {last_error}")


def play_all(
    cases: Sequence[Case],
    target: BlockingTarget,
    level: int,
    *,
    repetition: int = 0,
    surroundings: PlaySurroundings = NO_OTHER_USERS,
) -> Generator[tuple[Case, Future[Play]], None, None]:
    played_cases = [case for case in cases if level in case.text.levels]
    stop_event = threading.Event()
    surroundings = msgspec.structs.replace(surroundings, is_stopping=stop_event.is_set)

    def play_case(case: Case) -> Play:
        return play(case, target, level, repetition=repetition, surroundings=surroundings)

    threads = ThreadPoolExecutor(WORKERS)
    concurrent_plays: list[tuple[Case, Future[Play]]] = []
    try:
        concurrent_plays += [
            (case, threads.submit(copy_context().run, play_case, case))
            for case in played_cases
            if not case.plays_alone
        ]
        yield from concurrent_plays
    except BaseException:
        # Whoever stops them removes what they made, so running plays end before their next step.
        # An answer that does not come is not awaited.
        stop_event.set()
        threads.shutdown(wait=False, cancel_futures=True)
        wait([play_future for _, play_future in concurrent_plays], timeout=STOP_WAIT_S)
        raise
    threads.shutdown()
    for case in played_cases:
        if case.plays_alone:
            play_future: Future[Play] = Future()
            try:
                play_future.set_result(play_case(case))
            except Exception as failure:  # noqa: BLE001 - handed to whoever asks for the result
                play_future.set_exception(failure)
            yield case, play_future


def finalize_level(address: str, level: int) -> None:
    """Finalize a level of ``transaction.version`` on a running cluster, and wait until it is in
    effect.
    """
    with contextlib.closing(
        FramePlayer(address.split(",")[0], play_prefix="level", level=level)
    ) as player:
        for upgrade_type in (_UPGRADE, _UNSAFE_DOWNGRADE):
            feature_update = {
                "feature": FEATURE,
                "max_version_level": level,
                "upgrade_type": upgrade_type,
            }
            answer = player.ask_unrecorded(
                "UpdateFeatures", 1, timeout=60_000, feature_updates=[feature_update]
            )
            if answer.error_code is ErrorCode.none:
                break
        await_level(player, level)
        # Rows of errors have 0 where they have no producer id; so nobody shall be given that one.
        player.init_producer()


def await_level(player: FramePlayer, level: int) -> None:
    """Wait until a broker reports this level of ``transaction.version``."""
    player.ask_until(
        lambda answer: _finalized_level(answer) == level,
        "ApiVersions",
        4,
        client_software_name="cases",
        client_software_version="1",
    )


def _finalized_level(answer: Any) -> int:
    level_by_feature = {
        feature.name: feature.max_version_level for feature in answer.finalized_features
    }
    return int(level_by_feature.get(FEATURE, 0))
