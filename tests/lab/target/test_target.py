"""Clusters that stories and the exam are played on, simulated and real."""

from __future__ import annotations

import shutil
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, Final

import pytest

from tests.support.clusters import real_cluster
from tests.support.proxied_cluster import ProxiedCluster, SimDisks, run_proxied
from tests.support.security import acl
from tests.support.stories import call, failure, small, transaction
from txnsim.client.admin import Admin
from txnsim.client.authentication import ClientSecurity
from txnsim.client.cluster import Cluster
from txnsim.client.connection import ClientSettings
from txnsim.client.errors import ClientError
from txnsim.client.producer import Producer
from txnsim.controller.controller import TopicToCreate
from txnsim.errors import ConfigError
from txnsim.faults.actions import Delay
from txnsim.faults.plan import FaultRule
from txnsim.faults.points import FaultPoint
from txnsim.runtime.virtual.run import VirtualEnvironment, run_virtual
from txnsim.security.acls import (
    CLUSTER_NAME,
    AclBinding,
    AclOperation,
    PatternType,
    Permission,
    ResourceType,
)
from txnsim.security.login import Password
from txnsim.security.options import SecurityOptions, SecurityProtocol
from txnsim.settings import DEFAULTS
from txnsim.types import BrokerId, TopicPartition
from txnsim_lab.proxy.fault_proxy import FaultProxy
from txnsim_lab.proxy.options import ProxyOptions
from txnsim_lab.scenario.catalog import find
from txnsim_lab.scenario.model import Scenario
from txnsim_lab.scenario.on_real.comparison import target_of, with_prefixed_names
from txnsim_lab.scenario.players.casting import Casting
from txnsim_lab.scenario.runner import RunResult, ScenarioRun, casts_of, run_on
from txnsim_lab.scenario.stage import simulated_target
from txnsim_lab.target import jars, log_care
from txnsim_lab.target.apache import ApacheBrokers, ApacheOptions
from txnsim_lab.target.cleaning import Leftover
from txnsim_lab.target.cluster import TargetError
from txnsim_lab.target.generation import Generation, generation_of
from txnsim_lab.target.log_care import (
    CLEANER_IDLE_MS,
    CLEANER_PAUSE_MS,
    RETENTION_MAX_MS,
    SHORT_DELETE_RETENTION_MS,
)
from txnsim_lab.target.real import RealTarget, real_target

# Stories told over the wire, on a simulated cluster behind a proxy that stands for a real one.


PREFIX: Final = "mine-"


class Brokers(SimDisks):
    """The processes of the brokers of the cluster."""

    async def kill(self, number: int) -> None:
        await self.sim.kill_broker(BrokerId(number))

    async def shut_down(self, number: int) -> None:
        await self.sim.stop_broker(BrokerId(number))

    async def start_again(self, number: int) -> None:
        await self.sim.start_broker(BrokerId(number))


class StoryResult:
    """The result of a story, and what the story left in the cluster."""

    def __init__(self) -> None:
        self.result: RunResult | None = None
        self.left: list[Leftover] | None = None
        self.topics: list[str] = []
        self.states: dict[str, str] = {}
        self.open: set[str] = set()
        """Topics that have a transaction open."""


