"""Where very many seeds are played: ``--engine`` and what belongs to it."""

from __future__ import annotations

import argparse
from contextlib import ExitStack

import pytest

from txnsim.errors import ConfigError
from txnsim_lab.cli._simulating.engines import LOCAL_ENGINE, add_engine_options, engine_starter


def arguments(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    add_engine_options(parser)
    return parser.parse_args(words)


def test_this_machine_plays_unless_an_engine_is_named() -> None:
    args = arguments()
    assert args.engine == LOCAL_ENGINE
    assert engine_starter(args, ExitStack()) is None


def test_an_engine_is_started_when_it_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    from txnsim_spark import campaign_engine

    started: list[str] = []

    class Engine(ExitStack):
        """Stands for a session of Spark."""

        def __init__(self, args: argparse.Namespace) -> None:
            super().__init__()
            started.append(args.master)

    monkeypatch.setattr(campaign_engine, "engine", Engine)
    with ExitStack() as exit_stack:
        args = arguments("--engine", "spark", "--master", "local[2]")
        start_engine = engine_starter(args, exit_stack)
        assert start_engine is not None
        assert not started
        start_engine()
        assert started == ["local[2]"]


def test_a_master_needs_its_engine() -> None:
    with pytest.raises(ConfigError, match="--master needs --engine spark"):
        engine_starter(arguments("--master", "local[2]"), ExitStack())
