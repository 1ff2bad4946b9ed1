"""Conditions that must hold in every log at every moment; tests and simulations check them.

The same facts are derived twice, from the log's state and from its bytes, and compared.
"""

from __future__ import annotations

from itertools import pairwise

from txnsim.errors import InvariantViolation
from txnsim.log.answers import LogState
from txnsim.log.producer_state import (
    CACHED_BATCHES_MAX,
    NO_OFFSET,
    NO_SEQUENCE,
    ProducerEntry,
    sequence_after,
)
from txnsim.wire.batch import BatchHeader, read_batch_header


def check(state: LogState, batches: tuple[bytes, ...], *, log_name: str) -> None:
    """Check a log's state for consistency, and compare it with its bytes.

    Raises:
        InvariantViolation: The first violated condition.
    """
    _check_bounds(state, log_name)
    _check_transactions(state, log_name)
    _check_aborted(state, log_name)
    _check_epochs(state, log_name)
    headers = [read_batch_header(batch, 0) for batch in batches]
    for producer_entry in state.producers:
        _check_cache(producer_entry, headers, log_name)
    _check_bytes(state, batches, headers, log_name)


def _require(is_met: bool, log_name: str, message: str) -> None:  # noqa: FBT001 - it is the condition itself
    if not is_met:
        raise InvariantViolation(f"{log_name}: {message}")


def _check_bounds(state: LogState, log_name: str) -> None:
    """LSO ≤ HW ≤ LEO; log start ≤ LSO, unless an open transaction was truncated at its start."""
    _require(
        0 <= state.last_stable_offset <= state.high_watermark <= state.log_end_offset,
        log_name,
        f"last stable offset {state.last_stable_offset}, high watermark "
        f"{state.high_watermark} and log end {state.log_end_offset} are out of order",
    )
    _require(
        state.log_start_offset <= state.high_watermark,
        log_name,
        f"log start {state.log_start_offset} above high watermark {state.high_watermark}",
    )
    txn_first_offsets = [first_offset for first_offset, _ in (*state.ongoing, *state.unreplicated)]
    if state.last_stable_offset < state.log_start_offset:
        _require(
            bool(txn_first_offsets) and min(txn_first_offsets) < state.log_start_offset,
            log_name,
            f"last stable offset {state.last_stable_offset} below log start "
            f"{state.log_start_offset} though no transaction began before it",
        )
    if not txn_first_offsets:
        _require(
            state.last_stable_offset == state.high_watermark,
            log_name,
            f"last stable offset {state.last_stable_offset} held back from "
            f"{state.high_watermark} by nothing",
        )


def _check_transactions(state: LogState, log_name: str) -> None:
    """A producer has an open transaction exactly if the list of open transactions has it at the
    same offset.
    """
    _require(
        list(state.ongoing) == sorted(state.ongoing), log_name, "open transactions are out of order"
    )
    open_by_producers = sorted(
        (producer_entry.txn_first_offset, producer_entry.producer_id)
        for producer_entry in state.producers
        if producer_entry.txn_first_offset != NO_OFFSET
    )
    _require(
        open_by_producers == list(state.ongoing),
        log_name,
        f"producers have transactions {open_by_producers} open, the list says {state.ongoing}",
    )
    for first_offset, marker_offset in state.unreplicated:
        _require(
            first_offset < marker_offset,
            log_name,
            f"marker {marker_offset} ends nothing that began before",
        )
        _require(
            marker_offset >= state.high_watermark,
            log_name,
            f"marker {marker_offset} below high watermark {state.high_watermark} still holds back",
        )


def _check_aborted(state: LogState, log_name: str) -> None:
    for aborted_txn in state.aborted:
        _require(
            aborted_txn.first_offset < aborted_txn.last_offset < state.log_end_offset,
            log_name,
            f"aborted transaction {aborted_txn} does not fit the log end {state.log_end_offset}",
        )
        _require(
            aborted_txn.last_stable_offset <= aborted_txn.last_offset + 1,
            log_name,
            f"aborted transaction {aborted_txn} has a stable offset behind its marker",
        )
    marker_offsets = [aborted_txn.last_offset for aborted_txn in state.aborted]
    _require(
        marker_offsets == sorted(set(marker_offsets)),
        log_name,
        "aborted transactions are out of order",
    )