def tell_story(
    scenario: Scenario,
    *,
    run_name: str = "V-",
    take_name: str = "armed",
    prefix: str = PREFIX,
    is_looked_at: bool = True,
    faults: Sequence[FaultRule] = (),
    **cluster: Any,
) -> StoryResult:
    """Tell a story on a cluster behind a proxy.

    Args:
        scenario: The story.
        run_name: Its mode.
        take: Armed or not.
        prefix: Of names.
        is_looked_at: Whether somebody looks at the cluster afterwards.
        faults: Of the cluster, for all of it.
        cluster: Settings.
    """
    recorded_story = StoryResult()

    async def main(proxied_cluster: ProxiedCluster) -> None:
        for fault_rule in faults:
            proxied_cluster.sim.injector.arm(fault_rule)
        own_scenario = with_prefixed_names(scenario, prefix)
        scenario_run = ScenarioRun(scenario=own_scenario, run=run_name, take=take_name)
        target = target_of(
            own_scenario,
            proxied_cluster.env,
            proxied_cluster.proxy,
            prefix=prefix,
            processes=Brokers(proxied_cluster.sim),
        )

        def left(leftovers: list[Leftover]) -> None:
            recorded_story.left = leftovers

        casts = casts_of(scenario_run, Casting(player="own"))
        recorded_story.result = await run_on(
            scenario_run, proxied_cluster.env, casts, real_target(target, on_leftovers=left)
        )
        if not is_looked_at:
            return
        env = proxied_cluster.env
        async with Cluster(proxied_cluster.sim.bootstrap, clock=env.clock, tasks=env.tasks,
                           dial=env.network.connect) as client:  # fmt: skip
            admin = Admin(client)
            topics = await admin.describe_topics(None)
            recorded_story.topics = [topic.name for topic in topics]
            topic_partitions = [
                TopicPartition(t.name, n) for t in topics for n in range(len(t.partitions))
            ]
            for topic_partition, producers in (
                await admin.describe_producers(topic_partitions)
            ).items():
                assert not isinstance(producers, ClientError)
                if any(producer.txn_start_offset is not None for producer in producers):
                    recorded_story.open.add(topic_partition.topic)
            for listing in (await admin.list_transactions()).values():
                assert isinstance(listing, tuple)
                recorded_story.states |= {
                    transaction.transactional_id: transaction.state for transaction in listing
                }

    run_proxied(main, brokers=3, **cluster)
    return recorded_story


# ``cleaning``: What a story leaves behind as a user who may not do everything, on a simulated
# cluster.


PRINCIPAL: Final = "User:ANONYMOUS"
EVERYTHING: Final = tuple(
    acl(resource_type, name, operation, principal=PRINCIPAL)
    for resource_type, name, operation in (
        (ResourceType.TOPIC, "*", AclOperation.ALL),
        (ResourceType.GROUP, "*", AclOperation.ALL),
        (ResourceType.TRANSACTIONAL_ID, "*", AclOperation.ALL),
        # Not DELETE, which would be good for every topic.
        (ResourceType.CLUSTER, CLUSTER_NAME, AclOperation.ALTER),
    )
)
INIT: Final = call("init-producer-id")
POSITIONS: Final = (
    INIT,
    call("begin"),
    call("commit-offsets", group="g", offsets={"in-0": 3}, generation=-1),
)
"""Without verification they hang: the coordinator was not told of the group."""
GROUP_GHOST: Final = (*POSITIONS, {"expect": {"partition": "t-0", "stable": 7}})
WHERE: Final = "--bootstrap-server"


def deny(
    resource_type: ResourceType, name: str, *operations: AclOperation
) -> tuple[AclBinding, ...]:
    """ACLs that deny these operations, for a user with all other rights."""
    pattern = PatternType.LITERAL if resource_type is ResourceType.CLUSTER else PatternType.PREFIXED
    return tuple(
        acl(
            resource_type,
            name,
            operation,
            principal=PRINCIPAL,
            pattern=pattern,
            permission=Permission.DENY,
        )
        for operation in operations
    )


def told_as(scenario: Scenario, *denied_acls: AclBinding, **cluster: Any) -> StoryResult:
    """Play a story in V- as a user that has every right but those denied."""
    security = SecurityOptions(has_authorizer=True, acls=(*EVERYTHING, *denied_acls))
    return tell_story(
        scenario,
        security=security,
        level=0,
        transaction_partition_verification_enable=False,
        **cluster,
    )


def leftover_rows(ended_story: StoryResult) -> list[tuple[str, str, str]]:
    """Kind, name and reason of each leftover."""
    assert ended_story.left is not None
    return [(leftover.kind, leftover.name, leftover.why) for leftover in ended_story.left]


def test_a_topic_that_may_not_be_deleted_is_left_without_what_hangs_in_it() -> None:
    denied_acls = deny(ResourceType.TOPIC, PREFIX, AclOperation.DELETE)
    steps = [INIT, call("begin"), call("produce", partition="t-0", value="ghost"),
             {"expect": {"partition": "t-0", "stable": 7}}]  # fmt: skip
    ended_story = told_as(small(steps), *denied_acls)
    reason = "TOPIC_AUTHORIZATION_FAILED, it takes DELETE on the topic"
    assert leftover_rows(ended_story) == [
        ("topic", f"{PREFIX}{name}", reason) for name in ("t", "in")
    ]
    assert ended_story.left is not None
    assert ended_story.left[0].command.startswith(f"kafka-topics.sh {WHERE} ")
    assert ended_story.left[0].command.endswith(f" --delete --topic {PREFIX}t")
    assert ended_story.open == set()


