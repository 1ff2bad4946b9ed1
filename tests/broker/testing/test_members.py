from __future__ import annotations

import threading

import pytest

from txnsim.client.errors import ClientError
from txnsim.client.members.membership import GroupProtocol
from txnsim.testing import SimulatedKafka
from txnsim.testing._foreign_cluster import ForeignKafka
from txnsim.testing.event_loop import LoopThread
from txnsim.testing.options import wanted
from txnsim.types import TopicPartition

IN0, IN1 = TopicPartition("in", 0), TopicPartition("in", 1)
SETTINGS = {"group.initial.rebalance.delay.ms": 0}


@pytest.mark.costly
@pytest.mark.slow
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_rebalance_between_two_members(protocol: GroupProtocol) -> None:
    with SimulatedKafka(topics={"in": 2}, settings=SETTINGS) as kafka:
        first = kafka.members.join("g", ["in"], until=[IN0, IN1], protocol=protocol, name="first")
        assert first.poll() == ()
        first.seek(IN0, 0)
        assert first.positions == {IN0: 0, IN1: 0}
        before = first.metadata
        second = []

        def join() -> None:
            second.append(kafka.members.join("g", ["in"], protocol=protocol, name="second"))

        thread = threading.Thread(target=join)
        thread.start()
        while len(first.assigned) != 1:
            first.poll()
        thread.join()
        lost = {IN0, IN1} - first.assigned
        second[0].poll(until=lost)
        with pytest.raises(ClientError, match=r"ILLEGAL_GENERATION|STALE_MEMBER_EPOCH"):
            first.commit(dict.fromkeys(lost, 0), metadata=before)
        first.stand_still()
        first.leave()
        second[0].commit()


def test_a_member_of_a_foreign_cluster_ends_with_the_test() -> None:
    thread = LoopThread()
    with (
        SimulatedKafka(topics={"in": 2}, settings=SETTINGS) as other,
        ForeignKafka.at(other.bootstrap, wanted(), thread) as kafka,
        kafka.members.join("g", ["in"], until=[IN0, IN1]) as member,
    ):
        member.poll()
        kafka.members.join("other", ["in"], until=[IN0, IN1])
    thread.stop()
