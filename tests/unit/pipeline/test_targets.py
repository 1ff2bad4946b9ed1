"""Where results are written."""

from __future__ import annotations

from pathlib import Path

import pytest

from txnsim.errors import BadInputError
from txnsim.pipeline.targets import refuse_existing


def test_a_place_that_is_taken_is_refused(tmp_path: Path) -> None:
    refuse_existing(tmp_path / "new", "folder")
    with pytest.raises(BadInputError, match=r"is there already; name another folder$"):
        refuse_existing(tmp_path, "folder")
