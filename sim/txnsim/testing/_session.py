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
from txnsim.testing._repeating import SEED, section
from txnsim.testing._report import Section, sections
from txnsim.testing._virtual import SEED_DEFAULT, run_virtual
from txnsim.testing.cluster import AsyncSimulatedKafka
from txnsim.testing.event_loop import LoopThread
from txnsim.testing.faults import FaultState
from txnsim.testing.options import SimulatedClusterOptions, options_from_keywords

MARKER: Final = "txnsim"
SHARED: Final = "txnsim_session_cluster"
_PREFIX: Final = "txnsim_"
ANSWER_SECONDS: Final = 5
"""Time for a cluster to report what its transactions wait for, in seconds."""
_MAY_MISS: Final = "faults_may_miss"


class SessionOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options that follow from ini options and markers."""

    cluster: SimulatedClusterOptions
    faults_may_miss: bool = False


class _Watched(msgspec.Struct, frozen=True, kw_only=True):
    """A cluster of a test, and the position of its trace when the test began."""

    kafka: AsyncSimulatedKafka
    starts: int = 0
    since: int = 0

    @property
    def states(self) -> tuple[FaultState, ...]:
        """The states of its faults."""
        return self.kafka.faults.states_now() if self.kafka.was_started else ()

    def sections(self) -> list[Section]:
        """The sections of the report about this cluster."""
        if not self.kafka.was_started or (tracer := self.kafka.rebuilt.tracer) is None:
            return []
        is_same_round = self.kafka.rebuilt.starts == self.starts
        since = self.since if is_same_round else 0
        return sections(tracer, self.states, since=since, waits=self._waits())

    def _waits(self) -> str:
        """What the cluster's transactions wait for; empty when its event loop has stopped."""
        rebuilt = self.kafka.rebuilt
        if not rebuilt.is_running or not rebuilt.cluster_loop.loop.is_running():
            return ""

        waits = asyncio.run_coroutine_threadsafe(waits_text(rebuilt.sim), rebuilt.cluster_loop.loop)
        try:
            return waits.result(ANSWER_SECONDS)
        except TimeoutError:
            waits.cancel()
            return "the cluster did not answer"


