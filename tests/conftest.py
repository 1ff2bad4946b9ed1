"""What all tests share: the seeds.

A test that asks for ``seed`` runs once per seed; its id and its failure name the seed and the
command that runs it again.
"""

from __future__ import annotations

import gc
from collections.abc import Generator, Iterator

import pytest

pytest.register_assert_rewrite("tests.support")

pytest_plugins = ["pytester"]


@pytest.fixture(autouse=True)
def undisturbed_clients(request: pytest.FixtureRequest) -> Iterator[None]:
    """Keep the collector from what thousands of tests have left while a client of others plays.

    A full collection of a long run takes longer than the time-outs that a story gives its producer.
    """
    if "scenario" not in request.node.nodeid and request.node.get_closest_marker("clients") is None:
        yield
        return
    gc.freeze()
    yield
    gc.unfreeze()


def pytest_addoption(parser: pytest.Parser) -> None:
    """``--seeds N`` runs seeds 0 … N-1, ``--seed S`` only that one."""
    group = parser.getgroup("txnsim")
    group.addoption("--seeds", type=int, default=3, metavar="N", help="run seeds 0 … N-1")
    group.addoption("--seed", type=int, action="append", metavar="S", help="run only this seed")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Hand every requested seed to the tests that ask for one."""
    if "seed" in metafunc.fixturenames:
        chosen: list[int] | None = metafunc.config.getoption("--seed")
        seeds = chosen if chosen is not None else list(range(metafunc.config.getoption("--seeds")))
        metafunc.parametrize("seed", seeds, ids=[f"seed={seed}" for seed in seeds])


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A failure under a seed says how to see it again."""
    report = yield
    callspec = getattr(item, "callspec", None)
    if report.failed and callspec is not None and "seed" in callspec.params:
        name = item.nodeid.split("[")[0]
        command = f"python -m pytest -m '' {name} --seed {callspec.params['seed']}"
        report.sections.append(("see it again", command))
    return report
