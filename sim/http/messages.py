"""What goes over the control port: JSON objects, as frozen structs. The OpenAPI document is made
from them.
"""

from __future__ import annotations

import msgspec

from sim.faults.injector import ArmedRule
from sim.faults.plan import FaultRule


class Health(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The cluster is up."""

    status: str
    brokers: int
    bootstrap: str
    kip_text_bootstrap: str | None = None
    """The listeners that answer by the letter of the KIPs, where ``--kip-text`` opened them."""


class ClockState(msgspec.Struct, frozen=True, kw_only=True):
    """The cluster clock: transaction timeouts, expiry, append times and the late gauge go by it."""

    now_ms: int
    """Milliseconds since 1970, including what was advanced."""
    advanced_ms: int
    """How far it has been advanced in all."""


class Advance(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Move the cluster clock forward; everything that is then due happens, in order of time."""

    advance_ms: int


class Fault(msgspec.Struct, frozen=True, kw_only=True):
    """A fault rule in force and what has come of it."""

    rule: FaultRule
    matched: int
    struck: int
    held: int
    """How many crossings wait for the release."""
    released: int


class Released(msgspec.Struct, frozen=True, kw_only=True):
    """How many held crossings were let go."""

    released: int


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """Why a request was refused, and where."""

    error: str


def fault(armed: ArmedRule) -> Fault:
    """An armed rule as the control port shows it."""
    return Fault(
        rule=armed.rule,
        matched=armed.matched,
        struck=armed.struck,
        held=len(armed.held),
        released=armed.released,
    )
