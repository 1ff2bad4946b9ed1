"""What all tests share: the seeds, and a log that can be captured.

A test that asks for ``seed`` runs once per seed; its id and its failure name the seed and the
command that runs it again.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Generator, Iterator
from tempfile import TemporaryDirectory

import hypothesis
import pytest
import structlog

pytest.register_assert_rewrite("tests.support")

from tests.support.chance import PROFILE_CERTAIN, PROFILE_DRAWN  # noqa: E402 - behind the line that has asserts rewritten
from tests.support.interrupts import take_interrupts  # noqa: E402 - the same

COLLECTED_AFTER = 50_000
"""New objects before the garbage collector looks at them: a cluster in memory has about so many."""

pytest_plugins = ["pytester", "tests.support.hang_watch"]


for profile in (PROFILE_CERTAIN, PROFILE_DRAWN):
    hypothesis.settings.register_profile(
        profile,
        derandomize=profile == PROFILE_CERTAIN,
        max_examples=50,  # what is rare is looked for by tests/fuzz
        # How long an example takes says more about the machine: pytest's time-out finds a hang.
        deadline=None,
        suppress_health_check=[hypothesis.HealthCheck.too_slow],
    )
hypothesis.settings.load_profile(PROFILE_CERTAIN)


@pytest.fixture(autouse=True)
def undisturbed_clients(request: pytest.FixtureRequest) -> None:
    """Keep the collector from what thousands of tests have left while a client of others plays.

    A full collection of a long run takes longer than the time-outs that a story gives its producer.
    Unit tests tell their stories in virtual time, but for those of players.
    """
    test_id = request.node.nodeid
    is_virtual = test_id.startswith("tests/lab/scenario/") and "/players/" not in test_id
    is_told = ("scenario" in test_id and not is_virtual) or test_id.startswith(
        "tests/lab/catalogue/"
    )
    if is_told or request.node.get_closest_marker("clients") is not None:
        gc.collect()
        gc.freeze()


@pytest.fixture(autouse=True)
def loggers_as_they_were() -> Iterator[None]:
    """What a test sets up counts for that test alone: one that plays runs here quietens brokers."""
    config_before = structlog.get_config()
    yield
    structlog.configure(**config_before)


@pytest.fixture
def all_levels() -> Iterator[None]:
    """Capture all log levels, because another test may have set a higher level."""
    levels_before = structlog.get_config()
    structlog.reset_defaults()
    yield
    structlog.configure(**levels_before)


def pytest_configure(config: pytest.Config) -> None:
    """Make the folder of ``tests.support.shared_results``, unless another process has made it.

    What is imported and collected stays: a collector that looks at it finds nothing.
    """
    gc.set_threshold(COLLECTED_AFTER)
    take_interrupts()
    from tests.support.shared_folder import FOLDER  # behind the line that has its asserts rewritten

    if FOLDER not in os.environ:
        folder = TemporaryDirectory(prefix="txnsim-told-once-")
        config.add_cleanup(folder.cleanup)
        variables = pytest.MonkeyPatch()
        variables.setenv(FOLDER, folder.name)
        config.add_cleanup(variables.undo)


def pytest_collection_finish() -> None:
    """What has been imported and collected stays: the collector need not look at it again."""
    gc.collect()
    gc.freeze()


def pytest_addoption(parser: pytest.Parser) -> None:
    """``--seeds N`` runs seeds 0 … N-1, ``--seed S`` only that one."""
    group = parser.getgroup("txnsim")
    group.addoption("--seeds", type=int, default=3, metavar="N", help="run seeds 0 … N-1")
    group.addoption("--seed", type=int, action="append", metavar="S", help="run only this seed")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Hand every requested seed to the tests that ask for one."""
    if "seed" in metafunc.fixturenames:
        option: list[int] | None = metafunc.config.getoption("--seed")
        seeds = option if option is not None else list(range(metafunc.config.getoption("--seeds")))
        metafunc.parametrize("seed", seeds, ids=[f"seed={seed}" for seed in seeds])


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add the command that repeats a failure to the report of a test with a seed."""
    report = yield
    callspec = getattr(item, "callspec", None)
    if report.failed and callspec is not None and "seed" in callspec.params:
        name = item.nodeid.split("[")[0]
        command = f"python -m pytest -m '' {name} --seed {callspec.params['seed']}"
        report.sections.append(("see it again", command))
    return report
