"""Repairs on a simulated cluster: what hangs is ended, what does not is left alone."""

from __future__ import annotations

import pytest

from tests.real.hang import make_hanging
from tests.support.clusters import VirtualCluster, run_cluster, values
from tests.support.waiting import leaderless
from txnsim.client.admin import Admin
from txnsim.client.errors import ClientError
from txnsim.client.inspection.judgement import JudgedTransaction
from txnsim.client.inspection.repair import Outcome, Repair, not_known, repair
from txnsim.client.inspection.survey import survey
from txnsim.client.inspection.txn_views import AbortSpec, OpenSince
from txnsim.client.producer import Producer
from txnsim.controller.controller import NewTopic
from txnsim.txn.past_decision import Decision
from txnsim.types import BrokerId, TopicPartition

WHERE = TopicPartition("orders", 0)
SOLO = TopicPartition("solo", 0)
"""Its only replica is on one broker."""
HOME, AWAY = BrokerId(1), BrokerId(2)


async def found_hanging(admin: Admin) -> JudgedTransaction:
    await make_hanging(admin, WHERE, "ghost")
    (one,) = (await survey(admin, now_ms=admin.cluster.clock.now_ms())).hanging
    return one


@pytest.mark.parametrize("level", [0, 1, 2])
def test_a_hanging_transaction_is_ended_and_readers_go_on(level: int) -> None:
    async def story(world: VirtualCluster) -> tuple[Repair, Repair, Repair, list[bytes | None]]:
        async with world.client() as cluster:
            admin = Admin(cluster)
            finding = await found_hanging(admin)
            async with Producer(cluster) as bystander:
                await bystander.send("orders", 0, b"withheld")
            assert await values(cluster, "orders") == []
            now_ms = cluster.clock.now_ms()
            dry = await repair(admin, finding, now_ms=now_ms, dry_run=True)
            assert await values(cluster, "orders") == []
            done = await repair(admin, finding, now_ms=now_ms)
            again = await repair(admin, finding, now_ms=now_ms)
            return dry, done, again, await values(cluster, "orders")

    dry, done, again, read = run_cluster(story, level=level)
    assert dry.outcome is Outcome.WOULD_REPAIR
    assert dry.last_stable_offset_after is None
    assert done.outcome is Outcome.REPAIRED
    # The ghost's record, the bystander's, the marker.
    assert (done.last_stable_offset_before, done.last_stable_offset_after) == (0, 3)
    assert done.high_watermark_after == 3
    assert again.outcome is Outcome.NO_LONGER_HANGS
    assert again.reason == "it has ended"
    assert read == [b"withheld"]


class Beforehand(Admin):
    """Somebody may do something right before the marker is sent."""

    refusal: ClientError | None = None
    is_lost = False

    async def abort_transaction(
        self, which: AbortSpec | OpenSince, *, timeout_ms: float | None = None
    ) -> None:
        if self.refusal is not None:
            raise self.refusal
        if not self.is_lost:
            await super().abort_transaction(which, timeout_ms=timeout_ms)


def test_a_refused_marker_is_reported_and_nothing_claimed() -> None:
    async def story(world: VirtualCluster) -> Repair:
        async with world.client() as cluster:
            admin = Beforehand(cluster)
            finding = await found_hanging(admin)
            admin.refusal = ClientError("fenced by a newer coordinator")
            return await repair(admin, finding, now_ms=0)

    done = run_cluster(story)
    assert done.outcome is Outcome.REFUSED
    assert done.reason == "fenced by a newer coordinator"


def test_a_marker_that_changes_nothing_is_not_called_a_repair() -> None:
    async def story(world: VirtualCluster) -> Repair:
        async with world.client() as cluster:
            admin = Beforehand(cluster)
            finding = await found_hanging(admin)
            admin.is_lost = True
            return await repair(admin, finding, now_ms=0)

    done = run_cluster(story)
    assert done.outcome is Outcome.STILL_OPEN
    assert done.last_stable_offset_after == done.last_stable_offset_before == 0


@pytest.mark.parametrize(
    ("committed", "outcome"),
    [(False, Outcome.ENDED_TWICE), (True, Outcome.ENDED_OTHERWISE)],
)
def test_who_repairs_beside_somebody_else_says_so(committed: bool, outcome: Outcome) -> None:
    """Kafka takes both markers; the first one counts."""

    class Overtaken(Admin):
        async def abort_transaction(
            self, which: AbortSpec | OpenSince, *, timeout_ms: float | None = None
        ) -> None:
            assert isinstance(which, AbortSpec)
            await self.end(which.marker(committed=committed))
            await super().abort_transaction(which, timeout_ms=timeout_ms)

    async def story(world: VirtualCluster) -> Repair:
        async with world.client() as cluster:
            admin = Overtaken(cluster)
            return await repair(admin, await found_hanging(admin), now_ms=0)

    done = run_cluster(story, level=0)
    first = "COMMIT" if committed else "ABORT"
    assert (done.outcome, done.marker) == (outcome, "ABORT")
    assert done.reason.endswith(f"at offsets 1, 2, and the first one, {first}, has ended it")


