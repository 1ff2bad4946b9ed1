"""The state of the pytest plugin during a run: the thread of the clusters, the clusters of each
test, and whether the test has failed.

Imported when the first test asks for a cluster.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

import msgspec
import pytest

from txnsim.errors import ConfigError
from txnsim.http.report import waits_text
from txnsim.server.options import topics_of
from txnsim.testing import _foreign_cluster as foreign_cluster
from txnsim.testing import _verdict_assertions as judging
from txnsim.testing._blocking import SimulatedKafka
from txnsim.testing._foreign_cluster import ForeignKafka
from txnsim.testing._repeating import SEED_OPTION, repeat_section
from txnsim.testing._report import Section, report_sections
from txnsim.testing._virtual import SEED_DEFAULT, run_virtual
from txnsim.testing.cluster import AsyncSimulatedKafka
from txnsim.testing.event_loop import LoopThread
from txnsim.testing.faults import FaultState
from txnsim.testing.options import SimulatedClusterOptions, options_from_keywords

MARKER: Final = "txnsim"
SHARED_FIXTURE: Final = "txnsim_session_cluster"
_INI_PREFIX: Final = "txnsim_"
ANSWER_SECONDS: Final = 5
"""Time for a cluster to report what its transactions wait for, in seconds."""
_MAY_MISS_OPTION: Final = "faults_may_miss"


class SessionOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options that follow from ini options and markers."""

    cluster: SimulatedClusterOptions
    faults_may_miss: bool = False


class _WatchedCluster(msgspec.Struct, frozen=True, kw_only=True):
    """A cluster of a test, and the position of its trace when the test began."""

    kafka: AsyncSimulatedKafka
    build_count: int = 0
    first_event: int = 0

    @property
    def fault_states(self) -> tuple[FaultState, ...]:
        """The states of the cluster's faults."""
        return self.kafka.faults.states_now() if self.kafka.was_started else ()

    def sections(self) -> list[Section]:
        """The sections of the report about this cluster."""
        if not self.kafka.was_started or (tracer := self.kafka.rebuilt.tracer) is None:
            return []
        is_same_round = self.kafka.rebuilt.build_count == self.build_count
        since = self.first_event if is_same_round else 0
        return report_sections(
            tracer, self.fault_states, since=since, pending_text=self._pending_text()
        )

    def _pending_text(self) -> str:
        """What the cluster's transactions wait for; empty when its event loop has stopped."""
        rebuilt_cluster = self.kafka.rebuilt
        if not rebuilt_cluster.is_running or not rebuilt_cluster.cluster_loop.loop.is_running():
            return ""

        pending_text = asyncio.run_coroutine_threadsafe(
            waits_text(rebuilt_cluster.sim), rebuilt_cluster.cluster_loop.loop
        )
        try:
            return pending_text.result(ANSWER_SECONDS)
        except TimeoutError:
            pending_text.cancel()
            return "the cluster did not answer"


