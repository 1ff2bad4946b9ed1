"""What was added to runs after seeds were in use: drawn from a stream of its own, so that a seed
without any of it has the run that it had before.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import msgspec

from txnsim.releases import REFERENCE
from txnsim.simulation import defaults
from txnsim.simulation.dice import Dice
from txnsim.simulation.plan import CLUSTER, Act, Body, Plan, Track
from txnsim.types import PRODUCER_EPOCH_MAX

STREAM: Final = "later"
SHORT_EXPIRATIONS: Final = "short-expirations"
EXPIRATIONS: Final = (
    "transactional.id.expiration.ms",
    "producer.id.expiration.ms",
    "offsets.retention.minutes",
)
"""Settings of that feature."""


def with_later(plan: Plan, *, older: Sequence[str]) -> Plan:
    """The plan with what its seed has of these features.

    Args:
        plan: Without them.
        older: The releases from which its cluster can be upgraded.
    """
    dice = Dice(plan.seed, STREAM)
    features = dice.left_in(defaults.LATER_FEATURES)
    world, tracks = plan.world, plan.tracks
    if SHORT_EXPIRATIONS in features:
        settings = {**world.settings, **dict(_short_expirations(dice))}
        world = msgspec.structs.replace(world, settings=settings)
    if "long-lived-ids" in features:
        tracks = tuple(_long_lived(dice, track, tracks) for track in tracks)
    groups = sorted({one["group"] for one in _actors(tracks) if "group" in one})
    if "move-groups" in features and groups:
        tracks = (*tracks, Track(CLUSTER, tuple(_moved_groups(dice, world.brokers, groups))))
    else:
        features -= {"move-groups"}
    if "rolling-upgrade" in features and older:
        newest = world.as_version or REFERENCE.name
        world = msgspec.structs.replace(world, as_version=dice.one_of(older))
        tracks = (*tracks, Track(CLUSTER, tuple(_upgrade(dice, world.brokers, newest))))
    else:
        features -= {"rolling-upgrade"}
    return msgspec.structs.replace(
        plan,
        world=world,
        tracks=tracks,
        features=tuple(sorted({*plan.features, *features})),
    )


def _short_expirations(dice: Dice) -> Iterator[tuple[str, object]]:
    """Of ids, producers or positions that are not in use, as on a cluster that saves memory."""
    kinds: tuple[Body, ...] = (
        {
            EXPIRATIONS[0]: dice.weighted(defaults.EXPIRATIONS_MS),
            "transaction.remove.expired.transaction.cleanup.interval.ms": 5_000,
        },
        {
            EXPIRATIONS[1]: dice.weighted(defaults.EXPIRATIONS_MS),
            "producer.id.expiration.check.interval.ms": 5_000,
        },
        {EXPIRATIONS[2]: 1, "offsets.retention.check.interval.ms": 5_000},
    )
    for kind in kinds:
        if dice.happens(0.5):
            yield from kind.items()


def _long_lived(dice: Dice, track: Track, tracks: tuple[Track, ...]) -> Track:
    """Somebody whose id has ended so many transactions that its epochs come to their end."""
    own = (track.actor or {}).get("transactional-id")
    users = sum(one.get("transactional-id") == own for one in _actors(tracks))
    if own is None or users > 1 or not dice.happens(0.5):
        return track
    epoch = PRODUCER_EPOCH_MAX - 1 - dice.up_to(((8, 1),))
    step: Body = {"cluster": {"do": "age", "transactional-id": own, "epoch": epoch}}
    unit = max((one.unit for one in track.acts), default=0) + 1
    acts = (Act(step, 0, unit, "long-lived-ids"), *track.acts)
    return msgspec.structs.replace(track, acts=acts)


def _actors(tracks: Iterable[Track]) -> Iterator[Body]:
    return (track.actor for track in tracks if track.actor is not None)


def _moved_groups(dice: Dice, brokers: int, groups: Sequence[str]) -> Iterator[Act]:
    """The coordinators of groups move from broker to broker."""
    for unit in range(1, dice.weighted(defaults.DISTURBANCES) + 1):
        place = f"__consumer_offsets@{dice.one_of(groups)}"
        to = dice.one_of(range(1, brokers + 1))
        step: Body = {"cluster": {"do": "move-leader", "partition": place, "to": to}}
        yield Act(step, dice.up_to(defaults.DISTURBANCE_PAUSES_MS), unit, "move-groups")


def _upgrade(dice: Dice, brokers: int, newest: str) -> Iterator[Act]:
    """One broker after the other stops, and starts as the newer release."""
    for broker in range(1, brokers + 1):
        again: Body = {"do": "start", "broker": broker, "as-version": newest}
        for act, pauses in (
            ({"do": "stop", "broker": broker}, defaults.DISTURBANCE_PAUSES_MS),
            (again, defaults.OUTAGES_MS),
        ):
            yield Act({"cluster": act}, dice.up_to(pauses), broker, "rolling-upgrade")
