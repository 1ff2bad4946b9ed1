"""The search of a whole cluster, on a simulated one: what hangs, what is on its way, what lives."""

from __future__ import annotations

from tests.real.hang import make_hanging
from tests.support.clusters import VirtualCluster, run_cluster, until_state
from txnsim.client.admin import Admin
from txnsim.client.errors import ClientError
from txnsim.client.inspection.survey import Survey, survey
from txnsim.client.inspection.txn_views import ProducerState
from txnsim.client.producer import Producer
from txnsim.faults.actions import Hold
from txnsim.faults.points import FaultPoint
from txnsim.txn.open_txn_verdict import OpenTxnStatus
from txnsim.types import TopicPartition

GHOSTLY = TopicPartition("orders", 0)
HOUR_MS = 3_600_000


def test_each_verdict_in_one_cluster() -> None:
    async def story(world: VirtualCluster) -> Survey:
        async with world.client() as cluster:
            admin = Admin(cluster)
            await make_hanging(admin, GHOSTLY, "ghost")
            async with (
                Producer(cluster, transactional_id="living") as living,
                Producer(cluster, transactional_id="decided") as decided,
            ):
                await living.init_transactions()
                living.begin()
                await living.send("orders", 1, b"a")
                await decided.init_transactions()
                decided.begin()
                await decided.send("orders", 2, b"b")
                world.arm(
                    Hold(),
                    FaultPoint.PEER_REQUEST,
                    api="WriteTxnMarkers",
                )
                await decided.commit()
                await until_state(cluster, "decided", "PrepareCommit")
                shown: list[tuple[int, int]] = []
                found = await survey(
                    admin,
                    now_ms=cluster.clock.now_ms() + 1,
                    older_than_ms=0,
                    progress=lambda done, total: shown.append((done, total)),
                )
                assert shown[-1] == (found.partitions, found.partitions)
                world.sim.injector.release("f")
                world.sim.injector.disarm("f")
                await living.abort()
                return found

    found = run_cluster(story)
    assert found.unread == {}
    assert found.partitions == 3 + 6  # and those of __transaction_state
    by_partition = {one.transaction.partition.partition: one for one in found.findings}
    assert by_partition[0].verdict is OpenTxnStatus.HANGING
    assert by_partition[1].verdict is OpenTxnStatus.ALIVE
    assert by_partition[2].verdict is OpenTxnStatus.DECIDED
    assert [one.transaction.partition for one in found.hanging] == [GHOSTLY]
    # The oldest write comes first.
    assert found.findings[0].verdict is OpenTxnStatus.HANGING


def test_a_younger_write_is_not_looked_at() -> None:
    async def story(world: VirtualCluster) -> tuple[int, int]:
        async with world.client() as cluster:
            admin = Admin(cluster)
            await make_hanging(admin, GHOSTLY, "ghost", age_ms=HOUR_MS)
            now_ms = cluster.clock.now_ms()
            young = await survey(admin, now_ms=now_ms, older_than_ms=HOUR_MS + 1000)
            old = await survey(admin, now_ms=now_ms, older_than_ms=HOUR_MS - 1000)
            return len(young.findings), len(old.findings)

    assert run_cluster(story) == (0, 1)


class Ended(Admin):
    """A cluster in which the transaction ends between the first look and the second."""

    looks = 0

    async def describe_producers(
        self, *args: object, **kwargs: object
    ) -> dict[TopicPartition, tuple[ProducerState, ...] | ClientError]:
        self.looks += 1
        found = await super().describe_producers(*args, **kwargs)  # type: ignore[arg-type]
        return found if self.looks == 1 else dict.fromkeys(found, ())


def test_what_ends_while_it_is_judged_does_not_hang() -> None:
    async def story(world: VirtualCluster) -> Survey:
        async with world.client() as cluster:
            await make_hanging(Admin(cluster), GHOSTLY, "ghost")
            return await survey(Ended(cluster), now_ms=cluster.clock.now_ms(), partitions=[GHOSTLY])

    assert run_cluster(story).findings == ()


def test_partitions_that_cannot_be_asked_are_named_and_the_others_searched() -> None:
    class Deaf(Admin):
        async def describe_producers(
            self, *args: object, **kwargs: object
        ) -> dict[TopicPartition, tuple[ProducerState, ...] | ClientError]:
            found = await super().describe_producers(*args, **kwargs)  # type: ignore[arg-type]
            return {**found, TopicPartition("orders", 1): ClientError("nobody leads it")}

    async def story(world: VirtualCluster) -> Survey:
        async with world.client() as cluster:
            await make_hanging(Admin(cluster), GHOSTLY, "ghost")
            return await survey(Deaf(cluster), now_ms=cluster.clock.now_ms())

    found = run_cluster(story)
    ((where, why),) = found.unread.items()
    assert (where, str(why)) == (TopicPartition("orders", 1), "nobody leads it")
    assert len(found.hanging) == 1
