"""The public names: what somebody else's code may import. docs/public-api.md lists them, and
tests/test_docs.py sees that the page is current.
"""

from __future__ import annotations

import importlib

import pytest

from tests.support.public_api import first_sentence, sections, shown_names, shown_rows
from tests.test_tidy import ROOT, source


@pytest.mark.parametrize("module_name", list(sections()))
def test_a_public_module_has_each_name_that_it_lists_and_says_what_it_is(module_name: str) -> None:
    imported_module = importlib.import_module(module_name)
    assert len(imported_module.__all__) == len(set(imported_module.__all__)) > 0
    silent_modules = [
        field_name
        for field_name in imported_module.__all__
        if not first_sentence(getattr(imported_module, field_name))
    ]
    assert silent_modules == []


def test_what_pages_import_is_there_and_says_what_it_is() -> None:
    assert ("txnsim.client.inspection.survey", "survey") in shown_names(), "an import"
    assert ("txnsim_lab.check.judge", "") in shown_names(), "a module between backticks"
    rows = list(shown_rows())
    assert len(rows) == len(set(rows)) > 0
    assert [name for name, meaning in rows if not meaning] == []


@pytest.mark.parametrize("module_name", ["txnsim.client", "txnsim_spark", "txnsim.testing"])
def test_a_name_that_is_not_there_is_an_attribute_error(module_name: str) -> None:
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        _ = importlib.import_module(module_name).Nothing


def test_the_package_tells_users_that_it_is_typed() -> None:
    assert (ROOT / "sim/txnsim/py.typed").exists()
    assert "Typing :: Typed" in source("pyproject.toml")
