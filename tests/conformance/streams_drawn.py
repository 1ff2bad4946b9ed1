"""Drawn plays about streams groups: the same seed asks two brokers the same.

``python -m tests.conformance.streams_drawn REAL OURS --seeds 100-120`` asks both and tells where
their answers part. ``--write`` keeps what the first one answered.
"""

from __future__ import annotations

import random  # noqa: TID251 - a seed, and a broker on the real machine
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from tests.conformance.drawn import compare_play
from tests.conformance.streams_plays import Member, Plays, Topology, cg, count, stateful, sub, ti

TRANSCRIPT: Final = Path(__file__).with_suffix(".jsonl")
_MOVES: Final = 26
_PROCESSES: Final = ("p1", "p2", "p3")
_GROUP: Final = 32
"""Type of a resource of configs."""


class DrawnPlay:
    """One seed's play.

    Args:
        plays: The broker.
        seed: Of the draws, and part of each name.
    """

    def __init__(self, plays: Plays, seed: int) -> None:
        self._p = plays
        self._chance = random.Random(f"streams/{seed}")
        self._name = f"d{seed}"
        self._group = f"{self._name}-g"
        self._members: dict[str, Member] = {}
        self._made: dict[str, int] = {}
        self._processes = [*_PROCESSES]
        self._names = [*"abcdef"]
        if self._chance.random() < 0.5:  # ids as programs have them, which share buckets
            self._processes = [f"{process_name}-{self._bits()}" for process_name in _PROCESSES]
            self._names = [f"{letter}-{self._bits()}" for letter in "abcdef"]

    def _bits(self) -> str:
        return f"{self._chance.getrandbits(64):016x}"

    def play(self) -> None:
        plays, random_source = self._p, self._chance
        plays.play, plays.own_names, plays.awaits_topics = self._name, self._group, True
        self._clean_topics()
        self._topic("t", random_source.choice((1, 2, 3)))
        if random_source.random() < 0.7:
            self._topic("u", random_source.choice((1, 2, 2, 4)))
        self._topology = self._drawn_topology()
        if random_source.random() < 0.4:
            self._configure()
        self._join()
        if self._p.rows and random_source.random() < 0.8:
            plays.settle_topics()
        moves: Mapping[Callable[[], None], float] = {
            self._join: 4,
            self._send_heartbeat: 10,
            self._settle: 3,
            self._beat_otherwise: 5,
            self._leave: 3,
            self._return: 2,
            self._positions: 3,
            self._in_transaction: 1,
            self._describe: 2,
            self._ask_other_types: 2,
            self._configure: 1.5,
            self._change_topics: 1.5,
            self._delete: 1,
            self._invalid: 2,
        }
        for _ in range(_MOVES):
            (move_leader,) = random_source.choices(tuple(moves), tuple(moves.values()))
            move_leader()
        plays.desc(self._group)
        self._clean_topics()

    def _clean_topics(self) -> None:
        """Remove the group and the topics that an earlier play with this seed has left."""
        plays, group = self._p, self._group
        values = {"group_ids": [group], "include_authorized_operations": False}
        (group_description,) = plays.ask("StreamsGroupDescribe", 1, is_quiet=True, **values).groups
        for member in group_description.members:
            epoch, instance = -1, member.instance_id
            plays.beat(group, member.member_id, epoch, is_quiet=True, instance_id=instance)
        plays.ask("DeleteGroups", 2, is_quiet=True, groups_names=[group])
        plays.configure(group, {name: None for name, _ in _CONFIGS[:-1]}, is_quiet=True)
        topic_names = (*(f"{self._name}-{letter}" for letter in "tuv"), *self._internal())
        plays.ask("DeleteTopics", 5, is_quiet=True, topic_names=topic_names, timeout=30_000)
        plays.settle_topics()

    def _internal(self) -> tuple[str, ...]:
        return tuple(f"{self._group}-{suffix}" for suffix in ("rep", "rep2", "log"))

    # Topics

    def _topic(self, name: str, partitions: int) -> None:
        full_name = f"{self._name}-{name}"
        self._p.topic(full_name, partitions)
        self._made[full_name] = partitions

    def _any_topic(self) -> str:
        if self._chance.random() < 0.06:
            return f"{self._name}-none"
        return self._chance.choice(tuple(self._made) or (f"{self._name}-none",))

    def _change_topics(self) -> None:
        random_source = self._chance
        match random_source.choice(("grow", "drop", "make", "internal")):
            case "grow" if self._made:
                name = random_source.choice(tuple(self._made))
                self._made[name] += random_source.choice((1, 2))
                self._p.grow(name, self._made[name])
            case "drop" if self._made:
                name = random_source.choice(tuple(self._made))
                del self._made[name]
                self._p.drop(name)
            case "make":
                name = f"{self._name}-{random_source.choice('tuv')}"
                if name not in self._made:
                    self._topic(
                        name.removeprefix(f"{self._name}-"), random_source.choice((1, 2, 3))
                    )
            case _:
                name = f"{self._group}-{random_source.choice(('rep', 'log'))}"
                if random_source.random() < 0.5:
                    self._p.topic(name, random_source.choice((1, 2, 5)))
                else:
                    self._p.drop(name)

    # Topologies

    def _drawn_topology(self) -> Topology:
        random_source, group = self._chance, self._group
        first_topic, second_topic = self._any_topic(), self._any_topic()
        epoch = random_source.choice((0, 0, 0, 1, 3))
        match random_source.choice(
            ("plain", "plain", "state", "count", "count", "two", "joined", "chain", "odd")
        ):
            case "plain":
                return epoch, [sub("0", sorted({first_topic, second_topic}))]
            case "state":
                return epoch, _with_source_topic(stateful(group)[1], "src", first_topic)
            case "count":
                return epoch, _with_source_topic(count(group)[1], "src", first_topic)
            case "two":
                parts = [
                    sub("0", (first_topic,)),
                    sub("1", (second_topic,), logs=[ti(f"{group}-log")]),
                ]
                return epoch, parts
            case "joined":
                topics = sorted({first_topic, second_topic})
                return epoch, [sub("0", topics, cop=[cg(range(len(topics)))])]
            case "chain":
                return epoch, self._chain(first_topic, second_topic)
            case _:
                return epoch, self._odd(first_topic)

    def _chain(self, first_topic: str, second_source: str) -> list[dict[str, Any]]:
        """Two repartition topics that a later part joins, some with a number of partitions."""
        random_source, group = self._chance, self._group
        left_topic = ti(f"{group}-rep", random_source.choice((0, 0, 2, 3)))
        right_topic = ti(f"{group}-rep2", random_source.choice((0, 0, 0, 2)))
        cop = random_source.choice(([], [cg((), (0, 1))], [cg((0,), (0,))]))
        sources = (second_source,) if cop and cop[0]["source_topics"] else ()
        return [
            sub("0", (first_topic,), sinks=(left_topic["name"], right_topic["name"])),
            sub(
                "1",
                sources,
                logs=[ti(f"{group}-log", cleanup_policy="compact")],
                reps=[left_topic, right_topic],
                cop=cop,
            ),
        ]

    def _odd(self, first_topic: str) -> list[dict[str, Any]]:
        """Subtopologies that a broker may refuse."""
        random_source, group = self._chance, self._group
        return random_source.choice(
            (
                [],
                [sub("0", ())],
                [sub("0", (first_topic,)), sub("0", (first_topic,))],
                [sub("", (first_topic,))],
                [sub("0", (first_topic,), regex=(".*",))],
                [sub("0", (first_topic, "__consumer_offsets"))],
                [sub("0", (first_topic, "no good"))],
                [sub("0", (first_topic,), logs=[ti(f"{group}-log", 2)])],
                [sub("0", (first_topic,), logs=[ti(f"{group}-log", 0, 3)])],
                [sub("0", (first_topic,), logs=[ti(f"{group}-log", 0, -1)])],
                [sub("0", (first_topic,), logs=[ti(f"{group}-log", nothing="1")])],
                [sub("0", (first_topic,), logs=[ti(first_topic)])],
                [sub("0", (first_topic,), cop=[cg((4,))])],
                [sub("0", (first_topic,), sinks=(f"{group}-rep",))],
                [sub("0", (first_topic,), reps=[ti(f"{group}-rep")])],
                [sub("0", (first_topic,), reps=[ti(f"{group}-rep", -1)], sinks=(f"{group}-rep",))],
                [sub("0", (first_topic,), reps=[ti(f"{group}-rep", 3)], sinks=(first_topic,))],
            )
        )

    # Members

    def _identity(self) -> dict[str, Any]:
        random_source = self._chance
        fields: dict[str, Any] = {"process_id": random_source.choice(self._processes)}
        if random_source.random() < 0.25:
            fields["instance_id"] = random_source.choice(("i1", "i2"))
        if random_source.random() < 0.2:
            fields["rack_id"] = random_source.choice(("r1", "r2"))
        if random_source.random() < 0.3:
            fields["client_tags"] = [
                {"key": key, "value": random_source.choice("xy")}
                for key in random_source.sample(("zone", "cluster"), random_source.choice((1, 2)))
            ]
        if random_source.random() < 0.2:
            fields["user_endpoint"] = {"host": random_source.choice(("h1", "h2")), "port": 80}
        if random_source.random() < 0.2:
            fields["rebalance_timeout"] = random_source.choice((0, 30_000, 120_000))
        if random_source.random() < 0.15:
            fields["v"] = 0
        return fields

    def _join(self) -> None:
        random_source = self._chance
        member_name = random_source.choice(self._names)
        topology = self._topology
        if random_source.random() < 0.12:
            topology = (topology[0] + random_source.choice((-1, 1)), topology[1])
        elif random_source.random() < 0.08:
            topology = self._drawn_topology()
        member = self._p.member(self._group, member_name, topology, **self._identity())
        if member.e:
            self._members[member_name] = member

    def _send_heartbeat(self) -> None:
        if self._members:
            self._any_member().beat(**self._news())

    def _settle(self) -> None:
        for _ in range(3):
            for member in self._members.values():
                member.beat()

    def _news(self) -> dict[str, Any]:
        random_source = self._chance
        news: dict[str, Any] = {}
        if random_source.random() < 0.1:
            news["task_offsets"] = [
                {
                    "subtopology_id": "0",
                    "partition": partition_index,
                    "offset": random_source.choice((0, 5, 20_000)),
                }
                for partition_index in range(random_source.choice((1, 2)))
            ]
        if random_source.random() < 0.05:
            news["task_end_offsets"] = [
                {"subtopology_id": "0", "partition": 0, "offset": random_source.choice((-1, 7))}
            ]
        if random_source.random() < 0.05:
            news["rack_id"] = "r9"
        if random_source.random() < 0.05:
            news["client_tags"] = [{"key": "zone", "value": "z"}]
        if random_source.random() < 0.05:
            news["user_endpoint"] = {"host": "h9", "port": 9}
        if random_source.random() < 0.1:
            news["endpoint_information_epoch"] = random_source.choice((-1, 0, 1, 2, 3))
        if random_source.random() < 0.03:
            news["shutdown_application"] = True
        if random_source.random() < 0.04:
            news["process_id"] = random_source.choice(self._processes)
        if random_source.random() < 0.04:
            news["rebalance_timeout"] = random_source.choice((-1, 5_000))
        return news

    def _any_member(self) -> Member:
        return self._members[self._chance.choice(sorted(self._members))]

    def _beat_otherwise(self) -> None:
        """A heartbeat with a wrong epoch, other tasks or another member's id."""
        if not self._members:
            return
        random_source = self._chance
        member_name = random_source.choice(sorted(self._members))
        member = self._members[member_name]
        instance = member.kept.get("instance_id")
        beat = self._p.beat
        match random_source.choice(
            ("epoch", "silent", "owns", "stranger", "instance", "late", "again")
        ):
            case "epoch":
                epoch = member.e + random_source.choice((-2, -1, 1, 7))
                beat(self._group, member_name, epoch, None, member.own, instance_id=instance)
            case "silent":
                beat(self._group, member_name, member.e, instance_id=instance)
            case "owns":
                owned_tasks: Any = random_source.choice(
                    (
                        ([],),
                        (member.own[0][:1],),
                        ([*member.own[0], "0_0"],),
                        (["0_0", "0_1"],),
                        (["0_9"],),
                        (["7_0"],),
                        ([], member.own[0]),
                        (member.own[0], [], ["0_0"]),
                        (None, []),
                        (["0_-1"],),
                    )
                )
                beat(self._group, member_name, member.e, None, owned_tasks, instance_id=instance)
            case "stranger":
                beat(self._group, "x", member.e, None, member.own)
            case "instance":
                other_instance_id = random_source.choice(("i1", "i2", "i3"))
                beat(
                    self._group,
                    member_name,
                    member.e,
                    None,
                    member.own,
                    instance_id=other_instance_id,
                )
            case "late":
                beat(self._group, member_name, member.e - 1, None, member.own, instance_id=instance)
            case _:
                topology = random_source.choice((self._topology, None))
                beat(self._group, member_name, member.e, topology, member.own, instance_id=instance)

    def _leave(self) -> None:
        random_source = self._chance
        if not self._members or random_source.random() < 0.15:
            self._p.beat(
                self._group,
                random_source.choice((*self._names[:3], "x")),
                random_source.choice((-1, -2, -3)),
            )
            return
        name = random_source.choice(sorted(self._members))
        member = self._members.pop(name)
        leaves_for_a_while = 0.7 if "instance_id" in member.kept else 0.1
        epoch = -2 if random_source.random() < leaves_for_a_while else -1
        fields = {"shutdown_application": True} if random_source.random() < 0.05 else {}
        member.leave(epoch, **fields)

    def _return(self) -> None:
        """A static member joins once more."""
        random_source = self._chance
        fields = self._identity() | {"instance_id": random_source.choice(("i1", "i2"))}
        member_name = random_source.choice((*self._names[:3], "g", "h"))
        member = self._p.member(self._group, member_name, self._topology, **fields)
        if member.e:
            self._members[member_name] = member

    # Positions

    def _positions(self) -> None:
        random_source, plays = self._chance, self._p
        name = random_source.choice((*sorted(self._members), "x", ""))
        member = self._members.get(name)
        epoch = (
            random_source.choice((-1, 0, 1, 2))
            if member is None
            else member.e + random_source.choice((0, 0, -1, 1))
        )
        topic = self._any_topic()
        match random_source.choice(("commit", "commit", "fetch", "forget")):
            case "commit":
                version = random_source.choice((8, 9))
                plays.commit(self._group, name, epoch, 0, v=version, t=topic)
            case "fetch":
                plays.fetch(self._group, random_source.choice((name, None)), epoch)
            case _:
                partitions = [{"partition_index": 0}]
                topics = [{"name": topic, "partitions": partitions}]
                plays.ask("OffsetDelete", 0, group_id=self._group, topics=topics)

    def _in_transaction(self) -> None:
        """TxnOffsetCommit of a member."""
        random_source, plays = self._chance, self._p
        member_name = random_source.choice((*sorted(self._members), "x", ""))
        member = self._members.get(member_name)
        epoch = (
            random_source.choice((-1, 1))
            if member is None
            else member.e + random_source.choice((0, 0, -1, 1))
        )
        plays.in_transaction(
            self._group,
            member_name,
            epoch,
            topic=self._any_topic(),
            instance_id=random_source.choice((None, None, "i1"))
            if member is None
            else member.kept.get("instance_id"),
            version=random_source.choice((3, 5)),
        )

    # Looking, configuring, deleting

    def _describe(self) -> None:
        random_source, plays = self._chance, self._p
        match random_source.choice(("one", "old", "list", "states", "types", "configs")):
            case "one":
                plays.desc(self._group, include_topology_description=random_source.random() < 0.3)
            case "old":
                plays.desc(self._group, random_source.choice((f"{self._name}-no", "")), v=0)
            case "list":
                plays.listed()
            case "states":
                states = ("Empty", "NotReady", "Assigning", "Reconciling", "Stable", "Dead", "none")
                plays.listed(states_filter=random_source.sample(states, 2))
            case "types":
                types = ("streams", "Streams", "share", "consumer", "classic", "none")
                plays.listed(types_filter=random_source.sample(types, 2))
            case _:
                plays.configs_of(self._group)

    def _ask_other_types(self) -> None:
        random_source, plays, group = self._chance, self._p, self._group
        match random_source.choice(
            ("consumer", "share", "classic", "described", "consumers", "sharers", "topology")
        ):
            case "consumer":
                plays.consume(group, random_source.choice(("a", "m")), random_source.choice((0, 2)))
            case "share":
                plays.share(group)
            case "classic":
                plays.joinc(group)
            case "described":
                plays.ask("DescribeGroups", 6, groups=[group], include_authorized_operations=False)
            case "consumers":
                plays.ask(
                    "ConsumerGroupDescribe",
                    1,
                    group_ids=[group],
                    include_authorized_operations=False,
                )
            case "sharers":
                plays.ask(
                    "ShareGroupDescribe", 1, group_ids=[group], include_authorized_operations=False
                )
            case _ if plays.newest:
                plays.ask(
                    "StreamsGroupTopologyDescriptionUpdate",
                    0,
                    group_id=random_source.choice((group, f"{group}-no", "")),
                    member_id=random_source.choice(self._names[:2]),
                    topology_epoch=random_source.choice((0, 1)),
                    topology_description={"subtopologies": [], "global_stores": []},
                )

    def _configure(self) -> None:
        random_source = self._chance
        name, values = random_source.choice(_CONFIGS)
        self._p.configure(self._group, {name: random_source.choice(values)})

    def _delete(self) -> None:
        random_source = self._chance
        if random_source.random() < 0.3:
            for member in self._members.values():
                member.leave(-1)
            self._members.clear()
        self._p.gone(self._group, *random_source.choice(((), (f"{self._name}-no",))))

    def _invalid(self) -> None:
        random_source, beat, group = self._chance, self._p.beat, self._group
        topology = self._topology
        match random_source.choice(range(9)):
            case 0:
                beat(random_source.choice(("", " ")), "a", 0, topology)
            case 1:
                beat(group, random_source.choice(("", " ")), 0, topology)
            case 2:
                beat(group, "a", 0, topology, instance_id=random_source.choice(("", " ")))
            case 3:
                beat(group, "a", 0, topology, rack_id=random_source.choice(("", " ")))
            case 4:
                beat(group, "a", 0, topology, rebalance_timeout=random_source.choice((-1, -2)))
            case 5:
                beat(group, "a", 0, topology, owned_tasks=random_source.choice((["0_0"], None)))
            case 6:
                beat(group, "a", 0, None)
            case 7:
                beat(group, "a", random_source.choice((-2, -3, -9)))
            case _:
                beat(f"{group}-no", "a", random_source.choice((1, -1, -2)), instance_id="i1")


