"""How a virtual run of a failed test is seen again."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from txnsim.runtime.virtual.process import ADDRESSES, ARRANGED, STRINGS
from txnsim.testing import _repeating as repeating


def item_of(**options: Any) -> Any:
    """A test as pytest describes it, called with options."""
    config = SimpleNamespace(
        invocation_params=SimpleNamespace(dir=Path("/project")),
        getoption=lambda name, default=None: options.get(name, default),
    )
    path = Path("/project/tests/test_shop.py")
    return SimpleNamespace(config=config, nodeid="test_shop.py::test_orders[two words]", path=path)


def config_of(*arguments: str) -> Any:
    params = pytest.Config.InvocationParams(args=arguments, plugins=None, dir=Path())
    return SimpleNamespace(invocation_params=params)


def test_the_command_names_test_seed_and_order() -> None:
    assert repeating.command(item_of(), 7) == (
        "python -m pytest 'tests/test_shop.py::test_orders[two words]' --txnsim-seed=7 "
        "--txnsim-repeatable"
    )
    asked = item_of(markexpr="slow and not real", randomly_seed=5)
    assert repeating.command(asked, 7).split("words]' ")[1] == (
        "-m 'slow and not real' --randomly-seed=5 --txnsim-seed=7 --txnsim-repeatable"
    )
    assert "randomly" not in repeating.command(item_of(randomly_seed="default"), 7)


def test_the_section_says_what_stands_against_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repeating, "limits_of_process", lambda: (STRINGS, ADDRESSES))
    title, text = repeating.section(item_of(), 7)
    assert title == "txnsim: see it again"
    assert text.splitlines()[0] == "virtual time, seed 7"
    assert text.splitlines()[2:] == [
        f"this process was not arranged: {STRINGS}",
        f"this process was not arranged: {ADDRESSES}",
    ]
    monkeypatch.setattr(repeating, "limits_of_process", tuple)
    assert len(repeating.section(item_of(), 7)[1].splitlines()) == 2


def test_the_header_says_whether_runs_repeat() -> None:
    assert repeating.header(()) == "txnsim: virtual runs repeat in every process"
    assert repeating.header((STRINGS,)).endswith(f"may not repeat in another process: {STRINGS}")


def test_pytest_starts_again_where_it_is_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[str] = []
    monkeypatch.setattr(repeating, "arrange_process", lambda: started.append("again"))
    monkeypatch.setattr(repeating, "limits_of_process", lambda: (STRINGS,))
    monkeypatch.delenv(ARRANGED, raising=False)
    with pytest.raises(pytest.UsageError, match="arrange_process"):
        repeating.arrange(config_of("of", "another", "program"))
    assert started == []
    repeating.arrange(config_of(*sys.argv[1:]))
    assert started == ["again"]
    monkeypatch.setitem(os.environ, ARRANGED, "1")
    repeating.arrange(config_of("of", "another", "program"))
    monkeypatch.delenv(ARRANGED)
    monkeypatch.setattr(repeating, "limits_of_process", tuple)
    repeating.arrange(config_of("of", "another", "program"))
    assert started == ["again"]
