"""Plays of raw requests about streams groups (KIP-1071), and what a real 4.4.0 answered.

``python -m tests.conformance.streams_plays HOST:PORT > tests/conformance/streams_plays.jsonl``
records them anew, from a fresh broker with the settings of ``SETTINGS``.
"""

from __future__ import annotations

import dataclasses
import json
import sys
import time  # noqa: TID251 - a broker on the real machine
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from enum import IntEnum
from pathlib import Path
from typing import Any, Final

from txnsim.client.raw.connection import RawConnection
from txnsim.wire.apis import APIS

TRANSCRIPT: Final = Path(__file__).with_suffix(".jsonl")
SETTINGS: Final = {
    "group.streams.initial.rebalance.delay.ms": "0",
    "group.streams.assignment.interval.ms": "0",
    "offsets.topic.num.partitions": "3",
    "group.initial.rebalance.delay.ms": "0",
    "group.consumer.assignment.interval.ms": "0",
    "auto.create.topics.enable": "false",
}
REAL_PAUSE_S: Final = 2.0
"""How long a real broker may take to hear of new topics."""
_KEYS: Final = {name: key for key, (name, _) in APIS.items()}
_RANDOM: Final = ("throttle_time", "client_host")
_OF_STREAMS: Final = ("StreamsGroupHeartbeat", "StreamsGroupDescribe")
_KEEP: Final = object()
MISSING: Final = 3
"""Status of a heartbeat: internal topics are missing."""
Topology = tuple[int, list[dict[str, Any]]]


def plain(value: Any) -> Any:
    """A message as JSON, without what differs from run to run."""
    if dataclasses.is_dataclass(value):
        return {
            each.name: plain(getattr(value, each.name))
            for each in dataclasses.fields(value)
            if each.name not in _RANDOM
            and not (type(value).__name__.startswith("JoinGroup") and each.name == "member_id")
        }
    if isinstance(value, (tuple, list)):
        found = [plain(each) for each in value]
        if found and all(isinstance(each, dict) for each in found):
            key = next((k for k in ("group_id", "member_id", "topic") if k in found[0]), None)
            if key is not None:
                found.sort(key=lambda each: str(each[key]))
        return found
    if isinstance(value, uuid.UUID):
        return "?uuid"
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, IntEnum):
        return value.name
    return value.hex() if isinstance(value, bytes) else value


# Parts of requests


