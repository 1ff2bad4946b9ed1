"""Reads a YAML file into a scenario, or reports errors with file, line and field.

The model can't check rules that concern two places of the file; ``consistency`` does.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import PurePath
from typing import Any, Final

import yaml
from pydantic import ValidationError

from txnsim.config.complaints import problems_in
from txnsim.config.yaml_bounds import compose_document
from txnsim.errors import ConfigError, ErrorCode
from txnsim.releases.rules import Rules
from txnsim.text import unknown_word_message
from txnsim.types import INTERNAL_TOPICS, TopicPartition
from txnsim_lab.check.anomaly import Kind
from txnsim_lab.scenario._cluster_options import leaders_of
from txnsim_lab.scenario._notation.blocks import STEP_LISTS, unroll_blocks
from txnsim_lab.scenario._notation.internal_partitions import PARTITION_BY_ID, TOPICS_WITH_IDS
from txnsim_lab.scenario._pruning import complaints_of
from txnsim_lab.scenario.call_results import ANY, LOST
from txnsim_lab.scenario.fields import ELSE_KEY, ByRun, Model, Only
from txnsim_lab.scenario.model import HEALTHY, RESERVED_WORDS, Actor, Scenario
from txnsim_lab.scenario.players._base import PLAYERS
from txnsim_lab.scenario.steps_model import (
    FIELDS_BY_CALL,
    FIELDS_BY_CLUSTER_ACT,
    UPDATE_VALUE,
    Awaited,
    Call,
    ClusterAct,
    Step,
)


def read(file: str, yaml_text: str) -> Scenario:
    """Read the scenario in ``yaml_text``.

    Raises:
        ConfigError: The text is no scenario; the message has one line per problem, with file, line
            and field.
    """
    document, line_by_path = parse_document(file, yaml_text)
    document, origins, block_problems = unroll_blocks(document)
    scenario, field_problems = _validate(document)
    if scenario is None:
        field_problems = complaints_of(document, _validate, contradictions)
    else:
        field_problems = list(contradictions(scenario))
    if scenario is None or block_problems or field_problems:
        problems = [(origins.place_in_file(path), message) for path, message in field_problems]
        raise place_error(file, line_by_path, [*block_problems, *problems])
    for steps_key in STEP_LISTS:
        for step_index, step in enumerate(getattr(scenario, steps_key)):
            path = origins.place_in_file((steps_key, step_index))
            step_group = origins.units.get((steps_key, step_index))
            if step_group is not None:
                step.stands_in(step_group)
            step.stands_at(
                f"{PurePath(file).name}:{_line_of_path(line_by_path, path)}: {_field_text(path)}"
            )
    return scenario


def _validate(
    document: Mapping[Any, Any],
) -> tuple[Scenario | None, list[tuple[DocumentPath, str]]]:
    """Validate a document: its model, or what is wrong with its fields."""
    try:
        return Scenario.model_validate(document), []
    except ValidationError as error:
        return None, list(problems_in(error, Scenario))


def read_step(step_data: object) -> Step:
    """Read a single step, as a scenario file has it.

    Raises:
        ConfigError: It is no valid step; the message has one line per problem, with its field.
    """
    try:
        return Step.model_validate(step_data)
    except ValidationError as error:
        problems = sorted(set(problems_in(error, Step)))
        raise ConfigError(
            "\n".join(
                f"step: {'.'.join(map(str, path)) or 'it'}: {message}" for path, message in problems
            )
        ) from None


# Errors with their lines


def place_error(
    file: str, line_by_path: dict[DocumentPath, int], problems: Iterable[tuple[DocumentPath, str]]
) -> ConfigError:
    """The error message: one line per problem, with file, line and field."""
    located_problems = sorted(
        {
            (_line_of_path(line_by_path, path), _field_text(path), message)
            for path, message in problems
        }
    )
    return ConfigError(
        "\n".join(f"{file}:{line}: {field}: {message}" for line, field, message in located_problems)
    )


def _field_text(path: DocumentPath) -> str:
    return ".".join(str(path_element) for path_element in path) or "scenario"


def _line_of_path(line_by_path: dict[DocumentPath, int], path: DocumentPath) -> int:
    """Line of a path in the file, or of the nearest enclosing path that has a line."""
    if path not in line_by_path:  # in its other spelling, perhaps
        line_by_path, path = (
            {_hyphenated_path(known_path): line for known_path, line in line_by_path.items()},
            _hyphenated_path(path),
        )
    while path not in line_by_path:
        path = path[:-1]
    return line_by_path[path]


def _hyphenated_path(path: DocumentPath) -> DocumentPath:
    return tuple(
        path_element.replace("_", "-") if isinstance(path_element, str) else path_element
        for path_element in path
    )


# YAML


def parse_document(file: str, yaml_text: str) -> tuple[dict[Any, Any], dict[DocumentPath, int]]:
    """Parse YAML: the document, and the line of every value in it, counted from 1.

    Raises:
        ConfigError: The text is no YAML, or no mapping.
    """
    line_by_path: dict[DocumentPath, int] = {(): 1}
    try:
        bounded_loader, root = compose_document(yaml_text, file=file)
        if not isinstance(root, yaml.MappingNode):
            raise ConfigError(f"{file}:1: scenario: expected a mapping of fields")
        _collect_lines(root, (), line_by_path, file)
        document: dict[Any, Any] = bounded_loader.construct_document(root)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise ConfigError(f"{file}:{line}: no YAML: {error.problem}") from None
    except yaml.YAMLError as error:
        raise ConfigError(f"{file}:1: no YAML: {error}") from None
    return document, line_by_path


def _collect_lines(
    yaml_node: yaml.Node, path: DocumentPath, line_by_path: dict[DocumentPath, int], file: str
) -> None:
    line_by_path.setdefault(path, yaml_node.start_mark.line + 1)
    if isinstance(yaml_node, yaml.MappingNode):
        for key, value in yaml_node.value:
            child_path = (*path, str(key.value))
            line = key.start_mark.line + 1
            if child_path in line_by_path:
                raise ConfigError(
                    f"{file}:{line}: {_field_text(child_path)}: given twice, first on line"
                    f" {line_by_path[child_path]}"
                )
            line_by_path[child_path] = line
            _collect_lines(value, child_path, line_by_path, file)
    elif isinstance(yaml_node, yaml.SequenceNode):
        for index, value in enumerate(yaml_node.value):
            _collect_lines(value, (*path, index), line_by_path, file)


# What concerns two places of a scenario file: names that are used must be declared, fields must
# fit what they belong to.

DocumentPath = tuple[int | str, ...]
"""Path of keys and list indices from the top of the document."""
Problems = Iterator[tuple[DocumentPath, str]]

ANOMALY_KINDS = tuple(str(kind) for kind in Kind)
WRITING_CALLS: Final = frozenset({"produce", "append", "send"})
_ERROR_NAMES = frozenset({*(name.upper() for name in ErrorCode.__members__), ANY, LOST})


def contradictions(scenario: Scenario) -> Problems:
    yield from _check_head(scenario)
    checks = _ScenarioChecks(scenario)
    for step_index, step in enumerate(scenario.steps):
        yield from checks.step(("steps", step_index), step)
    for step_index, step in enumerate(scenario.cure):
        yield from checks.step(("cure", step_index), step)


def _check_head(scenario: Scenario) -> Problems:
    if not scenario.steps:
        yield ("steps",), "there are none, so nothing would be played: write at least one"
    rules = Rules.documentation()
    for run_name, run in scenario.runs.items():
        path = ("runs", run_name)
        if run_name in RESERVED_WORDS:
            yield path, f"{run_name} means something else; another label is needed"
        for rule_name in run.rules:
            if rule_name not in rules:
                yield (*path, "rules", rule_name), unknown_word_message("rule", rule_name, rules)
        yield from _check_verdict((*path, "verdict"), run.verdict)
        yield from _check_verdict((*path, "cured"), run.cured or ())
        if run.cured is not None and not scenario.cure:
            yield (*path, "cured"), "there is no cure"
        for player_index, player_name in enumerate(run.players or ()):
            if player_name not in PLAYERS:
                yield (
                    (*path, "players", player_index),
                    unknown_word_message("player", player_name, PLAYERS),
                )
    yield from _check_verdict(("disarmed",), scenario.disarmed)
    if scenario.racks and len(scenario.racks) != scenario.brokers:
        yield ("racks",), f"expected {scenario.brokers}, one per broker"
    for run_name, topic in scenario.topics.items():
        if topic.leaders and len(topic.leaders) != topic.partitions:
            yield ("topics", run_name, "leaders"), f"expected {topic.partitions}, one per partition"
        for player_index, leader_id in enumerate(leaders_of(topic, broker_count=scenario.brokers)):
            if not 1 <= leader_id <= scenario.brokers:
                yield (
                    ("topics", run_name, "leaders", player_index),
                    f"there are brokers 1 to {scenario.brokers}",
                )
    for run_name, actor in scenario.actors.items():
        yield from _check_actor(("actors", run_name), actor)
    if scenario.control and not any(
        "control" in group for step in scenario.steps for group in step.only
    ):
        yield ("control",), "no step has `only: control`"


def _check_actor(path: DocumentPath, actor: Actor) -> Problems:
    is_member = actor.plays in ("member", "share-member")
    if is_member and actor.group is None:
        yield (*path, "plays"), "a member needs group"
    if not is_member and actor.group is not None:
        yield (*path, "group"), f"{_with_article(actor.plays)} is in no group; a member is"
    if actor.rack is not None and actor.plays != "reader":
        yield (*path, "rack"), f"{_with_article(actor.plays)} is in no rack; a reader is"
    for player_index, player_name in enumerate(actor.players):
        if player_name not in PLAYERS:
            yield (
                (*path, "players", player_index),
                unknown_word_message("player", player_name, PLAYERS),
            )


def _check_verdict(path: DocumentPath, verdict_kinds: tuple[str, ...]) -> Problems:
    for kind_index, verdict_kind in enumerate(verdict_kinds):
        if verdict_kind not in ANOMALY_KINDS:
            yield (
                (*path, kind_index),
                unknown_word_message("verdict", verdict_kind, (HEALTHY, *ANOMALY_KINDS)),
            )


class _ScenarioChecks:
    """Checks the steps in order, and remembers what they have declared."""

    def __init__(self, scenario: Scenario) -> None:
        self._scenario = scenario
        self._rule_ids: list[str] = []
        self._generation_labels: list[str] = []
        self._actor_kind_by_call: dict[str, str] = {}
        """Name of a call in the background -> what its actor plays."""
        self._topics = {
            topic_name: topic.partitions for topic_name, topic in scenario.topics.items()
        }
        """Topic -> highest number of partitions so far."""
        self._uses_by_value: dict[tuple[TopicPartition, str], list[Only]] = {}
        """Records by partition and value -> the runs in which they are written."""

    def step(self, path: DocumentPath, step: Step) -> Problems:
        run_words = self._scenario.words
        for group_index, word_group in enumerate(step.only):
            for word_index, word in enumerate(word_group):
                if word not in run_words:
                    yield (
                        (*path, "only", group_index, word_index),
                        unknown_word_message("run, mode or take", word, run_words),
                    )
        fault_rule = step.rule
        if fault_rule is not None:
            rule_field = "hold" if step.hold is not None else "arm"
            if fault_rule.id in self._rule_ids:
                yield (*path, rule_field, "id"), f"{fault_rule.id} is armed by a step before"
            self._rule_ids.append(fault_rule.id)
        for field, rule_id in (("release", step.released_rule), ("disarm", step.disarm)):
            if rule_id is not None:
                yield from self._check_declared((*path, field), "rule", rule_id, self._rule_ids)
        if step.call is not None:
            yield from self._check_call((*path, "call"), step.call)
            yield from self._check_records((*path, "call"), step.call, step.only)
        if step.cluster is not None:
            yield from self._check_cluster((*path, "cluster"), step.cluster)
        yield from self._check_waits(path, step)
        if step.expect is not None:
            yield from self._check_partitions((*path, "expect"), step.expect, "partition")
            yield from self._check_positions((*path, "expect", "positions"), step.expect.positions)
            unanswered_call = step.expect.unanswered
            if unanswered_call is not None:
                unanswered_path = (*path, "expect", "unanswered")
                yield from self._check_declared(
                    unanswered_path, "call", unanswered_call, [*self._actor_kind_by_call]
                )

    def _check_waits(self, path: DocumentPath, step: Step) -> Problems:
        if step.await_ is not None:
            awaited = step.await_ if isinstance(step.await_, Awaited) else None
            call_name = str(step.await_) if awaited is None else awaited.call
            yield from self._check_declared(
                (*path, "await"), "call", call_name, [*self._actor_kind_by_call]
            )
            if awaited is not None:
                yield from self._check_by_run((*path, "await", "error"), awaited.error)
        if step.give_up is not None:
            give_up_path = (*path, "give-up")
            yield from self._check_declared(
                give_up_path, "call", step.give_up, [*self._actor_kind_by_call]
            )
            if self._actor_kind_by_call.get(step.give_up, "wire") != "wire":
                yield (
                    give_up_path,
                    f"{step.give_up} is no call of a wire actor: only those can be given up",
                )
        condition = step.wait_until
        if condition is None:
            return
        if step.struck is not None:
            give_up_path = (*path, "wait-until", "struck")
            yield from self._check_declared(give_up_path, "rule", step.struck, self._rule_ids)
        if condition.answered is not None:
            give_up_path = (*path, "wait-until", "answered")
            yield from self._check_declared(
                give_up_path, "call", condition.answered, [*self._actor_kind_by_call]
            )
        yield from self._check_partitions(
            (*path, "wait-until"), condition, "marker", "open", "in_sync"
        )

    # Calls

    def _check_call(self, path: DocumentPath, call: Call) -> Problems:
        cast = self._scenario.cast
        if call.who not in cast:
            yield (*path, "who"), unknown_word_message("actor", call.who, cast)
            call_names = {
                call_name
                for calls_of_actor in FIELDS_BY_CALL.values()
                for call_name in calls_of_actor
            }
            if call.do not in call_names:
                yield (*path, "do"), unknown_word_message("call", call.do, sorted(call_names))
            actor_kind = ""
        else:
            actor_kind = cast[call.who].plays
            calls_of_actor = FIELDS_BY_CALL[actor_kind]
            if call.do not in calls_of_actor:
                yield (
                    (*path, "do"),
                    unknown_word_message(
                        f"call of {_with_article(actor_kind)}", call.do, calls_of_actor
                    ),
                )
            else:
                yield from _check_fields(path, call.do, call.given_fields, *calls_of_actor[call.do])
        yield from self._check_call_fields(path, call, actor_kind)

    def _check_call_fields(self, path: DocumentPath, call: Call, actor_kind: str) -> Problems:
        """Check the partitions, topics, errors and names of a call, for any actor."""
        cast = self._scenario.cast
        if "value" in call.given_fields and call.values is not None:
            yield (*path, "values"), "either value or values"
        has_records = not {"count", "value", "values"}.isdisjoint(call.given_fields)
        if call.do in ("produce", "append") and not has_records:
            yield (*path, "do"), f"{call.do} needs value or values"
        yield from self._check_generation((*path, "generation"), call)
        if actor_kind == "application" and has_records and None in call.records:
            yield (*path, "value"), "a tombstone is sent by a wire actor or a bystander"
        identity_owner = call.first_identity_of
        if identity_owner is not None and (
            identity_owner not in cast or cast[identity_owner].plays != "wire"
        ):
            wire_actor_names = [
                actor_name for actor_name, actor in cast.items() if actor.plays == "wire"
            ]
            yield (
                (*path, "first-identity-of"),
                unknown_word_message("wire actor", identity_owner, wire_actor_names),
            )
        if call.member is not None and (call.member not in cast or cast[call.member].group is None):
            member_names = [
                actor_name for actor_name, actor in cast.items() if actor.plays == "member"
            ]
            yield (*path, "member"), unknown_word_message("member", call.member, member_names)
        if call.do == "commit-offsets" and actor_kind == "wire" and call.member is None:
            for needed_fields in ("group", "offsets"):
                if needed_fields not in call.given_fields:
                    yield (*path, "do"), f"commit-offsets needs member, or {needed_fields}"
        for index, topic in enumerate(call.topics or ()):
            if topic not in self._topics:
                yield (*path, "topics", index), unknown_word_message("topic", topic, self._topics)
        if call.background is not None:
            if call.background in self._actor_kind_by_call:
                yield (*path, "background"), f"{call.background} is a call of a step before"
            self._actor_kind_by_call[call.background] = actor_kind or "wire"
        partition_fields = ("partition", "partitions", "assigned", "names")
        yield from self._check_partitions(path, call, *partition_fields)
        for other_partition in call.beside or ():
            yield from self._check_partition((*path, "beside"), other_partition)
        if call.partition in (call.beside or ()):
            yield (*path, "beside"), f"{call.partition} is the partition of the call itself"
        for index, input_record in enumerate(call.of):
            yield from self._check_partition((*path, "of", index), input_record.partition)
        if call.do == "abort" and actor_kind == "operator":
            if call.start_offset is None and call.producer_id is None:
                yield (*path, "do"), "abort needs start-offset or producer-id"
            elif call.start_offset is None and call.epoch is None:
                yield (*path, "do"), "abort with producer-id needs epoch, or start-offset"
        yield from self._check_broker((*path, "broker"), call.broker)
        yield from self._check_by_run((*path, "error"), call.error)
        yield from self._check_words((*path, "reads"), call.reads)
        yield from self._check_words((*path, "offset"), call.offset)

    def _check_generation(self, path: DocumentPath, call: Call) -> Problems:
        """Check the name of a member's generation: it is known only after the step
        that gives it.
        """
        generation = call.generation
        if call.do in ("subscribe", "poll"):
            if isinstance(generation, str):
                self._generation_labels.append(generation)
            elif generation is not None:
                yield path, "expected a name for the generation that the member has then"
        elif isinstance(generation, str):
            yield from self._check_declared(path, "generation", generation, self._generation_labels)

    def _check_records(self, path: DocumentPath, call: Call, only: Only) -> Problems:
        """Checks that each value is written once; a retry or a record that may be refused can
        repeat one.
        """
        partition = call.partition
        may_repeat = call.sequence is not None or call.error is not None
        if partition is None or may_repeat or call.do not in WRITING_CALLS:
            return
        record_values = call.records if call.count is None else (f"{call.value or UPDATE_VALUE}-0",)
        value_field = "value" if call.values is None else "values"
        named_values = [
            (value_field, partition, value) for value in record_values if value is not None
        ]  # no tombstones
        named_values += [("beside", *beside_value) for beside_value in (call.beside or {}).items()]
        for value_field, value_partition, value in named_values:
            earlier_uses = self._uses_by_value.setdefault((value_partition, value), [])
            if any(self._may_play_together(only, earlier_only) for earlier_only in earlier_uses):
                yield (
                    (*path, value_field),
                    f"the value {value!r} is used twice in {value_partition}; "
                    "each record needs its own, "
                    "and item says that two are the same work",
                )
            earlier_uses.append(only)

    def _may_play_together(self, first_only: Only, second_only: Only) -> bool:
        """Whether some run has both steps."""
        scenario = self._scenario
        return any(
            scenario.meant_for(first_only, run_selection)
            and scenario.meant_for(second_only, run_selection)
            for run_selection in scenario.run_selections
        )

    def _check_broker(self, path: DocumentPath, broker_id: int | None) -> Problems:
        if broker_id is not None and not 1 <= broker_id <= self._scenario.brokers:
            yield path, f"there are brokers 1 to {self._scenario.brokers}"

    def _check_cluster(self, path: DocumentPath, cluster_act: ClusterAct) -> Problems:
        if cluster_act.do not in FIELDS_BY_CLUSTER_ACT:
            yield (
                (*path, "do"),
                unknown_word_message("act on the cluster", cluster_act.do, FIELDS_BY_CLUSTER_ACT),
            )
            return
        needed_fields, possible_fields = FIELDS_BY_CLUSTER_ACT[cluster_act.do]
        yield from _check_fields(
            path, cluster_act.do, cluster_act.given_fields, needed_fields, possible_fields
        )
        if cluster_act.do == "move-leader" and (cluster_act.partition is None) == (
            cluster_act.coordinator_of is None
        ):
            yield (*path, "do"), "move-leader needs either partition or coordinator-of"
        for broker_field, broker in (("to", cluster_act.to), ("broker", cluster_act.broker)):
            yield from self._check_broker((*path, broker_field), broker)
        for leader_index, broker in enumerate(cluster_act.leaders):
            yield from self._check_broker((*path, "leaders", leader_index), broker)
        yield from self._check_partitions(path, cluster_act, "partition")
        yield from self._check_topic(path, cluster_act)

    def _check_topic(self, path: DocumentPath, cluster_act: ClusterAct) -> Problems:
        """Check topics that are created, deleted and grown; a deleted topic may still be named, to
        be refused.
        """
        if cluster_act.topic is None:
            return
        count_before = self._topics.get(cluster_act.topic, 0)
        if cluster_act.do == "delete-topic":
            for written_value in [
                written_value
                for written_value in self._uses_by_value
                if written_value[0].topic == cluster_act.topic
            ]:
                del self._uses_by_value[written_value]
        if cluster_act.do == "create-topic":
            partition_count = cluster_act.partitions or 1
            self._topics[cluster_act.topic] = max(partition_count, count_before)
            if cluster_act.leaders and len(cluster_act.leaders) != partition_count:
                yield (*path, "leaders"), f"expected {partition_count}, one per partition"
            return
        if cluster_act.do == "configure" and cluster_act.topic in INTERNAL_TOPICS:
            return
        if cluster_act.topic not in self._topics:
            yield (*path, "topic"), unknown_word_message("topic", cluster_act.topic, self._topics)
        elif cluster_act.do == "grow-topic" and cluster_act.partitions is not None:
            if cluster_act.partitions <= count_before:
                yield (
                    (*path, "partitions"),
                    f"topic {cluster_act.topic} has {count_before}: expected more",
                )
            elif (
                cluster_act.leaders
                and len(cluster_act.leaders) != cluster_act.partitions - count_before
            ):
                new_partition_count = cluster_act.partitions - count_before
                yield (*path, "leaders"), f"expected {new_partition_count}, one per new partition"
            self._topics[cluster_act.topic] = max(cluster_act.partitions, count_before)

    # Names

    def _check_partitions(
        self, path: DocumentPath, checked_model: Model, *field_names: str
    ) -> Problems:
        for field_name in field_names:
            field_value = getattr(checked_model, field_name)
            for partition in (
                (field_value,) if isinstance(field_value, TopicPartition) else field_value or ()
            ):
                yield from self._check_partition((*path, _with_hyphens(field_name)), partition)

    def _check_positions(
        self, path: DocumentPath, positions: Mapping[TopicPartition, int] | None
    ) -> Problems:
        for partition in positions or ():
            yield from self._check_partition((*path, str(partition)), partition)

    def _check_partition(self, path: DocumentPath, partition: TopicPartition) -> Problems:
        if partition.partition == PARTITION_BY_ID or partition.topic in TOPICS_WITH_IDS:
            return  # how many there are is a setting of the run
        topics = self._topics
        if partition.topic not in topics:
            yield path, unknown_word_message("topic", partition.topic, topics)
        elif partition.partition >= topics[partition.topic]:
            last_partition = topics[partition.topic] - 1
            yield path, f"topic {partition.topic} has the partitions 0 to {last_partition}"

    def _check_by_run(self, path: DocumentPath, value_by_word: ByRun | None) -> Problems:
        """Checks that the words and errors of a value by run are known."""
        for error_path, error_name in self._expected_by_path(path, value_by_word):
            if isinstance(error_name, str) and error_name not in _ERROR_NAMES:
                yield error_path, unknown_word_message("error", error_name, sorted(_ERROR_NAMES))
        yield from self._check_words(path, value_by_word)

    def _expected_by_path(
        self, path: DocumentPath, value_by_word: Any
    ) -> Iterator[tuple[DocumentPath, Any]]:
        """Each expected value with its path, at any depth of words."""
        if not isinstance(value_by_word, Mapping):
            yield path, value_by_word
            return
        for word, inner_value in value_by_word.items():
            yield from self._expected_by_path((*path, word), inner_value)

    def _check_words(self, path: DocumentPath, value_by_word: Any) -> Problems:
        """Checks that the words which select runs are known."""
        if not isinstance(value_by_word, Mapping):
            return
        run_words = (*self._scenario.words, ELSE_KEY)
        for word, inner_value in value_by_word.items():
            if word not in run_words:
                yield (*path, word), unknown_word_message("run, mode or take", word, run_words)
            yield from self._check_words((*path, word), inner_value)

    @staticmethod
    def _check_declared(
        path: DocumentPath, noun: str, name: str, declared_names: list[str]
    ) -> Problems:
        if name not in declared_names:
            yield (
                path,
                unknown_word_message(noun, name, declared_names)
                if declared_names
                else f"no step before names {name!r}",
            )


def _check_fields(
    path: DocumentPath,
    call_name: str,
    field_names: Iterable[str],
    needed_fields: tuple[str, ...],
    possible_fields: tuple[str, ...],
) -> Problems:
    allowed_names = tuple(
        _with_hyphens(field_name) for field_name in (*needed_fields, *possible_fields)
    )
    for field_name in sorted(field_names):
        if _with_hyphens(field_name) not in allowed_names:
            yield (
                (*path, _with_hyphens(field_name)),
                unknown_word_message(
                    f"field of {call_name}", _with_hyphens(field_name), allowed_names
                ),
            )
    for field_name in needed_fields:
        if field_name not in field_names:
            yield (*path, "do"), f"{call_name} needs {_with_hyphens(field_name)}"


def _with_hyphens(field_name: str) -> str:
    return field_name.rstrip("_").replace("_", "-")


def _with_article(noun: str) -> str:
    return f"an {noun}" if noun[0] in "aeiou" else f"a {noun}"
