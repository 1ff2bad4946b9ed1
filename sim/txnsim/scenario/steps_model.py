"""What a step of a scenario may say.

A step does exactly one thing: an actor's ``call``, an ``await`` or ``give-up`` of a call in the
background, something with faults (``hold``, ``arm``, ``release``, ``disarm``), something with the
``cluster``, ``advance``, ``wait-until``, ``expect`` or ``observe``.
"""

from __future__ import annotations

from typing import Final, Literal

from pydantic import Field, model_validator

from txnsim.faults.plan import FaultRule
from txnsim.scenario.fields import (
    ByRun,
    Content,
    Milliseconds,
    Model,
    Names,
    OffsetByRun,
    Offsets,
    Partition,
    Partitions,
    Rule,
)

ACTS: Final = (
    "call",
    "await_",
    "give_up",
    "hold",
    "arm",
    "release",
    "disarm",
    "cluster",
    "advance",
    "wait_until",
    "expect",
    "observe",
)

_IDENTITY: Final = ("producer_id", "epoch")
_SENT: Final = ("connection", "once", "background", "error")
_RECORDS: Final = ("value", "values", "key", "item")

CALLS: Final[dict[str, dict[str, tuple[tuple[str, ...], tuple[str, ...]]]]] = {
    "wire": {
        "init-producer-id": ((), ("bump", *_IDENTITY, *_SENT)),
        "begin": ((), ("transaction",)),
        "add-partitions": (("partitions",), ("always", *_IDENTITY, *_SENT)),
        "produce": (
            ("partition",),
            (*_RECORDS, "sequence", "plain", "offset", *_IDENTITY, *_SENT),
        ),
        "add-offsets": (("group",), ("always", *_IDENTITY, *_SENT)),
        "commit-offsets": (("group", "offsets"), (*_IDENTITY, *_SENT)),
        "commit": ((), (*_IDENTITY, *_SENT)),
        "abort": ((), (*_IDENTITY, *_SENT)),
    },
    "application": {
        "begin": ((), ("transaction",)),
        "send": (("partition", "value"), ("item",)),
        "await-ack": ((), ("error",)),
        "give-up": ((), ()),
        "commit": ((), ("error",)),
        "abort": ((), ("error",)),
    },
    "bystander": {
        "append": (("partition",), (*_RECORDS, "count", "keys", "offset", "error")),
    },
    "reader": {
        "read": (("partition",), ("from_", "reads", "uncommitted", "background", "error")),
        "read-positions": (("group", "partitions"), ("positions", "error")),
    },
    "operator": {
        "find-hanging": ((), ("names",)),
        "abort-found": ((), ()),
        "abort": (("partition", "start_offset"), ("error",)),
        "delete-records": (("partition", "before"), ("error",)),
        "fence": (("transactional_id",), ("error",)),
        "describe": (("transactional_id",), ("state", "error")),
        "producers": (("partition",), ()),
    },
}
"""Who plays what -> what it can be asked to do -> the fields that it needs and may have."""

CLUSTER: Final[dict[str, tuple[tuple[str, ...], tuple[str, ...]]]] = {
    "move-leader": (("to",), ("partition", "coordinator_of")),
    "reload-coordinator": (("coordinator_of",), ()),
    "stop": (("broker",), ()),
    "kill": (("broker",), ("lose_unflushed",)),
    "start": (("broker",), ()),
    "restart": (("broker",), ("lose_unflushed", "kill")),
    "isolate": (("broker",), ("from_clients",)),
    "heal": (("broker",), ()),
    "reassign": (("partition", "replicas"), ()),
    "configure": (("topic", "name"), ("value",)),
    "roll": (("partition",), ()),
    "clean": (("partition",), ()),
    "delete-old": (("partition",), ()),
}
"""What can be done to the cluster -> the fields that it needs and may have."""


class Call(Model):
    """Somebody does something; which fields there may be depends on who and what (``CALLS``)."""

    who: str
    do: str
    transaction: str | None = None
    """A name for the transaction, in the history and in verdicts; T1, T2… unless given."""
    bump: bool | None = None
    """InitProducerId with the identity in use, which raises its epoch (KIP-360)."""
    producer_id: int | None = None
    epoch: int | None = None
    partition: Partition | None = None
    partitions: Partitions | None = None
    value: str | None = None
    values: tuple[str, ...] | None = None
    key: Content | None = None
    item: str | None = None
    """The unit of work that the record stands for; its value unless given."""
    sequence: int | None = None
    plain: bool | None = None
    """Outside of any transaction."""
    always: bool | None = None
    """Also where a client of transactions v2 would not send it."""
    offset: OffsetByRun | None = None
    """Where the answer must say that the record is."""
    group: str | None = None
    offsets: Offsets | None = None
    positions: Offsets | None = None
    count: int | None = Field(default=None, ge=1)
    keys: int | None = Field(default=None, ge=1)
    from_: int | None = Field(default=None, alias="from", ge=0)
    reads: tuple[str, ...] | None = None
    uncommitted: bool | None = None
    names: Partitions | None = None
    start_offset: int | None = None
    before: int | None = None
    transactional_id: str | None = None
    state: str | None = None
    connection: str | None = None
    """Requests of one connection are handled one after the other; ``main`` unless given."""
    once: bool | None = None
    """Take the first answer, even where clients ask again."""
    background: str | None = None
    """Go on at once; the call is awaited under this name."""
    error: ByRun | None = None
    """The error that must be answered; NONE unless given."""

    @property
    def given(self) -> frozenset[str]:
        """The fields that were given, by the names of Python."""
        return frozenset(self.model_fields_set) - {"who", "do"}

    @property
    def records(self) -> tuple[str, ...]:
        """The values of all records."""
        return self.values if self.values is not None else (self.value or "",)