class ClusterGuard:
    """The clusters of one pytest process."""

    def __init__(
        self, ini: Mapping[str, Any], *, other: str | None = None, has_proxy: bool = False
    ) -> None:
        """Start without a cluster.

        Args:
            ini: The plugin's ini options by name.
            other: Address of the cluster that tests run on instead of simulated ones.
            has_proxy: Whether to run a fault proxy in front of that cluster.
        """
        self._has_proxy = has_proxy
        self._elsewhere = other
        self._ini = {name: value for name, value in ini.items() if value not in ("", [], None)}
        self._thread: LoopThread | None = None
        self._shared: SimulatedKafka | None = None
        self._left: tuple[FaultState, ...] = ()
        """Faults of the shared cluster at its end: it ends before the last test is judged."""
        self._before = (0, 0)
        """(number of starts of the shared cluster, position of its trace) when the test began."""
        self._watched: list[_Watched] = []
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
        description = self.options_for(item)
        if self._elsewhere is not None:
            foreign_cluster.check(self._marker_arguments(item))
        with self._cluster(description) as kafka:
            if self._elsewhere is None or self._has_proxy:
                self._watch(kafka.asynchronous)
            yield kafka

    @contextmanager
    def session_cluster(self) -> Generator[SimulatedKafka]:
        """The cluster that all tests share."""
        with self._cluster(self._test_options({})) as kafka:
            if self._elsewhere is not None:
                yield kafka
                return
            self._shared = kafka
            try:
                yield kafka
            finally:
                self._left = kafka.asynchronous.faults.states_now()
                self._shared = None

    def _cluster(self, description: SessionOptions) -> SimulatedKafka:
        """A cluster that is not started yet, or the other cluster if there is one."""
        thread = self._loop_thread()
        if self._elsewhere is None:
            return SimulatedKafka.of(description.cluster, thread=thread)
        other, has_proxy = self._elsewhere, self._has_proxy
        return ForeignKafka.at(other, description.cluster, thread, has_proxy=has_proxy)

    def virtual_of(self, item: pytest.Item) -> Callable[..., Any]:
        """``run_virtual`` with this test's options."""
        if self._elsewhere is not None:
            foreign_cluster.skip("virtual time")

        def run(main: Callable[[AsyncSimulatedKafka], Any], **changes: Any) -> Any:
            seed_given: int = changes.pop("seed", SEED_DEFAULT)
            chosen: int | None = item.config.getoption(SEED)
            seed = self._seed = seed_given if chosen is None else chosen
            description = self.options_for(item, {"trace": "full"}, changes).cluster
            return run_virtual(main, seed=seed, asked=description, keep=self._watch)

        return run

    def options_for(
        self,
        item: pytest.Item,
        default: Mapping[str, Any] | None = None,
        changes: Mapping[str, Any] | None = None,
    ) -> SessionOptions:
        """What a test wants: ini options, its markers from the outermost on, what it says itself.

        Raises:
            ConfigError: That is not known here, or of the wrong kind.
        """
        options = {**(default or {}), **self._marker_arguments(item)}
        return self._test_options({**options, **(changes or {})})

    def _marker_arguments(self, item: pytest.Item) -> dict[str, Any]:
        """Keyword arguments of a test's markers; inner ones win."""
        options: dict[str, Any] = {}
        for marker in reversed(list(item.iter_markers(MARKER))):
            if marker.args:
                raise ConfigError(f"@pytest.mark.{MARKER} takes keyword arguments only")
            options |= marker.kwargs
        return options

    def _test_options(self, options: dict[str, Any]) -> SessionOptions:
        description = options_from_keywords(**{**from_ini(self._ini), **options})
        # stop() does not know the test, so the verdict is checked here, unless the test has failed.
        cluster = msgspec.structs.replace(description, faults_may_miss=True)
        return SessionOptions(cluster=cluster, faults_may_miss=description.faults_may_miss)

    def _loop_thread(self) -> LoopThread:
        if self._thread is None:
            self._thread = LoopThread()
        return self._thread

    def _watch(self, kafka: AsyncSimulatedKafka) -> None:
        self._watched.append(_Watched(kafka=kafka))

    # Around each test

    def begin(self) -> None:
        """Forget the test before, because a new one is about to be set up."""
        self._watched.clear()
        self._seed = None
        self._has_failed = False
        if self._shared is not None:
            rebuilt = self._shared.asynchronous.rebuilt
            since = 0 if rebuilt.tracer is None else len(rebuilt.tracer)
            self._before = (rebuilt.starts, since)

    def note_failure(self) -> None:
        """Notes that a phase of the test has failed."""
        self._has_failed = True

    def sections(self, item: pytest.Item) -> list[Section]:
        """The sections of a failed test's report about its clusters."""
        titled_texts = [
            section_text
            for watched in self._watched_by(item)
            for section_text in watched.sections()
        ]
        return titled_texts if self._seed is None else [*titled_texts, section(item, self._seed)]

    def traces(self, item: pytest.Item) -> list[bytes]:
        """The traces of a test's clusters, JSON lines each; without clusters that have none."""
        tracers = [
            watched.kafka.rebuilt.tracer
            for watched in self._watched_by(item)
            if watched.kafka.was_started
        ]
        return [b"".join(tracer.pieces()) for tracer in tracers if tracer is not None]

    def _watched_by(self, item: pytest.Item) -> list[_Watched]:
        watched = list(self._watched)
        if self._shared is not None and SHARED in _names(item):
            starts, since = self._before
            watched.append(_Watched(kafka=self._shared.asynchronous, starts=starts, since=since))
        return watched

    def judge(self, item: pytest.Item) -> None:
        """Checks at the end of a test with its own clusters that all faults have struck, unless the
        test has failed.

        Raises:
            pytest.fail.Exception: A fault has not struck.
        """
        self._judge(item, [state for watched in self._watched for state in watched.states])

    def check(self, item: pytest.Item) -> None:
        """Refuse a test with options for the shared cluster, which exists already.

        Raises:
            pytest.UsageError: The test has such options.
        """
        option_names = {name for marker in item.iter_markers(MARKER) for name in marker.kwargs}
        option_names -= {_MAY_MISS}
        own = {"txnsim_cluster", "async_txnsim_cluster", "txnsim_virtual"} & set(_names(item))
        if option_names and not own:
            raise pytest.UsageError(
                f"{SHARED} is one cluster for all tests: @pytest.mark.{MARKER} can't change "
                f"its {', '.join(sorted(option_names))} for this one. Describe it among the ini "
                f"options ({', '.join(f'{_PREFIX}{name}' for name in sorted(option_names))}), or "
                "use txnsim_cluster"
            )

    def end(self, item: pytest.Item) -> None:
        """Disarm the faults of the shared cluster after a test, and check that they have struck.

        Raises:
            pytest.fail.Exception: A fault has not struck, and the test has not failed before.
        """
        states, self._left = self._left, ()
        if self._shared is not None:
            states = self._shared.asynchronous.faults.states_now()
            self._shared.faults.disarm_all()
            self._shared.asynchronous.faults.forget()
        self._judge(item, states)

    def _judge(self, item: pytest.Item, states: Iterable[FaultState]) -> None:
        if self._has_failed or self.options_for(item).faults_may_miss:
            return
        idle = None
        try:
            judging.all_faults_struck(states)
        except AssertionError as error:
            idle = str(error)
        if idle is not None:  # outside of the handler, else the report has it twice
            pytest.fail(idle, pytrace=False)


