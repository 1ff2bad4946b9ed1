"""The model of a scenario file without its steps. Steps are in ``steps_model``, the parsing of
values in ``fields``; ``scenario_reader`` reads a file into the model, and ``consistency`` checks
rules that concern two places of a file.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Final, Literal

from pydantic import BeforeValidator, Field, WithJsonSchema

from txnsim_lab.scenario.fields import Milliseconds, Model, Names, Only, RunSelection
from txnsim_lab.scenario.steps_model import Step

MODES: Final = {
    "V-": "no partition verification, as before Apache Kafka 3.6",
    "V+": "partition verification, transactions v1 (KIP-890 part 1)",
    "TV2": "transactions v2 (KIP-890 part 2)",
    "TV2+": "transactions v2 with strict markers (KIP-1228)",
}
"""The versions of the transaction protocol, with a description."""
TAKES: Final = ("armed", "disarmed", "control")
"""The takes of a run: with the fault; without it; and, if declared, a healthy run that looks
similar.
"""
PLAYING_WORDS: Final = ("program", "step-by-step")
HEALTHY: Final = "healthy"
RESERVED_WORDS: Final = (*TAKES, *PLAYING_WORDS, "else")
IMPLIED_ACTORS: Final = ("bystander", "reader", "operator")
"""Actors that every story has without declaring them."""

DeclaredVerdict = Annotated[
    tuple[str, ...],
    BeforeValidator(lambda value: () if value == HEALTHY else _list(value)),
    WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}),
]
"""The kinds of anomalies that a run is declared to show, sorted; ``healthy`` for none."""


def _list(value: Any) -> Any:
    return (value,) if isinstance(value, str) else value


class Topic(Model):
    """A topic of the story."""

    partitions: int = Field(default=1, ge=1, le=100)
    replication_factor: int | None = Field(default=None, ge=1, le=15)
    """Replicas per partition; unless given, the number of brokers, at most 3."""
    leaders: tuple[int, ...] = ()
    """The first leader of each partition; brokers 1, 2, 3, … in turn unless given."""
    configs: dict[str, str | int | float | bool] = Field(default_factory=dict)


class Actor(Model):
    """An actor, under the name that steps call."""

    plays: Literal[
        "wire", "application", "member", "share-member", "bystander", "reader", "operator"
    ]
    transactional_id: str | None = None
    client_id: str | None = None
    """Unless given, the actor's name."""
    transaction_timeout: Milliseconds = 60_000
    protocol: Literal[1, 2] | None = None
    """The transaction protocol of a wire actor; that of the run's mode unless given."""
    players: tuple[str, ...] = ("own",)
    """Players that may play an application over TCP, the preferred one first."""
    uncommitted: bool = False
    """Whether a reader or member reads with read_uncommitted."""
    rack: str | None = None
    """client.rack of a reader: it reads from the follower in its rack that the leader names
    (KIP-392).
    """
    group: str | None = None
    """The group of a member or share group member."""
    group_protocol: Literal["classic", "consumer", "streams"] = "classic"
    instance_id: str | None = None
    """group.instance.id: makes it a static member (KIP-345)."""
    session_timeout: Milliseconds = 45_000
    """Session timeout of a classic member; with the consumer protocol the broker's setting applies.
    """
    rebalance_timeout: Milliseconds = 300_000
    """max.poll.interval.ms of a member."""


class Run(Model):
    """A declared run: its cluster, and the verdict that is expected there."""

    mode: Literal["V-", "V+", "TV2", "TV2+"]
    title: str = ""
    rules: dict[str, bool] = Field(default_factory=dict)
    """Switches of releases (docs/releases.md) to set: for example, a bug before its fix."""
    as_version: str | None = None
    settings: dict[str, str | int | float | bool] = Field(default_factory=dict)
    players: tuple[str, ...] | None = None
    """Players that can play the application in this run; None for all."""
    verdict: DeclaredVerdict
    cured: DeclaredVerdict | None = None
    """Expected verdict after the cure; None: the same as before it."""

    @property
    def description(self) -> str:
        return self.title or MODES[self.mode]


