"""docs/checkers.md tells each kind of anomaly and each field of a history, and shows a true one."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final, get_args

from txnsim_lab.check.anomaly import Kind
from txnsim_lab.check.history import History
from txnsim_lab.check.judge import judge
from txnsim_lab.check.observations import Observation, Seen

PAGE: Final = (Path(__file__).resolve().parents[3] / "docs/checkers.md").read_text("utf-8")


def test_each_kind_has_its_section() -> None:
    assert sorted(re.findall(r"^### (\S+)$", PAGE, re.MULTILINE)) == sorted(Kind)


def test_each_observation_has_its_row_with_every_field() -> None:
    rows = {
        match[1]: set(re.findall(r"`([\w-]+)`", match[0]))
        for match in re.finditer(r"^\| `([\w-]+)` \|.*$", PAGE, re.MULTILINE)
    }
    kinds = {str(kind.__struct_config__.tag): kind for kind in get_args(Seen)}
    assert rows.keys() - {"seen"} == kinds.keys()  # the head of the table
    common = set(Observation.__struct_fields__)
    sentence = re.search(r"^Every observation has .*?\.$", PAGE, re.MULTILINE | re.DOTALL)
    assert sentence is not None
    assert common <= set(re.findall(r"`([\w-]+)`", sentence[0]))
    for tag, kind in kinds.items():
        assert set(kind.__struct_encode_fields__) - common <= rows[tag], tag


def test_the_history_that_is_shown_comes_to_what_is_said() -> None:
    (shown,) = re.findall(r'^```\n(\{"seen".*?)^```$', PAGE, re.MULTILINE | re.DOTALL)
    said = re.search(r"^`([\w-]+)`: what was aborted", PAGE, re.MULTILINE)
    assert said is not None
    assert str(judge(History.from_lines(shown.encode()))) == said[1]