def ti(name: str, partitions: int = 0, rf: int = 0, **configs: str) -> dict[str, Any]:
    """An internal topic."""
    return {
        "name": name,
        "partitions": partitions,
        "replication_factor": rf,
        "topic_configs": [
            {"key": key.replace("_", "."), "value": value} for key, value in configs.items()
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
    """A subtopology."""
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
    """A copartition group."""
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


def ids(owned: Iterable[str] | None) -> list[dict[str, Any]] | None:
    """Tasks of a request from ``"0_1"``."""
    if owned is None:
        return None
    found: dict[str, list[int]] = {}
    for task in owned:
        name, _, index = task.rpartition("_")
        found.setdefault(name, []).append(int(index))
    return [{"subtopology_id": name, "partitions": each} for name, each in sorted(found.items())]


def named(tasks: Iterable[Any] | None) -> list[str]:
    """Tasks of an answer as ``"0_1"``."""
    return [f"{each.subtopology_id}_{index}" for each in tasks or () for index in each.partitions]


class Plays:
    """One broker, and the answers that it gave.

    Args:
        address: Of the broker.
        pause_s: How long it may take to hear of new topics.
        newest: Version of the APIs of streams groups that it has; before 4.4 that is 0.
    """

    def __init__(self, address: str, *, pause_s: float, newest: int = 1) -> None:
        self.newest = newest
        self._connection = RawConnection(address)
        self._pause_s = pause_s
        self.rows: list[list[Any]] = []
        self.play = ""
        """Number of the play that goes on."""
        self.own_names = ""
        """What the names of its groups begin with."""
        self.awaits_topics = False
        """Whether nothing is asked before internal topics are made: a real broker makes them behind
        its answer.
        """

    def run(self) -> list[list[Any]]:
        """Play all of it."""
        with self.connected():
            self.topic("one", 1)
            self.topic("three", 3)
            for name, play in PLAYS.items():
                self.play = self.own_names = name
                play(self)
        return self.rows

    @contextmanager
    def connected(self) -> Iterator[None]:
        """Be connected, and have a coordinator."""
        with self._connection:
            self.topic("src")
            for _ in range(200):
                keys: dict[str, Any] = {"coordinator_keys": ["warm"]}
                self.ask("FindCoordinator", 4, quiet=True, key_type=0, **keys)
                self.ask("FindCoordinator", 4, quiet=True, key_type=1, **keys)
                if not self.beat("warm", "m", 0, simple(), quiet=True).error_code:
                    break
                time.sleep(0.1)
            yield

    def ask(self, api: str, version: int, *, quiet: bool = False, **values: Any) -> Any:
        """Ask, and keep the answer."""
        if api in _OF_STREAMS and version > self.newest:
            version = self.newest
            values.pop("include_topology_description", None)
        answer = self._connection.ask(_KEYS[api], version, **values)
        if not quiet:
            self.rows.append([self.play, api, version, plain(answer)])
        return answer

    def settle_topics(self) -> None:
        """Let the broker hear of new topics."""
        time.sleep(self._pause_s)

    # Topics and configs

    def topic(self, name: str, partitions: int = 2) -> None:
        """Make a topic."""
        wanted = {
            "name": name,
            "num_partitions": partitions,
            "replication_factor": 1,
            "assignments": [],
            "configs": [],
        }
        self.ask(
            "CreateTopics", 7, quiet=True, topics=[wanted], timeout=30_000, validate_only=False
        )
        self.settle_topics()

    def grow(self, name: str, partitions: int) -> None:
        """Give a topic more partitions."""
        wanted = {"name": name, "count": partitions, "assignments": None}
        self.ask(
            "CreatePartitions", 3, quiet=True, topics=[wanted], timeout=30_000, validate_only=False
        )
        self.settle_topics()

    def drop(self, name: str) -> None:
        """Delete a topic."""
        self.ask("DeleteTopics", 5, quiet=True, topic_names=[name], timeout=30_000)
        self.settle_topics()

    def conf(self, group: str, **configs: str) -> None:
        """Set configs of a group; two underscores stand for a dot."""
        changes = [
            {"name": name.replace("__", "."), "config_operation": 0, "value": value}
            for name, value in configs.items()
        ]
        resource = {"resource_type": 32, "resource_name": group, "configs": changes}
        self.ask(
            "IncrementalAlterConfigs", 1, quiet=True, resources=[resource], validate_only=False
        )
        self.settle_topics()

    # Requests

    def beat(
        self,
        group: str,
        member: str,
        epoch: int,
        topology: Topology | None = None,
        own: Any = _KEEP,
        *,
        v: int = 1,
        quiet: bool = False,
        **fields: Any,
    ) -> Any:
        """StreamsGroupHeartbeat."""
        is_joining = epoch == 0
        kinds: Any
        if own is _KEEP:
            kinds = ([], [], []) if is_joining else (None, None, None)
        elif own is None:
            kinds = (None, None, None)
        elif isinstance(own, tuple):
            kinds = tuple(map(ids, (*own, [], [], [])[:3]))
        else:
            kinds = (ids(own), [], [])
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
            **fields,
        }
        values["rebalance_timeout"] = timedelta(milliseconds=values["rebalance_timeout"])
        answer = self.ask("StreamsGroupHeartbeat", v, quiet=quiet, **values)
        if self.awaits_topics and any(one.status_code == MISSING for one in answer.status or ()):
            self.settle_topics()
        return answer

    def member(self, group: str, member: str, topology: Topology, **fields: Any) -> Member:
        """A member that joins."""
        return Member(self, group, member, topology, **fields)

    def desc(self, *groups: str, v: int = 1, **fields: Any) -> None:
        """StreamsGroupDescribe."""
        self.ask(
            "StreamsGroupDescribe",
            v,
            group_ids=groups,
            include_authorized_operations=False,
            **fields,
        )

    def listed(self, **fields: Any) -> None:
        """ListGroups; the groups of this play."""
        values = {"states_filter": [], "types_filter": [], **fields}
        answer = self.ask("ListGroups", 5, quiet=True, **values)
        groups = sorted(answer.groups, key=lambda one: one.group_id)
        mine = [plain(one) for one in groups if one.group_id.startswith(self.own_names)]
        self.rows.append([self.play, "ListGroups", 5, mine])

    def gone(self, *groups: str) -> None:
        """DeleteGroups."""
        self.ask("DeleteGroups", 2, groups_names=groups)

    def consume(self, group: str, member: str = "m", epoch: int = 0) -> None:
        """ConsumerGroupHeartbeat."""
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
        """ShareGroupHeartbeat."""
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
        self, group: str, member: str, epoch: int, *places: int, v: int = 9, t: str = "src"
    ) -> None:
        """OffsetCommit."""
        partitions = [
            {
                "partition_index": index,
                "committed_offset": 3,
                "committed_leader_epoch": -1,
                "committed_metadata": "",
            }
            for index in places
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
        instance: str | None,
        version: int,
    ) -> None:
        """TxnOffsetCommit, in a transaction that is aborted."""
        name = {"transactional_id": f"{group}-txn"}
        own = {"transaction_timeout": 60_000, "producer_id": -1, "producer_epoch": -1}
        while (begun := self.ask("InitProducerId", 4, quiet=True, **name, **own)).error_code:
            time.sleep(0.05)  # the transaction before has not ended
        who = {**name, "producer_id": begun.producer_id, "producer_epoch": begun.producer_epoch}
        self.ask("AddOffsetsToTxn", 3, quiet=True, **who, group_id=group)
        place = {
            "partition_index": 0,
            "committed_offset": 5,
            "committed_leader_epoch": -1,
            "committed_metadata": "",
        }
        self.ask(
            "TxnOffsetCommit",
            version,
            **who,
            group_id=group,
            generation_id=epoch,
            member_id=member,
            group_instance_id=instance,
            topics=[{"name": topic, "partitions": [place]}],
        )
        self.ask("EndTxn", 3, quiet=True, **who, committed=False)

    def configs_of(self, group: str) -> None:
        """DescribeConfigs of a group."""
        resource = {"resource_type": 32, "resource_name": group, "configuration_keys": None}
        answer = self.ask(
            "DescribeConfigs",
            4,
            quiet=True,
            resources=[resource],
            include_synonyms=True,
            include_documentation=False,
        )
        found = [
            [each.name, each.value, plain(each.config_source), plain(each.synonyms)]
            for each in sorted(answer.results[0].configs, key=lambda one: one.name)
            if each.name.startswith("streams.")
        ]
        self.rows.append([self.play, "DescribeConfigs", 4, found])

    def configure(
        self, group: str, configs: Mapping[str, str | None], *, quiet: bool = False
    ) -> None:
        """IncrementalAlterConfigs of a group, whose answer counts; None takes a config away."""
        changes = [
            {"name": name, "config_operation": int(value is None), "value": value}
            for name, value in configs.items()
        ]
        resource = {"resource_type": 32, "resource_name": group, "configs": changes}
        values = {"resources": [resource], "validate_only": False}
        self.ask("IncrementalAlterConfigs", 1, quiet=quiet, **values)
        self.settle_topics()

    def configure_broker(self, configs: Mapping[str, str | None]) -> None:
        """IncrementalAlterConfigs of all brokers."""
        changes = [
            {"name": name, "config_operation": int(value is None), "value": value}
            for name, value in configs.items()
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
            quiet=True,
            resources=[resource],
            include_synonyms=True,
            include_documentation=False,
        )
        found = [
            plain(each)
            for each in sorted(answer.results[0].configs, key=lambda one: one.name)
            if each.name.startswith("group.streams.")
            and not each.name.endswith((".assignors", ".class"))
        ]
        self.rows.append([self.play, "DescribeConfigs", 4, found])

    def fetch(self, group: str, member: str | None, epoch: int) -> None:
        """OffsetFetch."""
        asked = {
            "group_id": group,
            "member_id": member,
            "member_epoch": epoch,
            "topics": [{"name": "src", "partition_indexes": [0]}],
        }
        self.ask("OffsetFetch", 9, groups=[asked], require_stable=False)

    def joinc(self, group: str) -> None:
        """JoinGroup."""
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
    """A member that does as it hears."""

    def __init__(
        self, plays: Plays, group: str, member: str, topology: Topology, **fields: Any
    ) -> None:
        self._plays, self._group, self._member = plays, group, member
        self.own: tuple[list[str], ...] = ([], [], [])
        self.e = 0
        self.kept = {key: fields.pop(key) for key in list(fields) if key in ("instance_id", "v")}
        self._take(plays.beat(group, member, 0, topology, **fields, **self.kept))

    def _take(self, answer: Any) -> None:
        self.e = answer.member_epoch
        if answer.active_tasks is not None:
            kinds = (answer.active_tasks, answer.standby_tasks, answer.warmup_tasks)
            self.own = tuple(map(named, kinds))

    def beat(self, *, quiet: bool = False, **fields: Any) -> None:
        """It reports what it has, and takes what it gets."""
        answer = self._plays.beat(
            self._group,
            self._member,
            self.e,
            None,
            own=self.own,
            quiet=quiet,
            **fields,
            **self.kept,
        )
        if not answer.error_code:
            self._take(answer)

    def leave(self, epoch: int = -1, **fields: Any) -> None:
        """It leaves."""
        self._plays.beat(self._group, self._member, epoch, **fields, **self.kept)