def _names(item: pytest.Item) -> Sequence[str]:
    """Names of a test's fixtures, direct and indirect."""
    names: Sequence[str] = getattr(item, "fixturenames", ())
    return names


def from_ini(ini: Mapping[str, Any]) -> dict[str, Any]:
    """Convert ini options to keyword arguments of ``options.options_from_keywords``.

    Raises:
        ConfigError: An option has a wrong form.
    """
    options: dict[str, Any] = {}
    for name, value in ini.items():
        field = name.removeprefix(_PREFIX)
        match field:
            case "brokers" | "first_broker_id" | "transaction_version":
                options[field] = _number(name, value)
            case "virgin":
                options[field] = _flag(name, value)
            case "topics":
                options[field] = _topics(name, value)
            case "settings":
                options[field] = dict(_setting(name, line) for line in value)
            case _:
                options[field] = value
    return options


def _number(name: str, text: str) -> int:
    if not text.isascii() or not text.isdigit():
        raise ConfigError(f"{name}: expected a number, found {text!r}")
    return int(text)


def _flag(name: str, text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ConfigError(f"{name}: expected true or false, found {text!r}")
    return text.lower() == "true"


def _topics(name: str, lines: Iterable[str]) -> dict[str, int]:
    try:
        return topics_of(list(lines))
    except ConfigError as error:
        raise ConfigError(f"{name}: {error}") from error


def _setting(name: str, line: str) -> tuple[str, Any]:
    """(name, value) of a setting; the value is converted as in YAML: a number, true, false, or
    text.
    """
    setting, equals, text = line.partition("=")
    if not equals:
        raise ConfigError(f"{name}: expected NAME=VALUE, found {line!r}")
    value: Any = text.strip()
    if value.lower() in ("true", "false"):
        value = value.lower() == "true"
    else:
        for kind in (int, float):
            try:
                value = kind(value)
            except ValueError:
                continue
            break
    return setting.strip(), value
