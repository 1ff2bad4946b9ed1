from __future__ import annotations

import sys
from importlib import import_module

import pytest

from txnsim import moved


@pytest.fixture(autouse=True)
def old_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(moved, "MOVED", {"txnsim.old": "txnsim.faults"})
    for name in ("txnsim.old", "txnsim.old.plan", "txnsim.old.nothing"):
        monkeypatch.delitem(sys.modules, name, raising=False)


def test_an_old_name_is_the_same_module() -> None:
    plan = import_module("txnsim.faults.plan")
    assert import_module("txnsim.old.plan") is plan
    assert import_module("txnsim.old") is import_module("txnsim.faults")
    assert plan.__spec__ is not None
    assert plan.__spec__.name == plan.__name__ == "txnsim.faults.plan"


def test_what_is_nowhere_is_missed_under_its_new_name() -> None:
    with pytest.raises(ModuleNotFoundError, match=r"'txnsim\.faults\.nothing'"):
        import_module("txnsim.old.nothing")
    with pytest.raises(ModuleNotFoundError, match=r"'txnsim\.nowhere'"):
        import_module("txnsim.nowhere")