def settle(*members: Member, quiet: bool = False) -> None:
    """Members go on until nothing changes."""
    for _ in range(6):
        before = [(each.e, each.own) for each in members]
        for each in members:
            each.beat(quiet=quiet)
        if before == [(each.e, each.own) for each in members]:
            return


# The plays


def play_invalid(p: Plays) -> None:
    """Requests that no group takes."""
    t = simple()
    p.beat("", "m", 0, t)
    p.beat(" ", "m", 0, t)
    p.beat("s01", "", 0, t)
    p.beat("s01", "m", 0, t, instance_id="")
    p.beat("s01", "m", 0, t, rack_id=" ")
    p.beat("s01", "m", 0, t, rebalance_timeout=-1)
    p.beat("s01", "m", 0, t, own=None)
    p.beat("s01", "m", 0, t, own=["0_1"])
    p.beat("s01", "m", 0, t, own=([], ["0_1"]))
    p.beat("s01", "m", 0, t, own=([], [], ["0_1"]))
    p.beat("s01", "m", 0, None)
    p.beat("s01", "m", -2)
    p.beat("s01", "m", -3)
    p.beat("s01", "m", 3, t)
    p.beat("s01", "m", 3, active_tasks=[])
    p.beat("s01", "m", 0, (0, [sub("0", ("src",), regex=("a.*",))]))
    p.beat("s01", "m", 0, (0, [sub("0", ("src",), logs=[ti("l", 3)])]))
    p.beat("s01", "m", 0, (-1, [sub("0", ("src",))]))
    p.beat("s01", "m", 0, (0, [sub("0", ("__consumer_offsets", "__transaction_state"))]))
    p.beat("s01", "m", 0, (0, [sub("0", ("a b", "src", "c d"))]))
    p.desc("s01")


