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
from txnsim_lab.scenario._notation.blocks import PARTS, rolled_out
from txnsim_lab.scenario._notation.internal_partitions import BY_NAME, PLACED
from txnsim_lab.scenario._pruning import complaints_of
from txnsim_lab.scenario.call_results import ANY, LOST
from txnsim_lab.scenario.fields import ELSE, ByRun, Model, Only
from txnsim_lab.scenario.model import HEALTHY, RESERVED, Actor, Scenario
from txnsim_lab.scenario.players._base import PLAYERS
from txnsim_lab.scenario.steps_model import CALLS, CLUSTER, UPDATE, Awaited, Call, ClusterAct, Step


def read(file: str, text: str) -> Scenario:
    """Read the scenario in ``text``.

    Raises:
        ConfigError: The text is no scenario; the message has one line per problem, with file, line
            and field.
    """
    document, lines = parse_document(file, text)
    document, origins, blocks = rolled_out(document)
    scenario, wrong = _validate(document)
    if scenario is None:
        wrong = complaints_of(document, _validate, contradictions)
    else:
        wrong = list(contradictions(scenario))
    if scenario is None or blocks or wrong:
        problems = [(origins.place_in_file(path), words) for path, words in wrong]
        raise place_error(file, lines, [*blocks, *problems])
    for part in PARTS:
        for number, step in enumerate(getattr(scenario, part)):
            path = origins.place_in_file((part, number))
            unit = origins.units.get((part, number))
            if unit is not None:
                step.stands_in(unit)
            step.stands_at(f"{PurePath(file).name}:{_line(lines, path)}: {_field(path)}")
    return scenario


def _validate(
    document: Mapping[Any, Any],
) -> tuple[Scenario | None, list[tuple[Place, str]]]:
    """Validate a document: its model, or what is wrong with its fields."""
    try:
        return Scenario.model_validate(document), []
    except ValidationError as error:
        return None, list(problems_in(error, Scenario))


def read_step(data: object) -> Step:
    """Read a single step, as a scenario file has it.

    Raises:
        ConfigError: It is no valid step; the message has one line per problem, with its field.
    """
    try:
        return Step.model_validate(data)
    except ValidationError as error:
        problems = sorted(set(problems_in(error, Step)))
        raise ConfigError(
            "\n".join(
                f"step: {'.'.join(map(str, path)) or 'it'}: {words}" for path, words in problems
            )
        ) from None


# Errors with their lines


def place_error(
    file: str, lines: dict[Place, int], problems: Iterable[tuple[Place, str]]
) -> ConfigError:
    """The error message: one line per problem, with file, line and field."""
    located = sorted({(_line(lines, path), _field(path), message) for path, message in problems})
    return ConfigError(
        "\n".join(f"{file}:{line}: {field}: {message}" for line, field, message in located)
    )


def _field(path: Place) -> str:
    return ".".join(str(part) for part in path) or "scenario"


def _line(lines: dict[Place, int], path: Place) -> int:
    """Line of a path in the file, or of the nearest enclosing path that has a line."""
    if path not in lines:  # in its other spelling, perhaps
        lines, path = (
            {_hyphenated_path(known_path): line for known_path, line in lines.items()},
            _hyphenated_path(path),
        )
    while path not in lines:
        path = path[:-1]
    return lines[path]


def _hyphenated_path(path: Place) -> Place:
    return tuple(part.replace("_", "-") if isinstance(part, str) else part for part in path)


# YAML


def parse_document(file: str, text: str) -> tuple[dict[Any, Any], dict[Place, int]]:
    """Parse YAML: the document, and the line of every value in it, counted from 1.

    Raises:
        ConfigError: The text is no YAML, or no mapping.
    """
    lines: dict[Place, int] = {(): 1}
    try:
        bounded, root = compose_document(text, file=file)
        if not isinstance(root, yaml.MappingNode):
            raise ConfigError(f"{file}:1: scenario: expected a mapping of fields")
        _collect(root, (), lines, file)
        document: dict[Any, Any] = bounded.construct_document(root)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise ConfigError(f"{file}:{line}: no YAML: {error.problem}") from None
    except yaml.YAMLError as error:
        raise ConfigError(f"{file}:1: no YAML: {error}") from None
    return document, lines


