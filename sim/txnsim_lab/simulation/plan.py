"""The plan of a run, as data: it is drawn, played, shrunk, written to a file and read again. A
track has the acts of one actor, in order, each after a pause. An act is a step of a scenario file,
in the same words. Acts that only make sense together, such as those of one transaction, belong to
one unit; shrinking first removes whole units.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, Literal

import msgspec

from txnsim.errors import ConfigError
from txnsim_lab.scenario.model import Run, Scenario, Topic

CLUSTER_TRACK: Final = ""
"""Name of a track that only acts on the cluster: it needs no actor."""

OnError = Literal["go-on", "abort", "anew", "leave"]
"""What an actor does when a call fails: nothing, abort, initialize again and skip to the next unit,
or stop for good.
"""

StepBody = dict[str, Any]
"""A step, as in a scenario file."""


class Act(msgspec.Struct, frozen=True, omit_defaults=True):
    """One act of a track."""

    step: StepBody
    after_ms: int = 0
    """Pause between the end of the previous act and this one."""
    unit: int = 0
    """Acts of one unit belong together; they follow each other."""
    habit: str = ""
    """Feature for which the act was drawn."""

    @property
    def request_name(self) -> str:
        """Name of the act's request: ``commit``, ``cluster kill``, ``arm peer.request
        WriteTxnMarkers``.
        """
        ((step_kind, step_fields),) = (
            (field_name, field_value)
            for field_name, field_value in self.step.items()
            if field_name not in ("say", "only")
        )
        match step_kind, step_fields:
            case "call", {"do": do}:
                return str(do)
            case "cluster", {"do": do}:
                return f"cluster {do}"
            case "ask", {"api": api}:
                return f"ask {api}"
            case "arm", {"point": point, "action": action}:
                return f"arm {point} {action['do']}"
        return str(step_kind)


class Track(msgspec.Struct, frozen=True, omit_defaults=True):
    """The acts of one actor."""

    name: str
    acts: tuple[Act, ...]
    actor: StepBody | None = None
    """The actor, as in a scenario file; None for actors that every scenario has, or if none is
    needed.
    """
    on_error: OnError = "go-on"


class World(msgspec.Struct, frozen=True, kw_only=True):
    """The cluster of a run, as scenario files describe it, and its network links."""

    mode: str
    brokers: int = 3
    settings: StepBody = {}
    topics: dict[str, StepBody] = {}
    latency_us: tuple[int, int] = (50, 500)
    peer_latency_us: tuple[int, int] = (50, 500)
    as_version: str | None = None
    rules: dict[str, bool] = {}


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """The plan of a whole run."""

    seed: int
    """Seed of what is drawn during the run: latencies, and random choices of brokers."""
    world: World
    tracks: tuple[Track, ...]
    features: tuple[str, ...] = ()
    workload: str | None = None
    """A user's coroutine that runs at the same time as the tracks, as ``package.module:name``."""

    @property
    def size(self) -> int:
        """Number of acts."""
        return sum(len(track.acts) for track in self.tracks)

    @property
    def acts(self) -> Iterator[Act]:
        """The acts of all tracks."""
        return (act for track in self.tracks for act in track.acts)

    @property
    def groups(self) -> list[str]:
        """The consumer groups whose members act in it, by name."""
        actors_of_tracks = (track.actor for track in self.tracks if track.actor is not None)
        return sorted({actor["group"] for actor in actors_of_tracks if actor["plays"] == "member"})

    def to_json(self) -> bytes:
        """The plan as JSON, for a file."""
        return msgspec.json.encode(self)

    @classmethod
    def from_json(cls, text: bytes) -> Plan:
        """Read a plan from JSON.

        Raises:
            ConfigError: The text is no plan.
        """
        try:
            return msgspec.json.decode(text, type=cls)
        except (msgspec.MsgspecError, RecursionError) as error:
            raise ConfigError(f"no plan: {error}") from None


RUN_NAME: Final = "drawn"
"""Name of the only run of a plan's scenario."""


def scenario_of(plan: Plan) -> Scenario:
    """The actors and the cluster of a plan, as a scenario without steps.

    Raises:
        pydantic.ValidationError: The plan says something that no scenario file may say.
    """
    world = plan.world
    run_fields: StepBody = {"mode": world.mode, "verdict": "healthy", "rules": world.rules}
    if world.as_version is not None:
        run_fields["as-version"] = world.as_version
    return Scenario.model_validate(
        {
            "name": f"seed-{plan.seed}",
            "title": "A run that was drawn",
            "goal": "See what comes of it.",
            "method": "Drawn from a seed.",
            "brokers": world.brokers,
            "settings": world.settings,
            "topics": {
                topic_name: Topic.model_validate(topic)
                for topic_name, topic in world.topics.items()
            },
            "actors": {track.name: track.actor for track in plan.tracks if track.actor is not None},
            "runs": {RUN_NAME: Run.model_validate(run_fields)},
            "steps": [],
        }
    )
