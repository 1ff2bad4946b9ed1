"""A scenario from its file to its verdict.

Armed and disarmed runs differ by one flag: in the disarmed one no fault is armed. Both go through
the same steps and the same verdict function, and must come to different verdicts; a story whose
fault does not matter tells nothing.
"""

from __future__ import annotations

from typing import Final

import msgspec

from sim.check.facts import Facts
from sim.check.verdicts import Verdict, judge_late_produce
from sim.errors import TxnsimError
from sim.runtime import real
from sim.runtime.trace import RunInfo, TraceLevel
from sim.scenario.model import Scenario
from sim.scenario.stage import Casting, stage
from sim.scenario.steps import act
from sim.trace.story import Sentence, story

FAILED: Final = "story-failed"


class RunResult(msgspec.Struct, frozen=True, kw_only=True):
    """What one run came to."""

    scenario: str
    mode: str
    armed: bool
    player: str
    expected: str
    verdict: Verdict
    facts: Facts
    story: tuple[Sentence, ...]
    remarks: tuple[str, ...]
    """What the client that played the producer said on its own."""
    trace: bytes
    """The whole trace, JSON lines."""

    @property
    def as_declared(self) -> bool:
        """Whether the verdict is the declared one."""
        return self.verdict.name == self.expected


async def run(
    scenario: Scenario, mode: str, *, armed: bool, casting: Casting | None = None
) -> RunResult:
    """Tell the story once, in one mode."""
    world = scenario.modes[mode]
    environment = real.real_environment(
        trace_level=TraceLevel.BRIEF,
        trace_ring_events=None,
        run=RunInfo(
            scenario=scenario.name,
            settings=(
                ("transaction.version", world.transaction_version),
                ("transaction.partition.verification.enable", world.verification),
                ("armed", armed),
            ),
        ),
    )
    facts = Facts(scenario=scenario.name, mode=mode, armed=armed, player="")
    remarks: tuple[str, ...] = ()
    verdict = None
    try:
        async with stage(
            scenario,
            mode,
            armed=armed,
            casting=casting or Casting(),
            environment=environment,
        ) as built:
            facts = built.facts
            for step in scenario.steps:
                if step.modes and mode not in step.modes:
                    continue
                if step.armed is not None and step.armed is not armed:
                    continue
                await act(built, step)
            remarks = built.player.remarks()
    except (TxnsimError, TimeoutError, LookupError) as error:
        verdict = Verdict(name=FAILED, because=f"{type(error).__name__}: {error}")
    if verdict is None:
        verdict = judge_late_produce(facts)
    lines: list[bytes] = []
    environment.tracer.export(lines.append, verdict=verdict.name)
    return RunResult(
        scenario=scenario.name,
        mode=mode,
        armed=armed,
        player=facts.player,
        expected=world.verdict if armed else scenario.disarmed_verdict,
        verdict=verdict,
        facts=facts,
        story=story(environment.tracer),
        remarks=remarks,
        trace=b"".join(lines),
    )
