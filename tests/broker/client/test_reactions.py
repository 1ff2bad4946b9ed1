"""Every row of the table that Java's TransactionManager and Sender amount to, release 4.3."""

from __future__ import annotations

import pytest

from txnsim.client.reactions import Reaction, RequestKind, react
from txnsim.errors import ErrorCode

CODES = {
    "FIND_COORDINATOR": "14 R 15 R 51 R 53 G 30 G 120 A -1 G",
    "INIT_PRODUCER_ID": "15 L 16 L 14 R 51 R 47 G 90 G 48 G 49 G 53 A 31 A 59 G 120 A 50 G 35 G"
    " 42 G",
    "ADD_PARTITIONS": "15 L 16 L 14 R 51 R 3 R 47 G 90 G 48 G 49 G 53 G 29 A 55 A 59 B 120 A 42 A",
    "COMMIT": "15 L 16 L 14 R 51 R 47 G 90 G 48 G 49 G 53 G 59 B 120 A 42 G -1 G",
    "ABORT": "15 L 16 L 14 R 51 R 47 G 90 G 48 G 49 G 53 G 59 B 120 G 42 G -1 G",
    "PRODUCE_TRANSACTIONAL": "46 D 51 R 19 R 7 R 2 R 6 L 3 L 5 L 56 L 100 L 47 A 48 A 45 A 120 A"
    " 29 A 10 A 87 A 59 A 49 G 53 G 90 G 35 G 31 G",
    "PRODUCE": "46 D 19 R 7 R 6 L 3 L 45 S 59 S 47 G 49 G 53 G 10 F 87 F 32 F",
}
LETTERS = {
    "D": Reaction.DONE,
    "R": Reaction.RETRY,
    "L": Reaction.LOOK_UP,
    "S": Reaction.RESTART,
    "F": Reaction.FAIL,
    "A": Reaction.ABORT,
    "B": Reaction.ABORT_IF_BUMP,
    "G": Reaction.GIVE_UP,
}
ROWS = [
    pytest.param(RequestKind[name], ErrorCode(int(code)), LETTERS[letter], id=f"{name}-{code}")
    for name, code_text in CODES.items()
    for code, letter in zip(code_text.split()[::2], code_text.split()[1::2], strict=True)
]


@pytest.mark.parametrize(("request_kind", "error", "expected_reaction"), ROWS)
def test_reaction(request_kind: RequestKind, error: ErrorCode, expected_reaction: Reaction) -> None:
    assert react(request_kind, error) is expected_reaction


@pytest.mark.parametrize("request_kind", RequestKind)
def test_no_error_is_done(request_kind: RequestKind) -> None:
    assert react(request_kind, ErrorCode.none) is Reaction.DONE
