"""Literal plays about streams groups, and what a real 4.4.0 answered, and one of 4.3.1 where that
answers otherwise.

``python -m tests.conformance.streams_literal HOST:PORT > tests/conformance/streams_literal.jsonl``
records them anew, from a fresh broker with the settings of ``SETTINGS``; ``--before`` behind the
address records ``BEFORE``, from a 4.3.1.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final

from tests.conformance.streams_plays import (
    Plays,
    cg,
    count,
    many,
    settle,
    simple,
    stateful,
    sub,
    ti,
)
from txnsim.runtime.blocking_world import world

TRANSCRIPT: Final = Path(__file__).with_suffix(".jsonl")
BEFORE: Final = Path(__file__).with_name("streams_before_4_4.jsonl")
PLAYED_BEFORE: Final = ("s22",)
REAL_PAUSE_S: Final = 2.0
"""How long a real broker may take to hear of new topics."""


def answers(plays: Plays, names: Iterable[str] | None = None) -> list[list[Any]]:
    """Play everything, or the named plays; return the rows of answers."""
    with plays.connected():
        plays.topic("one", 1)
        plays.topic("three", 3)
        for name in names or PLAYS:
            plays.play = plays.own_names = name
            PLAYS[name](plays)
    return plays.rows


def play_invalid(p: Plays) -> None:
    """Heartbeats that are invalid for every group."""
    t = simple()
    p.beat("", "m", 0, t)
    p.beat(" ", "m", 0, t)
    p.beat("s01", "", 0, t)
    p.beat("s01", "m", 0, t, instance_id="")
    p.beat("s01", "m", 0, t, rack_id=" ")
    p.beat("s01", "m", 0, t, rebalance_timeout=-1)
    p.beat("s01", "m", 0, t, owned_tasks=None)
    p.beat("s01", "m", 0, t, owned_tasks=["0_1"])
    p.beat("s01", "m", 0, t, owned_tasks=([], ["0_1"]))
    p.beat("s01", "m", 0, t, owned_tasks=([], [], ["0_1"]))
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
    p.beat("s02", "m", 3)
    p.beat("s02", "m", -1)
    p.beat("s02", "m", -2, instance_id="i")
    p.desc("s02", "")
    p.desc("s02", v=0)
    p.gone("s02")


def play_one_member(p: Plays) -> None:
    """A group of one member, which leaves at the end."""
    a = p.member("s03", "a", simple())
    a.beat()
    p.desc("s03")
    p.listed()
    a.beat()
    p.beat("s03", "a", a.e + 1)
    p.beat("s03", "a", a.e - 1)
    p.beat("s03", "a", a.e - 1, owned_tasks=a.own)
    p.beat("s03", "a", a.e - 1, owned_tasks=(["0_7"],))
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
    """A word count with one, two and three members."""
    a = p.member("s04", "a", count("s04"))
    p.settle_topics()
    p.desc("s04")
    a.beat()
    p.desc("s04")
    b = p.member("s04", "b", count("s04"))
    settle(a, b)
    p.desc("s04")
    third_member = p.member("s04", "c", count("s04"))
    settle(a, b, third_member)
    p.desc("s04")
    b.leave()
    settle(a, third_member)
    p.desc("s04")
    p.desc(
        "s04",
        v=0,
    )
    p.desc("s04", include_topology_description=True)


def play_sources(p: Plays) -> None:
    """Source topics are created and deleted."""
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
    """Numbers of partitions that match in copartitioned topics, or do not."""
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
    """Wrong topology epochs, and tasks that the topology does not have."""
    a = p.member("s07", "a", (2, simple()[1]))
    p.beat("s07", "b", 0, (1, simple()[1]))
    p.beat("s07", "c", 0, (3, simple()[1]))
    p.beat("s07", "c", 0, (2, [sub("0", ("one",))]))
    p.desc("s07")
    b = p.member("s07", "b", (2, simple()[1]))
    settle(a, b)
    p.beat("s07", "b", b.e, owned_tasks=(["9_0"],))
    p.beat("s07", "b", b.e, owned_tasks=(["0_7"],))
    p.beat("s07", "b", b.e, owned_tasks=(["0_-1"],))


def play_static(p: Plays) -> None:
    """A static member leaves and comes back."""
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
    """The same group id with members of other protocols."""
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
    """Commits and reads of positions by members and by others."""
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
    """A member requests a shutdown of the whole application."""
    a = p.member("s11", "a", simple())
    b = p.member("s11", "b", simple())
    settle(a, b)
    a.beat(shutdown_application=True)
    b.beat()
    b.beat(shutdown_application=True)
    a.leave()
    b.beat()
    third_member = p.member("s11", "c", simple())
    b.leave(shutdown_application=True)
    third_member.beat()
    third_member.leave()
    third_member = p.member("s11", "d", simple())


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
    third_member = p.member("s13", "c", count("s13"))
    settle(a, b, third_member)
    p.desc("s13")
    a.leave()
    settle(b, third_member)
    p.desc("s13")
    p.conf("s13", streams__num__standby__replicas="0")
    settle(b, third_member)
    p.desc("s13")


def play_roles(p: Plays) -> None:
    """A standby becomes the active task of its member, and an active task a standby."""
    p.conf("s22", streams__num__standby__replicas="1")
    a = p.member("s22", "a", stateful("s22"))
    p.settle_topics()
    a.beat()
    b = p.member("s22", "b", stateful("s22"))
    settle(a, b)
    p.desc("s22")
    a.leave()
    for _ in range(4):
        b.beat()
        p.desc("s22")
    settle(b, p.member("s22", "c", stateful("s22")))
    p.desc("s22")


def play_tags(p: Plays) -> None:
    """Members without the client tags that the group's assignment needs."""
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
    third_member = p.member("s16", "c", (0, [sub("0", ("three",))]), process_id="p-a")
    settle(a, b, third_member)
    p.grow("three", 7)
    settle(a, b, third_member)
    p.desc("s16")


