"""Draws what clients and operators do, both correct and careless. Each function makes the acts of
one unit. What a client does when something goes wrong is its track's ``on_error``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec

from txnsim_lab.simulation import _defaults as defaults
from txnsim_lab.simulation._dice import Dice
from txnsim_lab.simulation._plan import Act, Body, OnError, Track

OPERATOR: Final = "operator"
READER: Final = "reader"
BYSTANDER: Final = "bystander"


class Scene(msgspec.Struct, frozen=True, kw_only=True):
    """What an actor finds in the run: partitions, brokers, ids, features."""

    features: frozenset[str]
    places: tuple[str, ...]
    """Partitions of the topics, as ``t-0``."""
    brokers: int
    is_v2: bool
    """Whether the cluster begins with transactions v2."""
    ids: tuple[str, ...]
    """Transactional ids of clients."""
    inputs: tuple[str, ...] = ()
    """Topics that groups read."""
    groups: tuple[str, ...] = ()

    def has(self, feature: str) -> bool:
        return feature in self.features


class UnitOfWork:
    """Collects the acts of one unit."""

    def __init__(self, dice: Dice, who: str, number: int) -> None:
        self.acts: list[Act] = []
        self._dice = dice
        self._who = who
        self._number = number

    def add(self, step: Body, *, habit: str = "", after_ms: int | None = None) -> None:
        """Add an act, after a drawn pause unless one is given."""
        pause_ms = self._dice.up_to(defaults.PAUSES_MS) if after_ms is None else after_ms
        self.acts.append(Act(step, pause_ms, self._number, habit))

    def call(self, do: str, *, habit: str = "", after_ms: int | None = None, **fields: Any) -> None:
        """Add a call of this client."""
        call_fields = {name.replace("_", "-"): value for name, value in fields.items()}
        self.add(
            {"call": {"who": self._who, "do": do, **call_fields}}, habit=habit, after_ms=after_ms
        )


# Clients


def application(dice: Dice, scene: Scene, name: str, transactional_id: str) -> Track:
    """A track of an application that uses its client library correctly."""
    acts: list[Act] = []
    for number in range(1, dice.pick_weighted(defaults.TRANSACTIONS) + 1):
        unit = UnitOfWork(dice, name, number)
        unit.call("begin")
        for record in range(dice.pick_weighted(defaults.RECORDS)):
            value = f"{name}.{number}.{record}"
            unit.call("send", partition=dice.pick(scene.places), value=value)
            unit.call("await-ack", after_ms=0)
        if scene.has("long-transactions") and dice.happens(0.3):
            unit.call(_end(dice), habit="long-transactions", after_ms=_long(dice))
        else:
            unit.call(_end(dice))
        acts += unit.acts
    actor = {"plays": "application", "transactional-id": transactional_id}
    return Track(name, tuple(acts), actor, "abort")


def wire(dice: Dice, scene: Scene, name: str, transactional_id: str) -> Track:
    """A track of a client that sends requests one by one, as careless clients do."""
    first_unit = UnitOfWork(dice, name, 0)
    first_unit.call("init-producer-id")
    acts = first_unit.acts
    for number in range(1, dice.pick_weighted(defaults.TRANSACTIONS) + 1):
        acts += _wire_unit(dice, scene, name, number)
    actor = {
        "plays": "wire",
        "transactional-id": transactional_id,
        "transaction-timeout": f"{dice.pick_weighted(defaults.TIMEOUTS_S)}s",
    }
    manners: tuple[OnError, ...] = ("go-on", "abort", "anew", "leave")
    return Track(name, tuple(acts), actor, dice.pick(manners))


def _wire_unit(dice: Dice, scene: Scene, name: str, number: int) -> list[Act]:
    unit = UnitOfWork(dice, name, number)
    if scene.has("bumps") and dice.happens(0.2):
        unit.call("init-producer-id", habit="bumps", bump=True)
    unit.call("begin")
    places = dice.pick_several(scene.places, dice.pick_weighted(defaults.RECORDS))
    habit = _add(dice, scene, unit, places)
    if scene.has("zombie") and dice.happens(0.25):
        unit.add({"observe": "everything"}, habit="zombie", after_ms=_long(dice))
    given_up = False
    for record, partition in enumerate(places):
        value = f"{name}.{number}.{record}"
        given_up |= _produce(dice, scene, unit, partition, value, habit=habit)
    _end_of_wire(dice, scene, unit, given_up=given_up)
    return unit.acts


def _add(dice: Dice, scene: Scene, unit: UnitOfWork, places: Sequence[str]) -> str:
    """AddPartitionsToTxn if needed, or a habit's deviation; returns the records' habit."""
    if scene.is_v2:
        if scene.has("needless-adds") and dice.happens(0.3):
            unit.call("add-partitions", habit="needless-adds", partitions=[*places], always=True)
        return ""
    if scene.has("no-adds") and dice.happens(0.2):
        return "no-adds"
    if scene.has("impatient") and dice.happens(0.4):
        unit.call("add-partitions", habit="impatient", partitions=[*places], once=True)
    unit.call("add-partitions", partitions=[*places])
    return ""


def _produce(
    dice: Dice, scene: Scene, unit: UnitOfWork, partition: str, value: str, *, habit: str = ""
) -> bool:
    """Add a call with one record; returns whether the track goes on without its answer."""
    fields: Body = {"partition": partition, "value": value}
    if scene.has("plain-records") and dice.happens(0.2):
        unit.call("produce", habit="plain-records", plain=True, **fields)
        return False
    if scene.has("wrong-broker") and dice.happens(0.15):
        broker = dice.pick(range(1, scene.brokers + 1))
        unit.call("produce", habit="wrong-broker", broker=broker, once=True, **fields)
        return False
    if scene.has("other-identity") and dice.happens(0.2):
        other = dice.pick([f"w{index}" for index in range(1, 4)])
        unit.call("produce", habit="other-identity", first_identity_of=other, **fields)
        return False
    if scene.has("gives-up") and dice.happens(0.3):
        unit.call("produce", habit="gives-up", background=f"late {value}", **fields)
        if dice.happens(0.7):
            unit.add({"give-up": f"late {value}"}, habit="gives-up")
        return True
    unit.call("produce", habit=habit, **fields)
    return False


def _end_of_wire(dice: Dice, scene: Scene, unit: UnitOfWork, *, given_up: bool) -> None:
    end = _end(dice)
    if given_up and dice.happens(0.7):
        end = "abort"  # what was not answered can't be committed
    fields: Body = {}
    habit = ""
    if scene.has("ends-elsewhere") and dice.happens(0.4):
        habit, fields = "ends-elsewhere", {"connection": "another"}
    if scene.has("unknown-end") and dice.happens(0.35):
        name = f"end {dice.up_to(((1_000_000, 1),))}"
        unit.call(end, habit="unknown-end", background=name, **fields)
        unit.add({"give-up": name}, habit="unknown-end")
        if dice.happens(0.4):
            unit.call("init-producer-id", habit="unknown-end")
        return
    if scene.has("long-transactions") and dice.happens(0.3):
        unit.call(end, habit="long-transactions", after_ms=_long(dice), **fields)
        return
    unit.call(end, habit=habit, **fields)


def _end(dice: Dice) -> str:
    return "commit" if dice.happens(defaults.COMMITTED) else "abort"


def _long(dice: Dice) -> int:
    return dice.up_to(defaults.LONG_PAUSES_MS)


# Groups


def group(dice: Dice, scene: Scene, number: int) -> Iterator[Track]:
    """Tracks of members that poll, and of a producer that commits their positions in
    transactions.
    """
    name = f"g{number}"
    protocol = "consumer" if scene.has("new-protocol") else "classic"
    for index in range(1, dice.pick_weighted(((1, 0.4), (2, 0.6))) + 1):
        member, producer = f"m{number}{index}", f"p{number}{index}"
        actor: Body = {"plays": "member", "group": name, "group-protocol": protocol}
        if scene.has("static-members"):
            actor["instance-id"] = f"{name}-{index}"
        yield Track(member, tuple(_member(dice, scene, member)), actor)
        yield Track(
            producer,
            tuple(_transform(dice, scene, producer, member, name)),
            {"plays": "wire", "transactional-id": producer, "transaction-timeout": "20s"},
            dice.pick(("abort", "anew", "go-on")),
        )


def _member(dice: Dice, scene: Scene, name: str) -> Iterator[Act]:
    for number in range(1, dice.pick_weighted(defaults.TRANSACTIONS) + 1):
        unit = UnitOfWork(dice, name, number)
        if number == 1:
            unit.call("subscribe", topics=[*scene.inputs], generation=f"{name} first")
        unit.call("poll")
        if scene.has("members-die") and dice.happens(0.2):
            unit.call(dice.pick(("die", "leave", "stand-still")), habit="members-die")
            unit.call("subscribe", habit="members-die", topics=[*scene.inputs])
        elif dice.happens(0.2):
            unit.call("commit-offsets")
        yield from unit.acts


def _transform(dice: Dice, scene: Scene, name: str, member: str, group_id: str) -> Iterator[Act]:
    first_unit = UnitOfWork(dice, name, 0)
    first_unit.call("init-producer-id", after_ms=dice.up_to(((3_000, 1),)))
    yield from first_unit.acts
    for number in range(1, dice.pick_weighted(defaults.TRANSACTIONS) + 1):
        unit = UnitOfWork(dice, name, number)
        unit.call("begin")
        if dice.happens(0.6):
            partition = dice.pick(scene.places)
            habit = _add(dice, scene, unit, [partition])
            unit.call("produce", habit=habit, partition=partition, value=f"{name}.{number}")
        if not scene.is_v2:
            unit.call("add-offsets", group=group_id)
        fields: Body = {"member": member}
        habit = ""
        if scene.has("members-behind") and dice.happens(0.3):
            habit, fields = "members-behind", {"member": member, "generation": f"{member} first"}
        unit.call("commit-offsets", habit=habit, **fields)
        _end_of_wire(dice, scene, unit, given_up=False)
        yield from unit.acts


# Others


def bystander(dice: Dice, scene: Scene) -> Track:
    """A track that writes records outside of transactions."""
    acts: list[Act] = []
    for number in range(1, dice.pick_weighted(defaults.TRANSACTIONS) * 2 + 1):
        unit = UnitOfWork(dice, BYSTANDER, number)
        partition = dice.pick(scene.places)
        unit.call("append", partition=partition, value=f"b{number}", key=f"k{number % 3}")
        acts += unit.acts
    return Track(BYSTANDER, tuple(acts))


def reader(dice: Dice, scene: Scene) -> Track:
    """A track that reads from its last position."""
    acts: list[Act] = []
    for number in range(1, dice.pick_weighted(defaults.TRANSACTIONS) * 2 + 1):
        unit = UnitOfWork(dice, READER, number)
        unit.call("read", partition=dice.pick(scene.places))
        acts += unit.acts
    return Track(READER, tuple(acts))


def monitor(
    dice: Dice, name: str, groups: Sequence[str], places: Sequence[str], *, habit: str
) -> Track:
    """A track that watches the positions of groups as monitoring tools do, without
    require-stable.
    """
    acts: list[Act] = []
    for number in range(1, dice.pick_weighted(defaults.TRANSACTIONS) * 2 + 1):
        unit = UnitOfWork(dice, name, number)
        fields: Body = {"group": dice.pick(groups), "partitions": [*places]}
        unit.call("read-positions", habit=habit, **fields)
        acts += unit.acts
    return Track(name, tuple(acts), {"plays": "reader"})


def operator(dice: Dice, scene: Scene) -> Track:
    """A track of an operator, who sometimes makes mistakes."""
    habits = [name for name in _OPERATOR if scene.has(name)]
    acts: list[Act] = []
    for number in range(1, dice.pick_weighted(defaults.TRANSACTIONS) + 1):
        unit = UnitOfWork(dice, OPERATOR, number)
        feature = dice.pick(habits)
        after_ms = dice.up_to(defaults.DISTURBANCE_PAUSES_MS)
        for call in _operator_calls(dice, scene, feature):
            do = call.pop("do")
            unit.call(do, habit=feature, after_ms=after_ms, **call)
        acts += unit.acts
    return Track(OPERATOR, tuple(acts))


_OPERATOR: Final = (
    "operator-looks",
    "operator-aborts",
    "operator-errs",
    "operator-fences",
    "delete-records",
    "feature-levels",
)


def has_operator(scene: Scene) -> bool:
    return any(scene.has(name) for name in _OPERATOR)


def _operator_calls(dice: Dice, scene: Scene, feature: str) -> tuple[Body, ...]:
    partition = dice.pick(scene.places)
    match feature:
        case "operator-looks":
            return {"do": "find-hanging"}, {"do": "producers", "partition": partition}
        case "operator-aborts":
            return {"do": "find-hanging"}, {"do": "abort-found"}
        case "operator-errs":
            return (
                {"do": "abort", "partition": partition, "start_offset": dice.up_to(((12, 1),))},
            )
        case "operator-fences":
            return ({"do": "fence", "transactional_id": dice.pick(scene.ids)},)
        case "delete-records":
            before_offset = dice.up_to(((12, 1),))
            return ({"do": "delete-records", "partition": partition, "before": before_offset},)
    level = dice.pick((0, 1, 2))
    return ({"do": "update-feature", "name": "transaction.version", "level": level},)
