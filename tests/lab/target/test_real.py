"""Stories told over the wire, on a simulated cluster that stands for a real one."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.stories import call, failure, small, transaction
from tests.support.told_over_wire import PREFIX, Told, told
from txnsim.client.authentication import ClientSecurity
from txnsim.client.connection import ClientSettings
from txnsim.runtime.virtual.run import VirtualEnvironment, run_virtual
from txnsim.security.login import Password
from txnsim.security.options import SecurityProtocol
from txnsim.settings import DEFAULTS
from txnsim_lab.proxy.fault_proxy import FaultProxy
from txnsim_lab.proxy.options import ProxyOptions
from txnsim_lab.scenario.catalog import find
from txnsim_lab.target.log_care import CLEANER_PAUSE_MS, SHORTLY_RETAINED_MS
from txnsim_lab.target.real import RealTarget

INIT = call("init-producer-id")


def declared(told: Told) -> None:
    assert told.result is not None
    assert told.result.as_declared, told.result.verdict


@pytest.mark.parametrize("take", ["armed", "disarmed", "control"])
def test_a_held_request_makes_the_hang_that_the_story_declares(take: str) -> None:
    found = told(
        find("z01")[1], take=take, level=0, transaction_partition_verification_enable=False
    )
    declared(found)
    assert found.left == []
    assert [name for name in found.topics if name.startswith(PREFIX)] == []


@pytest.mark.slow
def test_a_ghost_keeps_the_cleaner_away_and_a_cured_log_is_cleaned() -> None:
    found = told(
        find("ghost-blocks-the-cleaner")[1],
        level=0,
        transaction_partition_verification_enable=False,
        log_cleaner_backoff_ms=CLEANER_PAUSE_MS,
    )
    declared(found)
    assert found.left == []


@pytest.mark.parametrize("run", ["V-/before", "V-/fixed"])
def test_what_the_cleaner_keeps_for_a_day_it_keeps_shortly(run: str) -> None:
    found = told(
        find("abort-marker-before-its-data")[1],
        run=run,
        level=0,
        rules={"half_cleaned_segments_are_indexed": run == "V-/fixed"},
        transaction_partition_verification_enable=False,
        log_cleaner_backoff_ms=CLEANER_PAUSE_MS,
        log_cleaner_dedupe_buffer_size=120,
        log_cleaner_delete_retention_ms=SHORTLY_RETAINED_MS,
    )
    declared(found)
    assert found.left == []


def test_what_others_have_is_neither_seen_nor_touched() -> None:
    found = told(find("late-commit-leaves-a-ghost")[1], run="TV2+", topics=(("others-t", 2),))
    declared(found)
    assert "others-t" in found.topics
    assert set(found.states) == {f"{PREFIX}app"}


def test_what_a_story_leaves_open_is_ended() -> None:
    steps = [INIT, call("begin"), call("add-partitions", partitions="t-0"),
             call("produce", partition="t-0", value="open")]  # fmt: skip
    # The judges look after its timeout; a story that fails has left it open.
    found = told(small([*steps, {"expect": {"partition": "t-0", "stable": 7}}]))
    assert found.result is not None
    assert failure(found.result) == "the last stable offset of mine-t-0 is 0, expected 7"
    assert found.left == []
    assert found.states == {f"{PREFIX}app": "Empty"}, "its id was fenced, and so initialised anew"


def test_what_is_ongoing_is_waited_for_until_its_coordinator_has_ended_it() -> None:
    steps = [INIT, call("begin"), call("add-partitions", partitions="t-0"),
             call("produce", partition="t-0", value="open"), {"advance": "75s"},
             {"wait-until": {"transaction": {"id": "app", "is": "CompleteAbort"}}},
             {"advance": "1s"}]  # fmt: skip
    declared(told(small(steps)))


def test_leaders_move_brokers_die_and_topics_change() -> None:
    where = {"partition": "t-0", "is": 3}
    steps = [
        {"cluster": {"do": "move-leader", "partition": "t-0", "to": 3}},
        {"wait-until": {"leader": where}},
        {"cluster": {"do": "reload-coordinator", "coordinator-of": "app"}},
        {"cluster": {"do": "reassign", "partition": "t-1", "replicas": [1, 3]}},
        {"cluster": {"do": "configure", "topic": "t", "name": "retention.ms", "value": "5000"}},
        {"cluster": {"do": "create-topic", "topic": "late", "partitions": 2}},
        {"cluster": {"do": "delete-topic", "topic": "late"}},
        INIT,
        *transaction("r1"),
        {"cluster": {"do": "kill", "broker": 3}},
        {"wait-until": {"leader": {"partition": "t-0", "is": 1}}},
        {"cluster": {"do": "start", "broker": 3}},
        {"cluster": {"do": "restart", "broker": 2}},
        {"wait-until": {"in-sync": "t-0"}},
        {"expect": {"partition": "t-0", "committed": ["r1"]}},
    ]
    found = told(small(steps))
    declared(found)
    assert found.left == []


@pytest.mark.parametrize(
    ("act", "because"),
    [
        (
            {"do": "move-leader", "partition": "in-0", "to": 3},
            "broker 3 has no replica of mine-in-0",
        ),
        ({"do": "isolate", "broker": 1}, "a real cluster can't isolate: only a simulator can"),
    ],
)
def test_what_can_not_be_done_fails_the_story(act: dict[str, Any], because: str) -> None:
    topics = {"t": 2, "in": {"partitions": 1, "replication-factor": 1}}
    found = told(small([{"cluster": act}], topics=topics))
    assert found.result is not None
    assert failure(found.result).startswith(because)


def test_positions_of_a_group_are_deleted_with_it() -> None:
    steps = [INIT, call("begin"), call("add-offsets", group="g"),
             call("commit-offsets", group="g", offsets={"in-0": 3}), call("commit"),
             {"wait-until": {"transaction": {"id": "app", "is": ["CompleteCommit", "Empty"]}}},
             call("read-positions", "reader", group="g", partitions="in-0",
                  positions={"in-0": 3})]  # fmt: skip
    found = told(small(steps))
    declared(found)
    assert found.left == []


@pytest.mark.parametrize(
    ("protocol", "for_the_story"),
    [
        (SecurityProtocol.SASL_SSL, SecurityProtocol.SASL_PLAINTEXT),
        (SecurityProtocol.SSL, SecurityProtocol.PLAINTEXT),
    ],
)
def test_the_story_logs_in_as_the_command_config_says_and_tls_ends_at_the_proxy(
    protocol: SecurityProtocol, for_the_story: SecurityProtocol
) -> None:
    password = Password(user="a", password="b")
    security = ClientSecurity(protocol=protocol, mechanism="PLAIN", credential=password)

    async def main(env: VirtualEnvironment) -> None:
        settings = ClientSettings(security=security)
        proxy = FaultProxy(env, ProxyOptions(bootstrap="127.0.0.1:9", settings=settings))
        target = RealTarget(env, proxy, prefix=PREFIX, settings=DEFAULTS)
        assert target.security.protocol is for_the_story
        assert target.security.mechanism == "PLAIN"

    run_virtual(main, seed=1)
