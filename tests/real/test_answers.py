"""The same requests to a real Apache Kafka and to the simulator, answer by answer.

A story (``tests/real/stories``) asks one broker after the other the same things; both transcripts
must be equal once ``tests.support.transcript`` has normalised ids, addresses and times. What is
known to differ is in ``ACCEPTED``, each with the deviation that tells users of it; an entry that
never happens fails, so that the list can't outlive its reason.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.real.stories import admin, configs, data, operations, sessions, transactions
from tests.real.stories.player import Player, Story
from tests.support.apache_kafka import ApacheKafka
from tests.support.transcript import Transcript, differences
from tests.support.txnsim_server import TxnsimServer

pytestmark = pytest.mark.real

PROPERTIES: Final = {
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "200",
    "transaction.state.log.num.partitions": "4",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "max.incremental.fetch.session.cache.slots": str(sessions.SLOTS),
}
"""What both brokers are started with."""

ACCEPTED: Final = {
    "describe_configs": (r"v4 documented.*documentation",),  # sim.api.describe_configs
    "produce_batches": (
        r"Fetch v12 all.*max_timestamp: 1700000000000 != 1700000000099",  # sim.log.validation
    ),
    "produce_by_config": (r"Fetch v12 gzip.*attributes: 1 != 0",),  # sim.cluster.configs
    "delete_records": (r"-3 of an emptied log",),  # sim.api.list_offsets
}
"""Story -> patterns of differences that a ``DEVIATIONS`` tuple tells of."""

STORIES: Final = (
    *((story, 2) for story in (*admin.STORIES, *configs.STORIES, *data.STORIES, *sessions.STORIES)),
    *sorted(transactions.STORIES + operations.STORIES, key=lambda one: one[1]),
)

Pair = tuple[str, str]
"""Addresses of the real broker and of the simulated one."""


@pytest.fixture(scope="module")
def pair(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Pair]:
    level: int = request.param
    properties: Path = tmp_path_factory.mktemp("answers") / "server.properties"
    properties.write_text("".join(f"{name}={value}\n" for name, value in PROPERTIES.items()))
    with (
        ApacheKafka(transaction_version=level, properties=PROPERTIES) as real,
        TxnsimServer(
            transaction_version=level, brokers=1, arguments=("--config", str(properties))
        ) as ours,
    ):
        yield real.bootstrap, ours.bootstrap


def played(story: Story, address: str, level: int) -> Transcript:
    player = Player(address, scene=story.__name__.replace("_", "-"), level=level)
    try:
        story(player)
    finally:
        player.close()
    return player.transcript


@pytest.mark.parametrize(
    ("story", "pair"),
    [pytest.param(*one, id=f"{one[0].__name__}-tv{one[1]}") for one in STORIES],
    indirect=["pair"],
)
def test_both_brokers_answer_alike(
    story: Story, pair: Pair, request: pytest.FixtureRequest
) -> None:
    level = request.node.callspec.params["pair"]
    expected, found = (played(story, address, level) for address in pair)
    assert expected.entries, "a story asks something"
    accepted = [re.compile(pattern) for pattern in ACCEPTED.get(story.__name__, ())]
    unlike = list(differences(expected, found))
    left = [line for line in unlike if not any(pattern.search(line) for pattern in accepted)]
    assert not left, f"{len(left)} differences (real != ours):\n" + "\n".join(left)
    stale = [
        pattern.pattern for pattern in accepted if not any(pattern.search(line) for line in unlike)
    ]
    assert not stale, f"no longer different: {stale}"