def play_missing(p: Plays) -> None:
    """A group that is not there."""
    p.beat("s02", "m", 3)
    p.beat("s02", "m", -1)
    p.beat("s02", "m", -2, instance_id="i")
    p.desc("s02", "")
    p.desc("s02", v=0)
    p.gone("s02")


def play_one_member(p: Plays) -> None:
    """One member lives and goes."""
    a = p.member("s03", "a", simple())
    a.beat()
    p.desc("s03")
    p.listed()
    a.beat()
    p.beat("s03", "a", a.e + 1)
    p.beat("s03", "a", a.e - 1)
    p.beat("s03", "a", a.e - 1, own=a.own)
    p.beat("s03", "a", a.e - 1, own=(["0_7"],))
    p.beat("s03", "b", a.e)
    p.beat("s03", "b", -1)
    p.beat("s03", "a", 0, simple())
    p.gone("s03")
    a.leave()
    p.desc("s03")
    p.listed()
    p.listed(states_filter=["Empty"])
    p.listed(types_filter=["streams"])
    p.listed(types_filter=["share"])
    p.gone("s03")
    p.desc("s03")


def play_counting(p: Plays) -> None:
    """A word count, one, two and three members."""
    a = p.member("s04", "a", count("s04"))
    p.settle_topics()
    p.desc("s04")
    a.beat()
    p.desc("s04")
    b = p.member("s04", "b", count("s04"))
    settle(a, b)
    p.desc("s04")
    x = p.member("s04", "c", count("s04"))
    settle(a, b, x)
    p.desc("s04")
    b.leave()
    settle(a, x)
    p.desc("s04")
    p.desc(
        "s04",
        v=0,
    )
    p.desc("s04", include_topology_description=True)


