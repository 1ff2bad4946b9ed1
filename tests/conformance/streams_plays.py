"""Plays of raw requests about streams groups (KIP-1071): a broker, members, requests."""

from __future__ import annotations

import dataclasses
import uuid
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from enum import IntEnum
from typing import Any, Final

from txnsim.client.raw.connection import RawConnection
from txnsim.runtime.blocking_world import world
from txnsim.wire.apis import APIS

SETTINGS: Final = {
    "group.streams.initial.rebalance.delay.ms": "0",
    "group.streams.assignment.interval.ms": "0",
    "offsets.topic.num.partitions": "3",
    "group.initial.rebalance.delay.ms": "0",
    "group.consumer.assignment.interval.ms": "0",
    "auto.create.topics.enable": "false",
}
_KEYS: Final = {name: key for key, (name, _) in APIS.items()}
ANSWER_TIMEOUT_S: Final = 60.0
_RANDOM: Final = ("throttle_time", "client_host")
_UNORDERED: Final = "subscribed_topic_names"
"""A set, which Java goes through in another order in each process."""
_OF_STREAMS: Final = ("StreamsGroupHeartbeat", "StreamsGroupDescribe")
_KEEP: Final = object()
MISSING: Final = 3
"""Status of a heartbeat: internal topics are missing."""
Topology = tuple[int, list[dict[str, Any]]]


def plain(value: Any) -> Any:
    """A message as JSON, without what differs from run to run."""
    if dataclasses.is_dataclass(value):
        return {
            field.name: sorted(getattr(value, field.name))
            if field.name == _UNORDERED
            else plain(getattr(value, field.name))
            for field in dataclasses.fields(value)
            if field.name not in _RANDOM
            and not (type(value).__name__.startswith("JoinGroup") and field.name == "member_id")
        }
    if isinstance(value, (tuple, list)):
        elements = [plain(element) for element in value]
        if elements and all(isinstance(element, dict) for element in elements):
            key = next(
                (k for k in ("group_id", "member_id", "topic", "topic_name") if k in elements[0]),
                None,
            )
            if key is not None:
                elements.sort(key=lambda element: str(element[key]))
        return elements
    if isinstance(value, uuid.UUID):
        return "?uuid"
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, IntEnum):
        return value.name
    return value.hex() if isinstance(value, bytes) else value


# Parts of requests


def ti(
    name: str, partitions: int = 0, replication_factor: int = 0, **configs: str
) -> dict[str, Any]:
    """An internal topic of a request."""
    return {
        "name": name,
        "partitions": partitions,
        "replication_factor": replication_factor,
        "topic_configs": [
            {"key": config_name.replace("_", "."), "value": config_value}
            for config_name, config_value in configs.items()
        ],
    }


def sub(
    subtopology_id: str,
    sources: Iterable[str] = (),
    logs: Iterable[Any] = (),
    sinks: Iterable[str] = (),
    reps: Iterable[Any] = (),
    cop: Iterable[Any] = (),
    regex: Iterable[str] = (),
) -> dict[str, Any]:
    """A subtopology of a request."""
    return {
        "subtopology_id": subtopology_id,
        "source_topics": sources,
        "source_topic_regex": regex,
        "state_changelog_topics": logs,
        "repartition_sink_topics": sinks,
        "repartition_source_topics": reps,
        "copartition_groups": cop,
    }


def cg(sources: Iterable[int] = (), reps: Iterable[int] = ()) -> dict[str, Any]:
    """A copartition group of a request."""
    return {
        "source_topics": sources,
        "source_topic_regex": (),
        "repartition_source_topics": reps,
    }


def simple(src: str = "src") -> Topology:
    """A topology without state."""
    return (0, [sub("0", (src,))])


def stateful(group: str) -> Topology:
    """A topology with a store."""
    return (0, [sub("0", ("src",), logs=[ti(f"{group}-log", cleanup_policy="compact")])])


