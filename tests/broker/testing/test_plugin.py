"""The pytest plugin's parts: sessions, reports, recordings, options, repetition."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support.testing_plays import write_committed
from tests.support.within_environment import within
from txnsim.errors import ConfigError
from txnsim.faults.actions import Hold
from txnsim.faults.plan import FaultRule
from txnsim.faults.points import FaultPoint
from txnsim.http.report import LINE_CHARACTERS_MAX, SENTENCES_MAX
from txnsim.runtime.trace import TraceLevel, Tracer
from txnsim.runtime.virtual.reproducible_process import ADDRESSES, ARRANGED, STRINGS
from txnsim.settings import DEFAULTS
from txnsim.testing import _repeating as repeating
from txnsim.testing import plugin
from txnsim.testing._report import EVENTS_MAX, report_sections
from txnsim.testing._session import ClusterGuard, options_from_ini
from txnsim.testing._virtual import run_virtual
from txnsim.testing.cluster import AsyncSimulatedKafka
from txnsim.testing.event_loop import ClusterLoop
from txnsim.testing.faults import FaultState
from txnsim.testing.options import SimulatedClusterOptions, options_from_keywords
from txnsim.testing.rebuilt_cluster import RebuiltCluster

# What a failing test shows, and that it stays short.


RULE = FaultRule(id="late", point=FaultPoint.CLIENT_REQUEST, action=Hold())


def tracer(note_count: int, *, trace_level: TraceLevel = TraceLevel.BRIEF) -> Tracer:
    tracer = Tracer(lambda: 5_000, level=trace_level)
    for note_number in range(note_count):
        tracer.emit("note", "scenario", data={"text": f"note {note_number}"})
    return tracer


def test_story_events_and_faults_are_told() -> None:
    state = FaultState(
        rule=RULE, matched=2, struck=1, held=1, released=0, may_miss=False, in_force=False
    )
    text_by_section = dict(report_sections(tracer(2), [state]))
    assert text_by_section["txnsim: what happened"].splitlines() == [
        "      5 ms  scenario: note 0",
        "      5 ms  scenario: note 1",
    ]
    assert (
        text_by_section["txnsim: last events"]
        .splitlines()[1]
        .endswith('scenario  {"text":"note 1"}')
    )
    assert text_by_section["txnsim: faults"].startswith(
        "late: 2 matched, 1 struck, 1 held, 0 released, disarmed: {"
    )


def test_an_action_that_failed_says_why() -> None:
    state = FaultState(
        rule=RULE,
        matched=1,
        struck=0,
        held=0,
        released=0,
        may_miss=False,
        in_force=True,
        failure="there is no broker 9",
    )
    assert (
        ", failed (there is no broker 9): {"
        in dict(report_sections(tracer(0), [state]))["txnsim: faults"]
    )


def test_it_begins_where_the_test_began() -> None:
    text_by_section = dict(report_sections(tracer(3), [], since=2))
    assert "note 1" not in text_by_section["txnsim: what happened"]
    assert "note 2" in text_by_section["txnsim: what happened"]
    assert "txnsim: faults" not in text_by_section


def test_it_is_bounded() -> None:
    tracer_of_many = tracer(200)
    tracer_of_many.emit("note", "scenario", data={"text": "x" * 10_000})
    text_by_section = dict(report_sections(tracer_of_many, []))
    lines = text_by_section["txnsim: what happened"].splitlines()
    assert lines[0] == f"… {201 - SENTENCES_MAX} sentences before"
    assert len(lines) == SENTENCES_MAX + 1
    assert len(text_by_section["txnsim: last events"].splitlines()) == EVENTS_MAX
    assert max(map(len, lines)) == LINE_CHARACTERS_MAX + 1


def test_an_empty_trace_says_nothing_and_one_that_is_off_says_so() -> None:
    assert report_sections(tracer(0), []) == []
    ((title, text),) = report_sections(tracer(1, trace_level=TraceLevel.OFF), [])
    assert (title, text) == ("txnsim", 'nothing was recorded: trace is "off" for this cluster')


def test_the_test_s_own_looking_is_left_out() -> None:
    tracer_of_test = tracer(0)
    for peer, api in (
        ("client/txnsim-testing", "Fetch"),
        ("broker/2", "Fetch"),
        ("broker/3000", "BrokerHeartbeat"),
        ("broker/3000", "AllocateProducerIds"),
        ("client/app", "Fetch"),
    ):
        payload = {"api": api, "correlation": 1, "peer": peer, "response": False, "version": 1}
        tracer_of_test.emit("msg.recv", "broker/1", data=payload)
    empty = {"tp": "__transaction_state-11", "transactions": 0, "coordinator_epoch": 0}
    tracer_of_test.emit("txn.load", "broker/1/txn/11", data=empty)
    (line,) = dict(report_sections(tracer_of_test, []))["txnsim: last events"].splitlines()
    assert '"peer":"client/app"' in line


# Ini options and markers, put together.


def test_ini_options_are_those_of_a_cluster() -> None:
    assert options_from_ini(
        {
            "txnsim_brokers": "1",
            "txnsim_transaction_version": "2",
            "txnsim_topics": ["orders:3", "single"],
            "txnsim_settings": [
                "transaction.max.timeout.ms = 60000",
                "transaction.partition.verification.enable=false",
                "log.cleaner.min.cleanable.ratio=0.25",
                "message.timestamp.type=LogAppendTime",
            ],
            "txnsim_as_version": "3.9",
            "txnsim_trace": "full",
        }
    ) == {
        "brokers": 1,
        "transaction_version": 2,
        "topics": {"orders": 3, "single": 1},
        "settings": {
            "transaction.max.timeout.ms": 60_000,
            "transaction.partition.verification.enable": False,
            "log.cleaner.min.cleanable.ratio": 0.25,
            "message.timestamp.type": "LogAppendTime",
        },
        "as_version": "3.9",
        "trace": "full",
    }


@pytest.mark.parametrize(
    ("name", "value", "complaint"),
    [
        ("txnsim_brokers", "three", "txnsim_brokers: expected a number, found 'three'"),
        (
            "txnsim_topics",
            ["orders:x"],
            "txnsim_topics: topics: orders:x: expected NAME or NAME:PARTITIONS",
        ),
        ("txnsim_settings", ["a"], "txnsim_settings: expected NAME=VALUE, found 'a'"),
    ],
)
def test_what_is_no_option_is_refused(name: str, value: Any, complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        options_from_ini({name: value})


class Item:
    """The part of a pytest item from which options are read."""

    def __init__(self, *markers: pytest.Mark) -> None:
        self._markers = markers

    def iter_markers(self, name: str) -> tuple[pytest.Mark, ...]:
        assert name == "txnsim"
        return self._markers


def item(*markers: pytest.MarkDecorator) -> Any:
    return Item(*(marker.mark for marker in markers))


def test_the_closest_marker_wins_over_outer_ones_and_these_over_ini_options() -> None:
    guard = ClusterGuard({"txnsim_brokers": "5", "txnsim_trace": "off", "txnsim_topics": []})
    mark = pytest.mark.txnsim
    wanted_options = guard.options_for(
        item(mark(topics=["near"]), mark(topics=["far"], trace="full", faults_may_miss=True))
    )
    assert (wanted_options.cluster.brokers, wanted_options.cluster.trace) == (5, "full")
    assert dict(wanted_options.cluster.topics) == {"near": 1}
    assert wanted_options.faults_may_miss
    assert not guard.options_for(item()).faults_may_miss


def test_a_marker_takes_no_positions() -> None:
    with pytest.raises(ConfigError, match="keyword arguments only"):
        ClusterGuard({}).options_for(item(pytest.mark.txnsim(3)))


# How a virtual run of a failed test is seen again.


def item_of(**options: Any) -> Any:
    """A stand-in for a test of pytest that was called with ``options``."""
    config = SimpleNamespace(
        invocation_params=SimpleNamespace(dir=Path("/project")),
        getoption=lambda name, default=None: options.get(name, default),
    )
    path = Path("/project/tests/test_shop.py")
    return SimpleNamespace(config=config, nodeid="test_shop.py::test_orders[two words]", path=path)


def config_of(*arguments: str) -> Any:
    params = pytest.Config.InvocationParams(args=arguments, plugins=None, dir=Path())
    return SimpleNamespace(invocation_params=params)


def test_the_command_names_test_seed_and_order() -> None:
    assert repeating.repeat_command(item_of(), 7) == (
        "python -m pytest 'tests/test_shop.py::test_orders[two words]' --txnsim-seed=7 "
        "--txnsim-repeatable"
    )
    test_item = item_of(markexpr="slow and not real", randomly_seed=5)
    assert repeating.repeat_command(test_item, 7).split("words]' ")[1] == (
        "-m 'slow and not real' --randomly-seed=5 --txnsim-seed=7 --txnsim-repeatable"
    )
    assert "randomly" not in repeating.repeat_command(item_of(randomly_seed="default"), 7)


def test_the_section_says_what_stands_against_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repeating, "limits_of_process", lambda: (STRINGS, ADDRESSES))
    title, text = repeating.repeat_section(item_of(), 7)
    assert title == "txnsim: see it again"
    assert text.splitlines()[0] == "virtual time, seed 7"
    assert text.splitlines()[2:] == [
        f"this process was not arranged: {STRINGS}",
        f"this process was not arranged: {ADDRESSES}",
    ]
    monkeypatch.setattr(repeating, "limits_of_process", tuple)
    assert len(repeating.repeat_section(item_of(), 7)[1].splitlines()) == 2


def test_the_header_says_whether_runs_repeat() -> None:
    assert repeating.report_header(()) == "txnsim: virtual runs repeat in every process"
    assert repeating.report_header((STRINGS,)).endswith(
        f"may not repeat in another process: {STRINGS}"
    )


def test_pytest_starts_again_where_it_is_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    started_programs: list[str] = []
    monkeypatch.setattr(repeating, "arrange_process", lambda: started_programs.append("again"))
    monkeypatch.setattr(repeating, "limits_of_process", lambda: (STRINGS,))
    monkeypatch.delenv(ARRANGED, raising=False)
    with pytest.raises(pytest.UsageError, match="arrange_process"):
        repeating.restart_reproducibly(config_of("of", "another", "program"))
    assert started_programs == []
    repeating.restart_reproducibly(config_of(*sys.argv[1:]))
    assert started_programs == ["again"]
    monkeypatch.setitem(os.environ, ARRANGED, "1")
    repeating.restart_reproducibly(config_of("of", "another", "program"))
    monkeypatch.delenv(ARRANGED)
    monkeypatch.setattr(repeating, "limits_of_process", tuple)
    repeating.restart_reproducibly(config_of("of", "another", "program"))
    assert started_programs == ["again"]


# Keyword arguments to a cluster's options, and what is refused.


def test_nothing_asked_for_is_a_cluster_with_kafka_s_defaults_on_free_ports() -> None:
    options = options_from_keywords().options()
    assert (options.brokers, options.port, options.topics) == (3, 0, ())
    assert options.settings is DEFAULTS


def test_settings_go_by_kafka_s_names_and_topics_by_number_or_name() -> None:
    options = options_from_keywords(
        brokers=1,
        topics=["a", "b"],
        transaction_version=1,
        settings={"transaction.max.timeout.ms": 1_000},
        as_version="4.0",
        rules={"markers_need_verification": True},
    ).options()
    assert options.topics == (("a", 1), ("b", 1))
    assert options.settings.transaction_version == 1
    assert options.settings.transaction_max_timeout_ms == 1_000
    assert options.as_version == ("4.0",)
    assert options_from_keywords(topics={"a": 6}).options().topics == (("a", 6),)


def test_an_unknown_argument_is_named_with_those_that_there_are() -> None:
    with pytest.raises(
        ConfigError,
        match=r"txnsim: partitions: no option .*there are: brokers, first_broker_id,",
    ):
        options_from_keywords(partitions=3)


def test_a_value_of_the_wrong_kind_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"brokers: expected a whole number, found '3'"):
        options_from_keywords(brokers="3")


def test_a_wrong_setting_is_refused_as_in_a_file() -> None:
    with pytest.raises(ConfigError, match=r"did you mean transaction.max.timeout.ms\?"):
        options_from_keywords(settings={"transaction.max.timeout": 1}).options()


def test_a_setting_without_effect_is_warned_about() -> None:
    with pytest.warns(UserWarning, match=r"without effect, because .*: log.dirs"):
        options_from_keywords(settings={"log.dirs": "here"}).options()


def test_the_level_of_the_trace_is_one_of_three() -> None:
    assert options_from_keywords(trace="full").trace_level is TraceLevel.FULL
    with pytest.raises(ConfigError, match="trace: no value 'loud'; there are: ") as error_info:
        options_from_keywords(trace="loud", brokers="three")
    assert "brokers: expected a whole number, found 'three'" in str(error_info.value)


# A cluster that is taken down and built anew.


def rebuilt(wanted_cluster: SimulatedClusterOptions) -> RebuiltCluster:
    return RebuiltCluster(ClusterLoop(asyncio.get_running_loop()), wanted_cluster)


async def test_it_runs_between_start_and_stop() -> None:
    rebuilt_cluster = rebuilt(options_from_keywords(brokers=1))
    with pytest.raises(RuntimeError, match="does not run"):
        _ = rebuilt_cluster.sim
    await rebuilt_cluster.start()
    assert rebuilt_cluster.is_running
    with pytest.raises(RuntimeError, match="runs already"):
        await rebuilt_cluster.start()
    await rebuilt_cluster.stop()
    await rebuilt_cluster.stop()
    assert not rebuilt_cluster.is_running


async def test_a_reset_keeps_the_addresses_and_nothing_else() -> None:
    rebuilt_cluster = rebuilt(options_from_keywords(brokers=2, topics={"orders": 3}))
    await rebuilt_cluster.start()
    bootstrap = rebuilt_cluster.sim.bootstrap
    admin = await rebuilt_cluster.admin()
    await admin.create_topic("more", partitions=1)
    rebuilt_cluster.environment.clock.advance(86_400_000)
    await rebuilt_cluster.reset()
    assert (rebuilt_cluster.sim.bootstrap, rebuilt_cluster.build_count) == (bootstrap, 2)
    assert rebuilt_cluster.environment.clock.advanced_ms == 0
    topics = await (await rebuilt_cluster.admin()).describe_topics(None)
    assert {topic.name for topic in topics if not topic.name.startswith("__")} == {"orders"}
    await rebuilt_cluster.stop()


async def test_a_start_that_fails_leaves_nothing_behind() -> None:
    rebuilt_cluster = rebuilt(options_from_keywords(brokers=1, topics={"no topic": 1}))
    with pytest.raises(ConfigError, match="no topic"):
        await rebuilt_cluster.start()
    assert not rebuilt_cluster.is_running


async def test_a_cluster_with_further_listeners_can_not_have_its_ports_again() -> None:
    rebuilt_cluster = rebuilt(options_from_keywords(brokers=1, settings={"kip_text": True}))
    await rebuilt_cluster.start()
    with pytest.raises(ConfigError, match="can't be reset"):
        await rebuilt_cluster.reset()
    await rebuilt_cluster.stop()


# The plugin is nearly nothing for those who don't use it. What it does for those who do is in
# tests/lab/plugin.


PROGRAM = """
import sys
import pytest
before = set(sys.modules)
import txnsim.testing.plugin
print(*sorted(name for name in set(sys.modules) - before if not name.startswith("_")))
"""


def test_it_imports_nothing_but_itself() -> None:
    loaded_modules = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    assert loaded_modules == [
        *("txnsim", "txnsim.old_module_names", "txnsim.on_demand_imports"),
        *("txnsim.testing", "txnsim.testing.plugin"),
    ]


def test_pytest_finds_it_by_its_entry_point(pytestconfig) -> None:
    assert pytestconfig.pluginmanager.get_plugin("txnsim") is plugin


def test_modules_are_imported_as_pip_has_compiled_them(
    pytestconfig: pytest.Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    rewrite_hook = pytestconfig.pluginmanager.rewrite_hook
    finders_before = list(sys.meta_path)
    assert rewrite_hook in finders_before
    with plugin._without_rewriting(pytestconfig):
        assert sys.meta_path == [finder for finder in finders_before if finder is not rewrite_hook]
    assert sys.meta_path == finders_before
    monkeypatch.setattr(
        sys, "meta_path", [finder for finder in finders_before if finder is not rewrite_hook]
    )
    with plugin._without_rewriting(pytestconfig):  # --assert=plain
        assert rewrite_hook not in sys.meta_path


# The trace by the asynchronous API.


@within(run_virtual, topics=["orders"])
async def test_events_story_and_export(kafka: AsyncSimulatedKafka) -> None:
    await write_committed(kafka, "orders", "a")
    position_before = await kafka.trace.position()
    await kafka.trace.note("from here on")
    await write_committed(kafka, "orders", "b")
    # A commit returns before its markers are written.
    await kafka.transactions.wait_for_state("app", "CompleteCommit")
    assert len(await kafka.trace.events(kind="marker.written")) >= 2
    (first_sentence, *_) = await kafka.trace.story(since=position_before)
    assert (first_sentence.who, first_sentence.text) == ("scenario", "from here on")
    exported = await kafka.trace.export()
    assert exported.startswith(b'{"k":"run"')
    assert b'"k":"end"' in exported.splitlines()[-1]


@within(run_virtual, topics=["orders"])
async def test_recording_can_be_turned_off(kafka: AsyncSimulatedKafka) -> None:
    await kafka.trace.level("off")
    position_before = await kafka.trace.position()
    await kafka.trace.note("nobody hears")
    await write_committed(kafka, "orders", "a")
    assert await kafka.trace.position() == position_before
    with pytest.raises(ValueError, match="loud"):
        await kafka.trace.level("loud")