def _check_epochs(state: LogState, log_name: str) -> None:
    """Epochs and their start offsets are strictly ascending."""
    for epochs_or_offsets in zip(*state.leader_epochs, strict=True):
        _require(
            list(epochs_or_offsets) == sorted(set(epochs_or_offsets)),
            log_name,
            f"leader epochs {state.leader_epochs} do not rise",
        )


def _check_cache(producer_entry: ProducerEntry, headers: list[BatchHeader], log_name: str) -> None:
    """Cached batches ascend by offset, and by sequence if they have sequences. A broker that copied
    or replayed a log after compaction has not seen the removed sequences.
    """
    _require(
        len(producer_entry.batches) <= CACHED_BATCHES_MAX,
        log_name,
        f"{len(producer_entry.batches)} batches are cached",
    )
    for earlier_batch, later_batch in pairwise(producer_entry.batches):
        _require(
            earlier_batch.last_offset < later_batch.first_offset,
            log_name,
            f"cached batches overlap: {producer_entry}",
        )
        if NO_SEQUENCE in (earlier_batch.last_sequence, later_batch.last_sequence):
            continue
        expected_sequence = sequence_after(earlier_batch.last_sequence, 1)
        # A group coordinator begins each of its batches at 0, on a producer's behalf.
        if later_batch.first_sequence in (0, expected_sequence):
            continue
        missing_sequences = sequence_after(later_batch.first_sequence, -expected_sequence)
        _require(
            missing_sequences
            <= _missing_offset_count(
                headers, earlier_batch.last_offset + 1, later_batch.first_offset
            ),
            log_name,
            f"cached batches leave a gap: {producer_entry}",
        )


def _missing_offset_count(headers: list[BatchHeader], start_offset: int, end_offset: int) -> int:
    """The number of offsets between ``start_offset`` and ``end_offset`` that no batch contains."""
    covered_lengths = (
        min(header.last_offset + 1, end_offset) - max(header.base_offset, start_offset)
        for header in headers
    )
    return end_offset - start_offset - sum(length for length in covered_lengths if length > 0)


def _check_bytes(
    state: LogState, batches: tuple[bytes, ...], headers: list[BatchHeader], log_name: str
) -> None:
    """Stored batches are in order below the log end, and were written in the epoch that the cache
    has.

    The cache may begin later than the log, or be empty: it does not know deleted records that
    reappear after a crash, as on a real broker.
    """
    cache_start = state.leader_epochs[0][1] if state.leader_epochs else state.log_end_offset
    known_from_offset = max(state.log_start_offset, cache_start)
    for earlier_header, later_header in pairwise(headers):
        _require(
            earlier_header.last_offset < later_header.base_offset,
            log_name,
            f"batches overlap at offset {later_header.base_offset}",
        )
    for header, batch in zip(headers, batches, strict=True):
        _require(
            header.size == len(batch),
            log_name,
            f"batch at {header.base_offset} has bytes left over",
        )
        if header.base_offset >= known_from_offset:
            epoch = max(
                (
                    epoch
                    for epoch, epoch_start in state.leader_epochs
                    if epoch_start <= header.base_offset
                ),
                default=-1,
            )
            _require(
                epoch == header.leader_epoch,
                log_name,
                f"batch at {header.base_offset} is of leader epoch {header.leader_epoch}, "
                f"the cache says {epoch}",
            )
    if headers:
        _require(
            headers[-1].last_offset < state.log_end_offset,
            log_name,
            f"the last batch ends at {headers[-1].last_offset}, above the log end "
            f"{state.log_end_offset}",
        )
