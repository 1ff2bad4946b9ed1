"""Draws share groups from a random stream of their own (KIP-932): members with all kinds of
acknowledgements, small limits, and a writer whose transactions are larger than these limits.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from txnsim_lab.simulation import _defaults as defaults
from txnsim_lab.simulation._client_behaviour import UnitOfWork
from txnsim_lab.simulation._dice import Dice
from txnsim_lab.simulation.plan import Act, StepBody, Track, World

SHARE_GROUPS_FEATURE: Final = "share-groups"
ADMIN_ACTOR: Final = "share-admin"
WRITER_ACTOR: Final = "share-writer"
RECORD_LOCKS_SETTING: Final = "group.share.partition.max.record.locks"
_SHARE_SETTINGS: Final = {
    "group.share.min.record.lock.duration.ms": 1_000,
    "group.share.record.lock.duration.ms": 1_000,
    "group.share.min.delivery.count.limit": 2,
}


def with_share_groups(
    dice: Dice, world: World, partitions: Sequence[str]
) -> tuple[World, tuple[Track, ...]]:
    """The world with settings for share groups, and the tracks of the groups, their operator and a
    writer.
    """
    group_names = [
        f"s{group_number}"
        for group_number in range(1, dice.pick_weighted(defaults.SHARE_GROUP_COUNTS) + 1)
    ]
    settings: StepBody = {
        **world.settings,
        **_SHARE_SETTINGS,
        "group.share.record.lock.duration.ms": dice.pick_weighted(defaults.LOCK_DURATIONS_MS),
        RECORD_LOCKS_SETTING: dice.pick_weighted(defaults.RECORD_LOCK_LIMITS),
    }
    inputs = sorted({partition.rpartition("-")[0] for partition in partitions})
    tracks = [Track(ADMIN_ACTOR, tuple(_group_configs(dice, group_names)), {"plays": "operator"})]
    for group_name in group_names:
        for member_number in range(1, dice.pick_weighted(defaults.SHARE_MEMBER_COUNTS) + 1):
            member = f"{group_name}m{member_number}"
            actor = {"plays": "share-member", "group": group_name}
            tracks.append(Track(member, tuple(_member_acts(dice, member, inputs)), actor))
    if dice.happens(defaults.LARGE_TRANSACTIONS_SHARE):
        actor = {"plays": "wire", "transactional-id": WRITER_ACTOR, "transaction-timeout": "20s"}
        tracks.append(Track(WRITER_ACTOR, tuple(_writer_acts(dice, partitions)), actor, "anew"))
    return msgspec.structs.replace(world, settings=settings), tuple(tracks)


def _group_configs(dice: Dice, groups: Sequence[str]) -> Iterator[Act]:
    """Set the configs of the groups before their members join."""
    for unit_number, group in enumerate(groups, 1):
        unit = UnitOfWork(dice, ADMIN_ACTOR, unit_number)
        configs = {
            "share.auto.offset.reset": "earliest",
            "share.isolation.level": dice.pick_weighted(defaults.SHARE_ISOLATIONS),
            "share.delivery.count.limit": str(dice.pick_weighted(defaults.DELIVERY_LIMITS)),
        }
        for config_name, config_value in configs.items():
            unit.call(
                "configure-group",
                habit=SHARE_GROUPS_FEATURE,
                after_ms=0,
                group=group,
                name=config_name,
                value=config_value,
            )
        yield from unit.acts


def _member_acts(dice: Dice, actor_name: str, topics: Sequence[str]) -> Iterator[Act]:
    for poll_number in range(1, dice.pick_weighted(defaults.SHARE_POLL_COUNTS) + 1):
        unit = UnitOfWork(dice, actor_name, poll_number)
        if poll_number == 1:
            unit.call("subscribe", habit=SHARE_GROUPS_FEATURE, after_ms=100, topics=[*topics])
        unit.call("poll", habit=SHARE_GROUPS_FEATURE)
        if dice.happens(defaults.ACKNOWLEDGE_PROBABILITY):
            call_fields: StepBody = {"as": dice.pick_weighted(defaults.ACKNOWLEDGE_TYPES)}
            unit.call("acknowledge", habit=SHARE_GROUPS_FEATURE, **call_fields)
        if dice.happens(defaults.MEMBER_RESTART_PROBABILITY):
            unit.call(dice.pick(("die", "leave")), habit=SHARE_GROUPS_FEATURE)
            unit.call("subscribe", habit=SHARE_GROUPS_FEATURE, topics=[*topics])
        yield from unit.acts


def _writer_acts(dice: Dice, partitions: Sequence[str]) -> Iterator[Act]:
    """Transactions with more records than a group may acquire; most of them abort."""
    for transaction_number in range(1, dice.pick_weighted(defaults.TRANSACTION_COUNTS) + 1):
        unit = UnitOfWork(dice, WRITER_ACTOR, transaction_number)
        if transaction_number == 1:
            unit.call("init-producer-id", habit=SHARE_GROUPS_FEATURE)
        unit.call("begin", habit=SHARE_GROUPS_FEATURE)
        partition, record_count = (
            dice.pick(partitions),
            dice.pick_weighted(defaults.LARGE_RECORD_COUNTS),
        )
        unit.call("add-partitions", habit=SHARE_GROUPS_FEATURE, partitions=[partition])
        values = [
            f"{WRITER_ACTOR}.{transaction_number}.{record_number}"
            for record_number in range(record_count)
        ]
        unit.call("produce", habit=SHARE_GROUPS_FEATURE, partition=partition, values=values)
        unit.call("abort" if dice.happens(0.7) else "commit", habit=SHARE_GROUPS_FEATURE)
        yield from unit.acts
