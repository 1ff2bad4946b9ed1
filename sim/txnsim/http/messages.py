"""The JSON objects of the control port, as frozen structs. The OpenAPI document is generated from
them.
"""

from __future__ import annotations

import uuid

import msgspec

from txnsim.faults.plan import FaultRule
from txnsim.injection.armed_rule import ArmedRule


class Health(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The health of the cluster; an answer means that the cluster is running."""

    status: str
    brokers: int
    bootstrap: str
    kip_text_bootstrap: str | None = None
    """The listeners that follow the text of the KIPs, if ``--kip-text`` opened them."""


class ClockState(msgspec.Struct, frozen=True, kw_only=True):
    """The cluster clock, by which transaction timeouts, expiry, append times and the late gauge
    go.
    """

    now_ms: int
    """Milliseconds since 1970, including all advances."""
    advanced_ms: int
    """Sum of all clock changes in milliseconds; negative if set back overall."""
    brokers: dict[str, int]
    """By how many milliseconds each broker's own clock is ahead of it; negative if behind."""


class Advance(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Change the clock; give exactly one of ``advance_ms`` and ``set_by_ms``."""

    advance_ms: float | str | None = None
    """Let time pass for all brokers: everything that becomes due happens, in order of time. Whole
    milliseconds, or a text such as ``2m``.
    """
    set_by_ms: float | str | None = None
    """Set the clock forward, or back if negative, as NTP or an operator would: no time passes."""
    broker: int | None = None
    """Set only this broker's own clock."""


class Fault(msgspec.Struct, frozen=True, kw_only=True):
    """A fault rule and its effects so far."""

    rule: FaultRule
    matched: int
    struck: int
    held: int
    """Number of crossings that wait for the release."""
    released: int
    in_force: bool = True
    failure: str | None = None
    doubt: str | None = None
    """Why the rule can't strike in the current cluster, such as a missing broker."""


class Released(msgspec.Struct, frozen=True, kw_only=True):
    """The number of released crossings."""

    released: int


class BrokerView(msgspec.Struct, frozen=True, kw_only=True):
    """A broker, as process and in the metadata."""

    id: int
    state: str
    """``starting``, ``running``, ``stopping`` or ``down``."""
    release: str
    """The release of Apache Kafka that it emulates."""
    host: str
    port: int
    epoch: int
    """Broker epoch of its last incarnation."""
    fenced: bool
    """Whether the controller has fenced it: clients do not see it, and it leads nothing."""
    in_controlled_shutdown: bool
    isolated: bool
    """Whether it can't reach the controller."""
    cut_off_from_clients: bool
    leads: int
    """Number of partitions that it leads in the metadata."""


class Start(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Start a broker that is down."""

    as_version: str | None = None
    """The release of Apache Kafka to emulate from now on; unchanged if null."""


class Kill(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """End a broker at once."""

    lose_unflushed: bool = False
    """Simulate a machine failure: records that were not flushed to disk are lost."""


class Isolate(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Cut a broker off from the controller and from the other brokers."""

    from_clients: bool = False


class PartitionView(msgspec.Struct, frozen=True, kw_only=True):
    """A partition in the metadata."""

    partition: int
    leader: int
    """-1 if there is no leader."""
    leader_epoch: int
    partition_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    elr: tuple[int, ...]
    """Eligible leader replicas (KIP-966)."""
    last_known_elr: tuple[int, ...]


class TopicView(msgspec.Struct, frozen=True, kw_only=True):
    """A topic in the metadata."""

    name: str
    id: uuid.UUID
    is_internal: bool
    partitions: tuple[PartitionView, ...]


class LeaderMove(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Make an in-sync replica the leader."""

    topic: str
    partition: int
    leader: int


class Elect(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Elect a leader, as ElectLeaders does."""

    topic: str
    partition: int
    type: str = "preferred"
    """``preferred``, or ``unclean`` for a partition without a leader."""


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """Reason and place of a refused request."""

    error: str


def fault(armed_rule: ArmedRule, doubt: str | None = None) -> Fault:
    """An armed rule as the control port shows it."""
    return Fault(
        rule=armed_rule.rule,
        matched=armed_rule.matched,
        struck=armed_rule.struck,
        held=len(armed_rule.held_crossings),
        released=armed_rule.released,
        in_force=not armed_rule.is_disarmed,
        failure=armed_rule.failure,
        doubt=doubt,
    )
