"""Programs that play parts of stories, ours and others'."""

from __future__ import annotations

import sys
import textwrap

import pytest

from tests.support.clusters import real_cluster
from txnsim.errors import ClientError, ConfigError, MissingExtraError
from txnsim.types import TopicPartition
from txnsim_lab.scenario import catalog
from txnsim_lab.scenario.players import casting as program
from txnsim_lab.scenario.players._base import (
    DELIVERY_TIMEOUT_MS,
    PLAYERS,
    REQUEST_TIMEOUT_MS,
    PlayerPart,
)
from txnsim_lab.scenario.players.casting import Cast, Casting, OwnPlayer, ProgramPlayer, cast, words

PART = PlayerPart(
    bootstrap="127.0.0.1:1",
    transactional_id="app",
    client_id="late-producer",
    topic="payments",
    partition=0,
    now_ms=1,
)
KAFKA_PYTHON = "txnsim_lab.scenario.players._kafka_python"


@pytest.fixture
def without_kafka_python(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, KAFKA_PYTHON, raising=False)
    monkeypatch.setitem(sys.modules, "kafka", None)


@pytest.fixture
def with_kafka_python() -> None:
    pytest.importorskip("kafka", reason="the extra `demo` is not installed")


ABLE = {
    "V-": ("kafka-python", "own"),
    "V+": ("kafka-python", "own"),
    "TV2": ("own",),
}


def cast_player(mode: str, casting: Casting | None = None) -> Cast:
    return cast(ABLE[mode], casting or Casting(), run_name=f"late {mode}")


@pytest.mark.usefixtures("with_kafka_python")
def test_a_stock_client_plays_where_it_can_and_ours_elsewhere() -> None:
    from txnsim_lab.scenario.players._kafka_python import KafkaPythonPlayer

    assert cast_player("V-").make is cast_player("V+").make is KafkaPythonPlayer
    assert cast_player("TV2").make is OwnPlayer
    assert {cast_player(mode).remark for mode in ("V-", "V+", "TV2")} == {""}
    assert cast_player("V-", Casting(player="kafka-python")).make is KafkaPythonPlayer


@pytest.mark.usefixtures("without_kafka_python")
def test_ours_steps_in_where_the_stock_client_is_not_installed_and_says_so() -> None:
    stand_in_cast = cast_player("V-")
    assert stand_in_cast.make is OwnPlayer
    assert "kafka-python would play if installed" in stand_in_cast.remark
    assert "pip install '.[demo]'" in stand_in_cast.remark
    assert cast_player("TV2").remark == ""  # there it is the first choice


@pytest.mark.usefixtures("without_kafka_python")
def test_a_wish_for_what_is_not_installed_is_refused() -> None:
    with pytest.raises(MissingExtraError, match=r"pip install '\.\[demo\]'"):
        cast_player("V-", Casting(player="kafka-python"))

    with pytest.raises(MissingExtraError, match="no client library that can play is installed"):
        cast(("kafka-python",), Casting(), run_name="late V-")


def test_wishes_are_granted_or_refused_by_name() -> None:
    assert cast_player("V-", Casting(player="own")).make is OwnPlayer
    with pytest.raises(ConfigError, match="no player 'kafka'; did you mean kafka-python"):
        cast_player("V-", Casting(player="kafka"))
    with pytest.raises(ConfigError, match="kafka-python can't play in late TV2; own can"):
        cast_player("TV2", Casting(player="kafka-python"))


def test_a_program_plays_in_every_mode() -> None:
    for mode in ABLE:
        cast = cast_player(mode, Casting(program=f"{sys.executable} -c 'x y'"))
        assert cast.program
        player = cast.make(PART)
        assert isinstance(player, ProgramPlayer)
        assert player.name == "x y"


@pytest.mark.parametrize("command", ["", "no-such-program-anywhere x", "unbalanced 'quote"])
def test_a_program_that_is_not_there_is_refused_at_once(command: str) -> None:
    with pytest.raises(ConfigError, match=r"^program "):
        cast_player("V-", Casting(program=command))


