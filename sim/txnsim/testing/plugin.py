"""The pytest plugin: a fresh cluster for a test, faults, clock, assertions, and what happened when
a test has failed. Found by its entry point (``pytest11``).

pytest loads it in every run of whoever has txnsim installed. So it imports nothing of txnsim until
a test asks for a fixture, and does nothing for tests that don't.

All clusters of a process live in one background thread, so it takes no plugin for asynchronous
tests: the ``async_…`` fixtures are the same clusters, for coroutines of any asyncio loop.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from typing import TYPE_CHECKING, Any, Final

import pytest

if TYPE_CHECKING:
    from txnsim.testing.blocking import Clock, Faults, SimulatedKafka
    from txnsim.testing.cluster import AsyncSimulatedKafka
    from txnsim.testing.faults import AsyncFaults
    from txnsim.testing.life import AsyncClock
    from txnsim.testing.session import Guard

MARKER: Final = "txnsim"
GUARD: Final = pytest.StashKey["Guard"]()
"""What there is in this process; made when the first test wants a cluster."""
INI: Final = {
    "txnsim_brokers": "brokers of a cluster",
    "txnsim_topics": "topics of a cluster, a line NAME:PARTITIONS each",
    "txnsim_transaction_version": "level of the feature transaction.version",
    "txnsim_settings": "settings by Kafka's names, a line NAME=VALUE each",
    "txnsim_as_version": "release of Apache Kafka to behave as",
    "txnsim_trace": "how much is recorded for the report of a failing test: off, brief or full",
}
REPEATABLE: Final = "txnsim_repeatable"
LISTS: Final = frozenset({"txnsim_topics", "txnsim_settings"})


def pytest_addoption(parser: pytest.Parser) -> None:
    """The ini options: what every cluster is like unless a marker says otherwise."""
    for name, meaning in INI.items():
        if name in LISTS:
            parser.addini(name, meaning, type="linelist")
        else:
            parser.addini(name, meaning)
    repeatable = "start pytest in a process where virtual runs repeat, other clients' runs too"
    parser.addini(REPEATABLE, repeatable, type="bool", default=False)
    group = parser.getgroup("txnsim")
    group.addoption("--txnsim-repeatable", action="store_true", default=False, help=repeatable)
    group.addoption(
        "--txnsim-seed",
        type=int,
        metavar="N",
        help="seed of every virtual run, whatever its test says",
    )


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> Generator[None]:
    """Arrange the process before pytest takes its output: it may start again."""
    if _is_to_repeat(early_config):
        from txnsim.testing.repeating import arrange  # nothing of txnsim unless it is wanted

        arrange(early_config)
    return (yield)


def pytest_report_header(config: pytest.Config) -> str | None:
    """Whether runs repeat, where that was asked for."""
    if not _is_to_repeat(config):
        return None
    from txnsim.runtime.virtual.process import limits_of_process
    from txnsim.testing.repeating import header

    return header(limits_of_process())


def _is_to_repeat(config: pytest.Config) -> bool:
    asked: bool = config.known_args_namespace.txnsim_repeatable or config.getini(REPEATABLE)
    return asked


def pytest_configure(config: pytest.Config) -> None:
    """Declare the marker."""
    config.addinivalue_line(
        "markers",
        f"{MARKER}(brokers=3, topics={{...}}, transaction_version=2, settings={{...}}, "
        "rules={...}, as_version=..., trace='brief', faults_may_miss=False): the simulated cluster "
        "of this test",
    )


def pytest_unconfigure(config: pytest.Config) -> None:
    """End the thread of the clusters."""
    guard = config.stash.get(GUARD, None)
    if guard is not None:
        guard.close()


# Fixtures


@pytest.fixture
def txnsim_cluster(request: pytest.FixtureRequest) -> Iterator[SimulatedKafka]:
    """A fresh cluster for this test."""
    guard = _guard(request.config)
    with guard.cluster_of(request.node) as kafka:
        yield kafka
        guard.judge(request.node)


@pytest.fixture(scope="session")
def txnsim_session_cluster(request: pytest.FixtureRequest) -> Iterator[SimulatedKafka]:
    """One cluster for all tests of this process; after each test its faults are taken back, and
    nothing else. ``reset()`` begins anew.
    """
    with _guard(request.config).session_cluster() as kafka:
        yield kafka


@pytest.fixture
def faults(request: pytest.FixtureRequest) -> Faults:
    """The faults of this test's cluster."""
    return _cluster_in_use(request).faults


