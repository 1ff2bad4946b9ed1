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
from txnsim_lab.simulation._plan import Act, Body, Track, World

SHARED: Final = "share-groups"
HOST: Final = "share-admin"
WRITER: Final = "share-writer"
RECORD_LOCKS: Final = "group.share.partition.max.record.locks"
_SETTINGS: Final = {
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
        for group_number in range(1, dice.pick_weighted(defaults.SHARE_GROUPS) + 1)
    ]
    settings: Body = {
        **world.settings,
        **_SETTINGS,
        "group.share.record.lock.duration.ms": dice.pick_weighted(defaults.LOCKS_MS),
        RECORD_LOCKS: dice.pick_weighted(defaults.RECORD_LOCKS),
    }
    inputs = sorted({partition.rpartition("-")[0] for partition in partitions})
    tracks = [Track(HOST, tuple(_group_configs(dice, group_names)), {"plays": "operator"})]
    for group_name in group_names:
        for member_number in range(1, dice.pick_weighted(defaults.SHARE_MEMBERS) + 1):
            member = f"{group_name}m{member_number}"
            actor = {"plays": "share-member", "group": group_name}
            tracks.append(Track(member, tuple(_member(dice, member, inputs)), actor))
    if dice.happens(defaults.LARGE_TRANSACTIONS):
        actor = {"plays": "wire", "transactional-id": WRITER, "transaction-timeout": "20s"}
        tracks.append(Track(WRITER, tuple(_writer(dice, partitions)), actor, "anew"))
    return msgspec.structs.replace(world, settings=settings), tuple(tracks)


def _group_configs(dice: Dice, groups: Sequence[str]) -> Iterator[Act]:
    """Set the configs of the groups before their members join."""
    for unit_number, group in enumerate(groups, 1):
        unit = UnitOfWork(dice, HOST, unit_number)
        configs = {
            "share.auto.offset.reset": "earliest",
            "share.isolation.level": dice.pick_weighted(defaults.SHARE_ISOLATIONS),
            "share.delivery.count.limit": str(dice.pick_weighted(defaults.DELIVERY_LIMITS)),
        }
        for config_name, config_value in configs.items():
            unit.call(
                "configure-group",
                habit=SHARED,
                after_ms=0,
                group=group,
                name=config_name,
                value=config_value,
            )
        yield from unit.acts


def _member(dice: Dice, actor_name: str, topics: Sequence[str]) -> Iterator[Act]:
    for poll_number in range(1, dice.pick_weighted(defaults.SHARE_POLLS) + 1):
        unit = UnitOfWork(dice, actor_name, poll_number)
        if poll_number == 1:
            unit.call("subscribe", habit=SHARED, after_ms=100, topics=[*topics])
        unit.call("poll", habit=SHARED)
        if dice.happens(defaults.SAYS_SOMETHING):
            call_fields: Body = {"as": dice.pick_weighted(defaults.ACKNOWLEDGED_AS)}
            unit.call("acknowledge", habit=SHARED, **call_fields)
        if dice.happens(defaults.COMES_AND_GOES):
            unit.call(dice.pick(("die", "leave")), habit=SHARED)
            unit.call("subscribe", habit=SHARED, topics=[*topics])
        yield from unit.acts


def _writer(dice: Dice, partitions: Sequence[str]) -> Iterator[Act]:
    """Transactions with more records than a group may acquire; most of them abort."""
    for transaction_number in range(1, dice.pick_weighted(defaults.TRANSACTIONS) + 1):
        unit = UnitOfWork(dice, WRITER, transaction_number)
        if transaction_number == 1:
            unit.call("init-producer-id", habit=SHARED)
        unit.call("begin", habit=SHARED)
        partition, record_count = dice.pick(partitions), dice.pick_weighted(defaults.LARGE)
        unit.call("add-partitions", habit=SHARED, partitions=[partition])
        values = [
            f"{WRITER}.{transaction_number}.{record_number}"
            for record_number in range(record_count)
        ]
        unit.call("produce", habit=SHARED, partition=partition, values=values)
        unit.call("abort" if dice.happens(0.7) else "commit", habit=SHARED)
        yield from unit.acts