class ClusterGuard:
    """The clusters of one pytest process."""

    def __init__(
        self,
        ini_options: Mapping[str, Any],
        *,
        other_bootstrap: str | None = None,
        has_proxy: bool = False,
    ) -> None:
        """Start without a cluster.

        Args:
            ini_options: The plugin's ini options by name.
            other_bootstrap: Address of the cluster that tests run on instead of simulated ones.
            has_proxy: Whether to run a fault proxy in front of that cluster.
        """
        self._has_proxy = has_proxy
        self._other_bootstrap = other_bootstrap
        self._ini_options = {
            option_name: option_value
            for option_name, option_value in ini_options.items()
            if option_value not in ("", [], None)
        }
        self._thread: LoopThread | None = None
        self._shared_cluster: SimulatedKafka | None = None
        self._final_fault_states: tuple[FaultState, ...] = ()
        """Faults of the shared cluster at its end: it ends before the last test is judged."""
        self._shared_position = (0, 0)
        """(number of starts of the shared cluster, position of its trace) when the test began."""
        self._watched: list[_WatchedCluster] = []
        """The clusters of the running test."""
        self._seed: int | None = None
        """Seed of the test's last virtual run."""
        self._has_failed = False

    def close(self) -> None:
        """Stop the thread of the clusters."""
        thread, self._thread = self._thread, None
        if thread is not None:
            thread.stop()

    # Clusters

    @contextmanager
    def cluster_of(self, item: pytest.Item) -> Generator[SimulatedKafka]:
        """A new cluster for a test; with ``--txnsim-bootstrap``, the other cluster with new
        topics.
        """
        session_options = self.options_for(item)
        if self._other_bootstrap is not None:
            foreign_cluster.skip_unsupported(self._marker_arguments(item))
        with self._cluster(session_options) as kafka:
            if self._other_bootstrap is None or self._has_proxy:
                self._watch(kafka.asynchronous)
            yield kafka

    @contextmanager
    def session_cluster(self) -> Generator[SimulatedKafka]:
        """The cluster that all tests share."""
        with self._cluster(self._test_options({})) as kafka:
            if self._other_bootstrap is not None:
                yield kafka
                return
            self._shared_cluster = kafka
            try:
                yield kafka
            finally:
                self._final_fault_states = kafka.asynchronous.faults.states_now()
                self._shared_cluster = None

    def _cluster(self, session_options: SessionOptions) -> SimulatedKafka:
        """A cluster that is not started yet, or the other cluster if there is one."""
        thread = self._loop_thread()
        if self._other_bootstrap is None:
            return SimulatedKafka.from_description(session_options.cluster, thread=thread)
        other_bootstrap, has_proxy = self._other_bootstrap, self._has_proxy
        return ForeignKafka.at_address(
            other_bootstrap, session_options.cluster, thread, has_proxy=has_proxy
        )

    def virtual_runner(self, item: pytest.Item) -> Callable[..., Any]:
        """``run_virtual`` with this test's options."""
        if self._other_bootstrap is not None:
            foreign_cluster.skip_test("virtual time")

        def run(main: Callable[[AsyncSimulatedKafka], Any], **option_changes: Any) -> Any:
            seed_given: int = option_changes.pop("seed", SEED_DEFAULT)
            seed_option: int | None = item.config.getoption(SEED_OPTION)
            seed = self._seed = seed_given if seed_option is None else seed_option
            cluster_options = self.options_for(item, {"trace": "full"}, option_changes).cluster
            return run_virtual(main, seed=seed, cluster_options=cluster_options, keep=self._watch)

        return run

    def options_for(
        self,
        item: pytest.Item,
        default_options: Mapping[str, Any] | None = None,
        option_changes: Mapping[str, Any] | None = None,
    ) -> SessionOptions:
        """What a test wants: ini options, its markers from the outermost on, what it says itself.

        Raises:
            ConfigError: That is not known here, or of the wrong kind.
        """
        options = {**(default_options or {}), **self._marker_arguments(item)}
        return self._test_options({**options, **(option_changes or {})})

    def _marker_arguments(self, item: pytest.Item) -> dict[str, Any]:
        """Keyword arguments of a test's markers; inner ones win."""
        options: dict[str, Any] = {}
        for marker in reversed(list(item.iter_markers(MARKER))):
            if marker.args:
                raise ConfigError(f"@pytest.mark.{MARKER} takes keyword arguments only")
            options |= marker.kwargs
        return options

    def _test_options(self, options: dict[str, Any]) -> SessionOptions:
        cluster_options = options_from_keywords(
            **{**options_from_ini(self._ini_options), **options}
        )
        # stop() does not know the test, so the verdict is checked here, unless the test has failed.
        cluster = msgspec.structs.replace(cluster_options, faults_may_miss=True)
        return SessionOptions(cluster=cluster, faults_may_miss=cluster_options.faults_may_miss)

    def _loop_thread(self) -> LoopThread:
        if self._thread is None:
            self._thread = LoopThread()
        return self._thread

    def _watch(self, kafka: AsyncSimulatedKafka) -> None:
        self._watched.append(_WatchedCluster(kafka=kafka))

    # Around each test

    def begin_test(self) -> None:
        """Forget the test before, because a new one is about to be set up."""
        self._watched.clear()
        self._seed = None
        self._has_failed = False
        if self._shared_cluster is not None:
            rebuilt_cluster = self._shared_cluster.asynchronous.rebuilt
            trace_position = 0 if rebuilt_cluster.tracer is None else len(rebuilt_cluster.tracer)
            self._shared_position = (rebuilt_cluster.build_count, trace_position)

    def note_failure(self) -> None:
        """Notes that a phase of the test has failed."""
        self._has_failed = True

    def sections(self, item: pytest.Item) -> list[Section]:
        """The sections of a failed test's report about its clusters."""
        titled_texts = [
            section_text
            for watched_cluster in self._watched_by(item)
            for section_text in watched_cluster.sections()
        ]
        return (
            titled_texts
            if self._seed is None
            else [*titled_texts, repeat_section(item, self._seed)]
        )

    def traces(self, item: pytest.Item) -> list[bytes]:
        """The traces of a test's clusters, JSON lines each; without clusters that have none."""
        tracers = [
            watched_cluster.kafka.rebuilt.tracer
            for watched_cluster in self._watched_by(item)
            if watched_cluster.kafka.was_started
        ]
        return [b"".join(tracer.pieces()) for tracer in tracers if tracer is not None]

    def _watched_by(self, item: pytest.Item) -> list[_WatchedCluster]:
        watched_clusters = list(self._watched)
        if self._shared_cluster is not None and SHARED_FIXTURE in _fixture_names(item):
            build_count, first_event = self._shared_position
            watched_clusters.append(
                _WatchedCluster(
                    kafka=self._shared_cluster.asynchronous,
                    build_count=build_count,
                    first_event=first_event,
                )
            )
        return watched_clusters

    def check_own_faults(self, item: pytest.Item) -> None:
        """Checks at the end of a test with its own clusters that all faults have struck, unless the
        test has failed.

        Raises:
            pytest.fail.Exception: A fault has not struck.
        """
        self._fail_if_not_struck(
            item,
            [
                fault_state
                for watched_cluster in self._watched
                for fault_state in watched_cluster.fault_states
            ],
        )

    def refuse_own_options(self, item: pytest.Item) -> None:
        """Refuse a test with options for the shared cluster, which exists already.

        Raises:
            pytest.UsageError: The test has such options.
        """
        option_names = {
            option_name for marker in item.iter_markers(MARKER) for option_name in marker.kwargs
        }
        option_names -= {_MAY_MISS_OPTION}
        own_fixtures = {"txnsim_cluster", "async_txnsim_cluster", "txnsim_virtual"} & set(
            _fixture_names(item)
        )
        if option_names and not own_fixtures:
            raise pytest.UsageError(
                f"{SHARED_FIXTURE} is one cluster for all tests: @pytest.mark.{MARKER} can't "
                f"change its {', '.join(sorted(option_names))} for this one. Describe it among the "
                f"ini options "
                f"({', '.join(f'{_INI_PREFIX}{name}' for name in sorted(option_names))}), "
                "or use txnsim_cluster"
            )

    def end_test(self, item: pytest.Item) -> None:
        """Disarm the faults of the shared cluster after a test, and check that they have struck.

        Raises:
            pytest.fail.Exception: A fault has not struck, and the test has not failed before.
        """
        fault_states, self._final_fault_states = self._final_fault_states, ()
        if self._shared_cluster is not None:
            fault_states = self._shared_cluster.asynchronous.faults.states_now()
            self._shared_cluster.faults.disarm_all()
            self._shared_cluster.asynchronous.faults.forget()
        self._fail_if_not_struck(item, fault_states)

    def _fail_if_not_struck(self, item: pytest.Item, fault_states: Iterable[FaultState]) -> None:
        if self._has_failed or self.options_for(item).faults_may_miss:
            return
        idle_faults_text = None
        try:
            judging.all_faults_struck(fault_states)
        except AssertionError as error:
            idle_faults_text = str(error)
        if idle_faults_text is not None:  # outside of the handler, else the report has it twice
            pytest.fail(idle_faults_text, pytrace=False)