def test_what_hangs_and_may_not_be_aborted_is_left_with_its_offset() -> None:
    ended_story = told_as(
        find("partition-never-added")[1],
        *deny(ResourceType.TOPIC, PREFIX, AclOperation.DELETE),
        *deny(ResourceType.CLUSTER, CLUSTER_NAME, AclOperation.ALTER),
    )
    reason = "CLUSTER_AUTHORIZATION_FAILED, it takes ALTER on the cluster"
    assert leftover_rows(ended_story)[1:] == [
        (
            "hanging transaction",
            f"{PREFIX}t-1",
            f"open since offset 0, may not be aborted: {reason}",
        )
    ]
    assert ended_story.left is not None
    assert ended_story.left[1].command.endswith(
        f" abort --topic {PREFIX}t --partition 1 --start-offset 0"
    )
    assert ended_story.open == {f"{PREFIX}t"}


def test_what_hangs_among_positions_is_aborted() -> None:
    ended_story = told_as(small(GROUP_GHOST))
    assert (ended_story.left, ended_story.open) == ([], set())


@pytest.mark.parametrize(
    ("denied_acls", "reason"),
    [
        (
            deny(ResourceType.CLUSTER, CLUSTER_NAME, AclOperation.ALTER),
            "open since offset 0, may not be aborted: CLUSTER_AUTHORIZATION_FAILED, it takes ALTER"
            " on the cluster",
        ),
        (
            deny(ResourceType.TOPIC, "__consumer_offsets", AclOperation.READ),
            "whether one is there can't be seen: TOPIC_AUTHORIZATION_FAILED, it takes READ on the"
            " topic",
        ),
    ],
)
def test_what_hangs_among_positions_is_left_where_it_may_not_be_aborted_or_seen(
    denied_acls: tuple[AclBinding, ...], reason: str
) -> None:
    ended_story = told_as(small(GROUP_GHOST), *denied_acls, is_looked_at=False)
    ((leftover_kind, name, because),) = leftover_rows(ended_story)
    assert (leftover_kind, because) == ("hanging transaction", reason)
    assert name.startswith("__consumer_offsets-")


@pytest.mark.parametrize(("steps", "is_left"), [(GROUP_GHOST, True), (GROUP_GHOST[-1:], False)])
def test_a_group_that_may_not_be_deleted_is_left_if_it_was_made(
    steps: tuple[dict[str, Any], ...], *, is_left: bool
) -> None:
    cure = [] if is_left else [call("read-positions", "reader", group="g", partitions="in-0")]
    ended_story = told_as(
        small(steps, cure=cure), *deny(ResourceType.GROUP, PREFIX, AclOperation.DELETE)
    )
    reason = "GROUP_AUTHORIZATION_FAILED, it takes DELETE on the group"
    assert leftover_rows(ended_story) == [("group", f"{PREFIX}g", reason)] * is_left


def test_what_can_not_be_seen_is_said_so() -> None:
    scenario = small(GROUP_GHOST)
    unseen_operations = (
        AclOperation.DESCRIBE,
        AclOperation.WRITE,
        AclOperation.READ,
        AclOperation.DELETE,
    )
    ended_story = told_as(
        scenario,
        *deny(
            ResourceType.TRANSACTIONAL_ID, f"{PREFIX}app", AclOperation.DESCRIBE, AclOperation.WRITE
        ),
        *deny(ResourceType.GROUP, f"{PREFIX}g", *unseen_operations),
    )
    assert leftover_rows(ended_story) == [
        (
            "transaction",
            f"{PREFIX}app",
            "whether it is open can't be seen: TRANSACTIONAL_ID_AUTHORIZATION_FAILED, it takes"
            " DESCRIBE on the transactional id",
        ),
        (
            "group",
            f"{PREFIX}g",
            "whether it is there can't be seen: GROUP_AUTHORIZATION_FAILED, it takes DESCRIBE on"
            " the group",
        ),
    ]


def test_an_id_that_was_never_used_is_not_left() -> None:
    ended_story = told_as(small([{"expect": {"partition": "t-0", "stable": 7}}]))
    assert (ended_story.left, ended_story.states) == ([], {})


