"""What fuzzing has found stays mended: each input is played again, as it was found."""

from __future__ import annotations

import base64
import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.fuzz.judge import Judge
from tests.fuzz.roster import TARGETS, load
from tests.fuzz.target import Target

FINDS: list[dict[str, Any]] = [
    json.loads(line) for line in Path(__file__).with_name("finds.jsonl").read_text().splitlines()
]


@cache
def target(name: str) -> Target:
    return load(name)


@pytest.mark.parametrize("find", FINDS, ids=[f"{one['target']}: {one['was']}" for one in FINDS])
def test_no_property_is_broken_any_more(find: dict[str, Any]) -> None:
    found = Judge(target(find["target"])).play(base64.b64decode(find["input"]))
    assert found is None, f"{found.kind}\n{found.story}"


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in TARGETS if name not in ("apis", "requests")])
def test_sound_inputs_break_nothing(name: str) -> None:
    judge = Judge(target(name))
    for data in target(name).seeds():
        found = judge.play(data)
        # The first input of a kind imports what reads it.
        assert found is None or found.kind == "time", f"{found.kind}\n{found.story}"
