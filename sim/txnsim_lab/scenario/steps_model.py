"""The model of a scenario's steps. A step does exactly one thing: an actor's ``call``, an ``await``
or ``give-up`` of a call in the background, an act on faults (``hold``, ``arm``, ``release``,
``disarm``) or on the ``cluster``, ``advance``, ``wait-until``, ``expect`` or ``observe``.
"""

from __future__ import annotations

from typing import ClassVar, Final, Literal, Self, TypeVar

from pydantic import Field, field_validator, model_validator

from txnsim.faults.rule import FaultRule
from txnsim.text import unknown_word_message
from txnsim.txn.state import TransactionState
from txnsim.types import PRODUCER_EPOCH_MAX, TopicPartition
from txnsim_lab.check.observations import Position
from txnsim_lab.scenario.fields import (
    ByRun,
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
    RecordContent,
    Values,
    ValuesByRun,
    ValuesOf,
)

T = TypeVar("T")

_STATE_NAMES: Final = tuple(state.wire_name for state in TransactionState)
_PLACE_KEY: Final = "place "
_UNIT_KEY: Final = "unit "
"""Keys of a step's ``__dict__`` that no field can have, as they contain a space."""
PARTITIONS_MAX: Final = 100
"""Limit of a topic's partitions."""
COUNT_MAX: Final = 10_000
"""Limit of records in a call and of strikes of a rule; the scenarios of txnsim use 2,000 at most.
"""
_IDENTITY_FIELDS: Final = ("producer_id", "epoch", "first_identity_of")
_SENDING_FIELDS: Final = ("connection", "broker", "once", "background", "error")
_MEMBER_FIELDS: Final = ("generation", "member_id", "instance_id")
_MARKER_FIELDS: Final = (
    "producer_id",
    "epoch",
    "coordinator_epoch",
    "decision",
    "transaction_version",
)
_RECORD_FIELDS: Final = ("value", "values", "key", "item", "of")

UPDATE_VALUE: Final = "update"
"""Value of the ``count`` records of a call that gives none."""

