from __future__ import annotations

from tests.broker.cli.control.conftest import Ask


def test_a_topic_is_made_shown_and_deleted(txnsim: Ask) -> None:
    made = txnsim("topics", "create", "made:2", "--config", "cleanup.policy=compact")
    assert made.out.startswith("made: 2 partitions, led by broker ")
    listed = [line.split("\t")[0].strip() for line in txnsim("topics", "list").out.splitlines()]
    assert "made" in listed
    shown = txnsim("topics", "describe", "made").out.splitlines()
    assert shown[0].split() == [
        "Partition", "Broker", "Role", "LogStart", "LastStable", "HighWatermark", "LogEnd",
    ]  # fmt: skip
    assert [line.split()[0] for line in shown[1:]].count("made-1") >= 1
    assert txnsim("topics", "describe", "made", "--json").json["configs"] == {
        "cleanup.policy": "compact"
    }
    assert txnsim("topics", "delete", "made").out == "made is deleted, with 2 partitions\n"
    gone = txnsim("topics", "delete", "made")
    assert gone.err == "txnsim: there is no topic 'made'; `txnsim topics list` lists them\n"
    assert gone.status == 1


def test_a_leader_moves_to_a_replica_in_sync(txnsim: Ask) -> None:
    txnsim("topics", "create", "moving:1", "--replication-factor", "3")
    (partition,) = txnsim("topics", "describe", "moving", "--json").json["partitions"]
    other = next(one for one in partition["isr"] if one != partition["leader"])
    moved = txnsim("topics", "move-leader", "moving-0", str(other))
    assert moved.out.startswith(f"moving-0: broker {other} leads, leader epoch 1")
    refused = txnsim("topics", "move-leader", "moving-0", "9")
    assert refused.status == 1
    assert "in sync are" in refused.err


def test_kafkas_refusals_are_told(txnsim: Ask) -> None:
    said = txnsim("topics", "create", "wrong", "--config", "no.such=1")
    assert said.status == 1
    assert "INVALID_CONFIG" in said.err