def count(group: str) -> Topology:
    """A topology with a repartition topic and a store."""
    return (
        0,
        [
            sub("0", ("src",), sinks=(f"{group}-rep",)),
            sub("1", (), logs=[ti(f"{group}-log")], reps=[ti(f"{group}-rep")]),
        ],
    )


def many() -> Topology:
    """Three subtopologies, one with a store."""
    return (
        0,
        [
            sub("0", ("three",), logs=[ti("s19-l")]),
            sub("1", ("src",)),
            sub("2", ("src", "three")),
        ],
    )


def ids(owned_tasks: Iterable[str] | None) -> list[dict[str, Any]] | None:
    """Tasks such as ``"0_1"`` in the form of a request."""
    if owned_tasks is None:
        return None
    indexes_by_subtopology: dict[str, list[int]] = {}
    for task in owned_tasks:
        subtopology_id, _, index = task.rpartition("_")
        indexes_by_subtopology.setdefault(subtopology_id, []).append(int(index))
    return [
        {"subtopology_id": subtopology_id, "partitions": indexes}
        for subtopology_id, indexes in sorted(indexes_by_subtopology.items())
    ]


def task_names(tasks: Iterable[Any] | None) -> list[str]:
    """Names such as ``"0_1"`` of an answer's tasks."""
    return [
        f"{task.subtopology_id}_{partition_index}"
        for task in tasks or ()
        for partition_index in task.partitions
    ]


