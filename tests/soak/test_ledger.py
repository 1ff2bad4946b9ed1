"""The ledger must convict: a transaction that is read twice, in part, or though it was aborted."""

from __future__ import annotations

import pytest

from tests.soak.ledger import SoakLedger, differences
from tests.soak.producing import TransactionOutcome


def _read(ledger: SoakLedger, number: int, *record_numbers: int, producer: str = "p") -> None:
    for index in record_numbers:
        ledger.read(f"{producer}/{number}/{index}".encode())


def test_once_or_never_is_right() -> None:
    ledger = SoakLedger()
    ledger.tell("p", 0, TransactionOutcome.COMMITTED, 2)
    ledger.tell("p", 1, TransactionOutcome.ABORTED, 2)
    ledger.tell("p", 2, TransactionOutcome.UNKNOWN, 2)
    ledger.tell("p", 3, TransactionOutcome.UNKNOWN, 2)
    _read(ledger, 0, 0, 1)
    _read(ledger, 3, 1, 0)
    _read(ledger, 4, 0)  # its client was killed before it could say a word
    judgement = ledger.judge()
    assert judgement.wrong_count == 0
    assert (judgement.transaction_count, judgement.committed, judgement.aborted) == (5, 1, 1)
    assert (judgement.unknown, judgement.seen_unknown_count, judgement.records_read) == (2, 1, 5)


@pytest.mark.parametrize(
    ("outcome", "read"),
    [
        (TransactionOutcome.COMMITTED, ()),
        (TransactionOutcome.COMMITTED, (0,)),
        (TransactionOutcome.COMMITTED, (0, 1, 1)),
        (TransactionOutcome.COMMITTED, (0, 1, 2)),
        (TransactionOutcome.ABORTED, (1,)),
        (TransactionOutcome.UNKNOWN, (0,)),
        (TransactionOutcome.UNKNOWN, (0, 0, 1, 1)),
        (None, (1, 1)),
    ],
)
def test_anything_else_is_wrong(outcome: TransactionOutcome | None, read: tuple[int, ...]) -> None:
    ledger = SoakLedger()
    if outcome is not None:
        ledger.tell("p", 7, outcome, 2)
    _read(ledger, 7, *read)
    judgement = ledger.judge()
    assert judgement.wrong_count == 1
    assert judgement.findings[0].transaction == "p/7"


def test_a_record_of_no_client_is_wrong() -> None:
    ledger = SoakLedger()
    ledger.read(b"something else")
    ledger.read(b"p/1/9")
    assert ledger.judge().wrong_count == 2


def test_a_client_tells_once() -> None:
    ledger = SoakLedger()
    ledger.tell("p", 0, TransactionOutcome.COMMITTED, 1)
    with pytest.raises(ValueError, match="p/0 was told twice"):
        ledger.tell("p", 0, TransactionOutcome.ABORTED, 1)


def test_a_chain_that_loses_or_doubles_is_found() -> None:
    source_ledger, copied_ledger = SoakLedger(), SoakLedger()
    _read(source_ledger, 0, 0, 1)
    _read(source_ledger, 300, 0)
    _read(copied_ledger, 0, 0, 1)
    _read(copied_ledger, 300, 0)
    assert differences(source_ledger, copied_ledger) == []
    _read(copied_ledger, 0, 1)
    _read(source_ledger, 301, 1)
    assert differences(source_ledger, copied_ledger) == [
        "p/0/1: read 1 times, its copy 2 times",
        "p/301/1: read 1 times, its copy 0 times",
    ]
