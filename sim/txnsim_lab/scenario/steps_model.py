"""What a step of a scenario may say.

A step does exactly one thing: an actor's ``call``, an ``await`` or ``give-up`` of a call in the
background, something with faults (``hold``, ``arm``, ``release``, ``disarm``), something with the
``cluster``, ``advance``, ``wait-until``, ``expect`` or ``observe``.
"""

from __future__ import annotations

from typing import ClassVar, Final, Literal, Self, TypeVar

from pydantic import Field, field_validator, model_validator

from txnsim.faults.rule import FaultRule
from txnsim.text import unknown
from txnsim.txn.state import TransactionState
from txnsim.types import PRODUCER_EPOCH_MAX, TopicPartition
from txnsim_lab.check.observations import Position
from txnsim_lab.scenario.fields import (
    ByRun,
    Content,
    FaultRuleField,
    Inputs,
    Milliseconds,
    Model,
    Names,
    OffsetByRun,
    Offsets,
    Only,
    Partition,
    Partitions,
    Values,
    ValuesByRun,
    ValuesOf,
)

T = TypeVar("T")

_STATES: Final = tuple(state.wire_name for state in TransactionState)
_PLACE: Final = "place "
_UNIT: Final = "unit "
"""Names that no field can have."""
PARTITIONS_MAX: Final = 100
"""Of a topic."""
COUNT_MAX: Final = 10_000
"""Of records in a call and strikes of a rule; stories that come along have 2,000 at most."""
_IDENTITY: Final = ("producer_id", "epoch", "first_identity_of")
_SENT: Final = ("connection", "broker", "once", "background", "error")
_MEMBER: Final = ("generation", "member_id", "instance_id")
_MARKER: Final = ("producer_id", "epoch", "coordinator_epoch", "decision", "transaction_version")
_RECORDS: Final = ("value", "values", "key", "item", "of")

UPDATE: Final = "update"
"""What ``count`` records are called that have no value."""

CALLS: Final[dict[str, dict[str, tuple[tuple[str, ...], tuple[str, ...]]]]] = {
    "wire": {
        "init-producer-id": ((), ("bump", "two_phase", *_IDENTITY, *_SENT)),
        "begin": ((), ("transaction",)),
        "add-partitions": (("partitions",), ("always", *_IDENTITY, *_SENT)),
        "produce": (
            ("partition",),
            (*_RECORDS, "beside", "sequence", "plain", "offset", *_IDENTITY, *_SENT),
        ),
        "add-offsets": (("group",), ("always", *_IDENTITY, *_SENT)),
        "commit-offsets": ((), ("group", "offsets", "member", *_MEMBER, *_IDENTITY, *_SENT)),
        "commit": ((), (*_IDENTITY, *_SENT)),
        "abort": ((), (*_IDENTITY, *_SENT)),
    },
    "application": {
        "begin": ((), ("transaction", "background")),
        "send": (("partition", "value"), ("item", "of", "background")),
        "await-ack": ((), ("background", "error")),
        "give-up": ((), ("background",)),
        "commit": ((), ("background", "error")),
        "abort": ((), ("background", "error")),
    },
    "member": {
        "subscribe": (("topics",), ("assigned", "generation", "background", "error")),
        "poll": (
            (),
            (
                *("assigned", "reads", "transaction", "require_stable", "generation"),
                *("background", "error"),
            ),
        ),
        "seek": (("partition", "from_"), ()),
        "commit-offsets": ((), ("offsets", *_MEMBER, "broker", "once", "background", "error")),
        "stand-still": ((), ()),
        "leave": ((), ("background", "error")),
        "die": ((), ()),
    },
    "share-member": {
        "subscribe": (("topics",), ("assigned", "background", "error")),
        "poll": ((), ("assigned", "reads", "background", "error")),
        "acknowledge": ((), ("values", "as_", "background", "error")),
        "leave": ((), ("background", "error")),
        "die": ((), ()),
    },
    "bystander": {
        "append": (("partition",), (*_RECORDS, "count", "keys", "offset", "background", "error")),
    },
    "reader": {
        "read": (
            ("partition",),
            ("from_", "reads", "max_bytes", "uncommitted", "background", "error"),
        ),
        "read-positions": (
            ("group", "partitions"),
            ("positions", "require_stable", "background", "error"),
        ),
    },
    "operator": {
        "find-hanging": ((), ("names", "tool", "background", "error")),
        "abort-found": ((), ("background",)),
        "abort": (("partition",), ("start_offset", *_MARKER, "background", "error")),
        "delete-records": (("partition", "before"), ("background", "error")),
        "fence": (("transactional_id",), ("background", "error")),
        "describe": (
            ("transactional_id",),
            ("state", "partitions", "epoch", "start", "background", "error"),
        ),
        "update-feature": (("name", "level"), ("background", "error")),
        "delete-group": (("group",), ("background", "error")),
        "configure-group": (("group", "name", "value"), ("background", "error")),
        "producers": (("partition",), ("broker", "open_since", "background", "error")),
    },
}
"""Role -> call -> fields that the call needs, fields that it may have."""

