"""The pace of a story: asked before each of its steps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, Protocol

from txnsim_lab.scenario.commands import PlannedStep
from txnsim_lab.scenario.steps_model import Step

if TYPE_CHECKING:
    from txnsim_lab.scenario.stage import Stage

LOOK: Final = (
    "Nothing is broken any more, and the cluster is looked at, once more 21 minutes later."
)
LOOK_AGAIN: Final = "The cluster is looked at again."


class Pace(Protocol):
    """Lets a story go on."""

    async def before(self, stage: Stage, step: PlannedStep) -> None:
        """Return when the step may be taken; changes to the cluster meanwhile are inputs."""
        ...


def planned(steps: Sequence[Step | str]) -> list[PlannedStep]:
    """Steps in words, numbered."""
    return [
        PlannedStep(
            number=number, of=len(steps), text=step if isinstance(step, str) else _words(step)
        )
        for number, step in enumerate(steps)
    ]


def _words(step: Step) -> str:
    if step.say:
        return step.say.strip()
    act = getattr(step, step.choice)
    if step.call is not None:
        place = "" if step.call.partition is None else f" {step.call.partition}"
        return f"{step.call.who}: {step.call.do}{place}"
    shown = act if isinstance(act, str | int) else ""
    if not isinstance(act, str | int) and hasattr(act, "model_dump"):
        kept = act.model_dump(mode="json", by_alias=True, exclude_defaults=True)
        shown = ", ".join(f"{key} {value}" for key, value in kept.items())
    return f"{step.choice.rstrip('_').replace('_', ' ')}: {shown}"
