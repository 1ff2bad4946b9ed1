"""Where results are written."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from txnsim.errors import BadInputError
from txnsim_spark.targets import refuse_existing, written_by_spark


def test_a_place_that_is_taken_is_refused(tmp_path: Path) -> None:
    refuse_existing(tmp_path / "new", "folder")
    with pytest.raises(BadInputError, match=r"is there already; name another folder$"):
        refuse_existing(tmp_path, "folder")


def test_a_disk_that_is_full_for_spark_is_named_as_for_python() -> None:
    said = "Job aborted.\nCaused by: java.io.IOException: No space left on device"
    with (
        pytest.raises(OSError, match=r"device: .out, or a temporary") as caught,
        written_by_spark("out"),
    ):
        raise RuntimeError(said)
    assert caught.value.errno == errno.ENOSPC
    with pytest.raises(RuntimeError, match="another"), written_by_spark("out"):
        raise RuntimeError("another")