FOR_OTHER_MEMBERS: Final = frozenset({"subscribe", "poll"})
"""A member that does this waits for the others of its group, whatever faults there are."""

CLUSTER: Final[dict[str, tuple[tuple[str, ...], tuple[str, ...]]]] = {
    "move-leader": (("to",), ("partition", "coordinator_of")),
    "reload-coordinator": (("coordinator_of",), ()),
    "stop": (("broker",), ()),
    "kill": (("broker",), ("lose_unflushed",)),
    "start": (("broker",), ("as_version",)),
    "restart": (("broker",), ("lose_unflushed", "kill")),
    "isolate": (("broker",), ("from_clients",)),
    "heal": (("broker",), ()),
    "reassign": (("partition", "replicas"), ()),
    "configure": (("topic", "name"), ("value",)),
    "create-topic": (("topic",), ("partitions", "replication_factor", "leaders", "configs")),
    "delete-topic": (("topic",), ()),
    "grow-topic": (("topic", "partitions"), ("leaders",)),
    "age": (("transactional_id", "epoch"), ()),
    "roll": (("partition",), ()),
    "clean": (("partition",), ()),
    "delete-old": (("partition",), ()),
}
"""Act -> fields that the act needs, fields that it may have."""


class OneOf(Model):
    """Exactly one field is given, besides those in ``BESIDES``."""

    BESIDES: ClassVar[tuple[str, ...]] = ()

    @classmethod
    def choices(cls) -> tuple[str, ...]:
        """Python names of the fields of which exactly one is given."""
        return tuple(name for name in cls.model_fields if name not in cls.BESIDES)

    @property
    def choice(self) -> str:
        """Python name of the given field."""
        return next(name for name in self.choices() if getattr(self, name) is not None)

    @model_validator(mode="after")
    def _exactly_one(self) -> Self:
        if sum(getattr(self, name) is not None for name in self.choices()) != 1:
            raise ValueError(f"expected exactly one of {_names(self.choices())}")
        return self


class Doing(Model):
    """A step that does something; its ``do`` determines the allowed fields."""

    @property
    def given_fields(self) -> frozenset[str]:
        """The fields that were given, by the names of Python."""
        return frozenset(self.model_fields_set) - {"who", "do"}