def play_sources(p: Plays) -> None:
    """Source topics come and go."""
    p.beat("s05", "a", 0, (0, [sub("0", ("nope", "src", "nada"))]))
    p.beat("s05", "a", 2)
    p.desc("s05")
    p.listed(states_filter=["NotReady"])
    p.listed(states_filter=["not_ready"])
    p.topic("nope")
    p.topic("nada", 5)
    p.beat("s05", "a", 2)
    p.desc("s05")
    p.drop("nada")
    p.beat("s05", "a", 3)
    p.desc("s05")
    p.topic("nada", 1)
    p.beat("s05", "a", 4)


def play_copartitioning(p: Plays) -> None:
    """Numbers of partitions that fit, or not."""
    p.beat("s06a", "a", 0, (0, [sub("0", ("src", "one"), cop=[cg((0, 1))])]))
    p.beat(
        "s06b",
        "a",
        0,
        (0, [sub("0", ("src",), reps=[ti("s06b-r", 5)], sinks=("s06b-r",), cop=[cg((0,), (0,))])]),
    )
    p.beat(
        "s06c",
        "a",
        0,
        (
            0,
            [
                sub("0", ("src",), sinks=("s06c-r", "s06c-q")),
                sub("1", (), reps=[ti("s06c-r", 3), ti("s06c-q", 4)], cop=[cg((), (0, 1))]),
            ],
        ),
    )
    p.beat(
        "s06d",
        "a",
        0,
        (
            0,
            [
                sub("0", ("src",), sinks=("s06d-r", "s06d-q")),
                sub("1", (), reps=[ti("s06d-r", 3), ti("s06d-q")], cop=[cg((), (0, 1))]),
            ],
        ),
    )
    p.beat(
        "s06e",
        "a",
        0,
        (
            0,
            [
                sub("0", ("src",), sinks=("s06e-r",)),
                sub("1", ("three",), reps=[ti("s06e-r")], cop=[cg((0,), (0,))]),
            ],
        ),
    )
    p.topic("s06f-log", 5)
    p.beat("s06f", "a", 0, stateful("s06f"))
    p.desc("s06f")
    p.beat("s06g", "a", 0, (0, [sub("0", ("src",), cop=[cg((3,))])]))
    p.beat("s06h", "a", 0, (0, [sub("0", ("src",)), sub("1", (), reps=[ti("s06h-r")])]))
    p.beat(
        "s06i",
        "a",
        0,
        (
            0,
            [
                sub("0", (), sinks=("s06i-r",), reps=[ti("s06i-q")]),
                sub("1", (), sinks=("s06i-q",), reps=[ti("s06i-r")]),
            ],
        ),
    )
    p.beat("s06j", "a", 0, (0, [sub("0", ())]))
    p.beat("s06k", "a", 0, (0, []))
    p.beat("s06l", "a", 0, (0, [sub("0", ("src",)), sub("0", ("one",))]))


def play_epochs(p: Plays) -> None:
    """Epochs of topologies, tasks that can not be."""
    a = p.member("s07", "a", (2, simple()[1]))
    p.beat("s07", "b", 0, (1, simple()[1]))
    p.beat("s07", "c", 0, (3, simple()[1]))
    p.beat("s07", "c", 0, (2, [sub("0", ("one",))]))
    p.desc("s07")
    b = p.member("s07", "b", (2, simple()[1]))
    settle(a, b)
    p.beat("s07", "b", b.e, own=(["9_0"],))
    p.beat("s07", "b", b.e, own=(["0_7"],))
    p.beat("s07", "b", b.e, own=(["0_-1"],))


