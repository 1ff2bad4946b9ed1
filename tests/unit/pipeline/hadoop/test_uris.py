"""Which paths Hadoop's file system reads."""

from __future__ import annotations

import pytest

from txnsim.pipeline.hadoop.uris import is_elsewhere


@pytest.mark.parametrize(
    "text", ["s3a://bucket/a", "hdfs://h:9000/a", "hdfs:/a", "file:///data/*/logs", "file:/d/[ab]"]
)
def test_what_has_a_scheme_and_patterns_of_files_are_hadoops(text: str) -> None:
    assert is_elsewhere(text)


@pytest.mark.parametrize("text", ["/data", "a:b/*", "/data/*", "file:///data/logs", "orders-0"])
def test_directories_of_this_machine_are_not(text: str) -> None:
    assert not is_elsewhere(text)