class Call(Doing):
    """A call of an actor; its role and ``do`` determine the allowed fields (``CALLS``)."""

    who: str
    do: str
    transaction: str | None = None
    """A name for the transaction, in the history and in verdicts; T1, T2… unless given."""
    bump: bool | None = None
    """InitProducerId with the identity in use, which raises its epoch (KIP-360)."""
    two_phase: bool | None = None
    """InitProducerId that takes part in two-phase commit: no timeout ends its transactions
    (KIP-939)."""
    producer_id: int | None = None
    epoch: int | None = None
    first_identity_of: str | None = None
    """Under the producer id and epoch that this wire actor was given first."""
    partition: Partition | None = None
    partitions: Partitions | None = None
    value: str | None = None
    """Null is a tombstone."""
    values: Values | None = None
    key: Content | None = None
    beside: ValuesOf | None = None
    """Records that the same request brings to other partitions, one to each."""
    item: str | None = None
    """The unit of work that the record stands for; its value unless given."""
    of: Inputs = ()
    """The inputs whose output the record is."""
    sequence: int | None = None
    plain: bool | None = None
    """Outside of any transaction."""
    always: bool | None = None
    """Also where a client of transactions v2 would not send it."""
    offset: OffsetByRun | None = None
    """Offset that the answer must contain."""
    group: str | None = None
    offsets: Offsets | None = None
    positions: Offsets | None = None
    require_stable: bool | None = None
    """Rather UNSTABLE_OFFSET_COMMIT than what an open transaction may change (KIP-447)."""
    generation: int | str | None = None
    """Of the member that commits, or its epoch in the new protocol (KIP-447); of one that has
    joined or polled, a name for what it has then.
    """
    member_id: str | None = None
    instance_id: str | None = None
    member: str | None = None
    """Commit as this actor's member is now, what it has polled unless ``offsets`` say more."""
    as_: Literal["accept", "release", "reject", "renew"] = Field(default="accept", alias="as")
    """Acknowledge type of a share group's member, for the records with these ``values`` or for all
    that it holds.
    """
    topics: Names | None = None
    assigned: Partitions | None = None
    """Wait until the member has exactly these partitions."""
    count: int | None = Field(default=None, ge=1, le=COUNT_MAX)
    keys: int | None = Field(default=None, ge=1, le=COUNT_MAX)
    from_: int | None = Field(default=None, alias="from", ge=0)
    reads: ValuesByRun | None = None
    uncommitted: bool | None = None
    max_bytes: int | None = Field(default=None, ge=1)
    """Of each Fetch; a batch that is larger comes all the same."""
    name: str | None = None
    """Of a feature, or of a group's config."""
    level: int | None = Field(default=None, ge=0)
    """New level of a feature; 0 removes the feature."""
    names: Partitions | None = None
    tool: Literal["before-3.1", "today"] | None = None
    """Whose rules find-hanging follows; before 3.1 internal topics were left out (KAFKA-13288)."""
    coordinator_epoch: int | None = None
    """That the operator's marker names; what DescribeProducers tells unless given."""
    decision: Literal["abort", "commit"] | None = None
    """Of the operator's marker; Kafka's tool knows only the abort."""
    transaction_version: int | None = None
    """That the operator's marker names (KIP-1228); 0 unless given."""
    open_since: tuple[int, ...] | None = None
    """Where the open transactions begin that DescribeProducers must show."""
    start_offset: int | None = None
    before: int | None = None
    transactional_id: str | None = None
    state: str | None = None
    start: Literal["none", "known"] | None = None
    """Whether the coordinator must tell when the transaction has begun."""
    broker: int | None = None
    """Ask this broker, right or wrong, instead of the one that leads or coordinates."""
    connection: str | None = None
    """Requests of one connection are handled one after the other; ``main`` unless given."""
    once: bool | None = None
    """Take the first answer, even where clients retry."""
    background: str | None = None
    """Go on at once; the call is awaited under this name."""
    error: ByRun | None = None
    """Expected error; None means ``NONE``."""

    @property
    def records(self) -> Values:
        """The values of all records; None is a tombstone."""
        return self.values if self.values is not None else (self.value,)

    @property
    def inputs(self) -> tuple[Position, ...]:
        """The inputs whose output the records are, as a history names them."""
        return tuple(record.position for record in self.of)


class ClusterAct(Doing):
    """An act on the cluster; its ``do`` determines the allowed fields (``CLUSTER``)."""

    do: str
    partition: Partition | None = None
    coordinator_of: str | None = None
    """Instead of a partition: the one that keeps this transactional id."""
    to: int | None = None
    broker: int | None = None
    kill: bool | None = None
    as_version: str | None = None
    """The release that the broker runs from now on, as in a rolling upgrade."""
    lose_unflushed: bool | None = None
    from_clients: bool | None = None
    replicas: tuple[int, ...] | None = None
    topic: str | None = None
    name: str | None = None
    value: str | None = None
    transactional_id: str | None = None
    epoch: int | None = Field(default=None, ge=1, le=PRODUCER_EPOCH_MAX)
    """At which an idle transactional id goes on, as after so many transactions."""
    partitions: int | None = Field(default=None, ge=1, le=PARTITIONS_MAX)
    """New number of partitions."""
    replication_factor: int | None = Field(default=None, ge=1, le=15)
    leaders: tuple[int, ...] = ()
    """Of each new partition; brokers 1, 2, 3, … in turn unless given."""
    configs: dict[str, str | int | float | bool] = Field(default_factory=dict)


class TransactionIs(Model):
    """DescribeTransactions shows one of these states."""

    id: str
    is_: Names = Field(alias="is")

    @field_validator("is_")
    @classmethod
    def _states_that_there_are(cls, states: tuple[str, ...]) -> tuple[str, ...]:
        for state in states:
            if state not in _STATES:
                raise ValueError(unknown("state of a transaction", state, _STATES))
        return states


class Reaches(Model):
    """An offset of a partition, as a reader gets it."""

    partition: Partition
    offset: int


class LeaderIs(Model):
    """The leader that clients see."""

    partition: Partition
    is_: int | Literal["none"] = Field(alias="is")