@pytest.fixture
def clock(request: pytest.FixtureRequest) -> Clock:
    """The clock of this test's cluster."""
    return _cluster_in_use(request).clock


@pytest.fixture
def wait_until_struck(request: pytest.FixtureRequest) -> Callable[..., None]:
    """``faults.wait_until_struck`` of this test's cluster."""
    waits: Callable[..., None] = _cluster_in_use(request).faults.wait_until_struck
    return waits


@pytest.fixture
def assert_no_hanging_transactions(request: pytest.FixtureRequest) -> Callable[[], None]:
    """The assertion of this test's cluster."""
    return _cluster_in_use(request).assert_no_hanging_transactions


@pytest.fixture
def assert_exactly_once(request: pytest.FixtureRequest) -> Callable[..., None]:
    """The assertion of this test's cluster."""
    return _cluster_in_use(request).assert_exactly_once


@pytest.fixture
def assert_all_faults_struck(request: pytest.FixtureRequest) -> Callable[[], None]:
    """The assertion of this test's cluster, for the middle of a test: its end asks anyhow."""
    return _cluster_in_use(request).assert_all_faults_struck


@pytest.fixture
def async_txnsim_cluster(txnsim_cluster: SimulatedKafka) -> AsyncSimulatedKafka:
    """``txnsim_cluster`` for coroutines."""
    return txnsim_cluster.asynchronous


@pytest.fixture(scope="session")
def async_txnsim_session_cluster(txnsim_session_cluster: SimulatedKafka) -> AsyncSimulatedKafka:
    """``txnsim_session_cluster`` for coroutines."""
    return txnsim_session_cluster.asynchronous


@pytest.fixture
def async_faults(request: pytest.FixtureRequest) -> AsyncFaults:
    """``faults`` for coroutines."""
    return _cluster_in_use(request).asynchronous.faults


@pytest.fixture
def async_clock(request: pytest.FixtureRequest) -> AsyncClock:
    """``clock`` for coroutines."""
    return _cluster_in_use(request).asynchronous.clock


@pytest.fixture
def async_wait_until_struck(request: pytest.FixtureRequest) -> Callable[..., Any]:
    """``wait_until_struck`` for coroutines."""
    return _cluster_in_use(request).asynchronous.faults.wait_until_struck


@pytest.fixture
def txnsim_virtual(request: pytest.FixtureRequest) -> Iterator[Callable[..., Any]]:
    """``txnsim_virtual(main, seed=7)`` runs ``await main(kafka)`` beside a cluster in virtual time.

    ``kafka`` is an ``AsyncSimulatedKafka``; options as in the marker.
    """
    guard = _guard(request.config)
    yield guard.virtual_of(request.node)
    guard.judge(request.node)


def _cluster_in_use(request: pytest.FixtureRequest) -> SimulatedKafka:
    """The cluster that the test has asked for; a fresh one if it has asked for none."""
    names = {"txnsim_session_cluster", "async_txnsim_session_cluster"}
    shared = not names.isdisjoint(request.fixturenames)
    name = "txnsim_session_cluster" if shared else "txnsim_cluster"
    kafka: SimulatedKafka = request.getfixturevalue(name)
    return kafka


def _guard(config: pytest.Config) -> Guard:
    guard = config.stash.get(GUARD, None)
    if guard is None:
        from txnsim.testing.session import Guard  # all of txnsim, now that somebody wants it

        guard = config.stash[GUARD] = Guard({name: config.getini(name) for name in INI})
    return guard


# Around each test


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None, Any, Any]:
    """Note where the shared cluster stands."""
    guard = item.config.stash.get(GUARD, None)
    if guard is not None:
        guard.begin()
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, Any, Any]:
    """Take back the faults of the shared cluster, and ask whether they struck."""
    result = yield
    guard = item.config.stash.get(GUARD, None)
    if guard is not None:
        guard.end(item)
    return result


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A failing test shows what happened in its cluster."""
    report = yield
    guard = item.config.stash.get(GUARD, None)
    if guard is not None and report.failed:
        guard.failed()
        report.sections.extend(guard.sections(item))
    return report
