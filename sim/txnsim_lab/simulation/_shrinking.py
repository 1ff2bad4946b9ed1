"""Finds the smallest plan that still shows a finding. It leaves out as much as possible, from
coarse to fine: whole tracks, units, single acts, pauses, and what is unusual about the cluster. A
smaller plan is taken if its run has no finding of another kind and at least one of the same (delta
debugging, Zeller and Hildebrandt, 2002); and if one switch of a release makes the first run
healthy, it must also make the smaller one healthy.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Final, TypeVar

import msgspec

from txnsim.errors import ConfigError
from txnsim_lab.simulation._curious_client import ASK_KEY
from txnsim_lab.simulation._further_features import EXPIRATION_SETTINGS, SHORT_EXPIRATIONS_FEATURE
from txnsim_lab.simulation._share_groups import RECORD_LOCKS_SETTING
from txnsim_lab.simulation.plan import Act, Plan, StepBody, Track
from txnsim_lab.simulation.play import PlayedRun, play

T = TypeVar("T")

CALM_PAUSE_MS: Final = 12_000
"""Longer than a broker's session timeout, so that all effects of an act are over by then."""
TRIES_MAX: Final = 600
"""Limit of runs for one plan."""
_ORDINARY_LATENCY_US: Final = (200, 200)
EARLY_MARKERS_HABIT: Final = "early-markers"
ONE_REPLICA_HABIT: Final = "one-replica"
"""Habits for which no act is drawn: they are recognized by an act's content (``BY_ACT``)."""


class ShrunkPlan(msgspec.Struct, frozen=True, kw_only=True):
    """The smallest plan that shows the same findings, with its run."""

    plan: Plan
    run: PlayedRun
    try_count: int


def shrink(
    plan: Plan,
    kinds: Collection[str],
    *,
    switch: tuple[str, bool] | None = None,
    tries_max: int = TRIES_MAX,
) -> ShrunkPlan:
    """Make a plan smaller as long as it shows the same findings.

    Args:
        plan: A plan whose run has these findings.
        kinds: Their kinds.
        switch: A switch of releases and the position in which the run is healthy.
        tries_max: Limit of runs.

    Raises:
        ConfigError: The plan's run is healthy.
    """
    shrinking = _Shrinking(plan, frozenset(kinds), switch, tries_max)
    if not shrinking.played.kinds:
        raise ConfigError(f"the run of seed {plan.seed} is healthy: there is nothing to shrink")
    return shrinking.run()


