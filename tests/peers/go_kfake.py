"""Tests of kfake, franz-go's fake broker, with brokers of ours in its place."""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from tests.peers.go_tests import PEERS, compiled, names_with, required, run_tests
from tests.peers.suite import Outcome, Suite, Target
from tests.support.apache_kafka import REPOSITORY, locked

_SHIM: Final = Path(__file__).with_name("go_sources") / "kfake"

MODULE: Final = required("github.com/twmb/franz-go/pkg/kfake", by=_SHIM / "origin.mod")


def _kfake(target: Target, names: Sequence[str]) -> Iterator[Outcome]:
    module = _with_shim()
    package = module / "kafka_tests"
    binary = compiled(module.name, "./kafka_tests", directory=module)
    broker = f"{sys.executable} -m tests.peers.broker --target {target}"
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY), "TXNSIM_PEER_BROKER": broker}
    yield from run_tests(
        binary,
        names or names_with(package, "*_test.go"),
        directory=package,
        environment=environment,
        minutes=20,
        parallel=2 if target is Target.TXNSIM else 1,
    )


def _with_shim() -> Path:
    """kfake's tests beside our package in the place of the fake broker: a module of its own."""
    ours = [file for file in sorted(_SHIM.iterdir()) if file.suffix in {".go", ".mod", ".sum"}]
    digest = hashlib.sha256(b"\0".join(file.read_bytes() for file in ours)).hexdigest()[:12]
    module = PEERS / f"{MODULE.file_stem()}-{digest}"
    with locked(PEERS / "kfake.lock"):
        if not module.is_dir():
            fresh = module.with_name("kfake.partial")
            shutil.rmtree(fresh, ignore_errors=True)
            tests = fresh / "kafka_tests"
            tests.mkdir(parents=True)
            for file in (MODULE.directory() / "kafka_tests").glob("*.go"):
                shutil.copyfile(file, tests / file.name)
            for file in ours:
                shutil.copyfile(file, fresh / file.name)
            fresh.rename(module)
    return module


_REASONS: Final[Mapping[str, str]] = {
    "Test848EmptyGroupDescribe": "It expects a fake's answer: while `__consumer_offsets` does not "
    "exist yet, a broker has no coordinator to answer DescribeGroups. The same on a real Kafka.",
    "TestCreateTopicsReplicaAssignment": "It places replicas on broker 0; ours are numbered from "
    "1. The same on a real Kafka whose brokers are.",
    "TestDescribeProducersAfterCommit": "It expects that a producer is forgotten with its commit; "
    "a broker lists it until it expires. The same on a real Kafka.",
    "TestFenceBeforeProducerCommit": "It expects InitProducerId to succeed at once while a "
    "transaction is open; a broker says CONCURRENT_TRANSACTIONS until that is aborted. The same on "
    "a real Kafka.",
    "TestGroupMaxSize848": "Its heartbeat leaves out the subscription, which is INVALID_REQUEST "
    "before the size of the group is looked at. The same on a real Kafka.",
}

SUITE: Final = Suite(
    name="kfake",
    project="kfake, franz-go's fake broker",
    version=MODULE.version.removeprefix("v"),
    source="`kafka_tests`, made after Apache Kafka's own integration tests of its clients.",
    cluster="A cluster of its own for each test, with the settings that the test names. The "
    "fake broker's package is replaced by one that starts it.",
    ask=_kfake,
    reasons=_REASONS,
)
