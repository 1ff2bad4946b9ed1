"""What is said where the extra is missing."""

from __future__ import annotations

import pytest

from txnsim import extensions
from txnsim.errors import MissingExtraError
from txnsim_spark import libraries


def test_libraries_that_are_there_are_enough() -> None:
    libraries.require_libraries()


@pytest.mark.parametrize("missing", ["numba", "pyarrow", "jinja2"])
def test_one_that_is_missing_is_named_with_the_way_to_get_it(
    missing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(extensions, "find_spec", lambda name: None if name == missing else name)
    with pytest.raises(MissingExtraError, match=r"pip install '\.\[spark\]'"):
        libraries.require_libraries("jinja2")