class StruckTimes(Model):
    """A rule that must have struck several times."""

    rule: str
    times: int = Field(ge=1, le=COUNT_MAX)


class Condition(OneOf):
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


class Expectation(Model):
    """What somebody outside must see now: of a partition, of a group, or of a call."""

    partition: Partition | None = None
    group: str | None = None
    positions: Offsets | None = None
    """Of the group; -1 where there is none. What an open transaction may change is not counted."""
    unanswered: str | None = None
    """A call in the background that has no answer yet."""
    committed: Values | None = None
    """Values that a read_committed reader gets from the beginning of the log."""
    uncommitted: Values | None = None
    records: int | None = None
    """How many a read_uncommitted reader gets from the beginning of the log."""
    stable: int | None = None
    """The last stable offset."""
    high_watermark: int | None = None

    @model_validator(mode="after")
    def _at_least_one(self) -> Expectation:
        of_partition = ("committed", "uncommitted", "records", "stable", "high_watermark")
        field_names = self.model_fields_set
        if field_names == {"unanswered"} or field_names == {"group", "positions"}:
            return self
        if "partition" not in field_names:
            raise ValueError("expected partition, or group and positions, or unanswered alone")
        if field_names <= {"partition"} or not field_names <= {"partition", *of_partition}:
            raise ValueError(f"expected one of {_names(of_partition)}")
        return self


class Awaited(Model):
    """A background call that must be over."""

    call: str
    error: ByRun | None = None
    """Expected error; None means ``NONE``, ``any`` accepts every result."""
    offset: OffsetByRun | None = None


class ReleasedAs(Model):
    """Releases a rule's held messages by dropping or duplicating them."""

    rule: str
    as_: Literal["drop", "duplicate"] = Field(alias="as")


class Step(OneOf):
    """One step of a story."""

    BESIDES: ClassVar = ("say", "only")

    say: str = ""
    only: Only = ()
    """Only in these runs, modes and takes; see ``meant_for``."""
    call: Call | None = None
    await_: str | Awaited | None = Field(default=None, alias="await")
    give_up: str | None = None
    """The client does not wait for this call any longer: its connection is closed."""
    hold: FaultRuleField | None = None
    arm: FaultRuleField | None = None
    release: str | ReleasedAs | None = None
    disarm: str | None = None
    cluster: ClusterAct | None = None
    advance: Milliseconds | None = None
    wait_until: Condition | None = None
    expect: Expectation | None = None
    observe: Literal["everything", "healed"] | None = None

    @property
    def place(self) -> str:
        """Where it stands, as ``late.yaml:24: steps.3.await``; empty where no file has it."""
        return str(self.__dict__.get(_PLACE, ""))

    def stands_at(self, position: str) -> None:
        """Note where it was read, as ``late.yaml:24: steps.3``."""
        # Beside the fields, as a cached property is: where it stands is no part of what it says.
        self.__dict__[_PLACE] = f"{position}.{_names((self.choice,))}"

    @property
    def unit(self) -> tuple[int, int] | None:
        """Number of the ``any-order`` block and of the part in it; None outside of one."""
        return self.__dict__.get(_UNIT)

    def stands_in(self, unit: tuple[int, int]) -> None:
        """Note the block in any order that it was read in."""
        self.__dict__[_UNIT] = unit

    @property
    def partitions(self) -> tuple[TopicPartition, ...]:
        """Every single partition that it names."""
        call, wait = self.call, self.wait_until
        reached = () if wait is None else (wait.high_watermark, wait.stable, wait.leader)
        partitions = (
            *(() if call is None else (call.partition, *(call.partitions or ()))),
            None if self.cluster is None else self.cluster.partition,
            None if self.expect is None else self.expect.partition,
            *(() if wait is None else (wait.marker, wait.open, wait.in_sync)),
            *(None if condition is None else condition.partition for condition in reached),
        )
        return tuple(partition for partition in partitions if partition is not None)

    @property
    def rule(self) -> FaultRule | None:
        """The rule that it puts in force."""
        return self.hold if self.hold is not None else self.arm

    @property
    def released_rule(self) -> str | None:
        """The rule that it releases."""
        return self.release.rule if isinstance(self.release, ReleasedAs) else self.release

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


def required(value: T | None) -> T:
    """A field that validation has guaranteed."""
    assert value is not None, "the file was accepted"
    return value


def _names(fields: tuple[str, ...]) -> str:
    return ", ".join(field.rstrip("_").replace("_", "-") for field in fields)
