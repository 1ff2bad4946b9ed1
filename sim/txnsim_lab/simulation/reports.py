"""What is left of a finding for people: files, a cause, the smallest run, the command that repeats
it.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec

from txnsim.files import write_all
from txnsim.releases import REFERENCE, release_named
from txnsim.runtime.trace import TraceLevel
from txnsim_lab.simulation._causes import Cause, causes_of
from txnsim_lab.simulation._plan import Plan
from txnsim_lab.simulation._sentences import sentence_of
from txnsim_lab.simulation._shrinking import shrink
from txnsim_lab.simulation._story import Story, pytest_of, story_of
from txnsim_lab.simulation.drawing import Wanted, draw
from txnsim_lab.simulation.play import Done, Finding, play


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """One finding."""

    seed: int
    kinds: tuple[str, ...]
    because: tuple[str, ...]
    causes: tuple[Cause, ...]
    """Changes that together make the run healthy; empty if none is known."""
    files: tuple[str, ...]
    of_smallest: str = ""
    """What makes the smallest run healthy, where nothing known explains the whole."""
    shrunk: int | None = None
    """How many acts the smallest plan has; None where it was not shrunk."""
    steps: int | None = None
    """Steps of the scenario file; None where steps can't say it."""
    tries: int = 0
    release: str = REFERENCE.patch_release
    """Kafka release; a real broker of that release can be compared."""
    told: tuple[str, ...] = ()
    """The smallest run, in numbered sentences."""

    def lines(self, *, again: str = "") -> Iterator[str]:
        """For a terminal.

        Args:
            again: Options that belong to the command that repeats it.
        """
        names = "; and ".join(map(str, self.causes))
        name = f"This is {names}." if names else "No switch explains it."
        if self.of_smallest:
            name += f" Its smallest run is {self.of_smallest}, and not all of it."
        yield f"Seed {self.seed}: {', '.join(self.kinds)}. {name}"
        for sentence in self.because[:3]:
            yield f"  {sentence}"
        if self.shrunk is not None:
            steps = f", a story of {self.steps} steps" if self.steps is not None else ""
            yield f"  Shrunk in {self.tries} runs to {self.shrunk} acts{steps}:"
            yield from (f"    {sentence}" for sentence in self.told)
        yield f"  again: txnsim simulate --seed {self.seed}{again}"
        for path in self.files:
            if path.endswith(".yaml"):
                told = f"txnsim scenario run {path} --armed"
                yield f"  see it: {told} --open"
                yield f"  ask a real Kafka: {told} --on apache-{self.release}"
        yield from (f"  {path}" for path in self.files)


def report_on(seed: int, wanted: Wanted, *, folder: Path, shrinks: bool) -> Report:
    """Look closely at a seed that has findings, and write its files."""
    return written(*looked_at(seed, wanted, shrinks=shrinks), folder=folder)


def written(report: Report, files: dict[str, bytes], *, folder: Path) -> Report:
    """Write the files of a report; the report with their paths.

    Raises:
        ConfigError: They can't be written.
    """
    return msgspec.structs.replace(report, files=write_files(folder, files))


def looked_at(seed: int, wanted: Wanted, *, shrinks: bool) -> tuple[Report, dict[str, bytes]]:
    """Look closely at a seed that has findings: the report, and its files by their names."""
    plan = draw(seed, wanted)
    played = play(plan, trace_level=TraceLevel.BRIEF)
    kinds, causes = played.kinds, causes_of(plan)
    stem = f"seed-{seed}"
    files = {
        f"{stem}.history.jsonl": played.history,
        f"{stem}.trace.jsonl": played.trace,
        f"{stem}.plan.json": plan.to_json(),
    }
    as_version = plan.world.as_version
    release = REFERENCE if as_version is None else release_named(as_version)
    report = Report(
        seed=seed,
        kinds=kinds,
        because=_because(played.findings),
        causes=causes,
        files=(),
        release=release.patch_release,
    )
    if shrinks and kinds:
        (cause,) = causes if len(causes) == 1 else (None,)
        switch = (cause.switch, cause.healthy) if cause is not None and cause.switch else None
        small = shrink(plan, kinds, switch=switch)
        story = story_of(small.plan, small.played)
        files |= _files_of(stem, small.plan, story)
        report = msgspec.structs.replace(
            report,
            of_smallest="" if causes else "; and ".join(map(str, causes_of(small.plan))),
            shrunk=small.plan.size,
            tries=small.tries,
            steps=None if story is None else story.steps,
            told=tuple(_told(small.played.done)),
        )
    return report, files


def _because(findings: tuple[Finding, ...]) -> tuple[str, ...]:
    return tuple(f"{one.kind}: {one.because}" for one in findings)


def _files_of(stem: str, plan: Plan, story: Story | None) -> dict[str, bytes]:
    if story is not None:
        return {f"{stem}.yaml": story.text.encode()}
    return {f"test_{stem.replace('-', '_')}.py": pytest_of(plan).encode()}


def _told(done: tuple[Done, ...]) -> Iterator[str]:
    """Each act as a numbered sentence."""
    for number, one in enumerate(sorted(done, key=lambda one: one.at_us), 1):
        answer = "" if one.error == "NONE" else f": {one.error}"
        yield f"{number:>2}. {one.at_us / 1e6:8.3f} s  {sentence_of(one.step)}{answer}"


def write_files(folder: Path, files: dict[str, bytes]) -> tuple[str, ...]:
    """Write files by their names; their paths.

    Raises:
        ConfigError: They can't be written.
    """
    return tuple(map(str, write_all(folder, files)))