def _collect(node: yaml.Node, path: Place, lines: dict[Place, int], file: str) -> None:
    lines.setdefault(path, node.start_mark.line + 1)
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            child_path = (*path, str(key.value))
            line = key.start_mark.line + 1
            if child_path in lines:
                raise ConfigError(
                    f"{file}:{line}: {_field(child_path)}: given twice, first on line"
                    f" {lines[child_path]}"
                )
            lines[child_path] = line
            _collect(value, child_path, lines, file)
    elif isinstance(node, yaml.SequenceNode):
        for index, value in enumerate(node.value):
            _collect(value, (*path, index), lines, file)


# What concerns two places of a scenario file: names that are used must be declared, fields must
# fit what they belong to.

Place = tuple[int | str, ...]
"""Path of keys and list indices from the top of the document."""
Problems = Iterator[tuple[Place, str]]

KINDS = tuple(str(kind) for kind in Kind)
WRITES: Final = frozenset({"produce", "append", "send"})
_ERRORS = frozenset({*(name.upper() for name in ErrorCode.__members__), ANY, LOST})


def contradictions(scenario: Scenario) -> Problems:
    yield from _head(scenario)
    checks = _Checks(scenario)
    for index, step in enumerate(scenario.steps):
        yield from checks.step(("steps", index), step)
    for index, step in enumerate(scenario.cure):
        yield from checks.step(("cure", index), step)


def _head(scenario: Scenario) -> Problems:
    rules = Rules.documentation()
    for name, run in scenario.runs.items():
        path = ("runs", name)
        if name in RESERVED:
            yield path, f"{name} means something else; another label is needed"
        for rule in run.rules:
            if rule not in rules:
                yield (*path, "rules", rule), unknown_word_message("rule", rule, rules)
        yield from _verdict((*path, "verdict"), run.verdict)
        yield from _verdict((*path, "cured"), run.cured or ())
        if run.cured is not None and not scenario.cure:
            yield (*path, "cured"), "there is no cure"
        for index, player in enumerate(run.players or ()):
            if player not in PLAYERS:
                yield (*path, "players", index), unknown_word_message("player", player, PLAYERS)
    yield from _verdict(("disarmed",), scenario.disarmed)
    for name, topic in scenario.topics.items():
        if topic.leaders and len(topic.leaders) != topic.partitions:
            yield ("topics", name, "leaders"), f"expected {topic.partitions}, one per partition"
        for index, leader in enumerate(leaders_of(topic, brokers=scenario.brokers)):
            if not 1 <= leader <= scenario.brokers:
                yield (
                    ("topics", name, "leaders", index),
                    f"there are brokers 1 to {scenario.brokers}",
                )
    for name, actor in scenario.actors.items():
        yield from _actor(("actors", name), actor)
    if scenario.control and not any(
        "control" in group for step in scenario.steps for group in step.only
    ):
        yield ("control",), "no step has `only: control`"


def _actor(path: Place, actor: Actor) -> Problems:
    is_member = actor.plays in ("member", "share-member")
    if is_member and actor.group is None:
        yield (*path, "plays"), "a member needs group"
    if not is_member and actor.group is not None:
        yield (*path, "group"), f"{_article(actor.plays)} is in no group; a member is"
    for index, player in enumerate(actor.players):
        if player not in PLAYERS:
            yield (*path, "players", index), unknown_word_message("player", player, PLAYERS)


def _verdict(path: Place, kinds: tuple[str, ...]) -> Problems:
    for index, kind in enumerate(kinds):
        if kind not in KINDS:
            yield (*path, index), unknown_word_message("verdict", kind, (HEALTHY, *KINDS))


