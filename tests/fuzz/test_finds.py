"""What fuzzing has found stays mended: each input is played again, as it was found."""

from __future__ import annotations

import base64
import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.fuzz import corpus
from tests.fuzz.driver import play_for_find
from tests.fuzz.judge import Judge
from tests.fuzz.roster import TARGETS, load
from tests.fuzz.target import Target

FINDS: list[dict[str, Any]] = [
    json.loads(line) for line in Path(__file__).with_name("finds.jsonl").read_text().splitlines()
]


@cache
def target(name: str) -> Target:
    return load(name)


def broken_property(name: str, fuzz_bytes: bytes) -> str:
    """What an input breaks, if anything: the best of some times, as the first one may import."""
    find = play_for_find(Judge(target(name)), fuzz_bytes)
    return "" if find is None else f"{find.kind}\n{find.story}"


@pytest.mark.parametrize("find", FINDS, ids=[f"{find['target']}: {find['was']}" for find in FINDS])
def test_no_property_is_broken_any_more(find: dict[str, Any]) -> None:
    assert not broken_property(find["target"], base64.b64decode(find["input"]))


@pytest.mark.costly
@pytest.mark.slow
@pytest.mark.parametrize("name", TARGETS)
def test_sound_inputs_and_the_corpus_break_nothing(name: str) -> None:
    inputs = [*target(name).seeds(), *corpus.read(name)]
    assert inputs
    assert [
        broken_kind for input_data in inputs if (broken_kind := broken_property(name, input_data))
    ] == []
