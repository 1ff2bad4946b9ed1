"""Blocks of producer ids on the broker, and the controller that gives them out."""

from __future__ import annotations

import pytest

from txnsim.errors import ErrorCode
from txnsim.interbroker.transactions import AllocateProducerIdsCommand, AllocateProducerIdsReply
from txnsim.txn.producer_ids import ProducerIdAllocator, ProducerIdPool
from txnsim.types import BrokerId

FIRST_BLOCK = AllocateProducerIdsReply(first_producer_id=0, producer_id_count=1_000)
SECOND_BLOCK = AllocateProducerIdsReply(first_producer_id=1_000, producer_id_count=1_000)


def pool_with_block() -> ProducerIdPool:
    pool = ProducerIdPool()
    assert pool.take() is None
    assert pool.start_request(now_ms=0)
    assert pool.on_reply(FIRST_BLOCK, now_ms=0)
    return pool


def test_the_first_call_after_a_start_finds_nothing_and_asks() -> None:
    pool = ProducerIdPool()
    assert not pool.start_request(now_ms=0)
    assert pool.take() is None
    assert pool.start_request(now_ms=0)
    assert not pool.start_request(now_ms=0)
    assert pool.on_reply(FIRST_BLOCK, now_ms=0)
    assert [pool.take() for _ in range(3)] == [0, 1, 2]


def test_the_next_block_is_asked_for_at_nine_tenths() -> None:
    pool = pool_with_block()
    ids_taken = [pool.take() for _ in range(900)]
    assert ids_taken[-1] == 899
    assert not pool.start_request(now_ms=0)
    assert pool.take() == 900
    assert pool.start_request(now_ms=0)


def test_the_next_block_follows_without_a_gap_and_without_another_request() -> None:
    pool = pool_with_block()
    for _ in range(950):
        pool.take()
    assert pool.start_request(now_ms=0)
    assert pool.on_reply(SECOND_BLOCK, now_ms=0)
    assert [pool.take() for _ in range(52)] == list(range(950, 1_002))
    assert not pool.start_request(now_ms=0)


def test_a_dry_pool_fails_at_once_and_one_request_is_enough() -> None:
    pool = pool_with_block()
    for _ in range(901):
        pool.take()
    assert pool.start_request(now_ms=0)
    for _ in range(99):
        pool.take()
    assert pool.take() is None
    assert not pool.start_request(now_ms=0)


def test_no_request_while_the_next_block_waits() -> None:
    pool = pool_with_block()
    for _ in range(901):
        pool.take()
    assert pool.start_request(now_ms=0)
    assert pool.on_reply(
        AllocateProducerIdsReply(first_producer_id=1_000, producer_id_count=0), now_ms=0
    )
    for _ in range(99):
        pool.take()
    # the empty block is used up at once; the one after it may be asked for
    assert pool.take() == 1_000 or not pool.start_request(now_ms=0)


@pytest.mark.parametrize(
    "reply", [None, AllocateProducerIdsReply(error=ErrorCode.stale_broker_epoch)]
)
def test_after_a_failure_the_next_request_waits_50_ms(
    reply: AllocateProducerIdsReply | None,
) -> None:
    pool = ProducerIdPool()
    pool.take()
    assert pool.start_request(now_ms=100)
    assert not pool.on_reply(reply, now_ms=110)
    pool.take()
    assert not pool.start_request(now_ms=159)
    assert not pool.start_request(now_ms=160)
    pool.take()
    assert pool.start_request(now_ms=160)


@pytest.mark.parametrize("first_id", [0, 500, 999])
def test_a_block_that_overlaps_the_present_one_is_refused(first_id: int) -> None:
    pool = pool_with_block()
    for _ in range(901):
        pool.take()
    assert pool.start_request(now_ms=0)
    overlapping_reply = AllocateProducerIdsReply(
        first_producer_id=first_id, producer_id_count=1_000
    )
    assert not pool.on_reply(overlapping_reply, now_ms=0)


def test_a_pool_has_an_id_as_long_as_one_of_its_blocks_has() -> None:
    assert not ProducerIdPool().has_id
    pool = pool_with_block()
    for _ in range(999):
        pool.take()
    assert pool.has_id
    assert pool.take() == 999
    assert not pool.has_id
    assert pool.start_request(now_ms=0)
    assert pool.on_reply(SECOND_BLOCK, now_ms=0)
    assert pool.has_id


def test_a_block_may_be_wanted_though_ids_are_left() -> None:
    pool = pool_with_block()
    assert pool.take() == 0
    assert not pool.start_request(now_ms=0)
    assert not pool.is_asking
    pool.want_block()
    assert pool.start_request(now_ms=0)
    assert pool.is_asking
    assert pool.on_reply(SECOND_BLOCK, now_ms=0)
    assert not pool.is_asking


# The controller


def allocation_command(epoch: int = 3) -> AllocateProducerIdsCommand:
    return AllocateProducerIdsCommand(broker_id=BrokerId(1), broker_epoch=epoch)


def test_blocks_follow_each_other() -> None:
    allocator = ProducerIdAllocator()
    allocator, first_block_reply = allocator.allocate(allocation_command(), broker_epoch=3)
    allocator, second_block_reply = allocator.allocate(allocation_command(), broker_epoch=3)
    assert (first_block_reply, second_block_reply) == (FIRST_BLOCK, SECOND_BLOCK)
    assert allocator == ProducerIdAllocator(next_producer_id=2_000)


@pytest.mark.parametrize(
    ("allocator", "registered", "error"),
    [
        (ProducerIdAllocator(), None, ErrorCode.broker_id_not_registered),
        (ProducerIdAllocator(), 4, ErrorCode.stale_broker_epoch),
        (ProducerIdAllocator(next_producer_id=2**63 - 1_000), 3, ErrorCode.unknown_server_error),
    ],
)
def test_refusals_give_nothing_away(
    allocator: ProducerIdAllocator, registered: int | None, error: ErrorCode
) -> None:
    allocator_after, reply = allocator.allocate(allocation_command(), broker_epoch=registered)
    assert allocator_after == allocator
    assert reply == AllocateProducerIdsReply(error=error)


def test_the_very_last_block_is_given_out() -> None:
    last_allocator = ProducerIdAllocator(next_producer_id=2**63 - 1_001)
    _, reply = last_allocator.allocate(allocation_command(), broker_epoch=3)
    assert reply == AllocateProducerIdsReply(
        first_producer_id=2**63 - 1_001, producer_id_count=1_000
    )