class _Checks:
    """Checks the steps in order, and remembers what they have declared."""

    def __init__(self, scenario: Scenario) -> None:
        self._scenario = scenario
        self._rules: list[str] = []
        self._generations: list[str] = []
        self._background: dict[str, str] = {}
        """Name of a call in the background -> what its actor plays."""
        self._topics = {name: topic.partitions for name, topic in scenario.topics.items()}
        """Topic -> highest number of partitions so far."""
        self._values: dict[tuple[TopicPartition, str], list[Only]] = {}
        """Records by partition and value -> the runs in which they are written."""

    def step(self, path: Place, step: Step) -> Problems:
        words = self._scenario.words
        for number, group in enumerate(step.only):
            for index, word in enumerate(group):
                if word not in words:
                    yield (
                        (*path, "only", number, index),
                        unknown_word_message("run, mode or take", word, words),
                    )
        rule = step.rule
        if rule is not None:
            act = "hold" if step.hold is not None else "arm"
            if rule.id in self._rules:
                yield (*path, act, "id"), f"{rule.id} is armed by a step before"
            self._rules.append(rule.id)
        for field, name in (("release", step.released_rule), ("disarm", step.disarm)):
            if name is not None:
                yield from self._check_declared((*path, field), "rule", name, self._rules)
        if step.call is not None:
            yield from self._call((*path, "call"), step.call)
            yield from self._records((*path, "call"), step.call, step.only)
        if step.cluster is not None:
            yield from self._cluster((*path, "cluster"), step.cluster)
        yield from self._waits(path, step)
        if step.expect is not None:
            yield from self._partitions((*path, "expect"), step.expect, "partition")
            yield from self._positions((*path, "expect", "positions"), step.expect.positions)
            unanswered = step.expect.unanswered
            if unanswered is not None:
                where = (*path, "expect", "unanswered")
                yield from self._check_declared(where, "call", unanswered, [*self._background])

    def _waits(self, path: Place, step: Step) -> Problems:
        if step.await_ is not None:
            awaited = step.await_ if isinstance(step.await_, Awaited) else None
            name = str(step.await_) if awaited is None else awaited.call
            yield from self._check_declared((*path, "await"), "call", name, [*self._background])
            if awaited is not None:
                yield from self._by_run((*path, "await", "error"), awaited.error)
        if step.give_up is not None:
            where = (*path, "give-up")
            yield from self._check_declared(where, "call", step.give_up, [*self._background])
            if self._background.get(step.give_up, "wire") != "wire":
                yield (
                    where,
                    f"{step.give_up} is no call of a wire actor: only those can be given up",
                )
        condition = step.wait_until
        if condition is None:
            return
        if step.struck is not None:
            where = (*path, "wait-until", "struck")
            yield from self._check_declared(where, "rule", step.struck, self._rules)
        if condition.answered is not None:
            where = (*path, "wait-until", "answered")
            yield from self._check_declared(where, "call", condition.answered, [*self._background])
        yield from self._partitions((*path, "wait-until"), condition, "marker", "open", "in_sync")

    # Calls

    def _call(self, path: Place, call: Call) -> Problems:
        cast = self._scenario.cast
        if call.who not in cast:
            yield (*path, "who"), unknown_word_message("actor", call.who, cast)
            calls = {name for calls_of_actor in CALLS.values() for name in calls_of_actor}
            if call.do not in calls:
                yield (*path, "do"), unknown_word_message("call", call.do, sorted(calls))
            plays = ""
        else:
            plays = cast[call.who].plays
            calls_of_actor = CALLS[plays]
            if call.do not in calls_of_actor:
                yield (
                    (*path, "do"),
                    unknown_word_message(f"call of {_article(plays)}", call.do, calls_of_actor),
                )
            else:
                yield from _fields(path, call.do, call.given_fields, *calls_of_actor[call.do])
        yield from self._call_fields(path, call, plays)

    def _call_fields(self, path: Place, call: Call, plays: str) -> Problems:
        """Check the partitions, topics, errors and names of a call, for any actor."""
        cast = self._scenario.cast
        if "value" in call.given_fields and call.values is not None:
            yield (*path, "values"), "either value or values"
        has_records = not {"count", "value", "values"}.isdisjoint(call.given_fields)
        if call.do in ("produce", "append") and not has_records:
            yield (*path, "do"), f"{call.do} needs value or values"
        yield from self._generation((*path, "generation"), call)
        if plays == "application" and has_records and None in call.records:
            yield (*path, "value"), "a tombstone is sent by a wire actor or a bystander"
        whose = call.first_identity_of
        if whose is not None and (whose not in cast or cast[whose].plays != "wire"):
            wires = [name for name, actor in cast.items() if actor.plays == "wire"]
            yield (*path, "first-identity-of"), unknown_word_message("wire actor", whose, wires)
        if call.member is not None and (call.member not in cast or cast[call.member].group is None):
            members = [name for name, actor in cast.items() if actor.plays == "member"]
            yield (*path, "member"), unknown_word_message("member", call.member, members)
        if call.do == "commit-offsets" and plays == "wire" and call.member is None:
            for needed_here in ("group", "offsets"):
                if needed_here not in call.given_fields:
                    yield (*path, "do"), f"commit-offsets needs member, or {needed_here}"
        for index, topic in enumerate(call.topics or ()):
            if topic not in self._topics:
                yield (*path, "topics", index), unknown_word_message("topic", topic, self._topics)
        if call.background is not None:
            if call.background in self._background:
                yield (*path, "background"), f"{call.background} is a call of a step before"
            self._background[call.background] = plays or "wire"
        fields = ("partition", "partitions", "assigned", "names")
        yield from self._partitions(path, call, *fields)
        for other in call.beside or ():
            yield from self._partition((*path, "beside"), other)
        if call.partition in (call.beside or ()):
            yield (*path, "beside"), f"{call.partition} is the partition of the call itself"
        for index, record in enumerate(call.of):
            yield from self._partition((*path, "of", index), record.partition)
        if call.do == "abort" and plays == "operator":
            if call.start_offset is None and call.producer_id is None:
                yield (*path, "do"), "abort needs start-offset or producer-id"
            elif call.start_offset is None and call.epoch is None:
                yield (*path, "do"), "abort with producer-id needs epoch, or start-offset"
        yield from self._broker((*path, "broker"), call.broker)
        yield from self._by_run((*path, "error"), call.error)
        yield from self._words((*path, "reads"), call.reads)
        yield from self._words((*path, "offset"), call.offset)

    def _generation(self, path: Place, call: Call) -> Problems:
        """Check the name of a member's generation: it is known only after the step
        that gives it.
        """
        generation = call.generation
        if call.do in ("subscribe", "poll"):
            if isinstance(generation, str):
                self._generations.append(generation)
            elif generation is not None:
                yield path, "expected a name for the generation that the member has then"
        elif isinstance(generation, str):
            yield from self._check_declared(path, "generation", generation, self._generations)

    def _records(self, path: Place, call: Call, only: Only) -> Problems:
        """Checks that each value is written once; a retry or a record that may be refused can
        repeat one.
        """
        target = call.partition
        may_repeat = call.sequence is not None or call.error is not None
        if target is None or may_repeat or call.do not in WRITES:
            return
        values = call.records if call.count is None else (f"{call.value or UPDATE}-0",)
        field = "value" if call.values is None else "values"
        named = [(field, target, value) for value in values if value is not None]  # no tombstones
        named += [("beside", *pair) for pair in (call.beside or {}).items()]
        for field, where, value in named:
            earlier = self._values.setdefault((where, value), [])
            if any(self._together(only, earlier_only) for earlier_only in earlier):
                yield (
                    (*path, field),
                    f"the value {value!r} is used twice in {where}; each record needs its own, "
                    "and item says that two are the same work",
                )
            earlier.append(only)

    def _together(self, first_only: Only, second_only: Only) -> bool:
        """Whether some run has both steps."""
        scenario = self._scenario
        return any(
            scenario.meant_for(first_only, situation) and scenario.meant_for(second_only, situation)
            for situation in scenario.situations
        )

    def _broker(self, path: Place, broker: int | None) -> Problems:
        if broker is not None and not 1 <= broker <= self._scenario.brokers:
            yield path, f"there are brokers 1 to {self._scenario.brokers}"

    def _cluster(self, path: Place, act: ClusterAct) -> Problems:
        if act.do not in CLUSTER:
            yield (*path, "do"), unknown_word_message("act on the cluster", act.do, CLUSTER)
            return
        needed, possible = CLUSTER[act.do]
        yield from _fields(path, act.do, act.given_fields, needed, possible)
        if act.do == "move-leader" and (act.partition is None) == (act.coordinator_of is None):
            yield (*path, "do"), "move-leader needs either partition or coordinator-of"
        for name, broker in (("to", act.to), ("broker", act.broker)):
            yield from self._broker((*path, name), broker)
        for index, broker in enumerate(act.leaders):
            yield from self._broker((*path, "leaders", index), broker)
        yield from self._partitions(path, act, "partition")
        yield from self._topic(path, act)

    def _topic(self, path: Place, act: ClusterAct) -> Problems:
        """Check topics that are created, deleted and grown; a deleted topic may still be named, to
        be refused.
        """
        if act.topic is None:
            return
        count_before = self._topics.get(act.topic, 0)
        if act.do == "delete-topic":
            for record in [written for written in self._values if written[0].topic == act.topic]:
                del self._values[record]
        if act.do == "create-topic":
            count = act.partitions or 1
            self._topics[act.topic] = max(count, count_before)
            if act.leaders and len(act.leaders) != count:
                yield (*path, "leaders"), f"expected {count}, one per partition"
            return
        if act.do == "configure" and act.topic in INTERNAL_TOPICS:
            return
        if act.topic not in self._topics:
            yield (*path, "topic"), unknown_word_message("topic", act.topic, self._topics)
        elif act.do == "grow-topic" and act.partitions is not None:
            if act.partitions <= count_before:
                yield (*path, "partitions"), f"topic {act.topic} has {count_before}: expected more"
            elif act.leaders and len(act.leaders) != act.partitions - count_before:
                new = act.partitions - count_before
                yield (*path, "leaders"), f"expected {new}, one per new partition"
            self._topics[act.topic] = max(act.partitions, count_before)

    # Names

    def _partitions(self, path: Place, part: Model, *fields: str) -> Problems:
        for field in fields:
            value = getattr(part, field)
            for partition in (value,) if isinstance(value, TopicPartition) else value or ():
                yield from self._partition((*path, _with_hyphens(field)), partition)

    def _positions(self, path: Place, positions: Mapping[TopicPartition, int] | None) -> Problems:
        for partition in positions or ():
            yield from self._partition((*path, str(partition)), partition)

    def _partition(self, path: Place, partition: TopicPartition) -> Problems:
        if partition.partition == BY_NAME or partition.topic in PLACED:
            return  # how many there are is a setting of the run
        topics = self._topics
        if partition.topic not in topics:
            yield path, unknown_word_message("topic", partition.topic, topics)
        elif partition.partition >= topics[partition.topic]:
            last_partition = topics[partition.topic] - 1
            yield path, f"topic {partition.topic} has the partitions 0 to {last_partition}"

    def _by_run(self, path: Place, by_word: ByRun | None) -> Problems:
        """Checks that the words and errors of a value by run are known."""
        for where, error in self._by_words(path, by_word):
            if isinstance(error, str) and error not in _ERRORS:
                yield where, unknown_word_message("error", error, sorted(_ERRORS))
        yield from self._words(path, by_word)

    def _by_words(self, path: Place, by_word: Any) -> Iterator[tuple[Place, Any]]:
        """Each expected value with its path, at any depth of words."""
        if not isinstance(by_word, Mapping):
            yield path, by_word
            return
        for word, inner in by_word.items():
            yield from self._by_words((*path, word), inner)

    def _words(self, path: Place, by_word: Any) -> Problems:
        """Checks that the words which select runs are known."""
        if not isinstance(by_word, Mapping):
            return
        words = (*self._scenario.words, ELSE)
        for word, inner in by_word.items():
            if word not in words:
                yield (*path, word), unknown_word_message("run, mode or take", word, words)
            yield from self._words((*path, word), inner)

    @staticmethod
    def _check_declared(path: Place, noun: str, name: str, declared_names: list[str]) -> Problems:
        if name not in declared_names:
            yield (
                path,
                unknown_word_message(noun, name, declared_names)
                if declared_names
                else f"no step before names {name!r}",
            )


def _fields(
    path: Place,
    do: str,
    field_names: Iterable[str],
    needed: tuple[str, ...],
    possible: tuple[str, ...],
) -> Problems:
    allowed = tuple(_with_hyphens(name) for name in (*needed, *possible))
    for name in sorted(field_names):
        if _with_hyphens(name) not in allowed:
            yield (
                (*path, _with_hyphens(name)),
                unknown_word_message(f"field of {do}", _with_hyphens(name), allowed),
            )
    for name in needed:
        if name not in field_names:
            yield (*path, "do"), f"{do} needs {_with_hyphens(name)}"


def _with_hyphens(name: str) -> str:
    return name.rstrip("_").replace("_", "-")


def _article(noun: str) -> str:
    return f"an {noun}" if noun[0] in "aeiou" else f"a {noun}"
