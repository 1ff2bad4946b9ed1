"""Plays a scenario in virtual time and writes the log directories of its brokers, as a stop in
order at its end would leave them: for readers of disks (``txnsim logs``).
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Iterable
from pathlib import Path

import msgspec

from txnsim.files import write_all
from txnsim.runtime.environment import Environment
from txnsim.runtime.trace import TraceLevel
from txnsim.runtime.virtual.run import run_virtual
from txnsim.server.cluster import SimCluster
from txnsim.server.log_dirs import LogDirsCut
from txnsim.storage.stored_file import StoredFile
from txnsim.wire.codec import run_to_end
from txnsim_lab.scenario.finding_story import RUN_NAME, FindingStory
from txnsim_lab.scenario.runner import FAILED_VERDICT, SEED_DEFAULT, RunResult, ScenarioRun, run_on
from txnsim_lab.scenario.scenario_reader import read
from txnsim_lab.scenario.stage import simulated_target
from txnsim_lab.target.simulated import SimulatedTarget


class StoryDisks(msgspec.Struct, frozen=True, kw_only=True):
    """What a story came to, and the disks that it left."""

    result: RunResult
    directories: tuple[Path, ...]
    stopped_at_ms: int
    """The cluster's time at the end."""


def play_onto_disks(
    scenario_run: ScenarioRun, folder: Path, *, seed: int = SEED_DEFAULT
) -> StoryDisks:
    """Play a story, also the looks at its end, and write its disks.

    Args:
        scenario_run: The run to play; it has no application.
        folder: Gets a directory for each broker.
        seed: Seed of all randomness.

    Raises:
        ConfigError: The cluster can't be configured as the story needs, or a file can't be written.
    """
    directories: list[Path] = []
    end_ms: list[int] = []

    @contextlib.asynccontextmanager
    async def target_with_disks(environment: Environment) -> AsyncIterator[SimulatedTarget]:
        scenario = scenario_run.scenario
        run = scenario.runs[scenario_run.run]
        async with simulated_target(scenario, run, environment) as target:
            yield target
            end_ms.append(environment.clock.now_ms())
            directories.extend(write_disks(target.cluster, folder))

    async def play(environment: Environment) -> RunResult:
        return await run_on(
            scenario_run, environment, {}, target_with_disks(environment), seed=seed
        )

    result = run_virtual(play, seed=seed, trace_level=TraceLevel.BRIEF)
    return StoryDisks(
        result=result,
        directories=tuple(directories),
        stopped_at_ms=end_ms[-1] if end_ms else -1,
    )


class PlayedStory(msgspec.Struct, frozen=True, kw_only=True):
    """The story of a finding, played."""

    yaml_text: str
    """Its file, with the verdict of the judges."""
    verdict: tuple[str, ...]
    failure: str
    """Why the story did not reach its end; empty if it did."""
    directories: tuple[Path, ...]
    stopped_at_ms: int
    """The cluster's time at the end."""


def play_finding_story(story: FindingStory, folder: Path) -> PlayedStory:
    """Play the story of a finding, and write its disks.

    Raises:
        ConfigError: A file can't be written.
    """
    scenario = read(f"{story.document['name']}.yaml", story.to_yaml())
    disks = play_onto_disks(ScenarioRun(scenario=scenario, run=RUN_NAME), folder)
    observed = disks.result.verdict.observed
    has_failed = observed == (FAILED_VERDICT,)
    return PlayedStory(
        yaml_text=story.to_yaml(() if has_failed else observed),
        verdict=observed,
        failure="; ".join(disks.result.verdict.because) if has_failed else "",
        directories=disks.directories,
        stopped_at_ms=disks.stopped_at_ms,
    )


def write_disks(cluster: SimCluster, folder: Path) -> tuple[Path, ...]:
    """Write the log directories of all brokers at one moment; returns their paths.

    Raises:
        ConfigError: A file can't be written.
    """
    broker_ids = sorted(cluster.metadata.image.brokers)
    log_dirs_cut = LogDirsCut.of_cluster(cluster, broker_ids)
    paths = []
    for broker_id in broker_ids:
        path = folder / f"broker-{broker_id}"
        write_stored_files(path, run_to_end(log_dirs_cut.files_in_steps(broker_id)))
        paths.append(path)
    return tuple(paths)


def write_stored_files(directory: Path, files: Iterable[StoredFile]) -> None:
    """Write the files of a log directory.

    Raises:
        ConfigError: A file can't be written.
    """
    files_by_folder: dict[Path, dict[str, bytes]] = {directory: {}}
    for file in files:
        target_path = directory / file.path
        files_by_folder.setdefault(target_path.parent, {})[target_path.name] = b"".join(file.parts)
    for folder, files_of_folder in files_by_folder.items():
        write_all(folder, files_of_folder)
