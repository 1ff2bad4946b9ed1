"""Places that stand for those of a store; stores themselves: tests/pipeline/test_stores.py."""

from __future__ import annotations

from pathlib import Path
from typing import NoReturn

import pytest

from txnsim.pipeline.hadoop.mirror import Mirror
from txnsim.pipeline.hadoop.settings import HadoopSettings


@pytest.mark.parametrize(
    ("uri", "place", "shown"),
    [
        ("s3a://logs/kafka/broker-1", "s3a/logs/kafka/broker-1", "s3a://logs/kafka/broker-1"),
        ("hdfs://h:9000/a/", "hdfs/h:9000/a", "hdfs://h:9000/a"),
        ("file:///data/x", "file/-/data/x", "file:///data/x"),
        ("file:/data/x", "file/-/data/x", "file:///data/x"),
    ],
)
def test_a_place_is_shown_as_the_store_has_it(
    uri: str, place: str, shown: str, tmp_path: Path
) -> None:
    mirror = Mirror(HadoopSettings(root=str(tmp_path), xml=b""), nobody)
    found = mirror.place_of(uri)
    assert found == tmp_path / place
    assert mirror.has(found)
    assert mirror.shown(f"{found}/a: torn; {found}") == f"{shown}/a: torn; {shown}"


def test_other_places_are_left_as_they_are(tmp_path: Path) -> None:
    mirror = Mirror(HadoopSettings(root=str(tmp_path / "root"), xml=b""), nobody)
    assert not mirror.has(tmp_path)
    assert mirror.shown(str(tmp_path)) == str(tmp_path)
    mirror.fill([tmp_path / "none"])


def nobody() -> NoReturn:
    raise AssertionError("no store is asked")
