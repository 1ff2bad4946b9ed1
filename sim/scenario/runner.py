"""A scenario from its file to its verdict.

Armed and disarmed runs differ by one flag: in the disarmed one no fault is armed. Both go through
the same steps and the same verdict function, and must come to different verdicts; a story whose
fault does not matter tells nothing.
"""

from __future__ import annotations

from importlib.metadata import version
from typing import Final

import msgspec

from sim.check.facts import Facts
from sim.check.verdicts import JUDGES, Verdict
from sim.errors import ClientError
from sim.runtime import real
from sim.runtime.env import Environment
from sim.runtime.trace import RunInfo, TraceLevel
from sim.scenario.model import Scenario
from sim.scenario.players.casting import Cast, Casting, cast
from sim.scenario.stage import stage
from sim.scenario.steps import StoryFailedError, act, need_strikes
from sim.trace.story import Sentence, story

FAILED: Final = "story-failed"
"""In place of a verdict where the story could not be told to its end; never the declared one."""


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
    """Who else might have played the producer, and what the client that did said on its own."""
    duration_ms: int
    trace: bytes
    """The whole trace, JSON lines."""

    @property
    def as_declared(self) -> bool:
        """Whether the verdict is the declared one."""
        return self.verdict.name == self.expected


async def run(
    scenario: Scenario, mode: str, *, armed: bool, casting: Casting | None = None
) -> RunResult:
    """Tell the story once, in one mode.

    Args:
        scenario: The story.
        mode: One of its modes.
        armed: Whether its faults strike.
        casting: Who is wanted as the producer.

    Raises:
        ConfigError: Who is wanted can't play it.
        MissingExtraError: Who is wanted is not installed.
    """
    chosen = cast(scenario, mode, casting or Casting())
    environment = _environment(scenario, mode, armed=armed)
    start_ms = environment.clock.monotonic_ms()
    facts = Facts(scenario=scenario.name, mode=mode, armed=armed, player="")
    remarks = [chosen.remark] if chosen.remark else []
    try:
        await _tell(scenario, facts, chosen, environment, remarks)
    except (ClientError, StoryFailedError) as error:
        verdict = Verdict(name=FAILED, because=str(error))
    else:
        verdict = JUDGES[scenario.judge](facts)
    tracer = environment.tracer
    lines: list[bytes] = []
    tracer.export(lines.append, verdict=verdict.name)
    return RunResult(
        scenario=scenario.name,
        mode=mode,
        armed=armed,
        player=facts.player,
        expected=scenario.modes[mode].verdict if armed else scenario.disarmed_verdict,
        verdict=verdict,
        facts=facts,
        story=story(tracer.events(0), tracer.nodes),
        remarks=tuple(remarks),
        duration_ms=environment.clock.monotonic_ms() - start_ms,
        trace=b"".join(lines),
    )


async def _tell(
    scenario: Scenario,
    facts: Facts,
    chosen: Cast,
    environment: Environment,
    remarks: list[str],
) -> None:
    """Act out every step; ``facts`` and ``remarks`` are kept up to where it fails."""
    steps = scenario.steps_of(facts.mode, armed=facts.armed, program=chosen.program)
    async with stage(
        scenario, facts.mode, facts=facts, cast=chosen, environment=environment
    ) as built:
        try:
            for step in steps:
                await act(built, step)
            need_strikes(built)
        finally:
            facts.player = built.player.name  # a program tells its name while it plays
            remarks += built.player.remarks()


def _environment(scenario: Scenario, mode: str, *, armed: bool) -> Environment:
    world = scenario.modes[mode]
    return real.real_environment(
        trace_level=TraceLevel.BRIEF,
        trace_ring_events=None,
        run=RunInfo(
            sim=version("txnsim"),
            scenario=scenario.name,
            settings=(
                ("transaction.version", world.transaction_version),
                ("transaction.partition.verification.enable", world.verification),
                ("mode", mode),
                ("armed", armed),
            ),
        ),
    )
