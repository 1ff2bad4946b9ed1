from __future__ import annotations

import sys
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location

import pytest

from txnsim import old_module_names


@pytest.fixture(autouse=True)
def old_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """The module once more, with an old name of its own: the one of txnsim has been at work since
    the first import.
    """
    spec = spec_from_file_location("moved_once_more", old_module_names.__file__)
    assert spec is not None
    assert spec.loader is not None
    reloaded_module = module_from_spec(spec)
    spec.loader.exec_module(reloaded_module)
    monkeypatch.setattr(reloaded_module, "MOVED", {"txnsim.old": "txnsim.faults"})
    monkeypatch.setattr(sys, "meta_path", sys.meta_path.copy())
    reloaded_module.install()
    for name in ("txnsim.old", "txnsim.old.plan", "txnsim.old.nothing"):
        monkeypatch.delitem(sys.modules, name, raising=False)


def test_an_old_name_is_the_same_module() -> None:
    plan_module = import_module("txnsim.faults.plan")
    assert import_module("txnsim.old.plan") is plan_module
    assert import_module("txnsim.old") is import_module("txnsim.faults")
    assert plan_module.__spec__ is not None
    assert plan_module.__spec__.name == plan_module.__name__ == "txnsim.faults.plan"


def test_what_is_nowhere_is_missed_under_its_new_name() -> None:
    with pytest.raises(ModuleNotFoundError, match=r"'txnsim\.faults\.nothing'"):
        import_module("txnsim.old.nothing")
    with pytest.raises(ModuleNotFoundError, match=r"'txnsim\.nowhere'"):
        import_module("txnsim.nowhere")
