from __future__ import annotations

import sys
import textwrap

import pytest

from txnsim.errors import ClientError
from txnsim.types import TopicPartition
from txnsim_lab.scenario.players import _program as program
from txnsim_lab.scenario.players._base import Part
from txnsim_lab.scenario.players._program import ProgramPlayer, words

P3 = TopicPartition("payments", 3)
PART = Part(
    bootstrap="127.0.0.1:1",
    transactional_id="app",
    client_id="late-producer",
    topic="payments",
    partition=3,
    now_ms=17,
)


def player(script: str) -> ProgramPlayer:
    return ProgramPlayer(PART, command=(sys.executable, "-c", textwrap.dedent(script)))


async def test_a_program_is_told_its_part_and_tells_what_it_sees() -> None:
    told = player(
        """
        import json, sys
        assert sys.argv[1:] == ["127.0.0.1:1", "app", "payments", "3", "17"], sys.argv
        assert sys.stdin.read() == ""
        for event in "initialized", "produce-failed", "aborted":
            print(json.dumps({"client": "test", "event": event, "more": 1}), flush=True)
        sys.exit(1)
        """
    )
    await told.begin()
    await told.send("late", P3)
    await told.give_up()
    assert told.name == "test"
    await told.abort()
    await told.close()
    assert told.remarks() == ()


@pytest.mark.parametrize(
    ("script", "error"),
    [
        ("""print('{"event": "produced", "client": "x"}')""", "x said 'produced', not 'produce-f"),
        (
            """print('{"event": "abort-failed", "error": "no"}')""",
            "said 'abort-failed', not 'produce-failed': no",
        ),
        ("print('hello')", r"said b'hello\\n': JSON is malformed"),
        ("print('[]')", "Expected `object`"),
        ("pass", "ended before it said 'produce-failed'"),
    ],
)
async def test_what_does_not_fit_the_story_is_an_error(script: str, error: str) -> None:
    odd = player(script)
    await odd.send("late", P3)
    with pytest.raises(ClientError, match=error):
        await odd.give_up()
    await odd.close()


async def test_an_acknowledgement_is_waited_for_as_well() -> None:
    prompt = player("""print('{"event": "produced"}')""")
    await prompt.send("late", P3)
    assert await prompt.await_ack() == -1
    with pytest.raises(ClientError, match="aborts, and can't commit"):
        await prompt.commit()
    await prompt.close()


async def test_a_program_that_says_nothing_and_does_not_end_is_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(program, "LINE_TIMEOUT_SECONDS", 0.05)
    monkeypatch.setattr(program, "END_TIMEOUT_SECONDS", 0.05)
    silent = player("import threading; threading.Event().wait()")
    await silent.close()  # harmless before it was started
    await silent.send("late", P3)
    with pytest.raises(ClientError, match=r"did not say 'aborted' within 0\.05 s"):
        await silent.abort()
    await silent.close()


def test_a_command_line_is_split_as_a_shell_would() -> None:
    assert words(f"'{sys.executable}' -c 'a b'") == (sys.executable, "-c", "a b")
