"""The words of a Fetch: which errors say that there is no such partition."""

from __future__ import annotations

import pytest

from txnsim.errors import ErrorCode
from txnsim.replica.fetch_values import FetchOutcome

MISSING = (ErrorCode.unknown_topic_id, ErrorCode.unknown_topic_or_partition)


@pytest.mark.parametrize("error", list(ErrorCode))
def test_a_partition_is_missing_where_the_metadata_does_not_know_it(error: ErrorCode) -> None:
    assert FetchOutcome(error=error).is_missing is (error in MISSING)