def play_delays(p: Plays) -> None:
    """The delay of the first assignment, and the interval between assignments."""
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
    world().sleep(2.2)
    a.beat()
    b.beat()
    p.desc("s17")
    third_member = p.member("s17", "c", simple())
    a.beat()
    world().sleep(1.2)
    settle(a, b, third_member)
    p.desc("s17")


def play_creation(p: Plays) -> None:
    """Internal topics that can't be created."""
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
    """Five members in three processes."""
    p.member("s19", "m0", many(), process_id="p0").leave()
    p.settle_topics()
    ms = [p.member("s19", f"m{i}", many(), process_id=f"p{i % 3}") for i in range(5)]
    p.settle_topics()
    settle(*ms, is_quiet=True)
    p.desc("s19")
    ms.pop(1).leave()
    settle(*ms, is_quiet=True)
    p.desc("s19")
    ms.append(p.member("s19", "n1", many(), process_id="p1"))
    settle(*ms, is_quiet=True)
    p.desc("s19")
    p.conf("s19", streams__num__standby__replicas="1")
    settle(*ms, is_quiet=True)
    p.desc("s19")
    ms.pop(0).leave()
    settle(*ms, is_quiet=True)
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
    """Change brokers' defaults and bounds of streams groups, and ask what groups then have."""
    for name, *_ in _BROKER_CONFIGS:
        p.configure_broker({f"group.streams.{name}": None})
    p.broker_configs()
    for name, *config_values in _BROKER_CONFIGS:
        for config_value in config_values:
            p.configure_broker({f"group.streams.{name}": config_value})
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
    "s22": play_roles,
}


def main(argv: list[str]) -> int:
    """Print the answers of a broker, one per line."""
    is_before = "--before" in argv
    plays = Plays(argv[0], pause_s=REAL_PAUSE_S, newest=0 if is_before else 1)
    for row in answers(plays, PLAYED_BEFORE if is_before else None):
        sys.stdout.write(json.dumps(row, sort_keys=True, default=str) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