def play_static(p: Plays) -> None:
    """A static member and its lives."""
    a = p.member("s08", "a", stateful("s08"), instance_id="i")
    p.settle_topics()
    a.beat()
    a.beat()
    p.beat("s08", "b", 0, stateful("s08"), instance_id="i")
    p.beat("s08", "b", a.e, instance_id="i")
    p.beat("s08", "a", a.e, instance_id="j")
    a.leave(-2)
    p.desc("s08")
    b = p.member("s08", "b", stateful("s08"), instance_id="i")
    b.beat()
    p.beat("s08", "a", a.e, instance_id="i")
    p.beat("s08", "b", -2)
    b.leave(-2)
    b = p.member("s08", "b2", stateful("s08"), instance_id="i", process_id="other")
    settle(b)
    b.leave(-1)
    p.desc("s08")


def play_protocols(p: Plays) -> None:
    """Groups of other protocols."""
    p.consume("s09")
    p.beat("s09", "a", 0, simple())
    p.beat("s09", "a", 4)
    p.beat("s09", "a", -1)
    p.desc("s09")
    p.share("s09b")
    p.beat("s09b", "a", 0, simple())
    a = p.member("s09c", "a", simple())
    p.consume("s09c")
    p.consume("s09c", "m", 3)
    p.share("s09c")
    p.joinc("s09c")
    p.ask("DescribeGroups", 6, groups=["s09c"], include_authorized_operations=False)
    p.ask("ConsumerGroupDescribe", 1, group_ids=["s09c"], include_authorized_operations=False)
    p.commit("s09c", "", -1, 0)
    a.leave()
    p.consume("s09c")
    p.share("s09c")
    p.commit("s09c", "", -1, 0)
    p.fetch("s09c", None, -1)
    p.joinc("s09c")
    p.beat("s09c", "a", 0, simple())
    p.commit("s09d", "", -1, 0)
    a = p.member("s09d", "a", simple())
    p.desc("s09d")
    p.fetch("s09d", "a", a.e)


def play_positions(p: Plays) -> None:
    """Who may commit and read positions."""
    a = p.member("s10", "a", stateful("s10"))
    p.settle_topics()
    a.beat()
    e1 = a.e
    p.commit("s10", "a", a.e, 0)
    p.commit("s10", "a", a.e, 0, v=8)
    p.commit("s10", "a", a.e + 1, 0)
    p.commit("s10", "b", a.e, 0)
    p.commit("s10", "", -1, 0)
    b = p.member("s10", "b", stateful("s10"))
    settle(a, b)
    p.commit("s10", "a", e1, 0, 1)
    p.commit("s10", "a", e1, 0)
    p.commit("s10", "a", e1, 1)
    p.commit("s10", "b", e1, 1)
    p.commit("s10", "a", 1, 0)
    p.commit("s10", "a", e1, 0, t="one")
    p.fetch("s10", "a", a.e)
    p.fetch("s10", "a", 1)
    p.fetch("s10", "c", 1)
    p.ask(
        "OffsetDelete",
        0,
        group_id="s10",
        topics=[
            {"name": "src", "partitions": [{"partition_index": 0}]},
            {"name": "one", "partitions": [{"partition_index": 0}]},
        ],
    )


def play_shutdown(p: Plays) -> None:
    """A member wants all to stop."""
    a = p.member("s11", "a", simple())
    b = p.member("s11", "b", simple())
    settle(a, b)
    a.beat(shutdown_application=True)
    b.beat()
    b.beat(shutdown_application=True)
    a.leave()
    b.beat()
    x = p.member("s11", "c", simple())
    b.leave(shutdown_application=True)
    x.beat()
    x.leave()
    x = p.member("s11", "d", simple())


def play_endpoints(p: Plays) -> None:
    """Endpoints for interactive queries."""
    ep = {"host": "h1", "port": 99}
    a = p.member("s12", "a", count("s12"), user_endpoint=ep)
    p.settle_topics()
    a.beat()
    a.beat()
    a.beat(endpoint_information_epoch=1)
    a.beat(endpoint_information_epoch=2)
    b = p.member("s12", "b", count("s12"), user_endpoint={"host": "h2", "port": 7})
    settle(a, b)
    a.beat(user_endpoint={"host": "h3", "port": 1})
    b.beat()
    p.desc("s12")
    b.leave()
    a.beat()
    a.beat()
    p.beat("s12x", "a", 0, simple("nix"), user_endpoint=ep)
    p.beat("s12y", "a", 0, simple(), user_endpoint=ep, endpoint_information_epoch=-1)


