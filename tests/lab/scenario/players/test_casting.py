from __future__ import annotations

import sys

import pytest

from txnsim.errors import ConfigError, MissingExtraError
from txnsim_lab.scenario.players._base import Part
from txnsim_lab.scenario.players._own import OwnPlayer
from txnsim_lab.scenario.players._program import ProgramPlayer
from txnsim_lab.scenario.players.casting import Cast, Casting, cast

PART = Part(
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


def chosen(mode: str, casting: Casting | None = None) -> Cast:
    return cast(ABLE[mode], casting or Casting(), where=f"late {mode}")


@pytest.mark.usefixtures("with_kafka_python")
def test_a_stock_client_plays_where_it_can_and_ours_elsewhere() -> None:
    from txnsim_lab.scenario.players._kafka_python import KafkaPythonPlayer

    assert chosen("V-").make is chosen("V+").make is KafkaPythonPlayer
    assert chosen("TV2").make is OwnPlayer
    assert {chosen(mode).remark for mode in ("V-", "V+", "TV2")} == {""}
    assert chosen("V-", Casting(player="kafka-python")).make is KafkaPythonPlayer


@pytest.mark.usefixtures("without_kafka_python")
def test_ours_steps_in_where_the_stock_client_is_not_installed_and_says_so() -> None:
    stand_in = chosen("V-")
    assert stand_in.make is OwnPlayer
    assert "kafka-python would play if installed" in stand_in.remark
    assert "pip install '.[demo]'" in stand_in.remark
    assert chosen("TV2").remark == ""  # there it is the first choice


@pytest.mark.usefixtures("without_kafka_python")
def test_a_wish_for_what_is_not_installed_is_refused() -> None:
    with pytest.raises(MissingExtraError, match=r"pip install '\.\[demo\]'"):
        chosen("V-", Casting(player="kafka-python"))

    with pytest.raises(MissingExtraError, match="no client library that can play is installed"):
        cast(("kafka-python",), Casting(), where="late V-")


def test_wishes_are_granted_or_refused_by_name() -> None:
    assert chosen("V-", Casting(player="own")).make is OwnPlayer
    with pytest.raises(ConfigError, match="no player 'kafka'; did you mean kafka-python"):
        chosen("V-", Casting(player="kafka"))
    with pytest.raises(ConfigError, match="kafka-python can't play in late TV2; own can"):
        chosen("TV2", Casting(player="kafka-python"))


def test_a_program_plays_in_every_mode() -> None:
    for mode in ABLE:
        found = chosen(mode, Casting(program=f"{sys.executable} -c 'x y'"))
        assert found.program
        player = found.make(PART)
        assert isinstance(player, ProgramPlayer)
        assert player.name == "x y"


@pytest.mark.parametrize("command", ["", "no-such-program-anywhere x", "unbalanced 'quote"])
def test_a_program_that_is_not_there_is_refused_at_once(command: str) -> None:
    with pytest.raises(ConfigError, match=r"^program "):
        chosen("V-", Casting(program=command))


def test_any_library_can_play_whose_player_is_brought_along() -> None:
    found = chosen("TV2", Casting(make=OwnPlayer))
    assert found.make is OwnPlayer
    assert not found.program