def test_brokers_that_hear_late_of_a_deletion_are_waited_for() -> None:
    late_rule = FaultRule(id="late", point=FaultPoint.METADATA_APPLY, action=Delay(delay_ms=700))
    ended_story = told_as(small([INIT, *transaction("r1")]), faults=(late_rule,))
    assert ended_story.left == []
    assert not [topic_name for topic_name in ended_story.topics if topic_name.startswith(PREFIX)]


def test_a_cluster_that_is_gone_leaves_everything() -> None:
    kills = [{"cluster": {"do": "kill", "broker": kill_number}} for kill_number in (1, 2, 3)]
    ended_story = told_as(small([INIT, *transaction("r1"), *kills, INIT]), is_looked_at=False)
    names = [(leftover_kind, name) for leftover_kind, name, _ in leftover_rows(ended_story)]
    assert names == [
        ("transaction", f"{PREFIX}app"),
        ("topic", f"{PREFIX}t"),
        ("topic", f"{PREFIX}in"),
    ]
    assert all(
        "the cluster does not answer: " in reason for _, _, reason in leftover_rows(ended_story)
    )


# Stories told over the wire, on a simulated cluster that stands for a real one.


REAL_INIT = call("init-producer-id")


def assert_as_declared(ended_story: StoryResult) -> None:
    assert ended_story.result is not None
    assert ended_story.result.as_declared, ended_story.result.verdict


@pytest.mark.parametrize("take_name", ["armed", "disarmed", "control"])
def test_a_held_request_makes_the_hang_that_the_story_declares(take_name: str) -> None:
    ended_story = tell_story(
        find("z01")[1],
        take_name=take_name,
        level=0,
        transaction_partition_verification_enable=False,
    )
    assert_as_declared(ended_story)
    assert ended_story.left == []
    assert [topic_name for topic_name in ended_story.topics if topic_name.startswith(PREFIX)] == []


@pytest.mark.slow
def test_a_ghost_keeps_the_cleaner_away_and_a_cured_log_is_cleaned() -> None:
    ended_story = tell_story(
        find("ghost-blocks-the-cleaner")[1],
        level=0,
        transaction_partition_verification_enable=False,
        log_cleaner_backoff_ms=CLEANER_PAUSE_MS,
    )
    assert_as_declared(ended_story)
    assert ended_story.left == []


@pytest.mark.parametrize("run_name", ["V-/before", "V-/fixed"])
def test_what_the_cleaner_keeps_for_a_day_it_keeps_shortly(run_name: str) -> None:
    ended_story = tell_story(
        find("abort-marker-before-its-data")[1],
        run_name=run_name,
        level=0,
        rules={"half_cleaned_segments_are_indexed": run_name == "V-/fixed"},
        transaction_partition_verification_enable=False,
        log_cleaner_backoff_ms=CLEANER_PAUSE_MS,
        log_cleaner_dedupe_buffer_size=120,
        log_cleaner_delete_retention_ms=SHORT_DELETE_RETENTION_MS,
    )
    assert_as_declared(ended_story)
    assert ended_story.left == []


def test_what_others_have_is_neither_seen_nor_touched() -> None:
    ended_story = tell_story(
        find("late-commit-leaves-a-ghost")[1], run_name="TV2+", topics=(("others-t", 2),)
    )
    assert_as_declared(ended_story)
    assert "others-t" in ended_story.topics
    assert set(ended_story.states) == {f"{PREFIX}app"}


def test_what_a_story_leaves_open_is_ended() -> None:
    steps = [REAL_INIT, call("begin"), call("add-partitions", partitions="t-0"),
             call("produce", partition="t-0", value="open")]  # fmt: skip
    # The judges look after its timeout; a story that fails has left it open.
    ended_story = tell_story(small([*steps, {"expect": {"partition": "t-0", "stable": 7}}]))
    assert ended_story.result is not None
    assert failure(ended_story.result) == "the last stable offset of mine-t-0 is 0, expected 7"
    assert ended_story.left == []
    assert ended_story.states == {f"{PREFIX}app": "Empty"}, (
        "its id was fenced, and so initialised anew"
    )


def test_what_is_ongoing_is_waited_for_until_its_coordinator_has_ended_it() -> None:
    steps = [REAL_INIT, call("begin"), call("add-partitions", partitions="t-0"),
             call("produce", partition="t-0", value="open"), {"advance": "75s"},
             {"wait-until": {"transaction": {"id": "app", "is": "CompleteAbort"}}},
             {"advance": "1s"}]  # fmt: skip
    assert_as_declared(tell_story(small(steps)))


