"""The pytest plugin: a new cluster for each test, faults, clock, assertions, and a report of what
happened when a test has failed. pytest finds it by its entry point (``pytest11``).

pytest loads it in every run where txnsim is installed. So it imports nothing of txnsim until a test
asks for a fixture, and does nothing for other tests.

All clusters of a process run in one background thread, so no plugin for asynchronous tests is
needed: the ``async_…`` fixtures are the same clusters, for coroutines of any asyncio loop.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from txnsim.on_demand_imports import offering

if TYPE_CHECKING:
    from txnsim.testing._blocking import Clock, Faults, SimulatedKafka
    from txnsim.testing._clock_and_brokers import AsyncClock
    from txnsim.testing._session import ClusterGuard
    from txnsim.testing.cluster import AsyncSimulatedKafka
    from txnsim.testing.faults import AsyncFaults

pytest_plugins = offering("exam.pytest_plugin")

MARKER: Final = "txnsim"
GUARD: Final = pytest.StashKey["ClusterGuard"]()
"""The ``ClusterGuard`` of this process; created when the first test asks for a cluster."""
INI_OPTIONS: Final = {
    "txnsim_brokers": "brokers of a cluster",
    "txnsim_first_broker_id": "id of a cluster's first broker",
    "txnsim_topics": "topics of a cluster, a line NAME:PARTITIONS each",
    "txnsim_transaction_version": "level of the feature transaction.version",
    "txnsim_virgin": "true: without Kafka's internal topics, as a cluster that was never used",
    "txnsim_settings": "settings by Kafka's names, a line NAME=VALUE each",
    "txnsim_as_version": "release of Apache Kafka to behave as",
    "txnsim_trace": "how much is recorded for the report of a failing test: off, brief or full",
}
REPEATABLE_INI: Final = "txnsim_repeatable"
REPORTS_FOLDER: Final = "txnsim-reports"
"""Folder for pages of failing tests, below the directory in which pytest was started."""
LIST_OPTIONS: Final = frozenset({"txnsim_topics", "txnsim_settings"})
TXNSIM_FOLDER: Final = Path(__file__).parents[1]
"""Folder of txnsim's own modules, to recognise their traceback frames."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the command-line options and the ini options: defaults of every cluster, which a marker
    can override.
    """
    for option_name, option_help in INI_OPTIONS.items():
        if option_name in LIST_OPTIONS:
            parser.addini(option_name, option_help, type="linelist")
        else:
            parser.addini(option_name, option_help)
    repeatable_help = "start pytest in a process where virtual runs repeat, other clients' runs too"
    parser.addini(REPEATABLE_INI, repeatable_help, type="bool", default=False)
    option_group = parser.getgroup("txnsim")
    option_group.addoption(
        "--txnsim-repeatable", action="store_true", default=False, help=repeatable_help
    )
    option_group.addoption(
        "--txnsim-bootstrap",
        metavar="HOST:PORT",
        help="run the tests on this cluster instead of simulated ones (also TXNSIM_BOOTSTRAP); "
        "those that need a simulator are skipped",
    )
    option_group.addoption(
        "--txnsim-report",
        choices=("html", "html-redacted"),
        help="a failing test leaves a page of what happened in its cluster, one file below "
        f"{REPORTS_FOLDER}/; it holds record values, html-redacted leaves them out",
    )
    option_group.addoption(
        "--txnsim-proxy",
        action="store_true",
        default=False,
        help="put a fault proxy in front of the cluster of --txnsim-bootstrap (also "
        "TXNSIM_PROXY=1): tests with faults of clients run there, too",
    )
    option_group.addoption(
        "--txnsim-seed",
        type=int,
        metavar="N",
        help="seed of every virtual run, also where its test sets one",
    )


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> Generator[None]:
    """Make runs reproducible before pytest captures output, because that may restart
    the process.
    """
    if _is_repeatable_run(early_config):
        from txnsim.testing._repeating import (
            restart_reproducibly,
        )  # loads txnsim only if it is wanted

        restart_reproducibly(early_config)
    return (yield)


def pytest_report_header(config: pytest.Config) -> str | None:
    """Say in pytest's header whether virtual runs are reproducible, and on which other cluster
    tests run.
    """
    other_bootstrap = _other_bootstrap(config)
    if other_bootstrap is not None:
        return f"txnsim: on {other_bootstrap}, without a simulator"
    if not _is_repeatable_run(config):
        return None
    from txnsim.runtime.virtual.reproducible_process import limits_of_process
    from txnsim.testing._repeating import report_header

    return report_header(limits_of_process())


def _other_bootstrap(config: pytest.Config) -> str | None:
    """Address of the cluster that tests run on instead of simulated ones; None if there is none."""
    bootstrap_option: str | None = config.getoption("--txnsim-bootstrap")
    return bootstrap_option or os.environ.get("TXNSIM_BOOTSTRAP") or None


def _is_repeatable_run(config: pytest.Config) -> bool:
    is_repeatable: bool = config.known_args_namespace.txnsim_repeatable or config.getini(
        REPEATABLE_INI
    )
    return is_repeatable


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker."""
    config.addinivalue_line(
        "markers",
        f"{MARKER}(brokers=3, topics={{...}}, transaction_version=2, settings={{...}}, "
        "rules={...}, as_version=..., trace='brief', faults_may_miss=False): the simulated cluster "
        "of this test",
    )


