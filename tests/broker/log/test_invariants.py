"""A judge has to convict: each broken fact is found and named."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from tests.support.logs import LogDriver, plain
from txnsim.errors import InvariantViolation
from txnsim.log import _invariants as invariants
from txnsim.log.answers import LogState
from txnsim.log.producer_state import BatchMetadata
from txnsim.wire.batch import assign


@pytest.fixture(scope="module")
def driver() -> LogDriver:
    """A log with an abort at 1, a transaction open since 2, and an unreplicated end at 4."""
    log_driver = LogDriver()
    log_driver.txn(0, producer_id=1)
    log_driver.end(committed=False, producer_id=1)
    log_driver.txn(0, producer_id=2)
    log_driver.txn(1, producer_id=1)
    log_driver.follow = False
    log_driver.end(committed=True, producer_id=1)
    log_driver.data(0, producer_id=3)
    log_driver.data(1, producer_id=3)
    return log_driver


def check_invariants(driver: LogDriver, **broken_fields: Any) -> None:
    state = msgspec.structs.replace(driver.log.snapshot(), **broken_fields)
    invariants.check(state, tuple(driver.log.batches()), log_name="orders-0")


def test_the_log_itself_is_sound(driver: LogDriver) -> None:
    check_invariants(driver)
    state = driver.log.snapshot()
    assert state.ongoing == ((2, 2),)
    assert state.unreplicated == ((3, 4),)


@pytest.mark.parametrize(
    ("broken_fields", "message"),
    [
        ({"last_stable_offset": 5}, "out of order"),
        ({"high_watermark": 8}, "out of order"),
        ({"log_start_offset": 5}, "log start 5 above high watermark"),
        ({"last_stable_offset": 1, "log_start_offset": 2}, "though no transaction began"),
        ({"ongoing": ((3, 2), (2, 2))}, "open transactions are out of order"),
        ({"ongoing": ()}, "the list says"),
        ({"ongoing": ((1, 2),)}, "the list says"),
        ({"unreplicated": ((4, 4),)}, "ends nothing that began before"),
        ({"unreplicated": ((2, 3),)}, "below high watermark"),
        ({"leader_epochs": ((0, 0), (0, 3))}, "do not rise"),
        ({"leader_epochs": ((0, 3), (1, 3))}, "do not rise"),
        ({"leader_epochs": ((0, 0), (1, 3))}, "is of leader epoch 0, the cache says 1"),
        ({"leader_epochs": ((1, 0),)}, "batch at 0 is of leader epoch 0, the cache says 1"),
        ({"log_end_offset": 6}, "the last batch ends at 6"),
    ],
)
def test_a_broken_state_is_found(
    driver: LogDriver, broken_fields: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvariantViolation, match=message) as error_info:
        check_invariants(driver, **broken_fields)
    assert str(error_info.value).startswith("orders-0: ")


@pytest.mark.parametrize("epochs", [(), ((0, 3),)])
def test_epochs_of_deleted_records_may_be_unknown(
    driver: LogDriver, epochs: tuple[tuple[int, int], ...]
) -> None:
    """Deleted records are back after a crash; a truncation may then empty the cache."""
    check_invariants(driver, leader_epochs=epochs)


def test_an_offset_held_back_by_nothing_is_found() -> None:
    log_driver = LogDriver()
    log_driver.append(plain(3))
    with pytest.raises(InvariantViolation, match="held back from 3 by nothing"):
        check_invariants(log_driver, last_stable_offset=2)


@pytest.mark.parametrize(
    ("field_name", "value", "message"),
    [
        ("first_offset", 1, "does not fit the log end"),
        ("last_offset", 7, "does not fit the log end"),
        ("last_stable_offset", 3, "behind its marker"),
    ],
)
def test_a_broken_aborted_transaction_is_found(
    driver: LogDriver, field_name: str, value: int, message: str
) -> None:
    (aborted_txn,) = driver.log.snapshot().aborted
    with pytest.raises(InvariantViolation, match=message):
        check_invariants(
            driver, aborted=(msgspec.structs.replace(aborted_txn, **{field_name: value}),)
        )
    with pytest.raises(InvariantViolation, match="aborted transactions are out of order"):
        check_invariants(driver, aborted=(aborted_txn, aborted_txn))


def with_batches(state: LogState, *batches: tuple[int, int, int]) -> tuple[Any, ...]:
    """The log's state with the last producer's cached batches replaced by these."""
    *other_producers, last_producer = state.producers
    cached = tuple(
        BatchMetadata(last_sequence=sequence, last_offset=offset, offset_delta=delta, timestamp=0)
        for sequence, offset, delta in batches
    )
    return (*other_producers, replace(last_producer, batches=cached))


@pytest.mark.parametrize(
    ("batches", "message"),
    [
        (((0, 0, 0), (2, 1, 0)), "leave a gap"),
        (((0, 1, 0), (1, 1, 0)), "overlap"),
        (((0, 1, 0), (2, 2, 1)), "overlap"),
        (tuple((number, number, 0) for number in range(6)), "6 batches are cached"),
        (((-1, 0, 0), (-1, 1, 0)), None),
        (((2**31 - 1, 0, 0), (0, 1, 0)), None),
    ],
)
def test_a_broken_cache_is_found(
    driver: LogDriver, batches: tuple[tuple[int, int, int], ...], message: str | None
) -> None:
    producers = with_batches(driver.log.snapshot(), *batches)
    if message is None:
        check_invariants(driver, producers=producers)
        return
    with pytest.raises(InvariantViolation, match=message):
        check_invariants(driver, producers=producers)


@pytest.mark.parametrize(
    ("compacted_indexes", "is_sound"),
    [((1, 2), True), ((1,), False), ((), False)],
)
def test_sequences_may_be_missing_where_compaction_took_their_offsets(
    compacted_indexes: tuple[int, ...], *, is_sound: bool
) -> None:
    """A follower that copies a cleaned log has never seen the batches that are gone."""
    log_driver = LogDriver()
    for sequence in range(4):
        log_driver.data(sequence)
    first_batch, *_, last_batch = (entry := log_driver.log.snapshot().producers[0]).batches
    producers = (replace(entry, batches=(first_batch, last_batch)),)
    state = msgspec.structs.replace(log_driver.log.snapshot(), producers=producers)
    remaining_batches = tuple(
        batch
        for batch_index, batch in enumerate(log_driver.log.batches())
        if batch_index not in compacted_indexes
    )
    if is_sound:
        invariants.check(state, remaining_batches, log_name="orders-0")
        return
    with pytest.raises(InvariantViolation, match="leave a gap"):
        invariants.check(state, remaining_batches, log_name="orders-0")


def test_broken_bytes_are_found() -> None:
    driver = LogDriver()
    driver.append(plain(2))
    driver.append(plain(2))
    state = driver.log.snapshot()
    first_batch, second_batch = driver.log.batches()
    moved_batch = assign(second_batch, base_offset=1, leader_epoch=0)
    with pytest.raises(InvariantViolation, match="overlap at offset 1"):
        invariants.check(state, (first_batch, moved_batch), log_name="orders-0")
    with pytest.raises(InvariantViolation, match="bytes left over"):
        invariants.check(state, (first_batch, second_batch + b"\0"), log_name="orders-0")