def test_leaders_move_brokers_die_and_topics_change() -> None:
    leader_condition = {"partition": "t-0", "is": 3}
    steps = [
        {"cluster": {"do": "move-leader", "partition": "t-0", "to": 3}},
        {"wait-until": {"leader": leader_condition}},
        {"cluster": {"do": "reload-coordinator", "coordinator-of": "app"}},
        {"cluster": {"do": "reassign", "partition": "t-1", "replicas": [1, 3]}},
        {"cluster": {"do": "configure", "topic": "t", "name": "retention.ms", "value": "5000"}},
        {"cluster": {"do": "create-topic", "topic": "late", "partitions": 2}},
        {"cluster": {"do": "delete-topic", "topic": "late"}},
        REAL_INIT,
        *transaction("r1"),
        {"cluster": {"do": "kill", "broker": 3}},
        {"wait-until": {"leader": {"partition": "t-0", "is": 1}}},
        {"cluster": {"do": "start", "broker": 3}},
        {"cluster": {"do": "restart", "broker": 2}},
        {"wait-until": {"in-sync": "t-0"}},
        {"expect": {"partition": "t-0", "committed": ["r1"]}},
    ]
    ended_story = tell_story(small(steps))
    assert_as_declared(ended_story)
    assert ended_story.left == []


def test_a_leader_has_moved_when_every_broker_knows() -> None:
    late_rule = FaultRule(
        id="late", point=FaultPoint.METADATA_APPLY, broker=3, action=Delay(delay_ms=700)
    )
    topic_partition = TopicPartition(f"{PREFIX}t", 0)

    async def main(proxied_cluster: ProxiedCluster) -> set[int]:
        scenario = with_prefixed_names(small([REAL_INIT]), PREFIX)
        target = target_of(
            scenario, proxied_cluster.env, proxied_cluster.proxy, prefix=PREFIX, processes=None
        )
        async with real_target(target, on_leftovers=list[list[Leftover]]().append):
            await target.create_topic(
                TopicToCreate(
                    name=topic_partition.topic, assignments=((0, tuple(map(BrokerId, (1, 2, 3)))),)
                )
            )
            proxied_cluster.sim.injector.arm(late_rule)
            await target.move_leader(topic_partition, 2)
            return {
                broker.image.partition(topic_partition).leader
                for broker in proxied_cluster.sim.brokers.values()
            }

    assert run_proxied(main) == {BrokerId(2)}


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
    ended_story = tell_story(small([{"cluster": act}], topics=topics))
    assert ended_story.result is not None
    assert failure(ended_story.result).startswith(because)


def test_positions_of_a_group_are_deleted_with_it() -> None:
    steps = [REAL_INIT, call("begin"), call("add-offsets", group="g"),
             call("commit-offsets", group="g", offsets={"in-0": 3}), call("commit"),
             {"wait-until": {"transaction": {"id": "app", "is": ["CompleteCommit", "Empty"]}}},
             call("read-positions", "reader", group="g", partitions="in-0",
                  positions={"in-0": 3})]  # fmt: skip
    ended_story = tell_story(small(steps))
    assert_as_declared(ended_story)
    assert ended_story.left == []


@pytest.mark.parametrize(
    ("protocol", "story_protocol"),
    [
        (SecurityProtocol.SASL_SSL, SecurityProtocol.SASL_PLAINTEXT),
        (SecurityProtocol.SSL, SecurityProtocol.PLAINTEXT),
    ],
)
def test_the_story_logs_in_as_the_command_config_says_and_tls_ends_at_the_proxy(
    protocol: SecurityProtocol, story_protocol: SecurityProtocol
) -> None:
    password = Password(user="a", password="b")
    security = ClientSecurity(protocol=protocol, mechanism="PLAIN", credential=password)

    async def main(env: VirtualEnvironment) -> None:
        settings = ClientSettings(security=security)
        proxy = FaultProxy(env, ProxyOptions(bootstrap="127.0.0.1:9", settings=settings))
        target = RealTarget(env, proxy, prefix=PREFIX, settings=DEFAULTS)
        assert target.security.protocol is story_protocol
        assert target.security.mechanism == "PLAIN"

    run_virtual(main, seed=1)


