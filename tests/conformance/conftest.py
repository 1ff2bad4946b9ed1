"""The cases are judged in the order in which they are played, so that no test waits for others."""

from __future__ import annotations

import pytest


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the plays of ``test_cases.py`` in order, on the places that chance gave them."""
    places = [place for place, item in enumerate(items) if item.path.name == "test_cases.py"]
    in_order = sorted((items[place] for place in places), key=_number)
    for place, item in zip(places, in_order, strict=True):
        items[place] = item


def _number(item: pytest.Item) -> int:
    """Its place among the parameters; tests without any come first."""
    call = getattr(item, "callspec", None)
    return -1 if call is None else int(call.indices["case"])
