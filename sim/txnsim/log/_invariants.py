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


def check(state: LogState, batches: tuple[bytes, ...], *, name: str) -> None:
    """Check a log's state for consistency, and compare it with its bytes.

    Raises:
        InvariantViolation: The first violated condition.
    """
    _check_bounds(state, name)
    _check_transactions(state, name)
    _check_aborted(state, name)
    _check_epochs(state, name)
    headers = [read_batch_header(batch, 0) for batch in batches]
    for entry in state.producers:
        _check_cache(entry, headers, name)
    _check_bytes(state, batches, headers, name)


def _require(holds: bool, name: str, message: str) -> None:  # noqa: FBT001 - it is the condition itself
    if not holds:
        raise InvariantViolation(f"{name}: {message}")


def _check_bounds(state: LogState, name: str) -> None:
    """LSO ≤ HW ≤ LEO; log start ≤ LSO, unless an open transaction was truncated at its start."""
    _require(
        0 <= state.last_stable_offset <= state.high_watermark <= state.log_end_offset,
        name,
        f"last stable offset {state.last_stable_offset}, high watermark "
        f"{state.high_watermark} and log end {state.log_end_offset} are out of order",
    )
    _require(
        state.log_start_offset <= state.high_watermark,
        name,
        f"log start {state.log_start_offset} above high watermark {state.high_watermark}",
    )
    firsts = [first_offset for first_offset, _ in (*state.ongoing, *state.unreplicated)]
    if state.last_stable_offset < state.log_start_offset:
        _require(
            bool(firsts) and min(firsts) < state.log_start_offset,
            name,
            f"last stable offset {state.last_stable_offset} below log start "
            f"{state.log_start_offset} though no transaction began before it",
        )
    if not firsts:
        _require(
            state.last_stable_offset == state.high_watermark,
            name,
            f"last stable offset {state.last_stable_offset} held back from "
            f"{state.high_watermark} by nothing",
        )


def _check_transactions(state: LogState, name: str) -> None:
    """A producer has an open transaction exactly if the list of open transactions has it at the
    same offset.
    """
    _require(
        list(state.ongoing) == sorted(state.ongoing), name, "open transactions are out of order"
    )
    by_entries = sorted(
        (entry.txn_first_offset, entry.producer_id)
        for entry in state.producers
        if entry.txn_first_offset != NO_OFFSET
    )
    _require(
        by_entries == list(state.ongoing),
        name,
        f"producers have transactions {by_entries} open, the list says {state.ongoing}",
    )
    for first_offset, marker_offset in state.unreplicated:
        _require(
            first_offset < marker_offset,
            name,
            f"marker {marker_offset} ends nothing that began before",
        )
        _require(
            marker_offset >= state.high_watermark,
            name,
            f"marker {marker_offset} below high watermark {state.high_watermark} still holds back",
        )


def _check_aborted(state: LogState, name: str) -> None:
    for entry in state.aborted:
        _require(
            entry.first_offset < entry.last_offset < state.log_end_offset,
            name,
            f"aborted transaction {entry} does not fit the log end {state.log_end_offset}",
        )
        _require(
            entry.last_stable_offset <= entry.last_offset + 1,
            name,
            f"aborted transaction {entry} has a stable offset behind its marker",
        )
    markers = [entry.last_offset for entry in state.aborted]
    _require(markers == sorted(set(markers)), name, "aborted transactions are out of order")


def _check_epochs(state: LogState, name: str) -> None:
    """Epochs and their start offsets are strictly ascending."""
    for column in zip(*state.leader_epochs, strict=True):
        _require(
            list(column) == sorted(set(column)),
            name,
            f"leader epochs {state.leader_epochs} do not rise",
        )


def _check_cache(entry: ProducerEntry, headers: list[BatchHeader], name: str) -> None:
    """Cached batches ascend by offset, and by sequence if they have sequences. A broker that copied
    or replayed a log after compaction has not seen the removed sequences.
    """
    _require(
        len(entry.batches) <= CACHED_BATCHES_MAX, name, f"{len(entry.batches)} batches are cached"
    )
    for earlier, later in pairwise(entry.batches):
        _require(earlier.last_offset < later.first_offset, name, f"cached batches overlap: {entry}")
        if NO_SEQUENCE in (earlier.last_sequence, later.last_sequence):
            continue
        expected = sequence_after(earlier.last_sequence, 1)
        # A group coordinator begins each of its batches at 0, on a producer's behalf.
        if later.first_sequence in (0, expected):
            continue
        missing = sequence_after(later.first_sequence, -expected)
        _require(
            missing <= _holes(headers, earlier.last_offset + 1, later.first_offset),
            name,
            f"cached batches leave a gap: {entry}",
        )


def _holes(headers: list[BatchHeader], start: int, end: int) -> int:
    """The number of offsets between ``start`` and ``end`` that no batch contains."""
    covered = (
        min(header.last_offset + 1, end) - max(header.base_offset, start) for header in headers
    )
    return end - start - sum(length for length in covered if length > 0)


def _check_bytes(
    state: LogState, batches: tuple[bytes, ...], headers: list[BatchHeader], name: str
) -> None:
    """Stored batches are in order below the log end, and were written in the epoch that the cache
    has.

    The cache may begin later than the log, or be empty: it does not know deleted records that
    reappear after a crash, as on a real broker.
    """
    cache_start = state.leader_epochs[0][1] if state.leader_epochs else state.log_end_offset
    known_from = max(state.log_start_offset, cache_start)
    for earlier, later in pairwise(headers):
        _require(
            earlier.last_offset < later.base_offset,
            name,
            f"batches overlap at offset {later.base_offset}",
        )
    for header, batch in zip(headers, batches, strict=True):
        _require(
            header.size == len(batch), name, f"batch at {header.base_offset} has bytes left over"
        )
        if header.base_offset >= known_from:
            epoch = max(
                (epoch for epoch, start in state.leader_epochs if start <= header.base_offset),
                default=-1,
            )
            _require(
                epoch == header.leader_epoch,
                name,
                f"batch at {header.base_offset} is of leader epoch {header.leader_epoch}, "
                f"the cache says {epoch}",
            )
    if headers:
        _require(
            headers[-1].last_offset < state.log_end_offset,
            name,
            f"the last batch ends at {headers[-1].last_offset}, above the log end "
            f"{state.log_end_offset}",
        )