def test_a_transaction_that_lives_is_never_aborted_whatever_it_was_found_to_be() -> None:
    async def story(world: VirtualCluster) -> tuple[Repair, list[bytes | None]]:
        async with (
            world.client() as cluster,
            Producer(cluster, transactional_id="living") as living,
        ):
            admin = Admin(cluster)
            await living.init_transactions()
            living.begin()
            await living.send("orders", 0, b"mine")
            found = await survey(
                admin, now_ms=cluster.clock.now_ms() + 1, partitions=[WHERE], older_than_ms=0
            )
            done = await repair(admin, found.findings[0], now_ms=0)
            await living.commit()
            return done, await values(cluster, "orders")

    done, read = run_cluster(story)
    assert done.outcome is Outcome.NO_LONGER_HANGS
    assert "Ongoing" in done.reason
    assert read == [b"mine"]


def test_what_cannot_be_looked_at_is_not_touched() -> None:
    class Deaf(Beforehand):
        async def describe_producers(self, *args: object, **kwargs: object) -> object:  # type: ignore[override]
            return {WHERE: ClientError("nobody leads it")}

    async def story(world: VirtualCluster) -> None:
        async with world.client() as cluster:
            finding = await found_hanging(Admin(cluster))
            with pytest.raises(ClientError, match="nobody leads it") as failure:
                await repair(Deaf(cluster), finding, now_ms=0)
            told = not_known(finding, failure.value, now_ms=7)
            assert (told.partition, told.outcome, told.at_ms) == (WHERE, Outcome.NOT_KNOWN, 7)
            assert "nobody leads it" in told.reason

    run_cluster(story)


# The marker that was decided


async def abandoned(world: VirtualCluster, admin: Admin, *, later: int) -> JudgedTransaction:
    """KAFKA-20734: committed while the partition had no leader; ``later`` transactions follow."""
    world.sim.metadata.create_topic(NewTopic(name=SOLO.topic, assignments=((0, (AWAY,)),)))
    await admin.cluster.coordinator("shop")
    if world.leader(world.home("shop")) != HOME:
        world.sim.move_leader(world.home("shop"), HOME)
    async with Producer(admin.cluster, transactional_id="shop") as shop:
        await shop.init_transactions()
        shop.begin()
        await shop.send(SOLO.topic, 0, b"paid")
        await world.sim.kill_broker(AWAY)
        await leaderless(world, SOLO)
        await shop.commit()
        await world.sim.start_broker(AWAY)
        for _ in range(later):
            shop.begin()
            await shop.send("orders", 0, b"next")
            await shop.commit()
    await admin.wait_for_topic(SOLO.topic)
    now_ms = admin.cluster.clock.now_ms() + 1
    (one,) = (await survey(admin, now_ms=now_ms, partitions=[SOLO], older_than_ms=0)).hanging
    return one


@pytest.mark.parametrize(("level", "later"), [(0, 0), (0, 2), (2, 0), (2, 2)])
def test_what_was_committed_is_ended_with_commit_and_nothing_is_lost(
    level: int, later: int
) -> None:
    """Also where the coordinator has had other transactions since: its log tells."""

    async def story(world: VirtualCluster) -> tuple[Repair, list[bytes | None]]:
        async with world.client() as cluster:
            admin = Admin(cluster)
            finding = await abandoned(world, admin, later=later)
            assert finding.decided is not None
            assert finding.decided.decision is Decision.COMMITTED
            done = await repair(admin, finding, now_ms=0, guess=Decision.ABORTED)
            return done, await values(cluster, SOLO.topic, partitions=1)

    done, read = run_cluster(story, level=level)
    assert (done.outcome, done.marker) == (Outcome.REPAIRED, "COMMIT"), "a guess never overrules"
    assert done.records == 1
    assert read == [b"paid"]


@pytest.mark.parametrize(
    ("guess", "read"), [(Decision.ABORTED, []), (Decision.COMMITTED, [b"paid"])]
)
def test_who_does_not_know_has_to_guess_aloud(
    guess: Decision, read: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def nothing(*_: object, **__: object) -> tuple[()]:
        return ()  # the log may not be read, or has been compacted

    monkeypatch.setattr("txnsim.client.inspection.survey.noted", nothing)

    async def story(world: VirtualCluster) -> tuple[Repair, Repair, list[bytes | None]]:
        async with world.client() as cluster:
            admin = Admin(cluster)
            finding = await abandoned(world, admin, later=2)
            asked = await repair(admin, finding, now_ms=0)
            assert await values(cluster, SOLO.topic, partitions=1) == []
            done = await repair(admin, finding, now_ms=0, guess=guess)
            return asked, done, await values(cluster, SOLO.topic, partitions=1)

    asked, done, seen = run_cluster(story)
    assert (asked.outcome, asked.decision) == (Outcome.NEEDS_A_GUESS, Decision.UNKNOWN)
    assert "has gone on" in asked.reason
    assert done.outcome is Outcome.REPAIRED
    assert seen == read
