"""The plugin is nearly nothing for those who don't use it. What it does for those who do is in
tests/lab/plugin.
"""

from __future__ import annotations

import subprocess
import sys

import pytest

from txnsim.testing import plugin

PROGRAM = """
import sys
import pytest
before = set(sys.modules)
import txnsim.testing.plugin
print(*sorted(name for name in set(sys.modules) - before if not name.startswith("_")))
"""


def test_it_imports_nothing_but_itself() -> None:
    loaded = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    assert loaded == [
        *("txnsim", "txnsim.extensions", "txnsim.moved"),
        *("txnsim.testing", "txnsim.testing.plugin"),
    ]


def test_pytest_finds_it_by_its_entry_point(pytestconfig) -> None:
    assert pytestconfig.pluginmanager.get_plugin("txnsim") is plugin


def test_modules_are_imported_as_pip_has_compiled_them(
    pytestconfig: pytest.Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    rewriting = pytestconfig.pluginmanager.rewrite_hook
    before = list(sys.meta_path)
    assert rewriting in before
    with plugin._as_installed(pytestconfig):
        assert sys.meta_path == [one for one in before if one is not rewriting]
    assert sys.meta_path == before
    monkeypatch.setattr(sys, "meta_path", [one for one in before if one is not rewriting])
    with plugin._as_installed(pytestconfig):  # --assert=plain
        assert rewriting not in sys.meta_path
