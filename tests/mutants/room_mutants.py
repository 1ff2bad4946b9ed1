"""Does each room's own quick test run notice it when a line of the room is broken?

Mutants are drawn at random over the cores and the coordinators, as many of each room as of others.
"""

from __future__ import annotations

import pkgutil
import time
from collections import Counter
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Final

import pytest

from tests.mutants.forked_tests import ForkedTests, MutantRun, with_collected_tests
from tests.mutants.mutation import MutableModule, Mutation, running_functions
from tests.mutants.unseen_mutants import unseen_mutants
from txnsim.runtime.rng import RandomStreams

ROOMS: Final = (
    "txn",
    "log",
    "group",
    "share",
    "share_state",
    "replica",
    "controller",
    "coordinators",
)
PERCENT_MIN: Final = 95
MARKERS: Final = (
    "not slow and not clients and not spark and not seeds and not real and not image"
    " and not browser and not costly and not thorough and not nightly"
)
"""What ``python -m pytest`` runs by itself."""
SOURCE_FOLDER: Final = Path(__file__).parents[2] / "sim" / "txnsim"


def break_rooms(
    room_names: Sequence[str],
    *,
    text: str,
    seed: int,
    count: int,
    minutes: float,
    worker_count: int,
) -> int:
    """Break lines of rooms, and run each room's own tests.

    Args:
        room_names: Names of rooms; all of ``ROOMS`` without any.
        text: Only mutations whose ids contain it are drawn.
        seed: Draws the mutants.
        count: How many, over all rooms.
        minutes: After so many no further mutant begins.
        worker_count: How many processes run at the same time.

    Returns:
        The exit status: 1 if less than ``PERCENT_MIN`` of 100 are noticed, 2 for an unknown room.
    """
    rooms = [room for room in ROOMS if not room_names or room in room_names]
    if set(room_names) - set(rooms):
        print(
            f"no room {', '.join(sorted(set(room_names) - set(rooms)))}; rooms: {', '.join(ROOMS)}"
        )
        return 2
    mutations_by_room = {
        room: draw_mutations(room, text=text, seed=seed, count=len(range(index, count, len(rooms))))
        for index, room in enumerate(rooms)
    }

    def use(session: pytest.Session) -> int:
        campaign = RoomCampaign(ForkedTests(session, worker_count=worker_count), mutations_by_room)
        return campaign.run(until_s=time.monotonic() + minutes * 60)

    return with_collected_tests([folder_with_tests(room) for room in rooms], use, markers=MARKERS)


def folder_with_tests(room: str) -> str:
    """The folder with a room's own tests."""
    return f"tests/broker/{room}"


def draw_mutations(
    room: str, *, text: str = "", seed: int, count: int
) -> list[tuple[MutableModule, Mutation]]:
    """Draw different mutations of a room whose ids contain a text, those excepted that change
    nothing that can be seen.
    """
    rng = RandomStreams(seed).stream(f"mutants of {room}")
    unseen_ids = unseen_mutants()
    candidates = []
    for module_name in modules_of(room):
        module = MutableModule(module_name)
        for function_name in module.function_names:
            if running_functions(module.module, function_name):
                candidates += [
                    (module, mutation)
                    for mutation in module.mutations(function_name)
                    if text in mutation.id and mutation.id not in unseen_ids
                ]
    return rng.sample(candidates, min(count, len(candidates)))


def modules_of(room: str) -> list[str]:
    """The names of a room's modules, sorted."""
    package_module = import_module(f"txnsim.{room}")
    walked = pkgutil.walk_packages(package_module.__path__, f"{package_module.__name__}.")
    return sorted(module.name for module in walked if not module.ispkg)