# Brokers as processes, with a program in place of ``java``.


FORMATS = """#!/bin/sh
case "$*" in *StorageTool*) {format};; *kafka.Kafka*) {serve};; esac
"""


def options(version: str = "4.3.1") -> ApacheOptions:
    return ApacheOptions(
        version=version,
        libs=Path("/libs"),
        brokers=3,
        transaction_version=2,
        properties={"transaction.max.timeout.ms": "3600000"},
    )


@pytest.fixture
def java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    return tmp_path / "java"


def write(
    java_program: Path, *, format_command: str = "exit 0", serve_command: str = "exec sleep 600"
) -> None:
    java_program.write_text(FORMATS.format(format=format_command, serve=serve_command))
    java_program.chmod(0o755)


def properties(brokers: ApacheBrokers, file_name: str) -> dict[str, str]:
    file_text = (brokers.home_folder / file_name / "server.properties").read_text()
    return dict(line.split("=", 1) for line in file_text.splitlines())


async def test_brokers_reach_each_other_through_the_proxy_and_the_controller_is_apart(
    java: Path, tmp_path: Path
) -> None:
    write(java, format_command=f'echo "$*" >> {tmp_path}/formatted')
    brokers = ApacheBrokers(options())
    await brokers.start({1: 5001, 2: 5002, 3: 5003})
    try:
        broker_properties, controller = (
            properties(brokers, "broker-2"),
            properties(brokers, "controller"),
        )
        assert broker_properties["advertised.listeners"].endswith("INTERNAL://127.0.0.1:5002")
        assert f"INTERNAL://127.0.0.1:{brokers.peers[1].port}" in broker_properties["listeners"]
        assert (broker_properties["process.roles"], controller["process.roles"]) == (
            "broker",
            "controller",
        )
        assert (
            broker_properties["controller.quorum.voters"] == controller["controller.quorum.voters"]
        )
        assert broker_properties["transaction.max.timeout.ms"] == "3600000"
        formatted = (tmp_path / "formatted").read_text().splitlines()
        assert len(formatted) == 4
        assert all("--feature transaction.version=2" in line for line in formatted)
        assert brokers.exit_report() == ""

        await brokers.kill(2)
        assert brokers.exit_report().startswith("broker-2 exited with -9")
        with pytest.raises(ConfigError, match="there is no broker 2 that runs"):
            await brokers.shut_down(2)
        await brokers.mend()
        assert brokers.exit_report() == ""
        await brokers.shut_down(2)
        await brokers.start_again(2)
    finally:
        home = brokers.home_folder
        await brokers.stop()
    assert not home.exists()


async def test_before_4_0_there_is_no_feature_to_format_with(java: Path, tmp_path: Path) -> None:
    write(java, format_command=f'echo "$*" >> {tmp_path}/formatted')
    brokers = ApacheBrokers(options("3.5.2"))
    try:
        await brokers.start({1: 5001, 2: 5002, 3: 5003})
    finally:
        await brokers.stop()
    assert "--feature" not in (tmp_path / "formatted").read_text()


async def test_storage_that_can_not_be_formatted_is_told(java: Path) -> None:
    write(java, format_command='echo "no space left"; exit 1')
    brokers = ApacheBrokers(options())
    try:
        with pytest.raises(ConfigError, match="could not be formatted:\nno space left"):
            await brokers.start({1: 5001, 2: 5002, 3: 5003})
    finally:
        await brokers.stop()


async def test_no_process_that_formats_outlives_the_failure_of_another(
    java: Path, tmp_path: Path
) -> None:
    end_file = tmp_path / "ended"
    write(
        java,
        format_command=f'case "$*" in *broker-2*) exit 1;; esac; sleep 0.3; echo >> {end_file}',
    )
    brokers = ApacheBrokers(options())
    try:
        with pytest.raises(ConfigError, match="could not be formatted"):
            await brokers.start({1: 5001, 2: 5002, 3: 5003})
        assert end_file.read_text() == "\n\n\n", "the controller and two brokers"
    finally:
        await brokers.stop()


