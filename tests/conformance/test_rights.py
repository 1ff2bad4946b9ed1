"""Which rights each request of transactions asks for: exactly those of the table suffice, and no
others do, in the simulator and at a real broker with StandardAuthorizer.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.conformance.security import kafka, simulator
from tests.docs import ROOT
from tests.support.denials import Side
from tests.support.handlers import KEYS
from tests.support.patience import until
from tests.support.txn_rights import LEFT_OUT, ROWS, Need, Row
from txnsim.wire.error_codes import errors_of

SIDES = {"txnsim": simulator, "apache": kafka}


@pytest.fixture(
    scope="module",
    params=[
        pytest.param("txnsim", marks=pytest.mark.slow),
        pytest.param("apache", marks=pytest.mark.real),
    ],
)
def side(request: pytest.FixtureRequest) -> Iterator[Side]:
    """A broker with an authorizer that knows a transaction."""
    with SIDES[request.param]() as addresses:
        asked = Side(addresses["SASL"])
        until(
            lambda: asked.admin.ask(
                KEYS["InitProducerId"], 4, transactional_id="tx", transaction_timeout=60_000
            ),
            lambda answer: not answer.error_code,
            "there is a transactional id",
        )
        yield asked
        asked.close()


def told(side: Side, row: Row) -> set[str]:
    """What is missing for a guest, as far as the answer tells."""
    answer: Any = side.guest(row.api, row.version, row.values)
    found: list[int] = []
    teller = errors_of(answer.__class__)
    assert teller is not None
    teller(answer, found.append)
    missing = {code for code in map(_name, found) if code.endswith("AUTHORIZATION_FAILED")}
    if row.needs[0].denied == LEFT_OUT and not answer.transaction_states:
        missing.add(LEFT_OUT)
    return missing


def _name(code: Any) -> str:
    return str(code.name.upper())


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_these_rights_suffice(side: Side, row: Row) -> None:
    for rights in row.ways():
        side.allow(*rights)
        assert told(side, row) == set(), rights


@pytest.mark.parametrize(
    ("row", "need"),
    [
        pytest.param(row, need, id=f"{row.name}, {need.denied}")
        for row in ROWS
        for need in row.needs
    ],
)
def test_no_other_right_does(side: Side, row: Row, need: Need) -> None:
    side.allow(*need.others())
    assert told(side, row) == {need.denied}


def test_the_page_shows_each_of_them() -> None:
    page = (ROOT / "docs/security.md").read_text("utf-8")
    for row in ROWS:
        cells = f"| {row.name} | {_needs(row)} | {_denied(row)} |"
        assert cells in page, cells


def _needs(row: Row) -> str:
    return " and ".join(
        " or ".join(f"{operation.name} {_KINDS[kind]}" for kind, operation in need.any_of)
        for need in row.needs
    )


def _denied(row: Row) -> str:
    return ", ".join(
        need.denied if need.denied == LEFT_OUT else f"`{need.denied}`" for need in row.needs
    )


_KINDS = {2: "topic", 3: "group", 4: "cluster", 5: "transactional id"}
"""Of resources, by their numbers in the protocol."""