class Scenario(Model):
    """A scenario file."""

    former_names: ClassVar[Mapping[str, str]] = {"animal": "anomaly"}
    name: str = Field(pattern=r"^[a-z0-9]+(-[a-z0-9]+)*$")
    aliases: tuple[str, ...] = ()
    anomaly: str = ""
    """Its number in the list of anomalies; scenarios with the same number are variants of each
    other.
    """
    title: str
    goal: str
    method: str
    symptoms: str = ""
    sources: tuple[str, ...] = ()
    brokers: int = Field(default=3, ge=1, le=15)
    racks: tuple[str, ...] = ()
    """The rack of each broker; none has one unless given."""
    settings: dict[str, str | int | float | bool] = Field(default_factory=dict)
    topics: dict[
        str,
        Annotated[Topic, BeforeValidator(lambda v: {"partitions": v} if isinstance(v, int) else v)],
    ]
    actors: dict[str, Actor] = Field(default_factory=dict)
    runs: dict[str, Run]
    disarmed: DeclaredVerdict = ()
    control: str = ""
    """A healthy situation that looks like the anomaly; steps with ``only: control`` play it."""
    steps: tuple[Step, ...]
    cure: tuple[Step, ...] = ()

    @property
    def cast(self) -> dict[str, Actor]:
        """All actors, by name."""
        return {actor_name: Actor(plays=actor_name) for actor_name in IMPLIED_ACTORS} | self.actors

    @property
    def takes(self) -> tuple[str, ...]:
        return TAKES if self.control else TAKES[:2]

    @property
    def words(self) -> tuple[str, ...]:
        mode_names = dict.fromkeys(run.mode for run in self.runs.values())
        return tuple(dict.fromkeys((*self.runs, *mode_names, *self.takes, *PLAYING_WORDS)))

    @property
    def run_selections(self) -> tuple[RunSelection, ...]:
        """All combinations of run, take and player."""
        return tuple(
            RunSelection(run=run_name, mode=run.mode, take=take, program=by_program)
            for run_name, run in self.runs.items()
            for take in self.takes
            for by_program in (False, True)
        )

    def meant_for(self, only: Only, run_selection: RunSelection) -> bool:
        """Whether the run has a word of each group in ``only``."""
        return all(self._selects_run(word_group, run_selection) for word_group in only)

    def _selects_run(self, word_group: Names, run_selection: RunSelection) -> bool:
        """Whether the words of one group select a run. A word names a run or mode, a take, or a way
        of playing. Of each of these three kinds that the group names, one word must fit.
        """
        word_kinds = ((*TAKES,), (*PLAYING_WORDS,))
        run_words = tuple(
            word
            for word in word_group
            if not any(word in words_of_one_kind for words_of_one_kind in word_kinds)
        )
        words_by_kind = (
            run_words,
            *(
                tuple(word for word in word_group if word in words_of_one_kind)
                for words_of_one_kind in word_kinds
            ),
        )
        return all(
            not fitting_words or not set(fitting_words).isdisjoint(run_selection.words)
            for fitting_words in words_by_kind
        )

    def steps_of(self, run_selection: RunSelection) -> tuple[Step, ...]:
        """The steps of one run; a disarmed run leaves out the steps about faults."""
        return tuple(step for step in self.steps if self.belongs(step, run_selection))

    def cure_of(self, run_selection: RunSelection) -> tuple[Step, ...]:
        return tuple(step for step in self.cure if self.belongs(step, run_selection))

    def belongs(self, step: Step, run_selection: RunSelection) -> bool:
        """Whether a run has this step."""
        if run_selection.take == "disarmed" and step.is_about_faults:
            return False
        return self.meant_for(step.only, run_selection)

    def verdict_of(self, run_name: str, take: str) -> tuple[str, ...]:
        """The declared verdict of a run, before any cure."""
        return self.runs[run_name].verdict if take == "armed" else self.disarmed
