"""What a scenario file may say.

Steps are named after what they do: ``call``, ``hold``, ``wait-until``, ``release``, ``advance``,
``expect``. Each step has exactly one of them, may say a sentence, and may be meant for some modes,
for armed or disarmed runs, or for certain players only. ``reading`` turns a file into these.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

import msgspec
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from sim.faults.plan import FaultRule

ACTS: Final = ("call", "hold", "wait_until", "release", "advance", "expect")
CALLS: Final = {
    "producer": ("begin", "send", "await-ack", "give-up", "abort"),
    "bystander": ("append",),
    "operator": ("find-hanging", "abort-found"),
}
"""Who can do what."""
_UNITS_MS: Final = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


class _Model(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        alias_generator=lambda name: name.replace("_", "-"),
        populate_by_name=False,
    )


def _duration_ms(value: Any) -> Any:
    """``21m``, ``500ms``, ``2h`` as milliseconds."""
    if not isinstance(value, str):
        raise ValueError("expected a duration such as 500ms, 30s, 21m, 2h or 7d")
    number = value.rstrip("abcdefghijklmnopqrstuvwxyz")
    unit = value[len(number) :]
    if unit not in _UNITS_MS or not number.isdigit():
        raise ValueError(f"{value!r} is no duration such as 500ms, 30s, 21m, 2h or 7d")
    return int(number) * _UNITS_MS[unit]


def _fault_rule(value: Any) -> Any:
    """The fields of a fault rule; a hold unless it says otherwise."""
    if not isinstance(value, dict):
        raise ValueError("expected the fields of a fault rule")
    try:
        return msgspec.convert({"action": {"do": "hold"}, **value}, FaultRule)
    except msgspec.ValidationError as error:
        raise ValueError(str(error)) from error


Milliseconds = Annotated[int, BeforeValidator(_duration_ms)]


class Role(_Model):
    """The producer of the story."""

    transactional_id: str
    client_id: str
    topic: str
    partition: int = 0


class Mode(_Model):
    """One world the story is told in."""

    title: str
    transaction_version: Literal[0, 1, 2]
    verification: bool
    players: tuple[str, ...]
    """Who may play the producer, the preferred one first."""
    verdict: str
    """What an armed run is expected to come to."""


class Call(_Model):
    """Somebody does something."""

    who: Literal["producer", "bystander", "operator"]
    do: str
    value: str = ""
    values: tuple[str, ...] = ()


class Condition(_Model):
    """What is waited for; exactly one."""

    struck: str | None = None
    """A fault rule has struck."""
    transaction: str | None = None
    """DescribeTransactions shows this state; or Empty under a higher epoch, which is where a
    producer that bumps its epoch after an abort (KIP-360) goes from there at once."""
    marker: Literal["written"] | None = None
    """DescribeProducers shows that a marker was written to the producer's partition."""

    @model_validator(mode="after")
    def _exactly_one(self) -> Condition:
        if sum(value is not None for value in (self.struck, self.transaction, self.marker)) != 1:
            raise ValueError("expected exactly one of struck, transaction, marker")
        return self


class Expectation(_Model):
    """A look from outside, kept as facts; the verdict at the end judges them."""

    observe: Literal[
        "reader-position", "after-release", "late-gauge-before", "late-gauge-after", "after-repair"
    ]


class Step(_Model):
    """One step of a story."""

    say: str = ""
    modes: tuple[str, ...] = ()
    """Only in these modes; in all where empty."""
    armed: bool | None = None
    """Only in armed (true) or disarmed (false) runs."""
    programs: bool | None = None
    """Only where a program plays the producer (true), which does everything in one go; or only
    where none does (false)."""
    call: Call | None = None
    hold: Annotated[Any, BeforeValidator(_fault_rule)] = None
    wait_until: Condition | None = None
    release: str | None = None
    advance: Milliseconds | None = None
    expect: Expectation | None = None

    @model_validator(mode="after")
    def _exactly_one_act(self) -> Step:
        if sum(getattr(self, act) is not None for act in ACTS) != 1:
            raise ValueError(
                "expected exactly one of call, hold, wait-until, release, advance, expect"
            )
        return self

    @property
    def is_about_faults(self) -> bool:
        """Whether it has no meaning where no fault is armed."""
        waits_for_strike = self.wait_until is not None and self.wait_until.struck is not None
        return self.hold is not None or self.release is not None or waits_for_strike


class Scenario(_Model):
    """One story."""

    name: str = Field(pattern=r"^[a-z0-9]+(-[a-z0-9]+)*$")
    aliases: tuple[str, ...] = ()
    title: str
    goal: str
    method: str
    sources: tuple[str, ...] = ()
    brokers: int = Field(default=3, ge=1, le=15)
    topics: dict[str, int]
    roles: dict[Literal["producer"], Role]
    modes: dict[str, Mode]
    disarmed_verdict: str
    judge: str
    """Who comes to the verdict: a name of ``check.verdicts.JUDGES``."""
    steps: tuple[Step, ...]

    @property
    def producer(self) -> Role:
        """The producer of the story."""
        return self.roles["producer"]

    def steps_of(self, mode: str, *, armed: bool, program: bool) -> tuple[Step, ...]:
        """The steps of one run; a disarmed one leaves out what is about faults.

        Args:
            mode: The world it is told in.
            armed: Whether faults strike.
            program: Whether a program plays the producer.
        """
        return tuple(
            step
            for step in self.steps
            if (not step.modes or mode in step.modes)
            and step.armed in (None, armed)
            and step.programs in (None, program)
            and (armed or not step.is_about_faults)
        )