def test_segments_and_the_cleaners_place_are_read_from_a_brokers_disk() -> None:
    brokers = ApacheBrokers(options())
    data_folder = brokers.home_folder / "broker-2" / "data"
    replica = data_folder / "t-0"
    replica.mkdir(parents=True)
    topic_partition = TopicPartition("t", 0)
    try:
        assert brokers.cleaned_until(2, topic_partition) == -1
        for file_name in ("00000000000000000000.log", "00000000000000000012.log", "leader-epoch"):
            (replica / file_name).touch()
        (data_folder / "cleaner-offset-checkpoint").write_text("0\n2\nt 0 12\nu 0 5\n")
        assert brokers.segments(2, topic_partition) == [0, 12]
        assert brokers.cleaned_until(2, topic_partition) == 12
        assert brokers.cleaned_until(2, TopicPartition("t", 1)) == -1
    finally:
        shutil.rmtree(brokers.home_folder)


# Care of logs over the wire, on a simulated cluster that stands for a real one.


T0 = TopicPartition("t", 0)


class Care:
    """A cluster with clients that the tests of log care use."""

    def __init__(
        self, proxied_cluster: ProxiedCluster, client: Cluster, producer: Producer
    ) -> None:
        self.clock = proxied_cluster.env.clock
        self.admin = Admin(client)
        self.disks = SimDisks(proxied_cluster.sim)
        self.producer = producer

    async def append(self, *keys: str) -> None:
        for key in keys:
            await self.producer.send(T0.topic, T0.partition, b"value", key=key.encode())

    async def took_ms(self, doing_awaitable: Awaitable[None]) -> float:
        began_ms = self.clock.monotonic_ms()
        await doing_awaitable
        return self.clock.monotonic_ms() - began_ms


def run(main: Callable[[Care], Awaitable[None]], **config_changes: Any) -> None:
    async def inside(proxied_cluster: ProxiedCluster) -> None:
        env = proxied_cluster.env
        async with (
            Cluster(
                proxied_cluster.sim.bootstrap,
                clock=env.clock,
                tasks=env.tasks,
                dial=env.network.connect,
            ) as client,
            Producer(client) as producer,
        ):
            await main(Care(proxied_cluster, client, producer))

    run_proxied(
        inside, topics=(("t", 1),), log_cleaner_backoff_ms=CLEANER_PAUSE_MS, **config_changes
    )


def test_the_next_record_begins_a_segment() -> None:
    async def main(care: Care) -> None:
        await care.append("a", "b")
        await log_care.roll(care.admin, care.clock, T0)
        assert care.disks.segments(1, T0) == [0]
        await care.append("c")
        assert care.disks.segments(1, T0) == [0, 2]

    run(main)


def test_the_cleaner_is_waited_for_and_not_where_it_does_not_come() -> None:
    async def main(care: Care) -> None:
        for name, config_value in (
            ("cleanup.policy", "compact"),
            ("min.cleanable.dirty.ratio", "0.01"),
        ):
            await log_care.configure(care.admin, "t", name, config_value)
        await care.append("a", "a")
        waited_in_vain_text = await care.took_ms(
            log_care.clean(care.admin, care.clock, care.disks, T0)
        )
        assert care.disks.cleaned_until(1, T0) == -1
        assert waited_in_vain_text >= CLEANER_IDLE_MS
        await log_care.roll(care.admin, care.clock, T0)
        await care.append("a")
        waited_ms = await care.took_ms(log_care.clean(care.admin, care.clock, care.disks, T0))
        assert care.disks.cleaned_until(1, T0) == 2
        assert waited_ms < CLEANER_IDLE_MS

    run(main)


def test_retention_is_waited_for() -> None:
    async def main(care: Care) -> None:
        await care.append("a")
        await log_care.roll(care.admin, care.clock, T0)
        await care.append("b")
        await log_care.configure(care.admin, "t", "retention.bytes", "1")
        waited_ms = await care.took_ms(log_care.delete_old(care.admin, care.clock, care.disks, T0))
        assert care.disks.segments(1, T0) == [1]
        assert waited_ms < RETENTION_MAX_MS

    run(main, log_retention_check_interval_ms=1_000)


def test_a_config_that_is_none_fails_the_story() -> None:
    async def main(care: Care) -> None:
        with pytest.raises(TargetError, match=r"t: segment\.ms: .*INVALID_CONFIG"):
            await log_care.configure(care.admin, "t", "segment.ms", "soon")
        await log_care.configure(care.admin, "t", "segment.ms", None)

    run(main)


