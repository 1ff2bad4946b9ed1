"""What two designs leave, and what that comes to: what the second cures, leaves and brings."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import StrEnum
from typing import Final

import msgspec

StoryRun = tuple[str, str]
"""A story, by name or file, and one of its runs."""


class Side(StrEnum):
    """One of the two designs."""

    A = "A"
    B = "B"


class Source(StrEnum):
    """Where a pair of runs comes from; those that are easiest to follow first."""

    EXPLORE = "explore"
    STORY = "story"
    SEED = "seed"


_SOURCES: Final = tuple(Source)


class Sighting(msgspec.Struct, frozen=True, kw_only=True):
    """An anomaly in one run, or in a search."""

    because: str
    way: str = ""
    """The way of an exploration, as ``txnsim explore --way`` reads it."""
    deviations: int = 0
    steps: tuple[str, ...] = ()
    """All that happens on that way."""
    deviating_steps: tuple[int, ...] = ()
    """Indexes of the steps that do not happen on a quiet network."""
    ends: int = 1
    """At how many ends of a search it was found."""


class SideResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one exploration, story or seed on one design."""

    sightings: dict[str, Sighting] = {}
    """Kind of an anomaly -> the run that has it."""
    is_complete: bool = True
    """False if the run did not come to its end, or a search had no time left."""
    remark: str = ""
    """Why it is not complete."""
    refusals: dict[str, int] = {}
    """Error that a commit got -> how often."""
    commits: int = 0
    """Number of commits that were answered without an error."""
    states: int = 0
    """States of a search."""
    failures: tuple[str, ...] = ()
    """What the plug-ins raised, and brokers because of them."""
    other_way: str = ""
    """Where a story came otherwise than it expects on this side alone; it was played on."""


class Pair(msgspec.Struct, frozen=True, kw_only=True):
    """The same exploration, story or seed on both designs."""

    source: Source
    name: str
    run: str = ""
    """The run of a story."""
    a: SideResult
    b: SideResult

    def side(self, side: Side) -> SideResult:
        return self.a if side is Side.A else self.b

    @property
    def label(self) -> str:
        """The pair in words: ``seed 7``."""
        return " ".join(filter(None, (self.source.value, self.name, self.run)))


class Standing(StrEnum):
    """What a change from A to B does to an anomaly."""

    CURED = "cured"
    """A has it, B has not."""
    BROUGHT = "brought"
    """B has it, A has not."""
    CURED_IN_PART = "cured-in-part"
    """A alone has it in some pairs, B alone in none, both in some."""
    BROUGHT_IN_PART = "brought-in-part"
    """B alone has it in some pairs, A alone in none, both in some."""
    CHANGED = "changed"
    """Each alone has it in some pairs."""
    LEFT = "left"
    """Both have it in the same pairs."""


class Example(msgspec.Struct, frozen=True, kw_only=True):
    """The easiest of the runs that have an anomaly."""

    side: Side
    pair: Pair

    def sighting(self, kind: str) -> Sighting:
        """The anomaly of this kind in the run."""
        return self.pair.side(self.side).sightings[kind]


class AnomalyLine(msgspec.Struct, frozen=True, kw_only=True):
    """One kind of anomaly under both designs."""

    kind: str
    only_a: int
    """Number of pairs in which A alone has it."""
    only_b: int
    both: int
    examples: tuple[Example, ...]
    """The easiest run where one side alone has it, or else where both have."""
    story_runs: tuple[StoryRun, ...] = ()
    """The runs of stories in which a side has it, first those in which only one has."""

    @property
    def standing(self) -> Standing:
        """What the change from A to B does to it."""
        if not (self.only_a or self.only_b):
            return Standing.LEFT
        if self.only_a and self.only_b:
            return Standing.CHANGED
        if self.both:
            return Standing.CURED_IN_PART if self.only_a else Standing.BROUGHT_IN_PART
        return Standing.CURED if self.only_a else Standing.BROUGHT


class Refusals(msgspec.Struct, frozen=True, kw_only=True):
    """How often commits got an error under each design."""

    error: str
    a: int
    b: int


class CostLine(msgspec.Struct, frozen=True, kw_only=True):
    """What one transaction takes on average, under each design."""

    what: str
    mode: str
    a: float | None
    """None if the transaction fails."""
    b: float | None


class RealAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What real brokers of a release did in one run of a story."""

    release: str
    story_run: StoryRun
    """The run of the match."""
    played_run: str
    """That run of the story, or another one of its mode, which the release can play."""
    kinds: tuple[str, ...] = ()
    """Kinds of the anomalies that were found."""
    why_not: str = ""
    """Why there is no verdict; empty if there is one."""


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a match."""

    a: str
    """The text of the design."""
    b: str
    anomalies: tuple[AnomalyLine, ...]
    costs: tuple[CostLine, ...]
    refusals: tuple[Refusals, ...]
    played: dict[str, int]
    """Source -> number of pairs."""
    states: dict[str, int]
    """Side -> number of states of all searches."""
    failures: tuple[str, ...]
    """What plug-ins raised, and brokers because of them: there is no verdict on such a design."""
    other_ways: tuple[str, ...]
    """Stories that come otherwise than they expect under one design alone."""
    remarks: tuple[str, ...]
    """What was not played to its end."""
    is_complete: bool
    real_answers: tuple[RealAnswer, ...] = ()
    """What real releases did in stories of these anomalies."""

    def real_answers_on(self, anomaly: AnomalyLine) -> tuple[RealAnswer, ...]:
        """What real releases did in the stories in which a design has an anomaly."""
        return tuple(
            answer for answer in self.real_answers if answer.story_run in anomaly.story_runs
        )

    @property
    def differs(self) -> bool:
        """Whether any run has an anomaly on one side alone, or goes another way there."""
        return bool(self.other_ways) or any(line.only_a or line.only_b for line in self.anomalies)


def verdict_on(
    a: str, b: str, pairs: Iterable[Pair], costs: tuple[CostLine, ...], *, is_complete: bool
) -> Verdict:
    """Sum up a match.

    Args:
        a: The text of the first design.
        b: That of the second.
        pairs: All that was played.
        costs: What a transaction takes.
        is_complete: Whether all was played that was asked for.
    """
    played_pairs = sorted(pairs, key=_ease_key)
    kinds = {kind for pair in played_pairs for side in Side for kind in pair.side(side).sightings}
    errors = {error for pair in played_pairs for side in Side for error in pair.side(side).refusals}
    endless_stories = [
        pair
        for pair in played_pairs
        if pair.source is Source.STORY and pair.a.remark and pair.b.remark
    ]
    remarks = [
        f"{pair.label}, {side}: {remark}"
        for pair in played_pairs
        if pair not in endless_stories
        for side in Side
        for remark in (pair.side(side).remark,)
        if remark
    ]
    if endless_stories:
        label_list = ", ".join(f"{pair.name} {pair.run}" for pair in endless_stories)
        remarks.append(
            "runs of stories that come to their end under neither design, and say nothing:"
            f" {label_list}"
        )
    failure_texts = [
        f"{side}: {failure_text}"
        for side in Side
        for failure_text in dict.fromkeys(
            failure_text for pair in played_pairs for failure_text in pair.side(side).failures
        )
    ]
    return Verdict(
        a=a,
        b=b,
        anomalies=tuple(_anomaly_line(kind, played_pairs) for kind in sorted(kinds)),
        costs=costs,
        refusals=tuple(
            Refusals(
                error=error,
                a=sum(pair.a.refusals.get(error, 0) for pair in played_pairs),
                b=sum(pair.b.refusals.get(error, 0) for pair in played_pairs),
            )
            for error in sorted(errors)
        ),
        played={
            source.value: sum(pair.source is source for pair in played_pairs) for source in Source
        },
        states={side.value: sum(pair.side(side).states for pair in played_pairs) for side in Side},
        failures=tuple(failure_texts),
        other_ways=tuple(
            f"{pair.label} goes another way on {side}: {pair.side(side).other_way}"
            for pair in played_pairs
            for side in Side
            if pair.side(side).other_way
        ),
        remarks=tuple(remarks),
        is_complete=is_complete
        and all(pair.side(side).is_complete for pair in played_pairs for side in Side),
    )


def _ease_key(pair: Pair) -> tuple[int, int, str]:
    return _SOURCES.index(pair.source), int(pair.name) if pair.name.isdigit() else 0, pair.name


def _anomaly_line(kind: str, pairs: list[Pair]) -> AnomalyLine:
    pairs_of_a = [
        pair for pair in pairs if kind in pair.a.sightings and kind not in pair.b.sightings
    ]
    pairs_of_b = [
        pair for pair in pairs if kind in pair.b.sightings and kind not in pair.a.sightings
    ]
    pairs_of_both = [
        pair for pair in pairs if kind in pair.a.sightings and kind in pair.b.sightings
    ]
    pairs_by_side = (
        ((Side.A, pairs_of_a), (Side.B, pairs_of_b))
        if pairs_of_a or pairs_of_b
        else ((Side.A, pairs_of_both),)
    )
    examples = [
        Example(side=side, pair=min(side_pairs, key=_length_of(kind, side)))
        for side, side_pairs in pairs_by_side
        if side_pairs
    ]
    return AnomalyLine(
        kind=kind,
        only_a=len(pairs_of_a),
        only_b=len(pairs_of_b),
        both=len(pairs_of_both),
        examples=tuple(examples),
        story_runs=tuple(
            (pair.name, pair.run)
            for pair in (*pairs_of_a, *pairs_of_b, *pairs_of_both)
            if pair.source is Source.STORY
        ),
    )


def _length_of(kind: str, side: Side) -> Callable[[Pair], tuple[int, int, int]]:
    """Sorts pairs by how easy their run is to follow: ways of explorations by their deviations, and
    seeds by their number.
    """

    def length(pair: Pair) -> tuple[int, int, int]:
        source, number, _ = _ease_key(pair)
        return source, pair.side(side).sightings[kind].deviations, number

    return length
