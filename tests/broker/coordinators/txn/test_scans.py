"""Expiry of idle transactional ids. Timeouts are told with the service."""

from __future__ import annotations

import pytest
from structlog.testing import capture_logs

from tests.support.coordinator import FOO_0, HOME, TID, World, error_of, identity
from tests.support.steps import load_whole
from txnsim.errors import ErrorCode, Rejection
from txnsim.releases.rules import LATEST, Rules
from txnsim.settings import Settings
from txnsim.txn.log_reader import read_log
from txnsim.txn.state import TransactionState, TxnMetadata
from txnsim.types import CoordinatorEpoch, ProducerIdAndEpoch, TransactionalId

SETTINGS = Settings(
    transactional_id_expiration_ms=1_000_000,
    transaction_remove_expired_cleanup_interval_ms=500_000,
)


async def idle(*, settings: Settings = SETTINGS) -> tuple[World, ProducerIdAndEpoch]:
    world = World(settings=settings)
    return world, await world.ready()


async def test_an_idle_id_is_forgotten_and_starts_over() -> None:
    world, session = await idle()
    world.clock.advance(999_999)
    await world.settle()
    assert world.entry_or_none() is not None
    world.clock.advance(1)
    await world.settle()
    assert world.entry_or_none() is None
    assert read_log(world.log[HOME], rules=LATEST).entries == {}
    assert world.service.snapshot().expired_total == 1
    gone = await world.add(session, FOO_0)
    assert error_of(gone) is ErrorCode.invalid_producer_id_mapping
    assert error_of(world.service.describe(TID)) is ErrorCode.transactional_id_not_found
    assert await world.init(expected=session) == identity(1, 0)


async def test_meanwhile_callers_must_wait() -> None:
    world, _ = await idle()
    world.held_appends = []
    world.clock.advance(1_000_000)
    await world.settle()
    assert world.entry().pending_state is TransactionState.DEAD
    assert error_of(await world.init()) is ErrorCode.concurrent_transactions
    world.held_appends[0].set_result(ErrorCode.not_enough_replicas)
    world.held_appends = None
    await world.settle()
    assert world.entry().pending_state is None
    assert await world.init() == identity(0, 1)


async def test_an_id_without_an_epoch_expires_too() -> None:
    world = World(settings=SETTINGS)
    await world.init()
    world.append_errors.append(ErrorCode.not_enough_replicas)
    await world.init()
    assert world.entry().producer_epoch == -1
    world.clock.advance(1_000_000)
    await world.settle()
    assert world.entry_or_none() is None


async def test_open_transactions_do_not_expire() -> None:
    world, session = await idle()
    world.service.stop()
    world.service.start()
    await world.add(session, FOO_0)
    world.clock.advance(1)
    assert world.entry().state is TransactionState.ONGOING


async def test_a_tombstone_that_outlives_its_coordinator_changes_nothing() -> None:
    world, _ = await idle()
    log = list(world.log[HOME])
    world.held_appends = []
    world.clock.advance(1_000_000)
    await world.settle()
    load_whole(world.service, HOME, CoordinatorEpoch(1), log)
    world.held_appends[0].set_result(ErrorCode.none)
    await world.settle()
    assert world.entry().pending_state is None


async def many_idle(rules: Rules = LATEST) -> World:
    """Five ids of one partition that expire at once; two of their tombstones fit into a batch."""
    world = World(settings=SETTINGS, rules=rules)
    await world.ready()
    owned = world.service._ownership.find(TID)
    assert not isinstance(owned, Rejection)
    template = world.entry()
    fields = {name: getattr(template, name) for name in template.__struct_fields__}
    for number in range(4):
        name = TransactionalId(f"id-{number}")
        owned.entries[name] = TxnMetadata(**{**fields, "transactional_id": name})
    world.batch_bytes_max = 100
    return world


async def test_tombstones_of_one_partition_share_a_batch_as_long_as_the_topic_takes_it() -> None:
    """A real 4.3.1 cuts by the topic's max.message.bytes, not by the broker's (KAFKA-13099)."""
    world = await many_idle()
    written = len(world.log[HOME])
    world.clock.advance(1_000_000)
    await world.settle()
    assert world.service.entries() == ()
    assert len(world.log[HOME]) - written == 3


@pytest.mark.usefixtures("all_levels")
async def test_before_kafka_13099_they_go_together_or_never_and_it_is_told_once() -> None:
    """A real 2.8.0: "Failed to remove expired transactionalId", at every scan."""
    world = await many_idle(rules=Rules(expired_ids_take_many_batches=False))
    with capture_logs() as lines:
        for _ in range(3):
            world.clock.advance(1_000_000)
            await world.settle()
        assert len(world.service.entries()) == 5
        assert [line["event"] for line in lines] == ["txn.expiry.refused"]
        assert lines[0]["error"] == "MESSAGE_TOO_LARGE"
        assert f"partition {HOME} of __transaction_state" in lines[0]["reason"]
        world.batch_bytes_max = 1_000
        world.clock.advance(1_000_000)
        await world.settle()
    assert world.service.entries() == ()
    assert len(lines) == 1


@pytest.mark.usefixtures("all_levels")
async def test_a_timeout_whose_abort_is_never_logged_is_told_once() -> None:
    world = World()
    await world.add(await world.ready(), FOO_0)
    world.append_errors.extend([ErrorCode.not_enough_replicas] * 3)
    with capture_logs() as lines:
        for _ in range(10):
            world.clock.advance(10_000)
            await world.settle()
    told = [line for line in lines if line["event"] == "txn.timeout.refused"]
    assert [(line["transactional_id"], line["error"]) for line in told] == [
        (TID, "COORDINATOR_NOT_AVAILABLE")
    ]
    assert world.entry().state is TransactionState.COMPLETE_ABORT
    assert not world.service._unaborted.tried