def play_standbys(p: Plays) -> None:
    """Standbys, more and fewer."""
    p.conf("s13", streams__num__standby__replicas="1")
    a = p.member("s13", "a", count("s13"))
    p.settle_topics()
    a.beat()
    b = p.member("s13", "b", count("s13"))
    settle(a, b)
    p.desc("s13")
    p.conf("s13", streams__num__standby__replicas="2")
    settle(a, b)
    x = p.member("s13", "c", count("s13"))
    settle(a, b, x)
    p.desc("s13")
    a.leave()
    settle(b, x)
    p.desc("s13")
    p.conf("s13", streams__num__standby__replicas="0")
    settle(b, x)
    p.desc("s13")


def play_tags(p: Plays) -> None:
    """Client tags that are missing."""
    p.conf("s14", streams__rack__aware__assignment__tags="zone,cluster")
    p.beat("s14", "a", 0, simple())
    p.beat("s14", "a", 0, simple(), v=0)
    p.beat("s14", "b", 0, simple(), client_tags=[{"key": "zone", "value": "z"}])
    p.beat(
        "s14",
        "c",
        0,
        simple(),
        client_tags=[{"key": "zone", "value": "z"}, {"key": "cluster", "value": "c"}],
        rack_id="r",
    )
    p.desc("s14")


def play_offsets(p: Plays) -> None:
    """Reported changelog offsets."""
    a = p.member("s15", "a", stateful("s15"))
    p.settle_topics()
    a.beat()
    a.beat(
        task_offsets=[
            {"subtopology_id": "0", "partition": 0, "offset": 5},
            {"subtopology_id": "0", "partition": 1, "offset": 7},
        ],
        task_end_offsets=[{"subtopology_id": "0", "partition": 0, "offset": 9}],
    )
    p.desc("s15")
    a.beat(task_offsets=[{"subtopology_id": "0", "partition": 0, "offset": 5}] * 2)
    b = p.member("s15", "b", stateful("s15"))
    a.beat(task_offsets=[])
    settle(a, b)
    p.desc("s15")


def play_growing(p: Plays) -> None:
    """An older client; threads of one process; a topic that grows."""
    a = p.member("s16", "a", (0, [sub("0", ("three",))]), v=0)
    a.beat()
    p.desc("s16", v=0)
    p.ask(
        "StreamsGroupTopologyDescriptionUpdate",
        0,
        group_id="s16",
        member_id="a",
        topology_epoch=0,
        topology_description={"subtopologies": [], "global_stores": []},
    )
    b = p.member("s16", "b", (0, [sub("0", ("three",))]), process_id="p-a")
    settle(a, b)
    x = p.member("s16", "c", (0, [sub("0", ("three",))]), process_id="p-a")
    settle(a, b, x)
    p.grow("three", 7)
    settle(a, b, x)
    p.desc("s16")


def play_delays(p: Plays) -> None:
    """The first assignment, and the interval."""
    p.conf(
        "s17",
        streams__initial__rebalance__delay__ms="1500",
        streams__assignment__interval__ms="1000",
    )
    a = p.member("s17", "a", simple())
    a.beat()
    p.desc("s17")
    b = p.member("s17", "b", simple())
    b.beat()
    time.sleep(2.2)
    a.beat()
    b.beat()
    p.desc("s17")
    x = p.member("s17", "c", simple())
    a.beat()
    time.sleep(1.2)
    settle(a, b, x)
    p.desc("s17")


def play_creation(p: Plays) -> None:
    """Internal topics that can not be made."""
    p.beat("s18", "a", 0, (0, [sub("0", ("src",), logs=[ti("s18-log", 0, 9)])]))
    p.settle_topics()
    p.beat("s18", "a", 2)
    p.beat("s18b", "a", 0, (0, [sub("0", ("src",), logs=[ti("s18b-log", no_such="x")])]))
    p.settle_topics()
    p.beat("s18b", "a", 2)
    p.beat(
        "s18c", "a", 0, (0, [sub("0", ("src",), logs=[ti(f"s18c-{i}", 0, 9) for i in range(5)])])
    )
    p.settle_topics()
    p.beat("s18c", "a", 2)


