"""A folder per miss has what a report needs."""

from __future__ import annotations

import asyncio
import json
import re
import shlex
from pathlib import Path
from typing import Final

import msgspec
import pytest

from tests.lab.exam.test_exam import YES, driver
from txnsim import VERSION
from txnsim.errors import ConfigError
from txnsim.shell_text import command_line
from txnsim_lab.exam.misses import DRIVER_TEXT_CHARS_MAX, driver_sources, folders
from txnsim_lab.exam.results import page
from txnsim_lab.exam.run import choose_situations, run_exam
from txnsim_lab.exam.situations import SITUATIONS

HEADINGS: Final = (
    "What was done", "What was expected", "What was seen", "Play it again", "Versions",
    "What happened in the cluster",
)  # fmt: skip


def test_a_miss_can_be_reported_and_opens_in_the_page() -> None:
    program = YES.replace('"yes"', '"yes", "runtime": "Yes 1.0"')
    run = asyncio.run(
        run_exam(driver(program), choose_situations(SITUATIONS, ["reads-open"]), levels=(2,))
    )
    command = command_line("txnsim", "exam", "run", "--driver", "./yes")
    sources = {"yes": b"true\n"}
    files = folders(run, command=command, source_by_name=sources)
    assert sorted(files) == [
        f"reads-open-2/{name}"
        for name in ("README.md", "driver/yes", "page.html", "story.txt", "versions.json")
    ]
    report_text = files["reads-open-2/README.md"].decode()
    assert re.findall(r"^## (.*)$", report_text, re.MULTILINE) == list(HEADINGS)
    assert "1. `consumer consumer=c group=readers topic=open" in report_text
    assert "A `read_committed` reader gets each committed record once" in report_text
    assert "- the reader of open gets: (); expected: ('a',)" in report_text
    assert f"    {command} --only reads-open --transaction-version 2\n" in report_text
    assert "Its files: [yes](driver/yes)." in report_text
    assert "- runtime: Yes 1.0" in report_text
    versions = json.loads(files["reads-open-2/versions.json"])
    assert (versions["transaction.version"], versions["txnsim"]) == (2, VERSION)
    assert b"reads-open@2" in files["reads-open-2/page.html"]
    assert 'href="all/reads-open-2/page.html"' in page(run, misses_path="all")


def test_what_a_driver_says_is_no_order_to_a_terminal_or_a_page() -> None:
    program = YES.replace('"yes"', '"yes", "runtime": "Yes 1.0"')
    run = asyncio.run(
        run_exam(driver(program), choose_situations(SITUATIONS, ["reads-open"]), levels=(2,))
    )
    (miss_result,) = run.misses()
    hostile_text = "\x1b[2J\u202e<script>alert(1)</script>[x](y)" + "z" * 200_000
    hostile_result = msgspec.structs.replace(
        miss_result,
        because=(hostile_text,),
        errors=(hostile_text,),
        story=(hostile_text,),
        steps=(f"`{hostile_text}",),
        recording=b"",
    )
    run = msgspec.structs.replace(run, library=hostile_text[:40], results=(hostile_result,))
    for folder_name, data in folders(run, command=command_line("txnsim", "exam", "run")).items():
        if folder_name.endswith(".json"):
            continue  # what programs read stays exact
        text = data.decode()
        assert not {"\x1b", "\u202e"} & set(text), folder_name
        assert len(text) < 20 * DRIVER_TEXT_CHARS_MAX, folder_name
        if folder_name.endswith(".md"):
            prose = [line for line in text.splitlines() if not re.match(r"    |\d+\. `", line)]
            assert not [line for line in prose if "<script>" in line or "[x](y)" in line]
    assert not {"\x1b", "\u202e"} & set(page(run))


def test_the_files_of_a_driver_are_those_that_its_command_names(tmp_path: Path) -> None:
    driver_file, contract_file, program_file = (
        tmp_path / file_name for file_name in ("mine.py", "contract.py", "program")
    )
    driver_file.write_text("serve()")
    contract_file.write_text("def serve(): pass")
    program_file.write_bytes(b"\x7fELF\0")
    command = shlex.join([str(program_file), str(driver_file), "--fast"])
    assert driver_sources(command) == {"mine.py": b"serve()"}
    assert driver_sources(command, [contract_file]).keys() == {"mine.py", "contract.py"}
    with pytest.raises(ConfigError, match="nowhere"):
        driver_sources(command, [tmp_path / "nowhere"])


def test_every_situation_says_by_what_it_judges() -> None:
    assert [
        situation.name
        for situation in SITUATIONS
        if not re.search(r"[A-Z].*\.$", situation.yardstick)
    ] == []