FIELDS_BY_CALL: Final[dict[str, dict[str, tuple[tuple[str, ...], tuple[str, ...]]]]] = {
    "wire": {
        "init-producer-id": ((), ("bump", "two_phase", *_IDENTITY_FIELDS, *_SENDING_FIELDS)),
        "begin": ((), ("transaction",)),
        "add-partitions": (("partitions",), ("always", *_IDENTITY_FIELDS, *_SENDING_FIELDS)),
        "produce": (
            ("partition",),
            (
                *_RECORD_FIELDS,
                "beside",
                "sequence",
                "plain",
                "offset",
                *_IDENTITY_FIELDS,
                *_SENDING_FIELDS,
            ),
        ),
        "add-offsets": (("group",), ("always", *_IDENTITY_FIELDS, *_SENDING_FIELDS)),
        "commit-offsets": (
            (),
            ("group", "offsets", "member", *_MEMBER_FIELDS, *_IDENTITY_FIELDS, *_SENDING_FIELDS),
        ),
        "commit": ((), (*_IDENTITY_FIELDS, *_SENDING_FIELDS)),
        "abort": ((), (*_IDENTITY_FIELDS, *_SENDING_FIELDS)),
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
        "commit-offsets": (
            (),
            ("offsets", *_MEMBER_FIELDS, "broker", "once", "background", "error"),
        ),
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
        "append": (
            ("partition",),
            (*_RECORD_FIELDS, "count", "keys", "offset", "background", "error"),
        ),
    },
    "reader": {
        "read": (
            ("partition",),
            (
                *("from_", "reads", "max_bytes", "uncommitted", "at_follower", "stable_offset"),
                *("aborted", "background", "error"),
            ),
        ),
        "read-positions": (
            ("group", "partitions"),
            ("positions", "require_stable", "background", "error"),
        ),
    },
    "operator": {
        "find-hanging": ((), ("names", "tool", "background", "error")),
        "abort-found": ((), ("background",)),
        "abort": (("partition",), ("start_offset", *_MARKER_FIELDS, "background", "error")),
        "delete-records": (("partition", "before"), ("background", "error")),
        "end": (
            ("transactional_id", "first_identity_of", "decision"),
            ("transaction", "background", "error"),
        ),
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

GROUP_WIDE_CALLS: Final = frozenset({"subscribe", "poll"})
"""Calls that wait for the other members of the group, even without faults."""

FIELDS_BY_CLUSTER_ACT: Final[dict[str, tuple[tuple[str, ...], tuple[str, ...]]]] = {
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


class OneFieldModel(Model):
    """A model of which exactly one field is given, besides those in ``BESIDES``."""

    BESIDES: ClassVar[tuple[str, ...]] = ()

    @classmethod
    def choices(cls) -> tuple[str, ...]:
        """Python names of the fields, of which exactly one is given."""
        return tuple(field_name for field_name in cls.model_fields if field_name not in cls.BESIDES)

    @property
    def choice(self) -> str:
        """Python name of the field that is given."""
        return next(
            field_name for field_name in self.choices() if getattr(self, field_name) is not None
        )

    @model_validator(mode="after")
    def _exactly_one(self) -> Self:
        if sum(getattr(self, field_name) is not None for field_name in self.choices()) != 1:
            raise ValueError(f"expected exactly one of {_names(self.choices())}")
        return self


class ActModel(Model):
    """A step that does something; its ``do`` determines the allowed fields."""

    @property
    def given_fields(self) -> frozenset[str]:
        """Python names of the fields that the file gives."""
        return frozenset(self.model_fields_set) - {"who", "do"}


class Call(ActModel):
    """A call of an actor; its role and ``do`` determine the allowed fields (``CALLS``)."""

    who: str
    do: str
    transaction: str | None = None
    """Name of the transaction in the history and in verdicts; T1, T2… unless given."""
    bump: bool | None = None
    """Sends InitProducerId with the present identity, which raises the epoch (KIP-360)."""
    two_phase: bool | None = None
    """Sends InitProducerId for two-phase commit: no timeout ends the transactions (KIP-939)."""
    producer_id: int | None = None
    epoch: int | None = None
    first_identity_of: str | None = None
    """Sends the producer id and epoch that this wire actor got first."""
    partition: Partition | None = None
    partitions: Partitions | None = None
    value: str | None = None
    """The value of the record; null is a tombstone."""
    values: Values | None = None
    key: RecordContent | None = None
    beside: ValuesOf | None = None
    """Records of the same request for other partitions, one per partition."""
    item: str | None = None
    """The unit of work that the record stands for; the record's value unless given."""
    of: Inputs = ()
    """The inputs whose output the record is."""
    sequence: int | None = None
    plain: bool | None = None
    """Whether the request is outside of any transaction."""
    always: bool | None = None
    """Sends the request even if a client of transactions v2 would not send it."""
    offset: OffsetByRun | None = None
    """Offset that the answer must contain."""
    group: str | None = None
    offsets: Offsets | None = None
    positions: Offsets | None = None
    require_stable: bool | None = None
    """Asks for stable offsets only: the broker answers UNSTABLE_OFFSET_COMMIT while an open
    transaction may change them (KIP-447).
    """
    generation: int | str | None = None
    """Generation of the member that commits, or its epoch in the new protocol (KIP-447). In
    ``subscribe`` and ``poll``, a name for the generation that the member then has.
    """
    member_id: str | None = None
    instance_id: str | None = None
    member: str | None = None
    """Commits in the name of this actor's member, and the positions that it has polled unless
    ``offsets`` are given.
    """
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
    """Limit of the bytes of each Fetch; a first batch that is larger is returned nevertheless."""
    at_follower: int | None = None
    """The follower that must answer a reader with a rack (KIP-392)."""
    stable_offset: int | None = None
    """Reads on until an answer has this last stable offset, or a higher one, which is an error."""
    aborted: tuple[int, ...] | None = None
    """First offsets of the aborted transactions that the answers must name."""
    name: str | None = None
    """Name of a feature, or of a group's config."""
    level: int | None = Field(default=None, ge=0)
    """New level of a feature; 0 removes the feature."""
    names: Partitions | None = None
    tool: Literal["before-3.1", "today"] | None = None
    """Version of Kafka's find-hanging to follow; before 3.1 it left out internal topics
    (KAFKA-13288).
    """
    coordinator_epoch: int | None = None
    """Coordinator epoch of the operator's marker; unless given, the one that DescribeProducers
    returns.
    """
    decision: Literal["abort", "commit"] | None = None
    """Decision of the operator's marker, or of the end; Kafka's tool can only abort."""
    transaction_version: int | None = None
    """Transaction version of the operator's marker (KIP-1228); 0 unless given."""
    open_since: tuple[int, ...] | None = None
    """Start offsets of the open transactions that DescribeProducers must return."""
    start_offset: int | None = None
    before: int | None = None
    transactional_id: str | None = None
    state: str | None = None
    start: Literal["none", "known"] | None = None
    """Whether the coordinator must report the start time of the transaction."""
    broker: int | None = None
    """Sends the request to this broker, even if it is not the leader or coordinator."""
    connection: str | None = None
    """Name of the connection, ``main`` unless given. A broker handles the requests of one
    connection one after the other.
    """
    once: bool | None = None
    """Takes the first answer, even if clients would retry."""
    background: str | None = None
    """Lets the story go on at once; later steps await the call by this name."""
    error: ByRun | None = None
    """Expected error; None means ``NONE``."""

    @property
    def records(self) -> Values:
        """The values of all records; None for a tombstone."""
        return self.values if self.values is not None else (self.value,)

    @property
    def inputs(self) -> tuple[Position, ...]:
        """The inputs whose output the records are, in the form of a history."""
        return tuple(record.position for record in self.of)


class ClusterAct(ActModel):
    """An act on the cluster; its ``do`` determines the allowed fields (``CLUSTER``)."""

    do: str
    partition: Partition | None = None
    coordinator_of: str | None = None
    """Instead of a partition: the coordinator's partition for this transactional id."""
    to: int | None = None
    broker: int | None = None
    kill: bool | None = None
    as_version: str | None = None
    """The release that the broker runs from now on, as after a rolling upgrade."""
    lose_unflushed: bool | None = None
    from_clients: bool | None = None
    replicas: tuple[int, ...] | None = None
    topic: str | None = None
    name: str | None = None
    value: str | None = None
    transactional_id: str | None = None
    epoch: int | None = Field(default=None, ge=1, le=PRODUCER_EPOCH_MAX)
    """Epoch at which an idle transactional id continues, as if it had made that many transactions.
    """
    partitions: int | None = Field(default=None, ge=1, le=PARTITIONS_MAX)
    """New number of partitions."""
    replication_factor: int | None = Field(default=None, ge=1, le=15)
    leaders: tuple[int, ...] = ()
    """Leader of each new partition; brokers 1, 2, 3, … in turn unless given."""
    configs: dict[str, str | int | float | bool] = Field(default_factory=dict)


class TransactionIs(Model):
    """Waits until DescribeTransactions returns one of these states."""

    id: str
    is_: Names = Field(alias="is")

    @field_validator("is_")
    @classmethod
    def _states_that_there_are(cls, states: tuple[str, ...]) -> tuple[str, ...]:
        for state in states:
            if state not in _STATE_NAMES:
                raise ValueError(
                    unknown_word_message("state of a transaction", state, _STATE_NAMES)
                )
        return states


class Reaches(Model):
    """Waits until a partition has reached an offset, as a reader sees it."""

    partition: Partition
    offset: int


class LeaderIs(Model):
    """Waits until clients see this leader."""

    partition: Partition
    is_: int | Literal["none"] = Field(alias="is")


class StruckTimes(Model):
    """Waits until a rule has struck that many times."""

    rule: str
    times: int = Field(ge=1, le=COUNT_MAX)


class Condition(OneFieldModel):
    """The condition that the step waits for; exactly one is given."""

    struck: str | StruckTimes | None = None
    """The fault rule has struck."""
    answered: str | None = None
    """The call in the background has its answer, or has failed."""
    transaction: TransactionIs | None = None
    marker: Partition | None = None
    """DescribeProducers shows a marker of a producer on the partition, and no open transaction."""
    open: Partition | None = None
    """DescribeProducers shows an open transaction on the partition."""
    high_watermark: Reaches | None = None
    stable: Reaches | None = None
    """The last stable offset has reached a value."""
    leader: LeaderIs | None = None
    in_sync: Partition | None = None
    """All replicas of the partition are in sync."""


class Expectation(Model):
    """What a new reader must see now of a partition, a group, or a call."""

    partition: Partition | None = None
    group: str | None = None
    positions: Offsets | None = None
    """Committed offsets of the group; -1 for a partition without one. Offsets that an open
    transaction may change are left out.
    """
    unanswered: str | None = None
    """A call in the background that has no answer yet."""
    committed: Values | None = None
    """Values that a read_committed reader gets from the beginning of the log."""
    uncommitted: Values | None = None
    records: int | None = None
    """Number of records that a read_uncommitted reader gets from the beginning of the log."""
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
    """Waits for the end of a call in the background."""

    call: str
    error: ByRun | None = None
    """The expected error; None means ``NONE``, and ``any`` accepts every result."""
    offset: OffsetByRun | None = None


class ReleasedAs(Model):
    """Releases a rule's held messages by dropping or duplicating them."""

    rule: str
    as_: Literal["drop", "duplicate"] = Field(alias="as")


class Step(OneFieldModel):
    """One step of a story."""

    BESIDES: ClassVar = ("say", "only")

    say: str = ""
    only: Only = ()
    """The runs, modes and takes that have this step; see ``meant_for``."""
    call: Call | None = None
    await_: str | Awaited | None = Field(default=None, alias="await")
    give_up: str | None = None
    """Stops waiting for the answer to this call: its connection is closed."""
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
        """Where the step stands, as ``late.yaml:24: steps.3.await``; empty if it is not from a
        file.
        """
        return str(self.__dict__.get(_PLACE_KEY, ""))

    def stands_at(self, position: str) -> None:
        """Store the place where the step was read, as ``late.yaml:24: steps.3``."""
        # Not a field, since the place is no part of the step's content.
        self.__dict__[_PLACE_KEY] = f"{position}.{_names((self.choice,))}"

    @property
    def unit(self) -> tuple[int, int] | None:
        """Number of the ``any-order`` block and of the part in it; None outside of such blocks."""
        return self.__dict__.get(_UNIT_KEY)

    def stands_in(self, unit: tuple[int, int]) -> None:
        """Store the ``any-order`` block and part that contain the step."""
        self.__dict__[_UNIT_KEY] = unit

    @property
    def partitions(self) -> tuple[TopicPartition, ...]:
        """All partitions that the step names."""
        call, wait_condition = self.call, self.wait_until
        reached_conditions = (
            ()
            if wait_condition is None
            else (wait_condition.high_watermark, wait_condition.stable, wait_condition.leader)
        )
        partitions = (
            *(() if call is None else (call.partition, *(call.partitions or ()))),
            None if self.cluster is None else self.cluster.partition,
            None if self.expect is None else self.expect.partition,
            *(
                ()
                if wait_condition is None
                else (wait_condition.marker, wait_condition.open, wait_condition.in_sync)
            ),
            *(
                None if condition is None else condition.partition
                for condition in reached_conditions
            ),
        )
        return tuple(partition for partition in partitions if partition is not None)

    @property
    def rule(self) -> FaultRule | None:
        """The fault rule that the step arms."""
        return self.hold if self.hold is not None else self.arm

    @property
    def released_rule(self) -> str | None:
        """The fault rule that the step releases."""
        return self.release.rule if isinstance(self.release, ReleasedAs) else self.release

    @property
    def struck(self) -> str | None:
        """The fault rule whose strike the step waits for."""
        struck = None if self.wait_until is None else self.wait_until.struck
        return struck.rule if isinstance(struck, StruckTimes) else struck

    @property
    def is_about_faults(self) -> bool:
        """Whether the step makes no sense if no fault is armed."""
        fault_fields = (self.rule, self.release, self.disarm, self.struck, self.give_up)
        return any(fault_field is not None for fault_field in fault_fields)


def required(field_value: T | None) -> T:
    """The value of a field that the file's validation guarantees."""
    assert field_value is not None, "the file was accepted"
    return field_value


def _names(field_names: tuple[str, ...]) -> str:
    return ", ".join(field_name.rstrip("_").replace("_", "-") for field_name in field_names)