def play_many(p: Plays) -> None:
    """Five members of three processes."""
    p.member("s19", "m0", many(), process_id="p0").leave()
    p.settle_topics()
    ms = [p.member("s19", f"m{i}", many(), process_id=f"p{i % 3}") for i in range(5)]
    p.settle_topics()
    settle(*ms, quiet=True)
    p.desc("s19")
    ms.pop(1).leave()
    settle(*ms, quiet=True)
    p.desc("s19")
    ms.append(p.member("s19", "n1", many(), process_id="p1"))
    settle(*ms, quiet=True)
    p.desc("s19")
    p.conf("s19", streams__num__standby__replicas="1")
    settle(*ms, quiet=True)
    p.desc("s19")
    ms.pop(0).leave()
    settle(*ms, quiet=True)
    p.desc("s19")


def play_revocation(p: Plays) -> None:
    """Revocations in single steps."""
    p.conf("s20", streams__num__standby__replicas="1")
    a = p.member("s20", "a", stateful("s20"))
    p.settle_topics()
    a.beat()
    b = p.member("s20", "b", stateful("s20"))
    p.beat("s20", "a", a.e)
    p.beat("s20", "b", b.e)
    a.beat()
    a.beat()
    b.beat()
    a.beat()
    b.beat()
    p.desc("s20")
    a.leave()
    b.beat()
    p.desc("s20")


def play_broker_configs(p: Plays) -> None:
    """What brokers say for groups that say nothing, and the bounds of those that do."""
    for name, *_ in _BROKER_CONFIGS:
        p.configure_broker({f"group.streams.{name}": None})
    p.broker_configs()
    for name, *values in _BROKER_CONFIGS:
        for value in values:
            p.configure_broker({f"group.streams.{name}": value})
    p.broker_configs()
    p.configure_broker({"group.streams.num.standby.replicas": "1"})
    a = p.member("s21", "a", stateful("s21"))
    p.settle_topics()
    a.beat()
    b = p.member("s21", "b", stateful("s21"))
    settle(a, b)
    p.configs_of("s21")
    for name, *_ in _BROKER_CONFIGS:
        p.configure_broker({f"group.streams.{name}": None})
    settle(a, b)
    p.configs_of("s21")
    b.leave()
    a.leave()


_BROKER_CONFIGS: Final = (
    ("num.standby.replicas", "1", "3", "-1", "0"),
    ("max.standby.replicas", "5", "-1", "2"),
    ("num.warmup.replicas", "3", "21", "2"),
    ("max.warmup.replicas", "1", "20"),
    ("session.timeout.ms", "50000", "100", "45000"),
    ("min.session.timeout.ms", "1000", "50000", "45000"),
    ("max.session.timeout.ms", "1000", "60000"),
    ("heartbeat.interval.ms", "6000", "100", "50000", "5000"),
    ("min.heartbeat.interval.ms", "1000", "5000"),
    ("max.heartbeat.interval.ms", "1000", "15000"),
    ("assignment.interval.ms", "500", "-1", "0"),
    ("initial.rebalance.delay.ms", "10", "-1", "0"),
    ("task.offset.interval.ms", "20000", "1", "60000"),
    ("min.task.offset.interval.ms", "10", "15000"),
    ("acceptable.recovery.lag", "7", "-1", "10000"),
    ("rack.aware.assignment.tags", "zone", "zone,zone", ""),
    ("max.size", "2", "0", "2147483647"),
    ("assignors", "sticky", "mine"),
)


PLAYS: Final[dict[str, Callable[[Plays], None]]] = {
    "s01": play_invalid,
    "s02": play_missing,
    "s03": play_one_member,
    "s04": play_counting,
    "s05": play_sources,
    "s06": play_copartitioning,
    "s07": play_epochs,
    "s08": play_static,
    "s09": play_protocols,
    "s10": play_positions,
    "s11": play_shutdown,
    "s12": play_endpoints,
    "s13": play_standbys,
    "s14": play_tags,
    "s15": play_offsets,
    "s16": play_growing,
    "s17": play_delays,
    "s18": play_creation,
    "s19": play_many,
    "s20": play_revocation,
    "s21": play_broker_configs,
}


def main(argv: list[str]) -> int:
    """Print the answers of a broker, one per line."""
    for row in Plays(argv[0], pause_s=REAL_PAUSE_S).run():
        sys.stdout.write(json.dumps(row, sort_keys=True, default=str) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