MAVEN = """#!/bin/sh
for word in "$@"; do case $word in -DoutputDirectory=*) to=${word#*=};; esac; done
%s
"""


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A PATH with the commands that the test puts there, and no others."""
    programs = tmp_path / "bin"
    programs.mkdir()
    monkeypatch.setenv("PATH", f"{programs}:/bin:/usr/bin")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return programs


def maven(programs: Path, does: str) -> None:
    (programs / "mvn").write_text(MAVEN % does)
    (programs / "mvn").chmod(0o755)


def test_jars_are_fetched_once(machine: Path) -> None:
    maven(machine, 'mkdir -p "$to"; touch "$to/kafka.jar"')
    lines_said: list[str] = []
    libs_directory = jars.fetch("4.3.1", say=lines_said.append)
    assert [jar_file.name for jar_file in libs_directory.iterdir()] == ["kafka.jar"]
    assert libs_directory == jars.directory_of("4.3.1")
    maven(machine, "exit 1")
    assert jars.fetch("4.3.1", say=lines_said.append) == libs_directory
    assert len(lines_said) == 1


def test_what_maven_complains_of_is_told_and_nothing_half_is_kept(machine: Path) -> None:
    maven(machine, 'mkdir -p "$to"; echo "no such artifact"; exit 1')
    with pytest.raises(ConfigError, match=r"can't fetch Apache Kafka 9\.9\.9:\nno such artifact"):
        jars.fetch("9.9.9", say=lambda _: None)
    assert not jars.directory_of("9.9.9").exists()


def test_without_maven_or_java_it_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with pytest.raises(ConfigError, match=r"mvn: not found; .* JDK 17 and Maven"):
        jars.fetch("4.3.1", say=lambda _: None)
    with pytest.raises(ConfigError, match="java: not found"):
        jars.java()


@pytest.mark.parametrize(
    ("name", "complaint"),
    [("4.3.1", "such as apache-4.4.0"), ("apache-4", "such as"), ("apache-2.7.2", "too old")],
)
def test_only_releases_with_kraft_can_be_named(name: str, complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        jars.version_of(name)


def test_a_release_is_named_by_its_version() -> None:
    assert jars.version_of("apache-3.5.2") == "3.5.2"


# ``simulated``


def test_it_is_the_cluster_that_the_run_asks_for() -> None:
    story = small([call("begin")], settings={"transaction.max.timeout.ms": 3_600_000})

    async def main(env: VirtualEnvironment) -> None:
        async with simulated_target(story, story.runs["V-"], env) as target:
            assert target.settings.transaction_max_timeout_ms == 3_600_000
            assert target.injector is target.cluster.injector
            assert target.bootstrap == target.cluster.bootstrap
            assert (target.prefix, target.is_hidden(TopicPartition("t", 0))) == ("", False)
            first_partition, second_partition = (
                (number, (BrokerId(number + 1),)) for number in range(2)
            )
            await target.create_topic(
                TopicToCreate(name="t", assignments=(first_partition, second_partition))
            )
            assert target.topics["t"] == 2
            with pytest.raises(TargetError, match="topic t: TOPIC_ALREADY_EXISTS"):
                await target.create_topic(TopicToCreate(name="t", assignments=(first_partition,)))
            began_ms = env.clock.now_ms()
            await target.advance(1_000)
            await target.wait_out(60_000)
            assert env.clock.now_ms() - began_ms >= 61_000
            assert target.late_partition_count() == 0
            assert target.why_unfinished("app")[0] == "app is not known to any coordinator"

    run_virtual(main, seed=1)


@pytest.mark.parametrize(
    ("options", "settings", "complaint"),
    [
        ({}, {}, "transaction.version 2 with verification, strict markers (KIP-1228)"),
        ({"as_version": ("4.1",)}, {}, "transaction.version 2 with verification"),
        (
            {"level": 0},
            {"transaction_partition_verification_enable": False},
            "transaction.version 0 without verification, strict markers (KIP-1228)",
        ),
    ],
)
async def test_brokers_are_asked(
    options: dict[str, object], settings: dict[str, object], complaint: str
) -> None:
    async with real_cluster(**options, **settings) as sim:
        assert str(await generation_of(sim.bootstrap, ClientSettings())) == complaint


def test_brokers_that_differ_are_said_to() -> None:
    cluster = Generation(
        transaction_version=1, verification=frozenset({True, False}), has_strict_markers=False
    )
    assert str(cluster) == "transaction.version 1, verification at some of its brokers"
