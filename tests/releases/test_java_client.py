"""The Java client of 4.3.1 against older releases: what works, and what it says it cannot do."""

from __future__ import annotations

import subprocess
from typing import Final

import pytest

from tests.support.foreign_clients import java_program
from tests.support.txnsim_server import TxnsimServer

pytestmark = pytest.mark.real

PATTERN: Final = "admin-list-transactions"
"""By a pattern of transactional ids: since 4.1 (KIP-1152)."""
DESCRIBES: Final = frozenset(
    {
        PATTERN,
        "transaction-over-all-brokers",
        "timed-out-transaction-is-aborted",
        "transactions-v2-iff-transaction-version-is-2",
        "admin-describe-transactions",
        "admin-describe-producers",
        "admin-abort-transaction",
        "admin-fence-producers",
        "admin-force-terminate-transaction",
    }
)
"""These checks look into transactions by DescribeTransactions or ListTransactions: since 3.0
(KIP-664).
"""


@pytest.mark.parametrize(
    ("release", "level", "lacking"),
    [
        ("2.8", 0, DESCRIBES),
        ("3.6", 0, {PATTERN}),
        ("3.9", 0, {PATTERN}),
        ("4.0", 2, {PATTERN}),
        ("4.1", 2, frozenset()),
    ],
)
def test_java_client(release: str, level: int, lacking: frozenset[str]) -> None:
    arguments = ("--http", "0", "--as-version", release)
    with TxnsimServer(transaction_version=level, arguments=arguments) as server:
        command = [*java_program("ClientCheck"), server.bootstrap, str(level)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=280, check=False)
    lines = done.stdout.splitlines()
    passed = {line.removeprefix("PASS ") for line in lines if line.startswith("PASS ")}
    failed = {
        line.removeprefix("FAIL ").partition(":")[0]: line
        for line in lines
        if line.startswith("FAIL ")
    }
    assert set(failed) == lacking, done.stdout
    assert all("UnsupportedVersionException" in line for line in failed.values()), failed
    assert {"second-producer-fences-the-first", "commit-shows-records-to-read-committed"} <= passed