def test_any_library_can_play_whose_player_is_brought_along() -> None:
    cast = cast_player("TV2", Casting(make=OwnPlayer))
    assert cast.make is OwnPlayer
    assert not cast.program


P3 = TopicPartition("payments", 3)
PROGRAM_PART = PlayerPart(
    bootstrap="127.0.0.1:1",
    transactional_id="app",
    client_id="late-producer",
    topic="payments",
    partition=3,
    now_ms=17,
)


def player(script: str) -> ProgramPlayer:
    return ProgramPlayer(PROGRAM_PART, command=(sys.executable, "-c", textwrap.dedent(script)))


async def test_a_program_is_told_its_part_and_tells_what_it_sees() -> None:
    program_player = player(
        """
        import json, sys
        assert sys.argv[1:] == ["127.0.0.1:1", "app", "payments", "3", "17"], sys.argv
        assert sys.stdin.read() == ""
        for event in "initialized", "produce-failed", "aborted":
            print(json.dumps({"client": "test", "event": event, "more": 1}), flush=True)
        sys.exit(1)
        """
    )
    await program_player.begin()
    await program_player.send("late", P3)
    await program_player.give_up()
    assert program_player.name == "test"
    await program_player.abort()
    await program_player.close()
    assert program_player.remarks() == ()


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
    odd_player = player(script)
    await odd_player.send("late", P3)
    with pytest.raises(ClientError, match=error):
        await odd_player.give_up()
    await odd_player.close()


async def test_an_acknowledgement_is_waited_for_as_well() -> None:
    prompt_player = player("""print('{"event": "produced"}')""")
    await prompt_player.send("late", P3)
    assert await prompt_player.await_ack() == -1
    with pytest.raises(ClientError, match="aborts, and can't commit"):
        await prompt_player.commit()
    await prompt_player.close()


async def test_a_program_that_says_nothing_and_does_not_end_is_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(program, "LINE_TIMEOUT_SECONDS", 0.05)
    monkeypatch.setattr(program, "END_TIMEOUT_SECONDS", 0.05)
    silent_player = player("import threading; threading.Event().wait()")
    await silent_player.close()  # harmless before it was started
    await silent_player.send("late", P3)
    with pytest.raises(ClientError, match=r"did not say 'aborted' within 0\.05 s"):
        await silent_player.abort()
    await silent_player.close()


def test_a_command_line_is_split_as_a_shell_would() -> None:
    assert words(f"'{sys.executable}' -c 'a b'") == (sys.executable, "-c", "a b")


P0 = TopicPartition("orders", 0)


async def test_our_client_plays_whole_transactions_and_logs_nothing() -> None:
    async with real_cluster() as cluster:
        player = OwnPlayer(
            PlayerPart(
                bootstrap=cluster.bootstrap,
                transactional_id="app",
                client_id="shop",
                topic="orders",
                partition=0,
                now_ms=0,
            )
        )
        await player.begin()
        await player.send("x", P0)
        assert await player.await_ack() == 0
        with pytest.raises(ClientError, match="acknowledged though its request is held"):
            await player.give_up()
        await player.abort()
        await player.begin()
        await player.send("y", P0)
        assert await player.await_ack() == 2
        await player.commit()
        assert player.remarks() == ()
        await player.close()


def test_a_delivery_takes_longer_than_an_attempt() -> None:
    """kafka-python refuses a delivery timeout below the request timeout."""
    assert DELIVERY_TIMEOUT_MS > REQUEST_TIMEOUT_MS


def test_every_player_plays_somewhere_and_ours_everywhere() -> None:
    able = [
        actor.players
        for scenario in catalog.scenarios().values()
        for actor in scenario.actors.values()
        if actor.plays == "application"
    ]
    assert {player_name for players in able for player_name in players} == set(PLAYERS)
    assert all("own" in players for players in able)
