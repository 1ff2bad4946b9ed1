"""The page for languages without a helper has the programs as they are."""

from __future__ import annotations

import re

import msgspec

from tests.helpers.run import HELPERS
from txnsim.faults.plan import FaultRule
from txnsim.http._app import OPERATIONS
from txnsim.http._openapi import document

FOLDER = HELPERS / "any"
PAGE = (FOLDER / "README.md").read_text("utf-8")


def test_the_page_prints_the_program_in_ruby() -> None:
    (printed_program,) = re.findall(r"```ruby\n(.*?)```", PAGE, re.DOTALL)
    assert printed_program == (FOLDER / "lost_marker.rb").read_text("utf-8")


def test_each_program_makes_the_five_calls() -> None:
    calls = re.findall(r"^\| `(\w+) (/api/v1/[\w/-]+)` \|", PAGE, re.MULTILINE)
    assert len(calls) == 5
    paths = document(OPERATIONS)["paths"]
    assert isinstance(paths, dict)
    documented_calls = {(verb.upper(), path) for path, verbs in paths.items() for verb in verbs}
    assert {(verb, path.replace("/lost/", "/{id}/")) for verb, path in calls} <= documented_calls
    programs = [*FOLDER.glob("*.*"), *FOLDER.glob("rust/src/*.rs")]
    texts = {
        program_file.name: program_file.read_text("utf-8")
        for program_file in programs
        if program_file.suffix != ".md"
    }
    assert len(texts) == 5
    for name, text in texts.items():
        assert [path for _, path in calls if path not in text] == [], name


def test_the_fault_of_the_page_is_a_rule() -> None:
    (rule,) = re.findall(r"`(\{\"id\": \"lost\".*?)` \|", PAGE)
    assert msgspec.json.decode(rule, type=FaultRule).limit == 1
