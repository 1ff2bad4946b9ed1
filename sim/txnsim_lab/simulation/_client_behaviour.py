"""Draws what clients and operators do, both correct and careless. Each function makes the acts of
one unit. What a client does when something goes wrong is its track's ``on_error``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec

from txnsim_lab.simulation import _defaults as defaults
from txnsim_lab.simulation._dice import Dice
from txnsim_lab.simulation.plan import Act, OnError, StepBody, Track

OPERATOR_NAME: Final = "operator"
READER_NAME: Final = "reader"
BYSTANDER_NAME: Final = "bystander"


class RunSetup(msgspec.Struct, frozen=True, kw_only=True):
    """What the plan of a run offers its actors: partitions, brokers, ids, features."""

    features: frozenset[str]
    partitions: tuple[str, ...]
    """Partitions of the topics, as ``t-0``."""
    broker_count: int
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

    def __init__(self, dice: Dice, actor_name: str, unit_number: int) -> None:
        self.acts: list[Act] = []
        self._dice = dice
        self._actor_name = actor_name
        self._unit_number = unit_number

    def add(self, step: StepBody, *, habit: str = "", after_ms: int | None = None) -> None:
        """Add an act, after a drawn pause unless one is given."""
        pause_ms = self._dice.up_to(defaults.PAUSES_MS) if after_ms is None else after_ms
        self.acts.append(Act(step, pause_ms, self._unit_number, habit))

    def call(
        self, do: str, *, habit: str = "", after_ms: int | None = None, **arguments: Any
    ) -> None:
        """Add a call of this client."""
        call_fields = {
            field_name.replace("_", "-"): field_value
            for field_name, field_value in arguments.items()
        }
        self.add(
            {"call": {"who": self._actor_name, "do": do, **call_fields}},
            habit=habit,
            after_ms=after_ms,
        )


# Clients


def application(dice: Dice, run_setup: RunSetup, actor_name: str, transactional_id: str) -> Track:
    """A track of an application that uses its client library correctly."""
    acts: list[Act] = []
    for transaction_number in range(1, dice.pick_weighted(defaults.TRANSACTION_COUNTS) + 1):
        unit = UnitOfWork(dice, actor_name, transaction_number)
        unit.call("begin")
        for record_number in range(dice.pick_weighted(defaults.RECORD_COUNTS)):
            record_value = f"{actor_name}.{transaction_number}.{record_number}"
            unit.call("send", partition=dice.pick(run_setup.partitions), value=record_value)
            unit.call("await-ack", after_ms=0)
        if run_setup.has("long-transactions") and dice.happens(0.3):
            unit.call(_end_call(dice), habit="long-transactions", after_ms=_long_pause_ms(dice))
        else:
            unit.call(_end_call(dice))
        acts += unit.acts
    actor = {"plays": "application", "transactional-id": transactional_id}
    return Track(actor_name, tuple(acts), actor, "abort")


def wire(dice: Dice, run_setup: RunSetup, actor_name: str, transactional_id: str) -> Track:
    """A track of a client that sends requests one by one, as careless clients do."""
    first_unit = UnitOfWork(dice, actor_name, 0)
    first_unit.call("init-producer-id")
    acts = first_unit.acts
    for transaction_number in range(1, dice.pick_weighted(defaults.TRANSACTION_COUNTS) + 1):
        acts += _wire_unit(dice, run_setup, actor_name, transaction_number)
    actor = {
        "plays": "wire",
        "transactional-id": transactional_id,
        "transaction-timeout": f"{dice.pick_weighted(defaults.TIMEOUTS_S)}s",
    }
    error_reactions: tuple[OnError, ...] = ("go-on", "abort", "anew", "leave")
    return Track(actor_name, tuple(acts), actor, dice.pick(error_reactions))


def _wire_unit(dice: Dice, run_setup: RunSetup, actor_name: str, unit_number: int) -> list[Act]:
    unit = UnitOfWork(dice, actor_name, unit_number)
    if run_setup.has("bumps") and dice.happens(0.2):
        unit.call("init-producer-id", habit="bumps", bump=True)
    unit.call("begin")
    partitions = dice.pick_several(run_setup.partitions, dice.pick_weighted(defaults.RECORD_COUNTS))
    habit = _add_partitions(dice, run_setup, unit, partitions)
    if run_setup.has("zombie") and dice.happens(0.25):
        unit.add({"observe": "everything"}, habit="zombie", after_ms=_long_pause_ms(dice))
    is_given_up = False
    for record_number, partition in enumerate(partitions):
        record_value = f"{actor_name}.{unit_number}.{record_number}"
        is_given_up |= _produce(dice, run_setup, unit, partition, record_value, habit=habit)
    _end_wire_transaction(dice, run_setup, unit, is_given_up=is_given_up)
    return unit.acts


def _add_partitions(
    dice: Dice, run_setup: RunSetup, unit: UnitOfWork, partitions: Sequence[str]
) -> str:
    """AddPartitionsToTxn if needed, or a habit's deviation; returns the records' habit."""
    if run_setup.is_v2:
        if run_setup.has("needless-adds") and dice.happens(0.3):
            unit.call(
                "add-partitions", habit="needless-adds", partitions=[*partitions], always=True
            )
        return ""
    if run_setup.has("no-adds") and dice.happens(0.2):
        return "no-adds"
    if run_setup.has("impatient") and dice.happens(0.4):
        unit.call("add-partitions", habit="impatient", partitions=[*partitions], once=True)
    unit.call("add-partitions", partitions=[*partitions])
    return ""


def _produce(
    dice: Dice,
    run_setup: RunSetup,
    unit: UnitOfWork,
    partition: str,
    record_value: str,
    *,
    habit: str = "",
) -> bool:
    """Add a call with one record; returns whether the track goes on without its answer."""
    call_fields: StepBody = {"partition": partition, "value": record_value}
    if run_setup.has("plain-records") and dice.happens(0.2):
        unit.call("produce", habit="plain-records", plain=True, **call_fields)
        return False
    if run_setup.has("wrong-broker") and dice.happens(0.15):
        broker = dice.pick(range(1, run_setup.broker_count + 1))
        unit.call("produce", habit="wrong-broker", broker=broker, once=True, **call_fields)
        return False
    if run_setup.has("other-identity") and dice.happens(0.2):
        other_actor = dice.pick([f"w{wire_number}" for wire_number in range(1, 4)])
        unit.call("produce", habit="other-identity", first_identity_of=other_actor, **call_fields)
        return False
    if run_setup.has("gives-up") and dice.happens(0.3):
        unit.call("produce", habit="gives-up", background=f"late {record_value}", **call_fields)
        if dice.happens(0.7):
            unit.add({"give-up": f"late {record_value}"}, habit="gives-up")
        return True
    unit.call("produce", habit=habit, **call_fields)
    return False


def _end_wire_transaction(
    dice: Dice, run_setup: RunSetup, unit: UnitOfWork, *, is_given_up: bool
) -> None:
    end_call = _end_call(dice)
    if is_given_up and dice.happens(0.7):
        end_call = "abort"  # what was not answered can't be committed
    call_fields: StepBody = {}
    habit = ""
    if run_setup.has("ends-elsewhere") and dice.happens(0.4):
        habit, call_fields = "ends-elsewhere", {"connection": "another"}
    if run_setup.has("unknown-end") and dice.happens(0.35):
        call_name = f"end {dice.up_to(((1_000_000, 1),))}"
        unit.call(end_call, habit="unknown-end", background=call_name, **call_fields)
        unit.add({"give-up": call_name}, habit="unknown-end")
        if dice.happens(0.4):
            unit.call("init-producer-id", habit="unknown-end")
        return
    if run_setup.has("long-transactions") and dice.happens(0.3):
        unit.call(end_call, habit="long-transactions", after_ms=_long_pause_ms(dice), **call_fields)
        return
    unit.call(end_call, habit=habit, **call_fields)


def _end_call(dice: Dice) -> str:
    return "commit" if dice.happens(defaults.COMMIT_PROBABILITY) else "abort"


def _long_pause_ms(dice: Dice) -> int:
    return dice.up_to(defaults.LONG_PAUSES_MS)


# Groups


def group(dice: Dice, run_setup: RunSetup, group_number: int) -> Iterator[Track]:
    """Tracks of members that poll, and of a producer that commits their positions in
    transactions.
    """
    group_name = f"g{group_number}"
    group_protocol = "consumer" if run_setup.has("new-protocol") else "classic"
    for member_number in range(1, dice.pick_weighted(((1, 0.4), (2, 0.6))) + 1):
        member, producer = f"m{group_number}{member_number}", f"p{group_number}{member_number}"
        actor: StepBody = {"plays": "member", "group": group_name, "group-protocol": group_protocol}
        if run_setup.has("static-members"):
            actor["instance-id"] = f"{group_name}-{member_number}"
        yield Track(member, tuple(_member_acts(dice, run_setup, member)), actor)
        yield Track(
            producer,
            tuple(_transform_acts(dice, run_setup, producer, member, group_name)),
            {"plays": "wire", "transactional-id": producer, "transaction-timeout": "20s"},
            dice.pick(("abort", "anew", "go-on")),
        )


def _member_acts(dice: Dice, run_setup: RunSetup, actor_name: str) -> Iterator[Act]:
    for unit_number in range(1, dice.pick_weighted(defaults.TRANSACTION_COUNTS) + 1):
        unit = UnitOfWork(dice, actor_name, unit_number)
        if unit_number == 1:
            unit.call("subscribe", topics=[*run_setup.inputs], generation=f"{actor_name} first")
        unit.call("poll")
        if run_setup.has("members-die") and dice.happens(0.2):
            unit.call(dice.pick(("die", "leave", "stand-still")), habit="members-die")
            unit.call("subscribe", habit="members-die", topics=[*run_setup.inputs])
        elif dice.happens(0.2):
            unit.call("commit-offsets")
        yield from unit.acts


def _transform_acts(
    dice: Dice, run_setup: RunSetup, actor_name: str, member: str, group_id: str
) -> Iterator[Act]:
    first_unit = UnitOfWork(dice, actor_name, 0)
    first_unit.call("init-producer-id", after_ms=dice.up_to(((3_000, 1),)))
    yield from first_unit.acts
    for unit_number in range(1, dice.pick_weighted(defaults.TRANSACTION_COUNTS) + 1):
        unit = UnitOfWork(dice, actor_name, unit_number)
        unit.call("begin")
        if dice.happens(0.6):
            partition = dice.pick(run_setup.partitions)
            habit = _add_partitions(dice, run_setup, unit, [partition])
            unit.call(
                "produce", habit=habit, partition=partition, value=f"{actor_name}.{unit_number}"
            )
        if not run_setup.is_v2:
            unit.call("add-offsets", group=group_id)
        commit_fields: StepBody = {"member": member}
        habit = ""
        if run_setup.has("members-behind") and dice.happens(0.3):
            habit, commit_fields = (
                "members-behind",
                {"member": member, "generation": f"{member} first"},
            )
        unit.call("commit-offsets", habit=habit, **commit_fields)
        _end_wire_transaction(dice, run_setup, unit, is_given_up=False)
        yield from unit.acts


# Others


def bystander(dice: Dice, run_setup: RunSetup) -> Track:
    """A track that writes records outside of transactions."""
    acts: list[Act] = []
    for unit_number in range(1, dice.pick_weighted(defaults.TRANSACTION_COUNTS) * 2 + 1):
        unit = UnitOfWork(dice, BYSTANDER_NAME, unit_number)
        partition = dice.pick(run_setup.partitions)
        unit.call("append", partition=partition, value=f"b{unit_number}", key=f"k{unit_number % 3}")
        acts += unit.acts
    return Track(BYSTANDER_NAME, tuple(acts))


def reader(dice: Dice, run_setup: RunSetup) -> Track:
    """A track that reads from its last position."""
    acts: list[Act] = []
    for unit_number in range(1, dice.pick_weighted(defaults.TRANSACTION_COUNTS) * 2 + 1):
        unit = UnitOfWork(dice, READER_NAME, unit_number)
        unit.call("read", partition=dice.pick(run_setup.partitions))
        acts += unit.acts
    return Track(READER_NAME, tuple(acts))


def monitor(
    dice: Dice, actor_name: str, groups: Sequence[str], partitions: Sequence[str], *, habit: str
) -> Track:
    """A track that watches the positions of groups as monitoring tools do, without
    require-stable.
    """
    acts: list[Act] = []
    for unit_number in range(1, dice.pick_weighted(defaults.TRANSACTION_COUNTS) * 2 + 1):
        unit = UnitOfWork(dice, actor_name, unit_number)
        call_fields: StepBody = {"group": dice.pick(groups), "partitions": [*partitions]}
        unit.call("read-positions", habit=habit, **call_fields)
        acts += unit.acts
    return Track(actor_name, tuple(acts), {"plays": "reader"})


def operator(dice: Dice, run_setup: RunSetup) -> Track:
    """A track of an operator, who sometimes makes mistakes."""
    habits = [feature_name for feature_name in _OPERATOR_FEATURES if run_setup.has(feature_name)]
    acts: list[Act] = []
    for unit_number in range(1, dice.pick_weighted(defaults.TRANSACTION_COUNTS) + 1):
        unit = UnitOfWork(dice, OPERATOR_NAME, unit_number)
        feature = dice.pick(habits)
        after_ms = dice.up_to(defaults.DISTURBANCE_PAUSES_MS)
        for call in _operator_calls(dice, run_setup, feature):
            do = call.pop("do")
            unit.call(do, habit=feature, after_ms=after_ms, **call)
        acts += unit.acts
    return Track(OPERATOR_NAME, tuple(acts))


_OPERATOR_FEATURES: Final = (
    "operator-looks",
    "operator-aborts",
    "operator-errs",
    "operator-fences",
    "delete-records",
    "feature-levels",
)


def has_operator(run_setup: RunSetup) -> bool:
    return any(run_setup.has(feature_name) for feature_name in _OPERATOR_FEATURES)


def _operator_calls(dice: Dice, run_setup: RunSetup, feature: str) -> tuple[StepBody, ...]:
    partition = dice.pick(run_setup.partitions)
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
            return ({"do": "fence", "transactional_id": dice.pick(run_setup.ids)},)
        case "delete-records":
            before_offset = dice.up_to(((12, 1),))
            return ({"do": "delete-records", "partition": partition, "before": before_offset},)
    feature_level = dice.pick((0, 1, 2))
    return ({"do": "update-feature", "name": "transaction.version", "level": feature_level},)