class ClusterAct(Model):
    """Something is done to the cluster; which fields there may be depends on what (``CLUSTER``)."""

    do: str
    partition: Partition | None = None
    coordinator_of: str | None = None
    """Instead of a partition: the one that keeps this transactional id."""
    to: int | None = None
    broker: int | None = None
    kill: bool | None = None
    lose_unflushed: bool | None = None
    from_clients: bool | None = None
    replicas: tuple[int, ...] | None = None
    topic: str | None = None
    name: str | None = None
    value: str | None = None

    @property
    def given(self) -> frozenset[str]:
        """The fields that were given, by the names of Python."""
        return frozenset(self.model_fields_set) - {"do"}


class TransactionIs(Model):
    """DescribeTransactions shows one of these states."""

    id: str
    is_: Names = Field(alias="is")


class Reaches(Model):
    """An offset of a partition, as a reader is told it."""

    partition: Partition
    offset: int


class LeaderIs(Model):
    """The leader that clients are told of."""

    partition: Partition
    is_: int = Field(alias="is")


class StruckTimes(Model):
    """A rule that must have struck more than once."""

    rule: str
    times: int = Field(ge=1)


CONDITIONS: Final = (
    "struck",
    "answered",
    "transaction",
    "marker",
    "open",
    "high_watermark",
    "stable",
    "leader",
    "in_sync",
)


class Condition(Model):
    """What is waited for; exactly one."""

    struck: str | StruckTimes | None = None
    """A fault rule has struck."""
    answered: str | None = None
    """A call in the background has its answer, or has failed."""
    transaction: TransactionIs | None = None
    marker: Partition | None = None
    """DescribeProducers shows a producer with a marker there, and no transaction open."""
    open: Partition | None = None
    """DescribeProducers shows an open transaction there."""
    high_watermark: Reaches | None = None
    stable: Reaches | None = None
    """The last stable offset."""
    leader: LeaderIs | None = None
    in_sync: Partition | None = None
    """All replicas are in sync."""

    @model_validator(mode="after")
    def _exactly_one(self) -> Condition:
        if sum(getattr(self, name) is not None for name in CONDITIONS) != 1:
            raise ValueError(f"expected exactly one of {_names(CONDITIONS)}")
        return self


class Expectation(Model):
    """What somebody outside must see now; at least one of these."""

    partition: Partition
    committed: tuple[str, ...] | None = None
    """Values that a read_committed reader gets from the beginning of the log."""
    uncommitted: tuple[str, ...] | None = None
    records: int | None = None
    """How many a read_uncommitted reader gets from the beginning of the log."""
    stable: int | None = None
    """The last stable offset."""
    high_watermark: int | None = None

    @model_validator(mode="after")
    def _at_least_one(self) -> Expectation:
        seen = (
            self.committed,
            self.uncommitted,
            self.records,
            self.stable,
            self.high_watermark,
        )
        if all(value is None for value in seen):
            raise ValueError(
                "expected one of committed, uncommitted, records, stable, high-watermark"
            )
        return self


class Awaited(Model):
    """A call in the background that must be over."""

    call: str
    error: ByRun | None = None
    """The error that must have been answered; NONE unless given, ``any`` for whatever it is."""
    offset: OffsetByRun | None = None


class Step(Model):
    """One step of a story."""

    say: str = ""
    only: Names = ()
    """Only in these runs, modes and takes; see ``meant_for``."""
    call: Call | None = None
    await_: str | Awaited | None = Field(default=None, alias="await")
    give_up: str | None = None
    """The client does not wait for this call any longer: its connection is closed."""
    hold: Rule | None = None
    arm: Rule | None = None
    release: str | None = None
    disarm: str | None = None
    cluster: ClusterAct | None = None
    advance: Milliseconds | None = None
    wait_until: Condition | None = None
    expect: Expectation | None = None
    observe: Literal["everything", "healed"] | None = None

    @model_validator(mode="after")
    def _exactly_one_act(self) -> Step:
        if sum(getattr(self, act) is not None for act in ACTS) != 1:
            raise ValueError(f"expected exactly one of {_names(ACTS)}")
        return self

    @property
    def rule(self) -> FaultRule | None:
        """The rule that it puts in force."""
        return self.hold if self.hold is not None else self.arm

    @property
    def struck(self) -> str | None:
        """The rule whose strike it waits for."""
        struck = None if self.wait_until is None else self.wait_until.struck
        return struck.rule if isinstance(struck, StruckTimes) else struck

    @property
    def is_about_faults(self) -> bool:
        """Whether it has no meaning where no fault is armed."""
        acts = (self.rule, self.release, self.disarm, self.struck, self.give_up)
        return any(act is not None for act in acts)


def _names(fields: tuple[str, ...]) -> str:
    return ", ".join(field.rstrip("_").replace("_", "-") for field in fields)
