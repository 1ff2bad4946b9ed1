"""Settings on their way to a worker."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from txnsim_spark.stores.settings import StoreSettings, class_path


def test_a_class_path_has_what_is_on_this_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("pyspark", reason="the extra spark is not installed")
    jar = tmp_path / "a.jar"
    jar.touch()
    monkeypatch.setenv("SPARK_HOME", "/spark")
    monkeypatch.delenv("HADOOP_CONF_DIR", raising=False)
    monkeypatch.delenv("SPARK_CONF_DIR", raising=False)
    settings = StoreSettings(root="/r", xml=b"", jars=(str(jar), "/none/b.jar", "/opt/*"))
    assert class_path(settings) == [str(jar), "/opt/*", "/spark/jars/*"]


def test_settings_go_to_a_worker_as_they_are() -> None:
    settings = StoreSettings(root="/r", xml=b"packed", jars=("a.jar",))
    packed = msgspec.msgpack.encode(settings)
    assert msgspec.msgpack.decode(packed, type=StoreSettings) == settings


def test_a_later_setting_counts() -> None:
    first = StoreSettings(root="/r").with_conf({"fs.a": "1", "fs.b": "<&>"})
    assert first.with_conf({"fs.a": "2"}).conf == {"fs.a": "2", "fs.b": "<&>"}
    assert first.reaches_as(msgspec.structs.replace(first, listed_ms=9))
    assert not first.reaches_as(first.with_conf({"fs.a": "2"}))
