"""The transaction log by the text of KIP-890."""

from __future__ import annotations

import pytest

from tests.support.txn_entries import FOO_0, FRESH, NOW_MS, TID, entry
from txnsim.txn.kip_text import as_loaded, as_logged
from txnsim.txn.state import TransactionState, TxnTransition
from txnsim.txn.transitions import to_complete, to_first, to_ongoing, to_prepared_v2
from txnsim.types import ProducerId, TransactionVersion

S = TransactionState
TV_1, TV_2 = TransactionVersion.TV_1, TransactionVersion.TV_2


@pytest.mark.parametrize(
    ("state", "epoch", "prev_pid", "version", "last_epoch"),
    [
        (S.COMPLETE_COMMIT, 5, 7, TV_2, 4),
        (S.COMPLETE_ABORT, 5, 7, TV_2, 4),
        (S.PREPARE_COMMIT, 5, 7, TV_2, 4),
        # The producer id was used up: its end was asked for under the last but one epoch.
        (S.COMPLETE_COMMIT, 0, 6, TV_2, 32_766),
        # Before version 2 an end does not change the identity.
        (S.COMPLETE_COMMIT, 5, 7, TV_1, -1),
        # Past the end nothing is known, nor where the record does not say.
        (S.EMPTY, 5, 7, TV_2, -1),
        (S.ONGOING, 5, 7, TV_2, -1),
        (S.COMPLETE_COMMIT, 5, -1, TV_2, -1),
    ],
)
def test_the_last_epoch_is_known_again(
    state: TransactionState,
    epoch: int,
    prev_pid: int,
    version: TransactionVersion,
    last_epoch: int,
) -> None:
    read = entry(state, epoch=epoch, prev_pid=prev_pid, client_version=version)
    again = entry(
        state, epoch=epoch, prev_pid=prev_pid, client_version=version, last_epoch=last_epoch
    )
    assert as_loaded(read) == again


def _prev(record: TxnTransition) -> int:
    return as_logged(record).prev_producer_id


def test_the_previous_id_is_logged_only_around_the_end() -> None:
    first = to_first(TID, producer_id=ProducerId(7), timeout_ms=1_000, now_ms=NOW_MS)
    opened = to_ongoing(entry(), partitions=frozenset({FOO_0}), client_version=TV_2, now_ms=NOW_MS)
    assert (_prev(first), _prev(opened)) == (-1, -1)
    assert as_logged(as_logged(opened)) == as_logged(opened)
    ended = to_prepared_v2(entry(S.ONGOING), committed=True, fresh=None, now_ms=NOW_MS)
    assert _prev(ended) == 7
    rotated = to_complete(entry(S.PREPARE_COMMIT, next_pid=FRESH), now_ms=NOW_MS)
    assert (_prev(rotated), rotated.producer_id) == (7, FRESH)
