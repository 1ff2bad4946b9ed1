"""Tests of kfake, franz-go's fake broker, with brokers of ours in its place.

Two suites: the package ``kafka_tests``, and of the tests within the package itself those about
transactions that ask brokers things, and nothing of the fake's inside.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from tests.peers.go_pick import pick_tests
from tests.peers.go_tests import PEERS, compile_tests, names_with, required_module, run_tests
from tests.peers.suite import PeerOutcome, PeerTarget, Suite
from tests.support.apache_kafka import REPOSITORY, make_once

_SHIM: Final = Path(__file__).with_name("go_sources") / "kfake"

MODULE: Final = required_module("github.com/twmb/franz-go/pkg/kfake", by_path=_SHIM / "origin.mod")


_TRANSACTION_TESTS: Final = (
    "Test848TransactionalConsume",
    "TestAbortedTxnIndexOverlap",
    "TestAuditTxnV2MaxVersionsPinnedProduce",
    "TestDescribeProducersShowsActiveTransaction",
    "TestListOffsetsReadCommittedDuringTxn",
    "TestListTransactionsFindsOngoing",
    "TestProduceControlBatchRejected",
    "TestProduceDuplicateReturnsOriginalOffset",
    "TestTransactSessionEndNeverJoined",
    "TestTransactionLifecycle",
    "TestTransactionOffsetCommit",
    "TestTxnAbortDiscardsOffsets",
    "TestTxnAbortRecordsInvisibleToReadCommitted",
    "TestTxnAddOffsetsWithoutGroup",
    "TestTxnConcurrentDescribeAndInit",
    "TestTxnDescribeTransactions",
    "TestTxnEpochBumpMonotonic",
    "TestTxnInitProducerIDAbortOngoing",
    "TestTxnInitProducerIDMaxTimeout",
    "TestTxnInitProducerIDStaleEpochRecovery",
    "TestTxnNonTransactionalProduceDuringTx",
    "TestTxnProduceAndCommit",
    "TestTxnReinitAbortsOpenTxn",
)


def _kafka_tests(target: PeerTarget, test_names: Sequence[str]) -> Iterator[PeerOutcome]:
    tests = names_with(MODULE.directory() / "kafka_tests", "*_test.go")
    return _ask_package("kafka_tests", target, test_names or tests)


def _transaction_tests(target: PeerTarget, test_names: Sequence[str]) -> Iterator[PeerOutcome]:
    return _ask_package(".", target, test_names or _TRANSACTION_TESTS)


def _ask_package(
    package: str, target: PeerTarget, test_names: Sequence[str]
) -> Iterator[PeerOutcome]:
    module_file = _with_shim()
    name = f"{module_file.name}-{package.strip('.')}".rstrip("-")
    binary_file = compile_tests(name, f"./{package}", directory=module_file)
    broker = f"{sys.executable} -m tests.peers.broker --target {target}"
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY), "TXNSIM_PEER_BROKER": broker}
    yield from run_tests(
        binary_file,
        test_names,
        directory=module_file / package,
        environment=environment,
        minutes=20,
        parallel=2 if target is PeerTarget.TXNSIM else 1,
    )


def _with_shim() -> Path:
    """kfake's tests beside our package in the place of the fake broker: a module of its own."""
    own_files = [file for file in sorted(_SHIM.iterdir()) if file.suffix in {".go", ".mod", ".sum"}]
    parts = [*(file.read_bytes() for file in own_files), " ".join(_TRANSACTION_TESTS).encode()]
    digest = hashlib.sha256(b"\0".join(parts)).hexdigest()[:12]
    module_file = PEERS / f"{MODULE.file_stem()}-{digest}"

    def fill(new_folder: Path) -> None:
        tests_folder = new_folder / "kafka_tests"
        tests_folder.mkdir(parents=True)
        module_folder = MODULE.directory()
        for file in (module_folder / "kafka_tests").glob("*.go"):
            shutil.copyfile(file, tests_folder / file.name)
        for file in own_files:
            shutil.copyfile(file, new_folder / file.name)
        text = pick_tests(module_folder, _TRANSACTION_TESTS, package="kfake")
        (new_folder / "picked_test.go").write_text(text, "utf-8")

    return make_once(module_file, fill, lock_file=PEERS / "kfake.lock")


_REASONS: Final[Mapping[str, str]] = {
    "Test848EmptyGroupDescribe": "It expects a fake's answer: while `__consumer_offsets` does not "
    "exist yet, a broker has no coordinator to answer DescribeGroups.",
    "TestCreateTopicsReplicaAssignment": "It places replicas on broker 0; ours are numbered from "
    "1, and so are those of the real Kafka that was asked.",
    "TestDescribeProducersAfterCommit": "It expects that a producer is forgotten with its commit; "
    "a broker lists it until it expires.",
    "TestFenceBeforeProducerCommit": "It expects InitProducerId to succeed at once while a "
    "transaction is open; a broker says CONCURRENT_TRANSACTIONS until that is aborted.",
    "TestGroupMaxSize848": "Its heartbeat leaves out the subscription, which is INVALID_REQUEST "
    "before the size of the group is looked at.",
}

_TRANSACTION_REASONS: Final[Mapping[str, str]] = {
    "TestDescribeProducersShowsActiveTransaction": "It expects that a producer is forgotten with "
    "its commit; a broker lists it until it expires.",
    "TestProduceControlBatchRejected": "Its transactional batch comes without a transactional id, "
    "which is refused before a broker looks into the batch.",
    "TestTxnDescribeTransactions": "It expects the state Empty after a commit; a coordinator says "
    "PrepareCommit and then CompleteCommit.",
    "TestTxnInitProducerIDAbortOngoing": "It expects InitProducerId to succeed at once while a "
    "transaction is open; a broker says CONCURRENT_TRANSACTIONS until that is aborted.",
    "TestTxnInitProducerIDStaleEpochRecovery": "It expects another epoch where InitProducerId "
    "comes again with the last one; a broker takes it for a repetition and answers the same "
    "(KIP-360).",
    "TestTxnNonTransactionalProduceDuringTx": "It expects INVALID_TXN_STATE for a plain batch of a "
    "producer whose partition was added to a transaction, but has nothing of it yet; a leader does "
    "not know of a transaction before its first batch.",
}

SUITE: Final = Suite(
    name="kfake",
    project="kfake, franz-go's fake broker",
    version=MODULE.version.removeprefix("v"),
    source="`kafka_tests`, made after Apache Kafka's own integration tests of its clients.",
    cluster="A cluster of its own for each test, with the settings that the test names. The "
    "fake broker's package is replaced by one that starts it.",
    ask=_kafka_tests,
    reasons=_REASONS,
)

TRANSACTIONS: Final = Suite(
    name="kfake-transactions",
    project="kfake, tests of its own transactions",
    version=MODULE.version.removeprefix("v"),
    source="Of the package's own tests those about transactions and idempotence that ask brokers "
    "and nothing of the fake's inside, one by one with their helpers.",
    cluster="As above.",
    ask=_transaction_tests,
    reasons=_TRANSACTION_REASONS,
)
