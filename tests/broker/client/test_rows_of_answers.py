"""What a broker answers about a single thing is read as such, or refused as no answer."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pytest

from txnsim.client import errors
from txnsim.client.errors import ClientError, only_row

SOURCE_FOLDER: Final = Path(errors.__file__).parent
UNCHECKED: Final = re.compile(
    r"\b(?:message|answer|response)\.[a-z_.]+\[0\]|^\s*\(\w+,\) = (?:await )?(?:message|answer)\b|"
    r"^\s*\(\w+,\) = \(?await ",
    re.MULTILINE,
)
OWN_ANSWERS: Final = {"fetching.py: (fetch_result,) = await "}
"""Rows that are our own: ``ask_leader`` makes one for each partition that is asked for."""


def test_the_only_row_is_given() -> None:
    assert only_row(("a",), "about it") == "a"


@pytest.mark.parametrize("rows", [(), ("a", "b")])
def test_no_row_and_several_are_no_answer(rows: tuple[str, ...]) -> None:
    with pytest.raises(ClientError, match=f"answered with {len(rows)} rows about it"):
        only_row(rows, "about it")


def test_no_answer_is_unpacked_as_if_a_broker_could_be_trusted() -> None:
    unpacked = {
        f"{path.relative_to(SOURCE_FOLDER)}: {match.group().strip()} "
        for path in sorted(SOURCE_FOLDER.rglob("*.py"))
        for match in UNCHECKED.finditer(path.read_text())
    }
    assert {text.rstrip() for text in unpacked} == {text.rstrip() for text in OWN_ANSWERS}
