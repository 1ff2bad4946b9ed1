"""What the pytest plugin keeps during a run: the thread of the clusters, which test has which
cluster, which tests have failed.

Imported when the first test asks for a cluster.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

import msgspec
import pytest

from txnsim.errors import ConfigError
from txnsim.testing import judging
from txnsim.testing.blocking import SimulatedKafka
from txnsim.testing.cluster import AsyncSimulatedKafka
from txnsim.testing.event_loop import LoopThread
from txnsim.testing.faults import FaultState
from txnsim.testing.options import Wanted, wanted
from txnsim.testing.repeating import SEED, section
from txnsim.testing.report import Section, sections
from txnsim.testing.virtual import SEED_DEFAULT, run_virtual

MARKER: Final = "txnsim"
SHARED: Final = "txnsim_session_cluster"
_PREFIX: Final = "txnsim_"


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """What ini options and markers come to."""

    cluster: Wanted
    faults_may_miss: bool = False


class _Watched(msgspec.Struct, frozen=True, kw_only=True):
    """A cluster of a test, and where its trace stood when the test began."""

    kafka: AsyncSimulatedKafka
    starts: int = 0
    since: int = 0

    @property
    def states(self) -> tuple[FaultState, ...]:
        """Its faults."""
        return self.kafka.faults.states_now() if self.kafka.was_started else ()

    def sections(self) -> list[Section]:
        """What there is to show."""
        if not self.kafka.was_started or (tracer := self.kafka.world.tracer) is None:
            return []
        same = self.kafka.world.starts == self.starts
        return sections(tracer, self.states, since=self.since if same else 0)


class Guard:
    """Clusters of one pytest process."""

    def __init__(self, ini: Mapping[str, Any]) -> None:
        """Nothing runs yet.

        Args:
            ini: The plugin's ini options by name.
        """
        self._ini = {name: value for name, value in ini.items() if value not in ("", [], None)}
        self._thread: LoopThread | None = None
        self._shared: SimulatedKafka | None = None
        self._before = (0, 0)
        """How often the shared cluster had started when the test began, and where its trace stood.
        """
        self._watched: list[_Watched] = []
        """The clusters of the test that is under way."""
        self._seed: int | None = None
        """Of its newest virtual run."""
        self._has_failed = False

    def close(self) -> None:
        """End the thread."""
        thread, self._thread = self._thread, None
        if thread is not None:
            thread.stop()

    # Clusters

    @contextmanager
    def cluster_of(self, item: pytest.Item) -> Generator[SimulatedKafka]:
        """A fresh cluster for a test."""
        with SimulatedKafka.of(self.asked(item).cluster, thread=self._home()) as kafka:
            self._watch(kafka.asynchronous)
            yield kafka

    @contextmanager
    def session_cluster(self) -> Generator[SimulatedKafka]:
        """The cluster that all tests share."""
        with SimulatedKafka.of(self._described({}).cluster, thread=self._home()) as kafka:
            self._shared = kafka
            try:
                yield kafka
            finally:
                self._shared = None

    def virtual_of(self, item: pytest.Item) -> Callable[..., Any]:
        """``run_virtual`` with this test's options."""

        def run(main: Callable[[AsyncSimulatedKafka], Any], **changes: Any) -> Any:
            said: int = changes.pop("seed", SEED_DEFAULT)
            chosen: int | None = item.config.getoption(SEED)
            seed = self._seed = said if chosen is None else chosen
            asked = self.asked(item, {"trace": "full"}, changes).cluster
            return run_virtual(main, seed=seed, asked=asked, keep=self._watch)

        return run

    def asked(
        self,
        item: pytest.Item,
        default: Mapping[str, Any] | None = None,
        changes: Mapping[str, Any] | None = None,
    ) -> Asked:
        """What a test wants: ini options, its markers from the outermost on, what it says itself.

        Raises:
            ConfigError: That is not known here, or of the wrong kind.
        """
        said: dict[str, Any] = dict(default or {})
        for marker in reversed(list(item.iter_markers(MARKER))):
            if marker.args:
                raise ConfigError(f"@pytest.mark.{MARKER} takes keyword arguments only")
            said |= marker.kwargs
        return self._described({**said, **(changes or {})})

    def _described(self, said: dict[str, Any]) -> Asked:
        may_miss = bool(said.pop("faults_may_miss", False))
        return Asked(cluster=wanted(**{**from_ini(self._ini), **said}), faults_may_miss=may_miss)

    def _home(self) -> LoopThread:
        if self._thread is None:
            self._thread = LoopThread()
        return self._thread

    def _watch(self, kafka: AsyncSimulatedKafka) -> None:
        self._watched.append(_Watched(kafka=kafka))

    # Around each test

    def begin(self) -> None:
        """A test is about to be set up; the one before is forgotten."""
        self._watched.clear()
        self._seed = None
        self._has_failed = False
        if self._shared is not None:
            world = self._shared.asynchronous.world
            since = 0 if world.tracer is None else len(world.tracer)
            self._before = (world.starts, since)

    def failed(self) -> None:
        """A phase of the test has failed."""
        self._has_failed = True

    def sections(self, item: pytest.Item) -> list[Section]:
        """What there is to show of the clusters of a failed test."""
        watched = list(self._watched)
        if self._shared is not None and SHARED in _names(item):
            starts, since = self._before
            watched.append(_Watched(kafka=self._shared.asynchronous, starts=starts, since=since))
        found = [shown for one in watched for shown in one.sections()]
        return found if self._seed is None else [*found, section(item, self._seed)]

    def judge(self, item: pytest.Item) -> None:
        """A test with clusters of its own is over: unless it has failed, all faults have struck.

        Raises:
            pytest.fail.Exception: One has not.
        """
        self._judge(item, [state for one in self._watched for state in one.states])

    def end(self, item: pytest.Item) -> None:
        """A test is torn down: the faults of the shared cluster are taken back.

        Raises:
            pytest.fail.Exception: One has not struck, and the test has not failed before.
        """
        if self._shared is None:
            return
        states = self._shared.asynchronous.faults.states_now()
        self._shared.faults.disarm_all()
        self._shared.asynchronous.faults.forget()
        self._judge(item, states)

    def _judge(self, item: pytest.Item, states: Iterable[FaultState]) -> None:
        if self._has_failed or self.asked(item).faults_may_miss:
            return
        try:
            judging.all_faults_struck(states)
        except AssertionError as idle:
            pytest.fail(str(idle), pytrace=False)


def _names(item: pytest.Item) -> Sequence[str]:
    """The fixtures of a test, those included that they are made of."""
    names: Sequence[str] = getattr(item, "fixturenames", ())
    return names


def from_ini(ini: Mapping[str, Any]) -> dict[str, Any]:
    """Ini options as keyword arguments of ``options.wanted``.

    Raises:
        ConfigError: One is not of its form.
    """
    found: dict[str, Any] = {}
    for name, value in ini.items():
        field = name.removeprefix(_PREFIX)
        match field:
            case "brokers" | "transaction_version":
                found[field] = _number(name, value)
            case "topics":
                found[field] = dict(_topic(name, line) for line in value)
            case "settings":
                found[field] = dict(_setting(name, line) for line in value)
            case _:
                found[field] = value
    return found


def _number(name: str, text: str) -> int:
    if not text.isascii() or not text.isdigit():
        raise ConfigError(f"{name}: expected a number, found {text!r}")
    return int(text)


def _topic(name: str, line: str) -> tuple[str, int]:
    topic, colon, partitions = line.strip().partition(":")
    return topic, _number(name, partitions) if colon else 1


def _setting(name: str, line: str) -> tuple[str, Any]:
    """A setting; its value as YAML would read it: a number, true, false, or text."""
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