def _with_source_topic(
    parts: list[dict[str, Any]], old_topic: str, new_topic: str
) -> list[dict[str, Any]]:
    return [
        {
            **part,
            "source_topics": [
                new_topic if topic_name == old_topic else topic_name
                for topic_name in part["source_topics"]
            ],
        }
        for part in parts
    ]


_CONFIGS: Final = (
    ("streams.num.standby.replicas", ("0", "1", "2", "3", "-1", "one", None)),
    ("streams.num.warmup.replicas", ("0", "2", "9", "99", None)),
    ("streams.heartbeat.interval.ms", ("5000", "7000", "15000", "100", "60000", None)),
    ("streams.session.timeout.ms", ("45000", "50000", "60000", "1000", "90000", None)),
    ("streams.assignment.interval.ms", ("0", "15000", "20000", "-1", None)),
    ("streams.initial.rebalance.delay.ms", ("0", "-5", None)),
    ("streams.task.offset.interval.ms", ("60000", "15000", "1", "0", None)),
    ("streams.acceptable.recovery.lag", ("0", "10000", "99", "-1", None)),
    ("streams.assignor.name", ("sticky", "mine", "", None)),
    ("streams.assignor.offload.enable", ("true", "false", "maybe", None)),
    ("streams.rack.aware.assignment.tags", ("zone", "zone,cluster", "zone, zone", "", None)),
    ("streams.nothing", ("1", None)),
)


def play(plays: Plays, seed: int) -> None:
    DrawnPlay(plays, seed).play()


def main(argv: list[str] | None = None) -> int:
    """Play drawn requests on a real broker and on ours, and compare the answers."""
    return compare_play("streams_drawn", play, TRANSCRIPT, argv)


if __name__ == "__main__":
    sys.exit(main())
