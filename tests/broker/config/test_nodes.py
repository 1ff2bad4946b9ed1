"""Whose file it is: how many brokers it makes, which number the first one has."""

from __future__ import annotations

from pathlib import Path

import pytest

from txnsim.config import load
from txnsim.errors import ConfigError


@pytest.mark.parametrize(
    ("text", "brokers", "broker_id"),
    [
        ("process.roles=broker,controller\nnode.id=5\ncontroller.quorum.voters=5@a:1\n", 1, 5),
        ("process.roles = controller, broker\nnode.id=5\n", 1, 5),
        ("process.roles=broker,controller\ncontroller.quorum.bootstrap.servers=a:1\n", 1, None),
        (
            "process.roles=broker,controller\nnode.id=2\n"
            "controller.quorum.voters=1@a:1,2@b:1,3@c:1\n",
            None,
            None,
        ),
        ("zookeeper.connect=a:2181\nbroker.id=0\n", 1, 0),
        ("zookeeper.connect=a:2181\nbroker.id=-1\n", 1, None),
        ("zookeeper.connect=a:2181\n", 1, None),
        ("node.id=3\n", None, None),
        ("node.id=3\ncontroller.quorum.voters=3@kafka:9093\n", 1, 3),
    ],
)
def test_a_file_of_one_node_is_a_cluster_of_one_broker(
    text: str, brokers: int | None, broker_id: int | None, tmp_path: Path
) -> None:
    file = tmp_path / "server.properties"
    file.write_text(text)
    found = load(file)
    assert (found.brokers, found.first_broker_id) == (brokers, broker_id)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (
            "process.roles=broker\nnode.id=2\ncontroller.quorum.voters=1@elsewhere:9093\n",
            "server.properties:1: process.roles: this node is a broker alone; brokers and their "
            "controller share one process here: write process.roles=broker,controller and one "
            "voter, as controller.quorum.voters=1@localhost:9093; or leave process.roles out, and "
            "say how many brokers there are with --brokers or TXNSIM_BROKERS",
        ),
        ("process.roles=controller\n", "this node is a controller alone; "),
        ("process.roles=broker,worker\n", "a role is broker or controller, not worker"),
        (
            "process.roles=broker,controller\nnode.id=one\n",
            "server.properties:2: node.id: expected a whole number from 0, found 'one'",
        ),
    ],
)
def test_a_node_that_can_not_be_started_alone_is_refused_with_what_to_write(
    text: str, complaint: str, tmp_path: Path
) -> None:
    file = tmp_path / "server.properties"
    file.write_text(text)
    with pytest.raises(ConfigError) as refused:
        load(file)
    assert complaint in str(refused.value)
