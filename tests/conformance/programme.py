"""What is played: the stories, the levels at which they are, both stages, and what may differ.

A story (``tests/real/stories``) asks a broker things and writes its answers down. It is played to a
real Apache Kafka by ``tests.conformance.record`` and ``tests/real``, to the simulator by
``tests/conformance/test_replay.py`` and ``tests/real``.
"""

from __future__ import annotations

import contextlib
import re
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from tests.real.stories import (
    admin,
    cluster,
    configs,
    data,
    operations,
    sessions,
    tools,
    transactions,
)
from tests.real.stories.player import Player, Story
from tests.support.apache_kafka import ApacheKafka
from tests.support.transcript import Transcript
from tests.support.txnsim_server import TxnsimServer

LEVELS: Final = (0, 1, 2)
"""Of ``transaction.version``."""

PROPERTIES: Final = {
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "200",
    "transaction.state.log.num.partitions": "4",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "max.incremental.fetch.session.cache.slots": str(sessions.SLOTS),
    # Retention, half a minute after the start, would delete the records of stories, which carry old
    # times.
    "log.initial.task.delay.ms": str(2**31 - 1),
}
"""What both brokers are started with."""

STORIES: Final[tuple[tuple[Story, int], ...]] = (
    *(
        (story, 2)
        for part in (admin, cluster, configs, data, sessions, tools)
        for story in part.STORIES
    ),
    *sorted(transactions.STORIES + operations.STORIES, key=lambda one: one[1]),
)
"""Stories with the levels at which they are played, in order."""

ACCEPTED: Final = {
    "describe_configs": (r"v4 documented.*documentation",),  # sim.api.describe_configs
    "describe_log_dirs": (r"v[45].*(total|usable)_bytes: '?some .*!= -1",),  # sim.api.describe_log_dirs
}
"""Story -> patterns of differences that a ``DEVIATIONS`` tuple tells of."""

RACES: Final[dict[str, tuple[str, ...]]] = {}
"""Story -> patterns of questions that a real broker answers sometimes this way and sometimes that,
each with the reason behind it. None is known: what takes its time is waited for by its condition.
"""


def name_of(story: Story) -> str:
    """The name of a story."""
    return story.__name__


def id_of(story: Story, level: int) -> str:
    """The name of a play."""
    return f"{name_of(story)}-tv{level}"


def stories_at(level: int) -> tuple[Story, ...]:
    """The stories of one level, in order."""
    return tuple(story for story, at in STORIES if at == level)


def played(story: Story, address: str, level: int) -> Transcript:
    """What the broker at that address answers to a story."""
    player = Player(address, scene=name_of(story).replace("_", "-"), level=level)
    try:
        story(player)
    finally:
        player.close()
    assert player.transcript.entries, "a story asks something"
    return player.transcript


def judged(name: str, unlike: Iterable[str]) -> list[str]:
    """What is wrong with the differences of a story: those that are not accepted, and accepted
    ones that don't occur any more, so that the list can't outlive its reason.
    """
    lines = list(unlike)
    accepted = ACCEPTED.get(name, ())
    left = [line for line in lines if not any(re.search(one, line) for one in accepted)]
    stale = [one for one in accepted if not any(re.search(one, line) for line in lines)]
    return left + [f"accepted, but no longer different: {one}" for one in stale]


def kafka(level: int) -> ApacheKafka:
    """A real broker for the stories of a level."""
    return ApacheKafka(transaction_version=level, properties=PROPERTIES)


@contextlib.contextmanager
def simulator(level: int) -> Iterator[TxnsimServer]:
    """A simulated broker for the stories of a level."""
    with tempfile.TemporaryDirectory(prefix="txnsim-programme-") as directory:
        properties = Path(directory, "server.properties")
        properties.write_text("".join(f"{name}={value}\n" for name, value in PROPERTIES.items()))
        with TxnsimServer(
            transaction_version=level, brokers=1, arguments=("--config", str(properties))
        ) as server:
            yield server
