"""A plan: which kills, in which order, of which instance. Drawn from a seed; pure."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Final, NamedTuple

from tests.clients.streams.points import Point, RequestFate, Stage, Victim, points_at

INSTANCES: Final = ("a", "b")

NEVER_LEFT_OUT: Final = (Stage.BEFORE_END, Stage.PREPARED, Stage.BETWEEN)
"""Stages of which even a short plan has every way to die: an application, a broker."""


class Kill(NamedTuple):
    """One kill of a plan."""

    point: Point
    instance: str
    """Whose transaction is struck."""
    stays_dead: bool = False
    """The next kill strikes the same instance while it starts again."""


def plan_of(transaction_version: int, *, seed: int, kill_count: int) -> tuple[Kill, ...]:
    """The plan of a seed.

    Each point comes once before any comes again. A point that strikes a start follows a kill in
    the middle of a transaction.

    Args:
        transaction_version: Of ``transaction.version``.
        seed: Of order and instances.
        kill_count: How many, at least.
    """
    random_source = random.Random(f"{seed}/{transaction_version}")
    plan: list[Kill] = []
    while len(plan) < kill_count:
        plan += _round(
            transaction_version, kill_count=kill_count - len(plan), random_source=random_source
        )
    return tuple(plan)


def select_kills(plan: Sequence[Kill], point_words: str) -> tuple[Kill, ...]:
    """The kills whose point has these words in its name, and the deaths that they stand on."""
    selected_kills: list[Kill] = []
    for kill, next_kill in zip(plan, (*plan[1:], None), strict=True):
        is_followed = (
            kill.stays_dead and next_kill is not None and point_words in next_kill.point.name
        )
        if is_followed or point_words in kill.point.name:
            selected_kills.append(kill._replace(stays_dead=is_followed))
    return tuple(selected_kills)


def _round(
    transaction_version: int, *, kill_count: int, random_source: random.Random
) -> list[Kill]:
    """A kill at each point of the level, or at ``kill_count`` drawn points."""
    kills: list[Kill] = []
    points = _draw_points(
        points_at(transaction_version), point_count=kill_count, random_source=random_source
    )
    restart_points = [point for point in points if point.at_start]
    for point in points:
        if point.at_start:
            continue
        instance_id = random_source.choice(INSTANCES)
        is_followed = bool(restart_points) and _leaves_open(point)
        kills.append(Kill(point, instance_id, stays_dead=is_followed))
        if is_followed:
            kills.append(Kill(restart_points.pop(), instance_id))
    deaths = [point for point in points_at(transaction_version) if _leaves_open(point)]
    for restart_point in restart_points:  # nothing that was drawn leads to these
        instance_id = random_source.choice(INSTANCES)
        kills += [
            Kill(random_source.choice(deaths), instance_id, stays_dead=True),
            Kill(restart_point, instance_id),
        ]
    return kills


def _draw_points(
    points: Sequence[Point], *, point_count: int, random_source: random.Random
) -> list[Point]:
    """``point_count`` drawn points in random order, with all indispensable points."""
    shuffled = random_source.sample(points, len(points))
    indispensable_points: dict[tuple[Stage, bool], Point] = {}
    for point in shuffled:
        if point.stage in NEVER_LEFT_OUT:
            indispensable_points.setdefault(
                (point.stage, point.victim is Victim.APPLICATION), point
            )
    ordered_points = list(indispensable_points.values())
    ordered_points += [point for point in shuffled if point not in ordered_points]
    chosen_points = ordered_points[:point_count]
    return [point for point in shuffled if point in chosen_points]


def _leaves_open(point: Point) -> bool:
    """Whether a kill at the point leaves an open transaction of a dead application."""
    return (
        point.victim is Victim.APPLICATION
        and point.fate is RequestFate.LOST
        and point.states == ("Ongoing",)
    )