def pytest_unconfigure(config: pytest.Config) -> None:
    """Stop the thread of the clusters."""
    guard = config.stash.get(GUARD, None)
    if guard is not None:
        guard.close()


# Fixtures


@pytest.fixture
def txnsim_cluster(request: pytest.FixtureRequest) -> Iterator[SimulatedKafka]:
    """A new cluster for this test."""
    guard = _guard(request.config)
    with guard.cluster_of(request.node) as kafka:
        yield kafka
        guard.check_own_faults(request.node)


@pytest.fixture(scope="session")
def txnsim_session_cluster(request: pytest.FixtureRequest) -> Iterator[SimulatedKafka]:
    """One cluster for all tests of this process; after each test only its faults are disarmed.
    ``reset()`` starts it again.
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
    """The method ``faults.wait_until_struck`` of this test's cluster."""
    wait_method: Callable[..., None] = _cluster_in_use(request).faults.wait_until_struck
    return wait_method


@pytest.fixture
def assert_no_hanging_transactions(request: pytest.FixtureRequest) -> Callable[[], None]:
    """The method ``assert_no_hanging_transactions`` of this test's cluster."""
    return _cluster_in_use(request).assert_no_hanging_transactions


@pytest.fixture
def assert_exactly_once(request: pytest.FixtureRequest) -> Callable[..., None]:
    """The method ``assert_exactly_once`` of this test's cluster."""
    return _cluster_in_use(request).assert_exactly_once


@pytest.fixture
def assert_all_faults_struck(request: pytest.FixtureRequest) -> Callable[[], None]:
    """The method of this test's cluster, for the middle of a test: the end of a test checks it
    anyway.
    """
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
    """``txnsim_virtual(main, seed=7)`` runs ``await main(kafka)`` with a cluster in virtual time.

    ``kafka`` is an ``AsyncSimulatedKafka``; the options are those of the marker.
    """
    guard = _guard(request.config)
    yield guard.virtual_runner(request.node)
    guard.check_own_faults(request.node)


def _cluster_in_use(request: pytest.FixtureRequest) -> SimulatedKafka:
    """The cluster of the test's fixtures; a new cluster if it has none."""
    shared_fixtures = {"txnsim_session_cluster", "async_txnsim_session_cluster"}
    is_shared = not shared_fixtures.isdisjoint(request.fixturenames)
    fixture_name = "txnsim_session_cluster" if is_shared else "txnsim_cluster"
    kafka: SimulatedKafka = request.getfixturevalue(fixture_name)
    return kafka


def _guard(config: pytest.Config) -> ClusterGuard:
    guard = config.stash.get(GUARD, None)
    if guard is None:
        with _without_rewriting(config):
            # This loads all of txnsim, now that a test wants it.
            from txnsim.testing._session import ClusterGuard

        ini_options = {option_name: config.getini(option_name) for option_name in INI_OPTIONS}
        has_proxy = config.getoption("--txnsim-proxy") or os.environ.get("TXNSIM_PROXY") == "1"
        guard = config.stash[GUARD] = ClusterGuard(
            ini_options, other_bootstrap=_other_bootstrap(config), has_proxy=has_proxy
        )
    return guard


