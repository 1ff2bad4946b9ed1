"""Which reads of ``kafka_log`` go to a store; the reads are judged in tests/spark/pipeline."""

from __future__ import annotations

from pathlib import Path

import pytest

from txnsim.errors import BadInputError
from txnsim_spark.options import KafkaLogOptions

pytest.importorskip("pyarrow", reason="the extra spark is not installed")

from txnsim_spark.stores.reading import stores_of
from txnsim_spark.stores.settings import StoreSettings


def test_directories_of_this_machine_ask_for_nothing(tmp_path: Path) -> None:
    settings = StoreSettings(root=str(tmp_path / "root"))
    assert stores_of(None, {"path": str(tmp_path)}) is None
    assert stores_of(settings, {"path": str(tmp_path)}) is None
    assert stores_of(settings, {"path": "s3a://b/x"}) is not None
    assert stores_of(settings, {"path": str(tmp_path / "root" / "s3a" / "b")}) is not None


def test_a_store_is_read_without_a_sessions_settings_where_it_can_tell_none() -> None:
    assert stores_of(None, {"path": "s3a://b/x"}) is not None


def test_what_no_session_has_told_is_refused_with_the_line_to_write() -> None:
    with pytest.raises(BadInputError, match=r"from txnsim_spark import register; register"):
        stores_of(None, {"path": "/data, s3a://b/x"}, is_registered=False)
    options = {"path": "s3a://b/x", "fs.s3a.endpoint": "http://h"}
    assert stores_of(None, options, is_registered=False) is not None
    assert stores_of(None, {"path": "/data"}, is_registered=False) is None


def test_settings_of_hadoops_file_systems_are_taken_with_their_names() -> None:
    options = KafkaLogOptions.of({"path": "s3a://b/x, /data", "fs.s3a.endpoint": "http://h"})
    assert options.uris == ("s3a://b/x",)
    assert options.paths == (Path("/data"),)
    assert options.hadoop == {"fs.s3a.endpoint": "http://h"}
