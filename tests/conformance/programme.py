"""What is played: the stories, the levels at which they are, both stages, and what may differ.

A story (``tests/real/stories``) asks a broker things and writes its answers down. It is played to a
real Apache Kafka by ``tests.conformance.record`` and ``tests/real``, to the simulator by
``tests/conformance/test_replay.py`` and ``tests/real``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Final

from tests.conformance.cluster_setups import (
    ClusterSetup,
    first_address,
    kafka_on,
    simulator_on,
    take_first_producer_id,
)
from tests.real.stories import (
    admin,
    administration,
    cluster,
    configs,
    data,
    operations,
    reassignments,
    resources,
    sessions,
    telemetry,
    tools,
    transactions,
)
from txnsim_lab.conformance._book.frame_player import FramePlayer, Story
from txnsim_lab.conformance._book.transcript import Transcript

LEVELS: Final = (0, 1, 2)
"""Of ``transaction.version``."""

PROPERTIES: Final = {
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "200",
    "transaction.state.log.num.partitions": "4",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "offsets.topic.num.partitions": "4",
    "offsets.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "group.initial.rebalance.delay.ms": "0",
    "max.incremental.fetch.session.cache.slots": str(sessions.SLOTS),
    # Retention, half a minute after the start, would delete the records of stories, which carry old
    # times.
    "log.initial.task.delay.ms": str(2**31 - 1),
    # On a busy machine heartbeats come late; a broker that is fenced leads nothing for a while.
    "broker.session.timeout.ms": "120000",
}
"""What both brokers are started with."""

ORDINARY: Final = ClusterSetup(name="ordinary", properties=PROPERTIES)
TWO_OF_THREE: Final = ClusterSetup(
    name="two of three",
    brokers=3,
    down=(3,),
    properties={
        **PROPERTIES,
        "broker.session.timeout.ms": "3000",
        "broker.heartbeat.interval.ms": "500",
    },
)
"""Whoever waits for broker 3 waits for ever."""
TELEMETRY: Final = ClusterSetup(
    name="telemetry",
    properties={**PROPERTIES, "telemetry.max.bytes": "1024"},
    takes_telemetry=True,
)
SYNONYMS: Final = ClusterSetup(
    name="synonyms",
    properties={
        **PROPERTIES,
        "compression.zstd.level": "7",
        "log.cleaner.max.compaction.lag.ms": "900000",
        "log.cleaner.min.cleanable.ratio": "0.25",
        "log.cleaner.min.compaction.lag.ms": "8000",
        "log.index.interval.bytes": "2048",
        "log.index.size.max.bytes": "65536",
        "log.retention.hours": "5",
        "log.retention.minutes": "90",
        "log.roll.hours": "3",
        "log.roll.jitter.hours": "1",
    },
)
WITH_GROUPS: Final = ClusterSetup(name="with groups", properties=PROPERTIES)
"""Other stories begin where ``__consumer_offsets`` does not exist."""
GROUP_BOUNDS: Final = ClusterSetup(
    name="group bounds", properties={**PROPERTIES, **administration.GROUP_BOUNDS}
)
WITHOUT_SESSIONS: Final = ClusterSetup(name="without sessions", properties=PROPERTIES)
"""Sessions that others have left in the cache would take slots."""
GROUNDS: Final = {
    "session_cache": WITHOUT_SESSIONS,
    "group_cleanup": WITH_GROUPS,
    "group_bounds": GROUP_BOUNDS,
    "group_operations": WITH_GROUPS,
    "reassign_partitions": TWO_OF_THREE,
    "client_telemetry": TELEMETRY,
    "config_synonyms": SYNONYMS,
    "fenced_brokers": TWO_OF_THREE,
}
"""Stories that ask for more than one ordinary broker."""

STORIES: Final[tuple[tuple[Story, int], ...]] = (
    *(
        (story, 2)
        for part in (
            admin,
            administration,
            cluster,
            configs,
            data,
            reassignments,
            resources,
            sessions,
            telemetry,
            tools,
        )
        for story in part.STORIES
    ),
    *sorted(
        transactions.STORIES + operations.STORIES, key=lambda story_and_level: story_and_level[1]
    ),
)
"""Stories with the levels at which they are played, in order."""

OVER_TCP: Final = frozenset(
    {
        "at_once",
        "client_metrics_configs",
        "client_quotas",
        "client_telemetry",
        "delegation_tokens",
        "delete_records",
        "describe_log_dirs",
        "describe_quorum",
        "describing",
        "fenced_brokers",
        "find_coordinator",
        "group_cleanup",
        "group_operations",
        "lasting_prepare",
        "move_log_dirs",
        "new_flow",
        "offset_for_leader_epoch",
        "reassign_partitions",
        "scram_credentials",
        "unregister_broker",
        "update_features",
        "without_authorizer",
    }
)
"""Stories that together ask every API. They are played to the simulator over TCP, too; the others
in virtual time only.
"""

ACCEPTED: Final = {
    "describe_configs": (r"v4 documented.*documentation",),  # txnsim.api._configs.describe_configs
    "describe_log_dirs": (
        r"v[45].*(total|usable)_bytes: '?some .*!= -1",
    ),  # txnsim.api._partitions.describe_log_dirs
}
"""Story -> patterns of differences that a ``DEVIATIONS`` tuple tells of."""

RACES: Final[dict[str, tuple[str, ...]]] = {}
"""Story -> patterns of questions that a real broker answers sometimes this way and sometimes that,
each with the reason behind it. None is known: what takes its time is waited for by its condition.
"""


def name_of(story: Story) -> str:
    return story.__name__


def id_of(story: Story, transaction_version: int) -> str:
    """The name of a play: that of the story, with the level."""
    return f"{name_of(story)}-tv{transaction_version}"


def stories_at(transaction_version: int, setup: ClusterSetup = ORDINARY) -> tuple[Story, ...]:
    """The stories of one level and setup, in order."""
    return tuple(
        story
        for story, story_level in STORIES
        if story_level == transaction_version and setup_of(story) is setup
    )


def setup_of(story: Story) -> ClusterSetup:
    """The kind of cluster that a story is played on."""
    return GROUNDS.get(name_of(story), ORDINARY)


def setups() -> tuple[tuple[int, ClusterSetup], ...]:
    """Every level and setup at which something is played."""
    return tuple(
        dict.fromkeys(
            (transaction_version, setup_of(story)) for story, transaction_version in STORIES
        )
    )


def play_story(story: Story, address: str, transaction_version: int) -> Transcript:
    """The answers of the broker at an address to a story."""
    player = FramePlayer(
        address, play_prefix=name_of(story).replace("_", "-"), level=transaction_version
    )
    try:
        story(player)
    finally:
        player.close()
    assert player.transcript.entries, "a story asks something"
    return player.transcript


def unexplained_lines(name: str, unlike: Iterable[str]) -> list[str]:
    """What is wrong with the differences of a story: those that are not accepted, and accepted
    ones that don't occur any more, so that the list can't outlive its reason.
    """
    lines = list(unlike)
    accepted = ACCEPTED.get(name, ())
    unexplained = [
        line for line in lines if not any(re.search(pattern, line) for pattern in accepted)
    ]
    stale_patterns = [
        pattern for pattern in accepted if not any(re.search(pattern, line) for line in lines)
    ]
    return unexplained + [
        f"accepted, but no longer different: {pattern}" for pattern in stale_patterns
    ]


@contextmanager
def kafka(transaction_version: int, setup: ClusterSetup = ORDINARY) -> Iterator[str]:
    """A real broker for the stories of a level; its address."""
    with kafka_on(setup, transaction_version) as target:
        yield first_address(target)


@contextmanager
def simulator(transaction_version: int, setup: ClusterSetup = ORDINARY) -> Iterator[str]:
    """A simulated broker for the stories of a level; its address."""
    with simulator_on(setup, transaction_version) as target:
        take_first_producer_id(target, transaction_version)
        yield first_address(target)