class RoomCampaign:
    """Breaks the drawn lines, and counts what each room's tests notice.

    Args:
        forked: The tests of all rooms.
        drawn: Mutations with their modules, by room.
    """

    def __init__(
        self,
        forked: ForkedTests,
        mutations_by_room: dict[str, list[tuple[MutableModule, Mutation]]],
    ) -> None:
        self._forked = forked
        self._drawn = mutations_by_room

    def run(self, *, until_s: float) -> int:
        """Try mutants until the time is over, and print survivors; return the exit status."""
        for recorded_count in self._forked.record_baselines(self._forked.test_ids, SOURCE_FOLDER):
            print(
                f"{recorded_count} of {len(self._forked.test_ids)} tests without a mutant",
                flush=True,
            )
        failing = [
            test_id
            for test_id in self._forked.test_ids
            if not self._forked.baseline(test_id).passed
        ]
        if failing:
            print("fail without a mutant:", *failing, sep="\n")
            return 2
        noticed_counts: Counter[str] = Counter()
        tried_counts: Counter[str] = Counter()
        survivors = []
        reaching = self._runs(is_reaching=True)
        for room, run, killed_by in self._play(reaching, until_s):
            if killed_by is None:
                survivors.append((room, run))
            else:
                tried_counts[room] += 1
                noticed_counts[room] += 1
        # What runs once for a process was counted for the first test alone that came there.
        all_runs = [(room, self._with_other_tests(room, run)) for room, run in survivors]
        for room, run, killed_by in self._play(all_runs, float("inf")):
            tried_counts[room] += 1
            noticed_counts[room] += killed_by is not None
            if killed_by is None:
                print(f"survives: {run.mutation}", flush=True)
        return _sum_up(noticed_counts, tried_counts, sum(map(len, self._drawn.values())))

    def _runs(self, *, is_reaching: bool) -> list[tuple[str, MutantRun]]:
        runs = []
        for room, mutations in self._drawn.items():
            tests = [
                name
                for name in self._forked.test_ids
                if name.startswith(f"{folder_with_tests(room)}/")
            ]
            tests.sort(key=lambda test_id: self._forked.baseline(test_id).seconds)
            for module, mutation in mutations:
                chosen_tests = tuple(
                    test_id
                    for test_id in tests
                    if self._forked.baseline(test_id).reaches(module.path, mutation.lines)
                    is is_reaching
                )
                runs.append(
                    (room, MutantRun(module=module, mutation=mutation, test_ids=chosen_tests))
                )
        return runs

    def _with_other_tests(self, room: str, run: MutantRun) -> MutantRun:
        """The same mutant before the tests of the room that do not come to its line."""
        other_tests = {
            other_run.mutation.id: other_run
            for other_room, other_run in self._runs(is_reaching=False)
            if other_room == room
        }
        return other_tests[run.mutation.id]

    def _play(
        self, runs: Sequence[tuple[str, MutantRun]], until_s: float
    ) -> list[tuple[str, MutantRun, str | None]]:
        played_runs = []
        mutants = [run for _, run in runs]
        for index, outcome in self._forked.run(mutants, until_s=until_s):
            if not outcome.not_mutable:
                played_runs.append((*runs[index], outcome.killed_by))
            if len(played_runs) % 10 == 0:
                print(f"{len(played_runs)} of {len(runs)} mutants", flush=True)
        return played_runs


def _sum_up(noticed_counts: Counter[str], tried_counts: Counter[str], drawn_count: int) -> int:
    for room in tried_counts:
        print(f"{room:<14} {noticed_counts[room]:>4} of {tried_counts[room]}")
    percent = 100 * noticed_counts.total() / max(1, tried_counts.total())
    print(
        f"{noticed_counts.total()} of {tried_counts.total()} mutants are noticed, "
        f"{percent:.1f} of 100"
    )
    if tried_counts.total() < drawn_count:
        print(
            f"{drawn_count - tried_counts.total()} of {drawn_count} were not tried: "
            "no mutant, or time was up"
        )
    return 0 if tried_counts and percent >= PERCENT_MIN else 1
