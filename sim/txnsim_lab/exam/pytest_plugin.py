"""The exam as pytest tests of a library, one test per situation (docs/exam.md). Loaded by
``txnsim.testing.plugin``; it imports no other module of txnsim until a test uses its fixture.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import pytest

if TYPE_CHECKING:
    from txnsim.testing.event_loop import LoopThread
    from txnsim_lab.exam.run import Exam

MARKER: Final = "txnsim_exam"
_DRIVERS: Final = pytest.StashKey["Drivers"]()


def pytest_configure(config: pytest.Config) -> None:
    """Declare the marker of the exam."""
    config.addinivalue_line(
        "markers",
        f"{MARKER}(driver, core=False, only=(), levels=(0, 1, 2), known=()): what the fixture "
        f"{MARKER} asks of the library behind a driver",
    )


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Make one test per situation and level.

    Raises:
        pytest.UsageError: The marker names no driver.
    """
    if MARKER not in metafunc.fixturenames:
        return
    from txnsim.errors import ConfigError
    from txnsim_lab.exam.run import choose_situations
    from txnsim_lab.exam.situations import SITUATIONS

    marker = metafunc.definition.get_closest_marker(MARKER)
    if marker is None or "driver" not in marker.kwargs:
        raise pytest.UsageError(f"say @pytest.mark.{MARKER}(driver='python my_driver.py')")
    options = {"core": False, "only": (), "levels": (0, 1, 2), "known": (), **marker.kwargs}
    try:
        situations = choose_situations(SITUATIONS, options["only"], is_core_only=options["core"])
    except ConfigError as error:
        raise pytest.UsageError(str(error)) from None
    rows = [
        (situation, level)
        for level in options["levels"]
        for situation in situations
        if level in situation.levels
    ]
    expected_miss = pytest.mark.xfail(reason="known", strict=True)
    parameter_sets = [
        pytest.param(
            (options["driver"], situation, level),
            id=f"{situation.name}@{level}",
            marks=[expected_miss] if f"{situation.name}@{level}" in options["known"] else [],
        )
        for situation, level in rows
    ]
    metafunc.parametrize(MARKER, parameter_sets, indirect=True)


@pytest.fixture
def txnsim_exam(request: pytest.FixtureRequest) -> Callable[[], None]:
    """Play the situation of the test. The test fails with a story if the library fails, and is
    skipped if the situation does not apply. A situation among ``known`` must fail.
    """
    drivers = request.config.stash.get(_DRIVERS, None)
    if drivers is None:
        drivers = request.config.stash[_DRIVERS] = Drivers()
    command, situation, level = request.param
    exam_drivers = drivers

    def play() -> None:
        from txnsim_lab.exam.results import SituationOutcome

        situation_result = exam_drivers.play(command, situation, level)
        if situation_result.outcome is SituationOutcome.DOES_NOT_APPLY:
            pytest.skip("; ".join(situation_result.because))
        if situation_result.outcome is SituationOutcome.MISSED:
            expected_line = f"expected: {situation_result.yardstick}"
            summary = (
                situation_result.asks,
                *situation_result.because,
                expected_line,
                "",
                *situation_result.steps,
            )
            failure_lines = (*summary, "", *situation_result.story)
            pytest.fail("\n".join(failure_lines), pytrace=False)

    return play


def pytest_unconfigure(config: pytest.Config) -> None:
    """End the drivers."""
    drivers = config.stash.get(_DRIVERS, None)
    if drivers is not None:
        drivers.close()


class Drivers:
    """The running drivers of this process, and the event loop that they run in."""

    def __init__(self) -> None:
        from txnsim.testing.event_loop import LoopThread

        self._thread: LoopThread = LoopThread()
        self._exams: dict[str, Exam] = {}

    def play(self, command: str, situation: Any, level: int) -> Any:
        """Play one situation; returns its result.

        Raises:
            ConfigError: The driver can't be started, or does not speak the contract.
        """
        from txnsim_lab.exam.run import Exam
        from txnsim_lab.exam.targets import SimulatedTargets

        exam = self._exams.get(command)
        if exam is None:
            exam = Exam(command, SimulatedTargets())
            self._thread.cluster_loop.block(exam.begin())
            self._exams[command] = exam
        return self._thread.cluster_loop.block(exam.play(situation, level))

    def close(self) -> None:
        """End the drivers and the loop."""
        for exam in self._exams.values():
            self._thread.cluster_loop.block(exam.end())
        self._thread.stop()
