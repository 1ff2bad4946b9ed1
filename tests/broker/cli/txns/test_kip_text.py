"""The words of the texts; both listeners of a cluster: tests/broker/kip_text/test_client.py."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from txnsim.cli._txns.kip_text import UNKNOWN, DescribeWithDuration, rewrite, split_at_commas
from txnsim.cli.output import Output
from txnsim.client.inspection.txn_views import TransactionDescription


@pytest.mark.parametrize(
    ("flag_words", "meant"),
    [
        ("txns --list", "txns --list"),
        ("txns --kip-text list", "txns --kip-text list"),
        ("txns --kip-text --list", "txns list --kip-text"),
        ("txns --kip-text --describe --topic t", "txns describe-producers --kip-text --topic t"),
        (
            "txns --kip-text --describe --transactional-id t",
            "txns describe --kip-text --transactional-id t",
        ),
        ("txns --abort --kip-text --topic t", "txns abort --kip-text --topic t"),
    ],
)
def test_a_flag_becomes_a_command(flag_words: str, meant: str) -> None:
    assert rewrite(flag_words.split()) == meant.split()


def test_lists_are_separated_by_commas() -> None:
    assert split_at_commas(None) == split_at_commas("") == ()
    assert split_at_commas("Ongoing, Empty,") == ("Ongoing", "Empty")


class ShippedDescription(msgspec.Struct, frozen=True):
    """Stands for the shipped ``describe`` command: its output has the given description."""

    found: TransactionDescription

    async def execute(self, _admin: object, *, now_ms: int) -> Output:
        return Output(
            headers=("TransactionDurationMs", "TopicPartitions"),
            rows=(("grows", "t-0"),),
            values=self.found,
        )


@pytest.mark.parametrize(
    ("state", "start_ms", "update_ms", "duration_ms", "told_start", "seconds"),
    [
        ("Ongoing", 1_000, None, 8_500, "1000", "8"),
        ("PrepareCommit", 1_000, 4_000, 8_500, "1000", "8"),
        ("CompleteCommit", 1_000, 4_200, 3_200, "-1", "3"),
        ("CompleteAbort", 1_000, None, UNKNOWN, "-1", "-1"),
        ("Empty", None, 4_000, UNKNOWN, "-1", "-1"),
    ],
)
def test_a_duration_ends_with_its_transaction(
    state: str,
    start_ms: int | None,
    update_ms: int | None,
    duration_ms: int,
    told_start: str,
    seconds: str,
) -> None:
    description = TransactionDescription(
        coordinator_id=1,
        transactional_id="t",
        state=state,
        producer_id=1,
        producer_epoch=0,
        timeout_ms=60_000,
        start_time_ms=start_ms,
        partitions=(),
        last_update_time_ms=update_ms,
    )
    nobody: Any = None
    output = asyncio.run(
        DescribeWithDuration(shipped=ShippedDescription(description)).execute(nobody, now_ms=9_500)
    )
    assert dict(zip(output.headers, output.rows[0], strict=True)) == {
        "TransactionDurationMs": str(duration_ms),
        "TopicPartitions": "t-0",
        "CurrentTxnStartTimestamp": told_start,
        "Duration(s)": seconds,
        "TransactionLastUpdateTimeMs": str(UNKNOWN if update_ms is None else update_ms),
    }