class Plays:
    """One broker, and the answers that it gave.

    Args:
        address: Of the broker.
        pause_s: How long it may take to hear of new topics.
        newest: Version of the APIs of streams groups that it has; before 4.4 that is 0.
    """

    def __init__(self, address: str, *, pause_s: float, newest: int = 1) -> None:
        self.newest = newest
        self.address = address
        self._connection = RawConnection(address, answer_timeout_s=ANSWER_TIMEOUT_S)
        self.pause_s = pause_s
        self.rows: list[list[Any]] = []
        self.play = ""
        """Number of the play that goes on."""
        self.own_names = ""
        """What the names of its groups begin with."""
        self.awaits_topics = False
        """Whether nothing is asked before internal topics are made: a real broker makes them behind
        its answer.
        """

    @contextmanager
    def connected(self) -> Iterator[None]:
        """Connect, and wait until a streams group has a loaded coordinator."""
        with self._connection:
            self.topic("src")
            for _ in range(200):
                keys: dict[str, Any] = {"coordinator_keys": ["warm"]}
                self.ask("FindCoordinator", 4, is_quiet=True, key_type=0, **keys)
                self.ask("FindCoordinator", 4, is_quiet=True, key_type=1, **keys)
                if not self.beat("warm", "m", 0, simple(), is_quiet=True).error_code:
                    break
                world().sleep(0.1)
            yield

    def ask(self, api: str, version: int, *, is_quiet: bool = False, **request_fields: Any) -> Any:
        if api in _OF_STREAMS and version > self.newest:
            version = self.newest
            request_fields.pop("include_topology_description", None)
        answer = self._connection.ask(_KEYS[api], version, **request_fields)
        if not is_quiet:
            self.rows.append([self.play, api, version, plain(answer)])
        return answer

    def settle_topics(self) -> None:
        """Wait until the broker knows of new topics."""
        world().sleep(self.pause_s)

    # Topics and configs

    def topic(self, name: str, partitions: int = 2) -> None:
        new_topic = {
            "name": name,
            "num_partitions": partitions,
            "replication_factor": 1,
            "assignments": [],
            "configs": [],
        }
        self.ask(
            "CreateTopics",
            7,
            is_quiet=True,
            topics=[new_topic],
            timeout=30_000,
            validate_only=False,
        )
        self.settle_topics()

    def grow(self, name: str, partitions: int) -> None:
        """Give a topic more partitions."""
        topic_growth = {"name": name, "count": partitions, "assignments": None}
        self.ask(
            "CreatePartitions",
            3,
            is_quiet=True,
            topics=[topic_growth],
            timeout=30_000,
            validate_only=False,
        )
        self.settle_topics()

    def drop(self, name: str) -> None:
        """Delete a topic."""
        self.ask("DeleteTopics", 5, is_quiet=True, topic_names=[name], timeout=30_000)
        self.settle_topics()

    def conf(self, group: str, **configs: str) -> None:
        """Set configs of a group; two underscores stand for a dot."""
        changes = [
            {"name": config_name.replace("__", "."), "config_operation": 0, "value": config_value}
            for config_name, config_value in configs.items()
        ]
        resource = {"resource_type": 32, "resource_name": group, "configs": changes}
        self.ask(
            "IncrementalAlterConfigs", 1, is_quiet=True, resources=[resource], validate_only=False
        )
        self.settle_topics()

    # Requests

    def beat(
        self,
        group: str,
        member: str,
        epoch: int,
        topology: Topology | None = None,
        owned_tasks: Any = _KEEP,
        *,
        v: int = 1,
        is_quiet: bool = False,
        **request_fields: Any,
    ) -> Any:
        """Send a StreamsGroupHeartbeat."""
        is_joining = epoch == 0
        kinds: Any
        if owned_tasks is _KEEP:
            kinds = ([], [], []) if is_joining else (None, None, None)
        elif owned_tasks is None:
            kinds = (None, None, None)
        elif isinstance(owned_tasks, tuple):
            kinds = tuple(map(ids, (*owned_tasks, [], [], [])[:3]))
        else:
            kinds = (ids(owned_tasks), [], [])
        values = {
            "group_id": group,
            "member_id": member,
            "member_epoch": epoch,
            "endpoint_information_epoch": 0,
            "instance_id": None,
            "rack_id": None,
            "rebalance_timeout": 60_000 if is_joining else -1,
            "topology": None
            if topology is None
            else {"epoch": topology[0], "subtopologies": topology[1]},
            "active_tasks": kinds[0],
            "standby_tasks": kinds[1],
            "warmup_tasks": kinds[2],
            "process_id": f"p-{member}" if is_joining else None,
            "user_endpoint": None,
            "client_tags": [] if is_joining else None,
            "task_offsets": None,
            "task_end_offsets": None,
            "shutdown_application": False,
            **request_fields,
        }
        values["rebalance_timeout"] = timedelta(milliseconds=values["rebalance_timeout"])
        answer = self.ask("StreamsGroupHeartbeat", v, is_quiet=is_quiet, **values)
        if self.awaits_topics and any(
            status.status_code == MISSING for status in answer.status or ()
        ):
            self.settle_topics()
        return answer

    def member(self, group: str, member: str, topology: Topology, **request_fields: Any) -> Member:
        """A new member, which has sent its first heartbeat."""
        return Member(self, group, member, topology, **request_fields)

    def desc(self, *groups: str, v: int = 1, **request_fields: Any) -> None:
        """Send a StreamsGroupDescribe."""
        self.ask(
            "StreamsGroupDescribe",
            v,
            group_ids=groups,
            include_authorized_operations=False,
            **request_fields,
        )

    def listed(self, **request_fields: Any) -> None:
        """Send a ListGroups; note the groups of this play only."""
        values = {"states_filter": [], "types_filter": [], **request_fields}
        answer = self.ask("ListGroups", 5, is_quiet=True, **values)
        groups = sorted(answer.groups, key=lambda group: group.group_id)
        own_groups = [plain(group) for group in groups if group.group_id.startswith(self.own_names)]
        self.rows.append([self.play, "ListGroups", 5, own_groups])

    def gone(self, *groups: str) -> None:
        """Send a DeleteGroups."""
        self.ask("DeleteGroups", 2, groups_names=groups)

    def consume(self, group: str, member: str = "m", epoch: int = 0) -> None:
        """Send a ConsumerGroupHeartbeat."""
        self.ask(
            "ConsumerGroupHeartbeat",
            1,
            group_id=group,
            member_id=member,
            member_epoch=epoch,
            instance_id=None,
            rack_id=None,
            rebalance_timeout=60_000,
            subscribed_topic_names=("src",),
            subscribed_topic_regex=None,
            server_assignor=None,
            topic_partitions=(),
        )

    def share(self, group: str) -> None:
        """Send a ShareGroupHeartbeat."""
        self.ask(
            "ShareGroupHeartbeat",
            1,
            group_id=group,
            member_id="m",
            member_epoch=0,
            rack_id=None,
            subscribed_topic_names=("src",),
        )

    def commit(
        self,
        group: str,
        member: str,
        epoch: int,
        *partition_indexes: int,
        v: int = 9,
        t: str = "src",
    ) -> None:
        """Send an OffsetCommit."""
        partitions = [
            {
                "partition_index": partition_index,
                "committed_offset": 3,
                "committed_leader_epoch": -1,
                "committed_metadata": "",
            }
            for partition_index in partition_indexes
        ]
        self.ask(
            "OffsetCommit",
            v,
            group_id=group,
            generation_id_or_member_epoch=epoch,
            member_id=member,
            group_instance_id=None,
            topics=[{"name": t, "partitions": partitions}],
        )

    def in_transaction(
        self,
        group: str,
        member: str,
        epoch: int,
        *,
        topic: str,
        instance_id: str | None,
        version: int,
    ) -> None:
        """Send a TxnOffsetCommit, in a transaction that is aborted."""
        name = {"transactional_id": f"{group}-txn"}
        own_fields = {"transaction_timeout": 60_000, "producer_id": -1, "producer_epoch": -1}
        while (
            init_answer := self.ask("InitProducerId", 4, is_quiet=True, **name, **own_fields)
        ).error_code:
            world().sleep(0.05)  # the transaction before has not ended
        producer_fields = {
            **name,
            "producer_id": init_answer.producer_id,
            "producer_epoch": init_answer.producer_epoch,
        }
        self.ask("AddOffsetsToTxn", 3, is_quiet=True, **producer_fields, group_id=group)
        partition_fields = {
            "partition_index": 0,
            "committed_offset": 5,
            "committed_leader_epoch": -1,
            "committed_metadata": "",
        }
        self.ask(
            "TxnOffsetCommit",
            version,
            **producer_fields,
            group_id=group,
            generation_id=epoch,
            member_id=member,
            group_instance_id=instance_id,
            topics=[{"name": topic, "partitions": [partition_fields]}],
        )
        self.ask("EndTxn", 3, is_quiet=True, **producer_fields, committed=False)

    def configs_of(self, group: str, prefix: str = "streams.") -> None:
        """Send a DescribeConfigs for a group."""
        resource = {"resource_type": 32, "resource_name": group, "configuration_keys": None}
        answer = self.ask(
            "DescribeConfigs",
            4,
            is_quiet=True,
            resources=[resource],
            include_synonyms=True,
            include_documentation=False,
        )
        config_rows = [
            [config.name, config.value, plain(config.config_source), plain(config.synonyms)]
            for config in sorted(answer.results[0].configs, key=lambda config: config.name)
            if config.name.startswith(prefix)
        ]
        self.rows.append([self.play, "DescribeConfigs", 4, config_rows])

    def configure(
        self, group: str, configs: Mapping[str, str | None], *, is_quiet: bool = False
    ) -> None:
        """IncrementalAlterConfigs of a group, whose answer counts; None takes a config away."""
        changes = [
            {
                "name": config_name,
                "config_operation": int(config_value is None),
                "value": config_value,
            }
            for config_name, config_value in configs.items()
        ]
        resource = {"resource_type": 32, "resource_name": group, "configs": changes}
        values = {"resources": [resource], "validate_only": False}
        self.ask("IncrementalAlterConfigs", 1, is_quiet=is_quiet, **values)
        self.settle_topics()

    def configure_broker(self, configs: Mapping[str, str | None]) -> None:
        """Send an IncrementalAlterConfigs for all brokers."""
        changes = [
            {
                "name": config_name,
                "config_operation": int(config_value is None),
                "value": config_value,
            }
            for config_name, config_value in configs.items()
        ]
        resource = {"resource_type": 4, "resource_name": "", "configs": changes}
        self.ask("IncrementalAlterConfigs", 1, resources=[resource], validate_only=False)
        self.settle_topics()

    def broker_configs(self) -> None:
        """DescribeConfigs of the broker: those of streams groups, but for the classes of assignors
        and plugins.
        """
        resource = {"resource_type": 4, "resource_name": "1", "configuration_keys": None}
        answer = self.ask(
            "DescribeConfigs",
            4,
            is_quiet=True,
            resources=[resource],
            include_synonyms=True,
            include_documentation=False,
        )
        config_rows = [
            plain(config)
            for config in sorted(answer.results[0].configs, key=lambda config: config.name)
            if config.name.startswith("group.streams.")
            and not config.name.endswith((".assignors", ".class"))
        ]
        self.rows.append([self.play, "DescribeConfigs", 4, config_rows])

    def fetch(self, group: str, member: str | None, epoch: int) -> None:
        """Send an OffsetFetch."""
        group_request = {
            "group_id": group,
            "member_id": member,
            "member_epoch": epoch,
            "topics": [{"name": "src", "partition_indexes": [0]}],
        }
        self.ask("OffsetFetch", 9, groups=[group_request], require_stable=False)

    def joinc(self, group: str) -> None:
        """Send a JoinGroup."""
        self.ask(
            "JoinGroup",
            7,
            group_id=group,
            session_timeout=10_000,
            rebalance_timeout=10_000,
            member_id="",
            group_instance_id=None,
            protocol_type="consumer",
            protocols=[{"name": "range", "metadata": b"\0\0"}],
        )


