"""Drivers that know nothing sit the exam: whoever answers "ok" to everything must fail."""

from __future__ import annotations

import asyncio
import inspect
import json
import re
import shlex
import sys
from pathlib import Path
from typing import Final

import pytest

from txnsim.client.errors import RetriableError
from txnsim.errors import ConfigError
from txnsim_lab.exam import run
from txnsim_lab.exam._application import Application, together
from txnsim_lab.exam._driver import Driver
from txnsim_lab.exam.results import ExamRun, MissError, Outcome, Result, known_misses, page
from txnsim_lab.exam.run import Exam, chosen, run_exam
from txnsim_lab.exam.situation import situation
from txnsim_lab.exam.situations import SITUATIONS

YES: Final = """
import json, sys
for line in sys.stdin:
    number = json.loads(line)["id"]
    print(json.dumps({"id": number, "ok": True, "contract": 1, "library": "yes"}), flush=True)
"""
"""Answers "ok" to everything."""
YES_WITH_ALL: Final = YES.replace(
    '"contract": 1',
    '"contract": 1, "offset": 0, "records": [], "positions": {"0": 0}, "ends": {"0": 0}',
)
"""Has every field that an answer may have, too."""
BARE: Final = YES.replace('"ok": True', '"ok": False, "error": {"name": "UNSUPPORTED_COMMAND"}')
KNOWS_ITS_NAME: Final = BARE.replace('"ok": False', '"ok": number == 1')
"""Its first command is ``describe``; it has no other."""


def driver(program: str) -> str:
    """Its command."""
    return shlex.join([sys.executable, "-c", program])


def played(program: str, *only: str, levels: tuple[int, ...] = (2,)) -> ExamRun:
    """A run."""
    return asyncio.run(run_exam(driver(program), chosen(SITUATIONS, only), levels=levels))


def test_there_are_situations_of_every_kind_and_names_are_unique() -> None:
    names = [one.name for one in SITUATIONS]
    assert len(set(names)) == len(names)
    kinds = {one.kind for one in SITUATIONS}
    assert kinds == {"fenced", "end unknown", "middle", "readers", "groups", "liveness"}


@pytest.mark.thorough  # each situation has a cluster of its own, and some wait for a dead broker
@pytest.mark.parametrize("level", [0, 1, 2])
@pytest.mark.parametrize("kind", sorted({one.kind for one in SITUATIONS}))
@pytest.mark.parametrize("program", [YES, YES_WITH_ALL], ids=["ok alone", "ok with all fields"])
def test_a_driver_that_says_ok_to_everything_fails_every_class(
    program: str, kind: str, level: int
) -> None:
    run = played(program, kind, levels=(level,))
    asked = [one.name for one in SITUATIONS if level in one.levels and one.kind == kind]
    assert [one.situation for one in run.results] == asked
    # It may tell no positions, as a library may; where nothing else is asked, that does not apply.
    assert [one.id for one in run.results if one.outcome is Outcome.PASSED] == []
    assert run.count(Outcome.MISSED) > 0


def test_a_driver_that_says_ok_is_caught_in_each_class() -> None:
    quick = ("fenced-by-newer", "commit-lost", "produce-answer-lost", "lag-is-zero",
             "pending-positions-consumer", "endtxn-silent")  # fmt: skip
    run = played(YES, *quick)
    assert [one.outcome for one in run.results] == [Outcome.MISSED] * len(quick)
    assert "but readers do not get" in run.results[1].because[0]
    report = page(run)
    assert 'id="commit-lost@2"' in report
    assert "What was done" in report


def test_no_verdict_knows_who_sits() -> None:
    """Who it is is told in the answer to ``describe`` alone, which goes into reports."""
    exam = Path(run.__file__).parent
    asks = re.compile(r"\.(library|language)\b|\bwho\.|describe\(\)")
    knows = {path.name for path in exam.rglob("*.py") if asks.search(path.read_text())}
    assert knows == {"run.py", "misses.py", "results.py"}
    for plays in (Exam.play, Exam._played, Exam._outcome):
        assert not asks.search(inspect.getsource(plays))


def test_a_driver_that_can_do_nothing_is_not_blamed() -> None:
    run = played(KNOWS_ITS_NAME, "commit-lost")
    assert [one.outcome for one in run.results] == [Outcome.DOES_NOT_APPLY]


@pytest.mark.parametrize(
    ("program", "said"),
    [
        (YES.replace('"contract": 1', '"contract": 7'), "contract 7"),
        (BARE, "describe failed"),
        ("print('hello')", "no answer of the contract"),
        ("pass", "has ended"),
        ("raise ValueError('no such library')", "has ended\n.*\n  ValueError: no such library"),
    ],
)
def test_what_does_not_speak_the_contract_is_refused(program: str, said: str) -> None:
    with pytest.raises(ConfigError, match=re.compile(said, re.DOTALL)):
        played(program)


def test_a_program_that_is_not_there_is_refused() -> None:
    with pytest.raises(ConfigError, match="no-such-program"):
        asyncio.run(run_exam("no-such-program", SITUATIONS, levels=(2,)))


def test_the_core_has_something_of_every_kind() -> None:
    core = chosen(SITUATIONS, core=True)
    assert {one.kind for one in core} == {one.kind for one in SITUATIONS}
    assert len(core) < len(SITUATIONS) / 2


def test_an_unknown_word_names_the_situations() -> None:
    with pytest.raises(ConfigError, match="commit-lost"):
        chosen(SITUATIONS, ["comit"])


def test_known_misses_have_remarks() -> None:
    assert known_misses(["# ours", "commit-late@1  # reported", ""]) == {"commit-late@1"}


def test_a_result_is_known_by_situation_and_level() -> None:
    result = Result(situation="a", kind="middle", level=1, asks="?", outcome=Outcome.PASSED)
    assert result.id == "a@1"


async def test_a_driver_may_listen() -> None:
    async def served(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async for line in reader:
            number = json.loads(line)["id"]
            answer = {"id": number, "ok": True, "contract": 1, "library": "far away"}
            writer.write(json.dumps(answer).encode() + b"\n")
        writer.close()

    async with await asyncio.start_server(served, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        made = await Driver.start(f"tcp://127.0.0.1:{port}")
        assert (await made.describe()).library == "far away"
        await made.end()
    with pytest.raises(ConfigError, match="tcp://"):
        await Driver.start(f"tcp://127.0.0.1:{port}")


def test_where_one_of_two_things_fails_the_other_gives_no_further_command() -> None:
    async def played_together() -> int:
        begun = asyncio.Event()

        async def endless() -> None:
            begun.set()
            await asyncio.Event().wait()

        async def fails() -> None:
            await begun.wait()
            raise MissError("it fails")

        with pytest.raises(MissError, match="it fails"):
            await together(endless(), fails())
        return len(asyncio.all_tasks())

    assert asyncio.run(played_together()) == 1


@pytest.mark.parametrize("raised", [TimeoutError("0 of 1 strikes"), RetriableError("EndTxn")])
def test_what_the_cluster_does_not_do_ends_no_sitting(raised: Exception) -> None:
    async def play(_: Application) -> None:
        raise raised

    broken = situation("broken", "middle", "?")(play)
    [outcome] = asyncio.run(run_exam(driver(KNOWS_ITS_NAME), [broken], levels=(2,))).results
    assert outcome.outcome is Outcome.DOES_NOT_APPLY
    assert str(raised) in outcome.because[0]
