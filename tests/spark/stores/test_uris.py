"""Which paths lie in an object store."""

from __future__ import annotations

import errno
import os

import pytest

from txnsim.errors import BadInputError
from txnsim_spark.stores.uris import is_in_object_store, refuse_outage, regex_of


@pytest.mark.parametrize("text", ["s3a://bucket/a", "s3://bucket/*", "gs://bucket/a"])
def test_object_stores_have_what_bears_their_scheme(text: str) -> None:
    assert is_in_object_store(text)


@pytest.mark.parametrize("text", ["hdfs://h:9000/a", "hdfs:/a", "abfs://c@account/a"])
def test_what_nobody_reads_is_refused_with_the_way_round(text: str) -> None:
    with pytest.raises(BadInputError, match=r"is not read here.* hdfs dfs -get"):
        is_in_object_store(text)


@pytest.mark.parametrize("text", ["/data", "a:b/*", "/data/*", "file:///data/*", "orders-0"])
def test_directories_of_this_machine_are_not(text: str) -> None:
    assert not is_in_object_store(text)


@pytest.mark.parametrize(
    ("pattern", "matching", "not_matching"),
    [
        ("broker-*", ["broker-1", "broker-"], ["a-broker-1", "broker"]),
        ("b?.log", ["b1.log"], ["b.log", "bxlog"]),
        ("broker-[1-3]", ["broker-2"], ["broker-4"]),
        ("broker-[^1]", ["broker-2"], ["broker-1"]),
        ("{a,b-*}-{0,1}", ["a-0", "b-x-1"], ["a-2", "b-1"]),
        ("a,b", ["a,b"], ["a"]),
    ],
)
def test_a_pattern_fits_what_hadoops_would(
    pattern: str, matching: list[str], not_matching: list[str]
) -> None:
    regex = regex_of(pattern)
    assert all(map(regex.fullmatch, matching))
    assert not any(map(regex.fullmatch, not_matching))


def test_a_store_that_does_not_answer_ends_a_read_and_a_file_that_can_t_be_read_does_not() -> None:
    for code, file in ((errno.EIO, "/data/a"), (errno.EACCES, "s3a://b/a"), (errno.ENOENT, None)):
        refuse_outage(OSError(code, os.strerror(code), file))
    with pytest.raises(BadInputError, match="s3a://b/a: connection refused"):
        refuse_outage(OSError(errno.EIO, "connection refused", "s3a://b/a"))
