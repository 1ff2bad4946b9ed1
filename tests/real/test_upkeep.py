"""Segments, retention, compaction and codecs: a real Apache Kafka and the simulator, read alike.

Both look after their logs a few times a second here, so that a story sees it happen.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conformance.programme import play_story
from tests.real import upkeep
from tests.support.apache_kafka import ApacheKafka
from tests.support.txnsim_server import TxnsimServer
from txnsim_lab.conformance._book.frame_player import Story
from txnsim_lab.conformance._book.transcript import differences

pytestmark = pytest.mark.real

LEVEL = 2


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """Addresses of the real broker and of the simulated one."""
    path: Path = tmp_path_factory.mktemp("upkeep") / "server.properties"
    path.write_text(
        "".join(
            f"{property_name}={property_value}\n"
            for property_name, property_value in upkeep.PROPERTIES.items()
        )
    )
    with (
        ApacheKafka(transaction_version=LEVEL, properties=upkeep.PROPERTIES) as real_kafka,
        TxnsimServer(
            transaction_version=LEVEL, brokers=1, arguments=("--config", str(path))
        ) as simulated_server,
    ):
        yield real_kafka.bootstrap, simulated_server.bootstrap


@pytest.mark.parametrize("story", upkeep.STORIES, ids=lambda story: story.__name__)
def test_both_brokers_keep_the_same(story: Story, pair: tuple[str, str]) -> None:
    expected_transcript, actual_transcript = (play_story(story, address, LEVEL) for address in pair)
    difference_lines = list(differences(expected_transcript, actual_transcript))
    assert not difference_lines, (
        f"{len(difference_lines)} differences (real != ours):\n" + "\n".join(difference_lines)
    )