class Member:
    """A member that takes over the epoch and the tasks that each answer assigns."""

    def __init__(
        self, plays: Plays, group: str, member: str, topology: Topology, **request_fields: Any
    ) -> None:
        self._plays, self._group, self._member = plays, group, member
        self.own: tuple[list[str], ...] = ([], [], [])
        self.e = 0
        self.kept = {
            key: request_fields.pop(key)
            for key in list(request_fields)
            if key in ("instance_id", "v")
        }
        self._take_assignment(plays.beat(group, member, 0, topology, **request_fields, **self.kept))

    def _take_assignment(self, answer: Any) -> None:
        self.e = answer.member_epoch
        if answer.active_tasks is not None:
            kinds = (answer.active_tasks, answer.standby_tasks, answer.warmup_tasks)
            self.own = tuple(map(task_names, kinds))

    def beat(self, *, is_quiet: bool = False, **request_fields: Any) -> None:
        """Send a heartbeat with the owned tasks, and take over the tasks of the answer."""
        answer = self._plays.beat(
            self._group,
            self._member,
            self.e,
            None,
            owned_tasks=self.own,
            is_quiet=is_quiet,
            **request_fields,
            **self.kept,
        )
        if not answer.error_code:
            self._take_assignment(answer)

    def leave(self, epoch: int = -1, **request_fields: Any) -> None:
        """Leave the group."""
        self._plays.beat(self._group, self._member, epoch, **request_fields, **self.kept)


def settle(*members: Member, is_quiet: bool = False) -> None:
    """Send heartbeats of all members until no answer changes anything."""
    for _ in range(6):
        states_before = [(member.e, member.own) for member in members]
        for member in members:
            member.beat(is_quiet=is_quiet)
        if states_before == [(member.e, member.own) for member in members]:
            return
