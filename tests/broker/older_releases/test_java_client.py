"""The Java client of 4.3.1 against older releases: what works, and what it says it cannot do."""

from __future__ import annotations

import os
import re
import subprocess
from typing import Final

import pytest

from tests.support.foreign_clients import java_program
from tests.support.txnsim_server import TxnsimServer

pytestmark = pytest.mark.real

PATTERN: Final = "java-admin-list-transactions-by-age-and-pattern"
"""By a pattern of transactional ids: since 4.1 (KIP-1152)."""
BEFORE_4_0: Final = frozenset(
    {PATTERN, "java-rebalance-consumer-protocol", "java-transform-consumer-protocol"}
)
"""Beside the pattern, the consumer protocol: of use since 4.0 (KIP-848)."""
BEFORE_3_0: Final = BEFORE_4_0 | {
    "admin",
    "java-admin-force-terminate-transaction",
    "java-timed-out-transaction-is-aborted",
    "java-transaction-over-all-brokers",
    "java-transactions-v2-iff-transaction-version-is-2",
}
"""These checks look into transactions by DescribeTransactions or ListTransactions, which 2.8 has
not, though it has DescribeProducers (KIP-664).
"""


@pytest.mark.parametrize(
    ("release", "transaction_version", "lacking"),
    [
        ("2.8", 0, BEFORE_3_0),
        ("3.6", 0, BEFORE_4_0),
        ("3.9", 0, BEFORE_4_0),
        ("4.0", 2, {PATTERN}),
        ("4.1", 2, frozenset()),
    ],
)
def test_java_client(release: str, transaction_version: int, lacking: frozenset[str]) -> None:
    arguments = ("--http", "0", "--as-version", release)
    with TxnsimServer(transaction_version=transaction_version, arguments=arguments) as server:
        environment = {
            **os.environ,
            "TXNSIM_BOOTSTRAP": server.bootstrap,
            "TXNSIM_TRANSACTION_VERSION": str(transaction_version),
            "TXNSIM_RUN": f"as-{release.replace('.', '-')}",
        }
        process = subprocess.run(
            java_program("ClientCheck"),
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
    printed_lines = process.stdout.splitlines()
    passed_checks = {
        line.removeprefix("PASS ") for line in printed_lines if line.startswith("PASS ")
    }
    failed_tests = {
        line.removeprefix("FAIL ").partition(":")[0]: line
        for line in printed_lines
        if line.startswith("FAIL ")
    }
    assert set(failed_tests) == lacking, process.stdout
    # UnsupportedProtocolFieldException since 4.4
    assert all(
        re.search(r"Unsupported(Version|ProtocolField)Exception", line)
        for line in failed_tests.values()
    ), failed_tests
    assert {"commit", "abort", "fence", "transform", "rebalance"} <= passed_checks
