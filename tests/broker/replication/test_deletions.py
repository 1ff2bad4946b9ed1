"""DeleteRecords is answered when every live replica has deleted."""

from __future__ import annotations

import asyncio

from tests.support.images import B1, B2, broker
from tests.support.logs import plain
from tests.support.replication import TP, ReplicaBench
from txnsim.errors import ErrorCode
from txnsim.replication.deletions import Deletions, Late

Outcome = dict[object, int | ErrorCode | Late]


class Bench(ReplicaBench):
    """Broker 1 leads four records, broker 2 follows."""

    def __init__(self, replicas: tuple[int, ...] = (1, 2)) -> None:
        super().__init__(replicas=tuple(one for one in (B1, B2) if one in replicas))
        self.settle()
        self.append(plain(4))
        self.settle(seconds=1)
        self.deletions = Deletions(replicas=self.leader.replicas, purgatory=self.leader.purgatory)

    async def delete(self, offset: int, timeout_ms: int = 1_000) -> asyncio.Task[Outcome]:
        self.leader.log.delete_records_before(offset)
        self.leader.watermarks.log_start_raised(self.leader.log)
        task = asyncio.get_running_loop().create_task(
            self.deletions.wait({TP: offset}, timeout_ms=timeout_ms)
        )
        await asyncio.sleep(0)
        return task  # type: ignore[return-value]


async def test_alone_it_is_over_at_once() -> None:
    bench = Bench(replicas=(1,))
    assert await (await bench.delete(3)) == {TP: 3}


async def test_followers_delete_in_the_same_turn() -> None:
    bench = Bench()
    task = await bench.delete(3)
    assert not task.done()
    bench.settle()
    assert await task == {TP: 3}
    assert bench.nodes[B2].log.log_start_offset == 3


async def test_a_follower_away_for_too_long_is_reported() -> None:
    bench = Bench()
    bench.isolate(B2)
    task = await bench.delete(3, timeout_ms=200)
    bench.settle(seconds=1)
    assert await task == {TP: Late(low_watermark=0)}


async def test_who_is_known_to_be_away_is_not_waited_for() -> None:
    bench = Bench()
    bench.isolate(B2)
    bench.publish(bench.image.with_broker(broker(2, alive=False)))
    assert await (await bench.delete(3)) == {TP: 3}


async def test_lost_leadership_ends_the_wait() -> None:
    bench = Bench()
    bench.isolate(B2)
    task = await bench.delete(3)
    old = bench.leader
    bench.lead(B2)
    old.purgatory.release(TP)
    bench.settle()
    assert await task == {TP: ErrorCode.not_leader_or_follower}