@contextmanager
def _without_rewriting(config: pytest.Config) -> Iterator[None]:
    """Import modules as pip has compiled them.

    pytest rewrites the assertions of each package that has a plugin, and so compiles the whole
    package again: two seconds in the first run of a new environment, thus in every CI job. Our
    assertions are for us; users don't read them.
    """
    rewrite_hook = getattr(config.pluginmanager, "rewrite_hook", None)
    if rewrite_hook not in sys.meta_path:
        yield
        return
    hook_index = sys.meta_path.index(rewrite_hook)
    sys.meta_path.remove(rewrite_hook)
    try:
        yield
    finally:
        sys.meta_path.insert(hook_index, rewrite_hook)


# Around each test


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None, Any, Any]:
    """Note the position of the shared cluster's trace."""
    guard = item.config.stash.get(GUARD, None)
    if "txnsim_session_cluster" in getattr(item, "fixturenames", ()):
        _guard(item.config).refuse_own_options(item)
    if guard is not None:
        guard.begin_test()
    try:
        return (yield)
    except Exception as error:
        if not _is_mistake(item, error):
            raise
        error_text = str(error)
    pytest.fail(error_text, pytrace=False)  # the message names the place; our stack frames say less


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, Any, Any]:
    """Disarm the faults of the shared cluster, and check that they have struck."""
    hook_result = yield
    guard = item.config.stash.get(GUARD, None)
    if guard is not None:
        guard.end_test(item)
    return hook_result


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, Any]:
    """Show the report about the cluster of a test that is interrupted because it hangs."""
    try:
        return (yield)
    except KeyboardInterrupt:
        guard = item.config.stash.get(GUARD, None)
        if guard is not None:
            guard.note_failure()
            _print_sections(item.config, guard.sections(item))
        raise


def _print_sections(config: pytest.Config, sections: list[tuple[str, str]]) -> None:
    """Print sections to the terminal, even while the test's output is captured."""
    terminal_reporter = config.pluginmanager.get_plugin("terminalreporter")
    capture = config.pluginmanager.get_plugin("capturemanager")
    if terminal_reporter is None:
        return
    if capture is not None:
        capture.suspend_global_capture(in_=True)
    try:
        for title, section_text in sections:
            terminal_reporter.write_sep("-", title)
            terminal_reporter.write_line(section_text)
    finally:
        if capture is not None:
            capture.resume_global_capture()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add the report about its cluster to a failing test."""
    if call.excinfo is not None and _is_mistake(item, call.excinfo.value):
        # The traceback ends at the line of the test.
        traceback_entries = call.excinfo.traceback
        entry_paths = [Path(entry.path) for entry in traceback_entries]
        if item.path in entry_paths:
            test_index = entry_paths.index(item.path)
            own_indexes = (
                entry_index
                for entry_index, entry_path in enumerate(entry_paths)
                if entry_index > test_index and TXNSIM_FOLDER in entry_path.parents
            )
            call.excinfo.traceback = traceback_entries[: next(own_indexes, None)]
    report = yield
    guard = item.config.stash.get(GUARD, None)
    if guard is not None and report.failed:
        guard.note_failure()
        report.sections.extend(guard.sections(item))
        report.sections.extend(_page_of(item, guard, phase=report.when))
    return report


def _is_mistake(item: pytest.Item, error: BaseException) -> bool:
    """Whether the error is a mistake in the test's own input."""
    if GUARD not in item.config.stash:
        return False
    from txnsim.errors import ConfigError
    from txnsim.value_errors import WrongValueError

    return isinstance(error, ConfigError | WrongValueError)


def _page_of(item: pytest.Item, guard: ClusterGuard, *, phase: str | None) -> list[tuple[str, str]]:
    """Write the page of a failing test if that is enabled; returns the section that names it."""
    report_form: str | None = item.config.getoption("--txnsim-report")
    if report_form is None:
        return []
    from txnsim.testing._report import write_page

    test_name = item.nodeid if phase == "call" else f"{item.nodeid} {phase}"
    reports_folder = item.config.invocation_params.dir / REPORTS_FOLDER
    return write_page(
        reports_folder, test_name, guard.traces(item), redacts=report_form == "html-redacted"
    )
