from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from txnsim.errors import ConfigError
from txnsim_lab.simulation.batch import Row, RowFile, Tally, in_pool, row_of, rows
from txnsim_lab.simulation.drawing import Wanted

SEEDS = range(3)
BEFORE = os.environ.get("PYTHONHASHSEED")


def told(found: list[Row]) -> list[Row]:
    """Without what differs between machines."""
    return sorted(
        (msgspec.structs.replace(one, cpu_ms=0) for one in found), key=lambda one: one.seed
    )


@pytest.mark.costly
def test_several_processes_come_to_the_same() -> None:
    here = told([*rows(SEEDS, Wanted(), jobs=1)])
    assert here == told([*rows(SEEDS, Wanted(), jobs=2)])
    assert [one.seed for one in here] == [*SEEDS]


def test_no_more_is_begun_once_it_is_time() -> None:
    found: list[Row] = []
    for row in rows(SEEDS, Wanted(), jobs=1, goes_on=lambda: not found):
        found.append(row)
    assert len(found) == 1


def test_a_file_of_rows_is_gone_on_with(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    row = row_of(2, Wanted())
    with RowFile(path, Wanted()) as file:
        assert file.rows == {}
        file.add(row)
    with path.open("ab") as cut:
        cut.write(b'{"seed": 3, "kin')
    with RowFile(path, Wanted()) as file:
        assert file.rows == {2: row}
        file.add(msgspec.structs.replace(row, seed=3))
    assert [*RowFile(path, Wanted()).rows] == [2, 3]


def test_rows_of_other_runs_are_not_mixed_in(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    with RowFile(path, Wanted()):
        pass
    with pytest.raises(ConfigError, match="rows of other runs"):
        RowFile(path, Wanted(as_version="4.2"))


def test_a_tally_says_what_was_not_exercised() -> None:
    tally = Tally()
    assert tally.idle == "no seed was played"
    row = row_of(2, Wanted())
    tally.add(msgspec.structs.replace(row, committed=0, struck=1))
    assert tally.idle == "no transaction was committed"
    tally.add(msgspec.structs.replace(row, committed=1, struck=1))
    assert tally.idle is None
    assert tally.seeds == 2


def test_hashes_of_strings_repeat_in_other_processes() -> None:
    words: Any = ["orders", "payments"]
    found = [*in_pool(hash, words, jobs=1)]
    program = f"print(*map(hash, {words}))"
    told = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONHASHSEED": "0"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert found == [*map(int, told.stdout.split())]
    assert os.environ.get("PYTHONHASHSEED") == BEFORE
