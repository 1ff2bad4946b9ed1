"""Settings on their way to a worker."""

from __future__ import annotations

import msgspec

from txnsim_spark.stores.settings import StoreSettings


def test_settings_go_to_a_worker_as_they_are() -> None:
    settings = StoreSettings(root="/r", conf={"fs.a": "1"})
    packed_settings = msgspec.msgpack.encode(settings)
    assert msgspec.msgpack.decode(packed_settings, type=StoreSettings) == settings


def test_a_later_setting_counts() -> None:
    first_settings = StoreSettings(root="/r").with_conf({"fs.a": "1", "fs.b": "<&>"})
    assert first_settings.with_conf({"fs.a": "2"}).conf == {"fs.a": "2", "fs.b": "<&>"}
    assert first_settings.reaches_as(msgspec.structs.replace(first_settings, listed_ms=9))
    assert not first_settings.reaches_as(first_settings.with_conf({"fs.a": "2"}))