class _Shrinking:
    def __init__(
        self,
        plan: Plan,
        kinds: frozenset[str],
        switch: tuple[str, bool] | None,
        tries_max: int,
    ) -> None:
        self._kinds_to_keep = kinds
        self._switch_setting = switch
        self._tries_left = tries_max
        self._tries_max = tries_max
        self._is_calm = False
        """Whether each act, with its consequences, ends before the next one begins."""
        self.plan = plan
        self.played = play(plan)

    def run(self) -> ShrunkPlan:
        """Shrink until nothing more can be left out, or the tries are used up."""
        plan_size = None
        while plan_size != (plan_size := self._measure()) and self._tries_left > 0:
            self._drop_tracks()
            self._drop_units()
            self._drop_acts()
            self._simplify_world()
            self._is_calm = self._is_calm or self._space_out_acts()
            if not self._is_calm:
                self._shorten_pauses()
        return ShrunkPlan(
            plan=self.plan, run=self.played, try_count=self._tries_max - self._tries_left
        )

    def _measure(self) -> tuple[int, int, int]:
        total_pause_ms = sum(act.after_ms for track in self.plan.tracks for act in track.acts)
        return self.plan.size, total_pause_ms, len(self.plan.to_json())

    def _accept_if_same(self, plan: Plan) -> bool:
        """Accept a plan if its run shows the same finding."""
        if self._tries_left <= 0 or plan == self.plan:
            return False
        self._tries_left -= 1
        try:
            played_run = play(plan)
            if not played_run.kinds or not self._kinds_to_keep.issuperset(played_run.kinds):
                return False
            if self._switch_setting is not None:
                self._tries_left -= 1
                if play(with_switch(plan, *self._switch_setting)).kinds:
                    return False
        except (ConfigError, ValueError):
            return False  # no such cluster
        self.plan, self.played = plan, played_run
        return True

    # What is left out

    def _drop_tracks(self) -> None:
        self._leave_out(self.plan.tracks, lambda tracks: _with_tracks(self.plan, tracks))

    def _drop_units(self) -> None:
        for track_index in range(len(self.plan.tracks)):
            units = tuple(dict.fromkeys(act.unit for act in self.plan.tracks[track_index].acts))

            def having(remaining_units: Sequence[int], track_index: int = track_index) -> Plan:
                acts = self.plan.tracks[track_index].acts
                return self._with_acts(
                    track_index, [act for act in acts if act.unit in remaining_units]
                )

            self._leave_out(units, having)

    def _drop_acts(self) -> None:
        for track_index in range(len(self.plan.tracks)):

            def having(remaining_acts: Sequence[Act], track_index: int = track_index) -> Plan:
                return self._with_acts(track_index, remaining_acts)

            self._leave_out(self.plan.tracks[track_index].acts, having)
        self._accept_if_same(
            _with_tracks(self.plan, [track for track in self.plan.tracks if track.acts])
        )

    def _leave_out(
        self, candidates: Sequence[T], plan_having: Callable[[Sequence[T]], Plan]
    ) -> None:
        """Leave items out: halves first, then smaller pieces, then one by one."""
        remaining_candidates, piece_size = list(candidates), max(1, len(candidates) // 2)
        while piece_size:
            piece_index = 0
            while piece_index < len(remaining_candidates):
                fewer_candidates = (
                    remaining_candidates[:piece_index]
                    + remaining_candidates[piece_index + piece_size :]
                )
                if self._accept_if_same(plan_having(fewer_candidates)):
                    remaining_candidates = fewer_candidates
                else:
                    piece_index += piece_size
            piece_size //= 2

    def _with_acts(self, track_index: int, acts: Sequence[Act]) -> Plan:
        tracks = list(self.plan.tracks)
        tracks[track_index] = msgspec.structs.replace(tracks[track_index], acts=tuple(acts))
        return _with_tracks(self.plan, tracks)

    def _space_out_acts(self) -> bool:
        """Try the simplest order of events: one after the other, with time between them."""
        start_times_us = sorted(
            (start_time, track_index, act_index)
            for track_index, track in enumerate(self.plan.tracks)
            for act_index, start_time in enumerate(self._start_times(track))
        )
        acts = [list(track.acts) for track in self.plan.tracks]
        latest_rank_by_track = [0] * len(acts)
        for start_rank, (_, track_index, act_index) in enumerate(start_times_us):
            acts[track_index][act_index] = msgspec.structs.replace(
                acts[track_index][act_index],
                after_ms=(start_rank - latest_rank_by_track[track_index]) * CALM_PAUSE_MS,
            )
            latest_rank_by_track[track_index] = start_rank
        tracks = [
            msgspec.structs.replace(track, acts=tuple(track_acts))
            for track, track_acts in zip(self.plan.tracks, acts, strict=True)
        ]
        return self._accept_if_same(_with_tracks(self.plan, tracks))

    def _start_times(self, track: Track) -> list[int]:
        """The time when each act of a track began; acts that did not begin come last."""
        start_times = [act.at_us for act in self.played.acts if act.who == track.name]
        steps = [act.step for act in self.played.acts if act.who == track.name]
        return [
            start_times[steps.index(act.step)] if act.step in steps else 1 << 60
            for act in track.acts
        ]

    def _shorten_pauses(self) -> None:
        """Shorten each pause to zero, else by halves, while the finding stays."""
        for track_index in range(len(self.plan.tracks)):
            for act_index in range(len(self.plan.tracks[track_index].acts)):
                for shorten_ms in (lambda _: 0, lambda ms: ms // 10 * 5):
                    while self._accept_if_same(
                        self._with_pause(track_index, act_index, shorten_ms)
                    ):
                        continue

    def _with_pause(self, track_index: int, act_index: int, shorten: Callable[[int], int]) -> Plan:
        acts = list(self.plan.tracks[track_index].acts)
        acts[act_index] = msgspec.structs.replace(
            acts[act_index], after_ms=shorten(acts[act_index].after_ms)
        )
        return self._with_acts(track_index, acts)

    def _simplify_world(self) -> None:
        for plainer_world in self._plainer_worlds():
            self._accept_if_same(msgspec.structs.replace(self.plan, world=plainer_world))
        for track_index, track in enumerate(self.plan.tracks):
            if track.on_error != "go-on":
                tracks = list(self.plan.tracks)
                tracks[track_index] = msgspec.structs.replace(track, on_error="go-on")
                self._accept_if_same(_with_tracks(self.plan, tracks))

    def _plainer_worlds(self) -> Iterator[object]:
        replace_fields = msgspec.structs.replace
        yield replace_fields(self.plan.world, latency_us=_ORDINARY_LATENCY_US)
        yield replace_fields(self.plan.world, peer_latency_us=_ORDINARY_LATENCY_US)
        for dropped_name in tuple(self.plan.world.settings):
            yield replace_fields(
                self.plan.world, settings=_without_key(self.plan.world.settings, dropped_name)
            )
        plan_json = self.plan.to_json()
        for dropped_name in tuple(self.plan.world.topics):
            if f'"{dropped_name}-'.encode() not in plan_json:
                yield replace_fields(
                    self.plan.world, topics=_without_key(self.plan.world.topics, dropped_name)
                )
        for dropped_name, topic in tuple(self.plan.world.topics.items()):
            for topic_field in ("configs", "partitions"):
                if topic_field in topic:
                    plainer_topic = _without_key(topic, topic_field)
                    plainer_topic["leaders"] = plainer_topic["leaders"][
                        : plainer_topic.get("partitions", 1)
                    ]
                    topics = {**self.plan.world.topics, dropped_name: plainer_topic}
                    yield replace_fields(self.plan.world, topics=topics)


def with_switch(plan: Plan, switch_name: str, is_on: bool) -> Plan:  # noqa: FBT001 - it is the switch's
    """The plan with one switch of the releases turned."""
    rules = {**plan.world.rules, switch_name: is_on}
    return msgspec.structs.replace(plan, world=msgspec.structs.replace(plan.world, rules=rules))


def without_habit(plan: Plan, habit: str) -> Plan:
    """The plan without the acts of one habit, or without its settings."""
    if habit == SHORT_EXPIRATIONS_FEATURE:
        settings = {
            setting_name: setting_value
            for setting_name, setting_value in plan.world.settings.items()
            if setting_name not in EXPIRATION_SETTINGS
        }
        world = msgspec.structs.replace(plan.world, settings=settings)
        return msgspec.structs.replace(plan, world=world)
    is_dropped = HABIT_TESTS.get(habit) or (lambda act: act.habit == habit)
    tracks = [
        msgspec.structs.replace(track, acts=tuple(act for act in track.acts if not is_dropped(act)))
        for track in plan.tracks
    ]
    return _with_tracks(plan, tracks)


def is_early_marker(act: Act) -> bool:
    """Whether an act sends WriteTxnMarkers with an epoch that its producer never had."""
    request_fields = act.step.get(ASK_KEY, {})
    if request_fields.get("api") != "WriteTxnMarkers":
        return False
    markers = request_fields["fields"]["markers"]
    marker_list = [markers["each"]] if isinstance(markers, dict) else markers
    return any(marker["producer_epoch"]["plus"] > 0 for marker in marker_list)


def is_for_one_replica(act: Act) -> bool:
    """Whether a partition is reassigned to a single broker."""
    cluster_act = act.step.get("cluster", {})
    return cluster_act.get("do") == "reassign" and len(cluster_act["replicas"]) == 1


HABIT_TESTS: Final[Mapping[str, Callable[[Act], bool]]] = {
    EARLY_MARKERS_HABIT: is_early_marker,
    ONE_REPLICA_HABIT: is_for_one_replica,
}


def start_later(plan: Plan, track_index: int, delay_ms: int) -> Plan:
    """The plan in which one track begins later."""
    tracks = list(plan.tracks)
    if acts := tracks[track_index].acts:
        first_act = msgspec.structs.replace(acts[0], after_ms=acts[0].after_ms + delay_ms)
        tracks[track_index] = msgspec.structs.replace(
            tracks[track_index], acts=(first_act, *acts[1:])
        )
    return _with_tracks(plan, tracks)


def with_care(plan: Plan) -> Plan:
    """The plan in which wire actors initialize again, instead of continuing, after an error."""
    tracks = [
        msgspec.structs.replace(track, on_error="anew")
        if track.on_error == "go-on" and track.actor is not None and track.actor["plays"] == "wire"
        else track
        for track in plan.tracks
    ]
    return _with_tracks(plan, tracks)


def with_own_keys(plan: Plan) -> Plan:
    """The plan in which each program writes its own keys."""

    def own(act: Act) -> Act:
        call = act.step.get("call", {})
        if "key" not in call:
            return act
        key = f"{call['who']}.{call['key']}"
        return msgspec.structs.replace(act, step={**act.step, "call": {**call, "key": key}})

    tracks = [
        msgspec.structs.replace(track, acts=tuple(map(own, track.acts))) for track in plan.tracks
    ]
    return _with_tracks(plan, tracks)


def with_more_locks(plan: Plan) -> Plan:
    """The plan in which share groups may acquire as many records as by default."""
    settings = plan.world.settings
    if RECORD_LOCKS_SETTING not in settings:
        return plan
    settings = {**settings, RECORD_LOCKS_SETTING: 2_000}
    world = msgspec.structs.replace(plan.world, settings=settings)
    return msgspec.structs.replace(plan, world=world)


def _with_tracks(plan: Plan, tracks: Sequence[Track]) -> Plan:
    return msgspec.structs.replace(plan, tracks=tuple(tracks))


def _without_key(mapping: StepBody, dropped_key: str) -> StepBody:
    return {key: kept_value for key, kept_value in mapping.items() if key != dropped_key}