def _fixture_names(item: pytest.Item) -> Sequence[str]:
    """Names of a test's fixtures, direct and indirect."""
    fixture_names: Sequence[str] = getattr(item, "fixturenames", ())
    return fixture_names


def options_from_ini(ini_options: Mapping[str, Any]) -> dict[str, Any]:
    """Convert ini options to keyword arguments of ``options.options_from_keywords``.

    Raises:
        ConfigError: An option has a wrong form.
    """
    options: dict[str, Any] = {}
    for option_name, option_value in ini_options.items():
        field = option_name.removeprefix(_INI_PREFIX)
        match field:
            case "brokers" | "first_broker_id" | "transaction_version":
                options[field] = _parse_number(option_name, option_value)
            case "virgin":
                options[field] = _parse_flag(option_name, option_value)
            case "topics":
                options[field] = _parse_topics(option_name, option_value)
            case "settings":
                options[field] = dict(
                    _parse_setting(option_name, setting_line) for setting_line in option_value
                )
            case _:
                options[field] = option_value
    return options


def _parse_number(option_name: str, number_text: str) -> int:
    if not number_text.isascii() or not number_text.isdigit():
        raise ConfigError(f"{option_name}: expected a number, found {number_text!r}")
    return int(number_text)


def _parse_flag(option_name: str, flag_text: str) -> bool:
    if flag_text.lower() not in ("true", "false"):
        raise ConfigError(f"{option_name}: expected true or false, found {flag_text!r}")
    return flag_text.lower() == "true"


def _parse_topics(option_name: str, topic_lines: Iterable[str]) -> dict[str, int]:
    try:
        return topics_of(list(topic_lines))
    except ConfigError as error:
        raise ConfigError(f"{option_name}: {error}") from error


def _parse_setting(option_name: str, setting_line: str) -> tuple[str, Any]:
    """(name, value) of a setting; the value is converted as in YAML: a number, true, false, or
    text.
    """
    setting_name, separator, value_text = setting_line.partition("=")
    if not separator:
        raise ConfigError(f"{option_name}: expected NAME=VALUE, found {setting_line!r}")
    value: Any = value_text.strip()
    if value.lower() in ("true", "false"):
        value = value.lower() == "true"
    else:
        for number_type in (int, float):
            try:
                value = number_type(value)
            except ValueError:
                continue
            break
    return setting_name.strip(), value
