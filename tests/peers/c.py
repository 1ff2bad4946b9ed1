"""Suites of librdkafka: its own tests in C, from the sources inside an npm package.

The package of Confluent's JavaScript client carries the library whole, tests included. They are
built as they are, without TLS and with zstd, and each test runs in a process of its own. Standard
library only.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import tarfile
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from tests.peers.sdists import source_distribution
from tests.peers.suite import PeerError, PeerOutcome, PeerResult, PeerTarget, Suite
from tests.support.apache_kafka import (
    CACHE,
    KAFKA_VERSION,
    ApacheKafka,
    kafka_libs,
    make_once,
    output_of,
    tool,
)
from tests.support.debian import DebianError, unpack_packages
from tests.support.txnsim_server import TxnsimServer

TRANSACTIONS_REASONS: Final[Mapping[str, str]] = {}

CLIENT_REASONS: Final[Mapping[str, str]] = {
    "0107_topic_recreate": "It is for a cluster that does not create topics by itself (the tests' "
    "scenario `noautocreate`), and is skipped on others.",
}

SHARE_REASONS: Final[Mapping[str, str]] = {}


_PACKAGE: Final = "@confluentinc/kafka-javascript"
_PACKAGE_VERSION: Final = "1.10.1"
_LIBRARY: Final = "2.15.1"
"""librdkafka's version in that package."""

_RAPIDJSON: Final = ("python-rapidjson", "1.9")
"""Its source distribution brings the headers of a C++ library that some tests are made with."""

_PEERS: Final = CACHE / "peers"
_CONFIGURE: Final = (
    *("--disable-gssapi", "--disable-ssl", "--disable-curl", "--disable-syslog"),
    *("--enable-static", "--disable-optimization"),
)
_TARGETS: Final = (("src", "librdkafka.a"), ("src-cpp", "librdkafka++.a"), ("tests", "test-runner"))

_SETTINGS: Final = {
    "allow.everyone.if.no.acl.found": "true",
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "group.share.min.record.lock.duration.ms": "1000",
    "num.partitions": "4",
    "replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector",
    "super.users": "User:ANONYMOUS",
}
"""As the tests' own cluster has them. A new group waits for members as long as Kafka's default
says: some tests expect that two consumers which start together are in its first generation.
"""

_TRANSACTIONS: Final = (
    *("0086_purge_remote", "0090_idempotence", "0094_idempotence_msg_timeout"),
    *("0098_consumer_txn", "0103_transactions", "0129_fetch_aborted_msgs"),
)
_CLIENT: Final = (
    *("0029_assign_offset", "0030_offset_commit", "0033_regex_subscribe", "0045_subscribe_update"),
    *("0050_subscribe_adds", "0051_assign_adds", "0056_balanced_group_mt", "0081_admin"),
    *("0089_max_poll_interval", "0091_max_poll_interval_timeout", "0099_commit_metadata"),
    *("0102_static_group_rebalance", "0107_topic_recreate", "0112_assign_unknown_part"),
    *("0113_cooperative_rebalance", "0118_commit_rebalance"),
    *("0122_buffer_cleaning_after_rebalance", "0130_store_offsets"),
    *("0132_strategy_ordering", "0137_barrier_batch_consume", "0140_commit_metadata"),
)
_SHARE_CONSUMER: Final = (
    *("0170_share_consumer_subscription", "0171_share_consumer_consume"),
    *("0172_share_consumer_acknowledge", "0173_share_consumer_commit_async"),
    *("0174_share_consumer_concurrency", "0175_share_consumer_groups"),
    *("0176_share_consumer_commit_sync", "0177_share_consumer_transactions"),
    *("0178_share_consumer_close", "0179_share_consumer_destroy"),
    *("0180_share_consumer_config", "0181_share_consumer_topic_delete"),
    *("0184_share_consumer_topic_recreate", "0185_share_consumer_max_poll_interval"),
)
_SHARE_TESTS_SIDE_BY_SIDE: Final = 5
"""How many share tests run side by side. They mostly wait for locks to expire: one by one they take
an hour.
"""

_TIMEOUT_S: Final = 900.0
_STATES: Final = {
    "PASSED": PeerResult.PASSED,
    "FAILED": PeerResult.FAILED,
    "SKIPPED": PeerResult.SKIPPED,
}
_FAILURE: Final = re.compile(r'^(?:\x1b\[\d+m)*### Test ".*" failed at .*###\n(.+)$', re.M)
_TOLD_MAX: Final = 200


class _Build(NamedTuple):
    tests: Path
    """The folder of the sources, with the runner in it."""
    kafka: Path
    """The stand-in for a distribution of Kafka, with the tools that some tests call."""


def _ask_cluster(
    tests: Sequence[str], target: PeerTarget, test_names: Sequence[str], *, side_by_side: int = 1
) -> Iterator[PeerOutcome]:
    """Run tests against one cluster, one by one or some at a time."""
    build = _build_once()
    with contextlib.ExitStack() as stack:
        work_folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="txnsim-peer-")))
        bootstrap = stack.enter_context(_three_brokers(target, work_folder))
        config = work_folder / "test.conf"
        config.write_text(f"metadata.broker.list={bootstrap}\ntest.timeout.multiplier=2\n")
        environment = {
            **os.environ,
            "BROKERS": bootstrap,
            "KAFKA_PATH": str(build.kafka),
            "RDKAFKA_TEST_CONF": str(config),
            "TEST_KAFKA_VERSION": KAFKA_VERSION,
        }
        with ThreadPoolExecutor(side_by_side) as pool:
            yield from pool.map(partial(_run, build, environment, work_folder), test_names or tests)


def _run(
    build: _Build, environment: Mapping[str, str], work_folder: Path, test: str
) -> PeerOutcome:
    report_file = work_folder / f"{test}.json"
    number = test.partition("_")[0]
    # Not in quick mode (-Q): there most tests leave out all of their parts and count as passed.
    command = [str(build.tests / "test-runner"), "-p1", "-L"]
    try:
        process = subprocess.run(
            command,
            cwd=build.tests,
            env={**environment, "TESTS": number, "TEST_REPORT": str(report_file)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return PeerOutcome(test, PeerResult.FAILED, f"no end in {_TIMEOUT_S:.0f} s")
    failures = _FAILURE.findall(process.stdout)
    failure = failures[0].strip()[:_TOLD_MAX] if failures else ""
    if not report_file.exists():
        return PeerOutcome(test, PeerResult.FAILED, failure or f"ended with {process.returncode}")
    entry = json.loads(report_file.read_text("utf-8"))["tests"].get(test)
    if entry is None:
        raise PeerError(f"no test {test} in librdkafka {_LIBRARY}")
    result = _STATES.get(entry["state"], PeerResult.FAILED)
    if result is PeerResult.PASSED and process.returncode != 0:  # another test of the number
        result = PeerResult.PASSED if not failure else PeerResult.FAILED
    return PeerOutcome(
        test, result, "" if result is PeerResult.PASSED else failure or entry["extra"]
    )


@contextlib.contextmanager
def _three_brokers(target: PeerTarget, work_folder: Path) -> Iterator[str]:
    if target is PeerTarget.APACHE:
        with ApacheKafka(brokers=3, properties=_SETTINGS, jvm_options=("-Xmx512m",)) as kafka:
            yield kafka.bootstrap
        return
    config = work_folder / "server.properties"
    config.write_text(
        "".join(
            f"{setting_name}={setting_value}\n" for setting_name, setting_value in _SETTINGS.items()
        )
    )
    with TxnsimServer(arguments=("--config", str(config))) as server:
        yield server.bootstrap


# Building


def _build_once() -> _Build:
    """The folders of librdkafka's tests and of their runner, built on first use."""
    home = _PEERS / f"librdkafka-{_LIBRARY}-npm-{_PACKAGE_VERSION}-zstd"
    make_once(home, _make, lock_file=_PEERS / "librdkafka.lock")
    return _Build(home / "package" / "deps" / "librdkafka" / "tests", home / "kafka")


def _make(new_folder: Path) -> None:
    (new_folder / "json").mkdir(parents=True)
    headers = source_distribution(*_RAPIDJSON, new_folder / "json") / "rapidjson" / "include"
    _unpack(new_folder)
    _build(new_folder / "package" / "deps" / "librdkafka", headers)
    _write_tools(new_folder / "kafka")


def _unpack(directory: Path) -> None:
    _run_command([_tool("npm"), "pack", "--silent", f"{_PACKAGE}@{_PACKAGE_VERSION}"], directory)
    (archive_file,) = directory.glob("*.tgz")
    with tarfile.open(archive_file) as tar_file:
        tar_file.extractall(directory, filter="data")


def _build(sources_folder: Path, headers: Path) -> None:
    # npm has taken the scripts' right to be executed.
    for script_file in (
        sources_folder / "lds-gen.py",
        sources_folder / "tests" / "java" / "run-class.sh",
    ):
        script_file.chmod(0o755)
    zstd = _zstd()
    (library_folder,) = zstd.glob("usr/lib/*/libzstd.a")
    path_options = (
        f"--CPPFLAGS=-I{headers} -I{zstd}/usr/include",
        f"--LDFLAGS=-L{library_folder.parent}",
    )
    _run_command([_tool("bash"), "configure", *_CONFIGURE, *path_options], sources_folder)
    jobs = f"-j{os.cpu_count() or 1}"
    for directory, goal in _TARGETS:
        _run_command([_tool("make"), jobs, "-C", directory, goal], sources_folder)


def _zstd() -> Path:
    try:
        return unpack_packages("libzstd-dev", "libzstd1", has=Path("usr/include/zstd.h"))
    except DebianError as error:
        raise PeerError(f"librdkafka is built with zstd: {error}") from None


def _write_tools(directory: Path) -> None:
    """The few scripts of a distribution that tests call, for the jars from Maven."""
    scripts_folder = directory / "bin"
    scripts_folder.mkdir(parents=True)
    (directory / "libs").symlink_to(kafka_libs())
    programs = {
        "kafka-run-class.sh": "",
        "kafka-topics.sh": "org.apache.kafka.tools.TopicCommand",
        "kafka-acls.sh": "org.apache.kafka.tools.AclCommand",
        "kafka-configs.sh": "org.apache.kafka.tools.ConfigCommand",
    }
    for program_name, program in programs.items():
        script_file = scripts_folder / program_name
        script_file.write_text(
            "#!/bin/sh\n"
            'libs="$(dirname "$0")/../libs/*"\n'
            f'exec java -Xmx256m -cp "$CLASSPATH:$libs" {program} "$@"\n'
        )
        script_file.chmod(0o755)


def _tool(command: str) -> str:
    return tool(command, "these suites need npm, make and a C++ compiler", PeerError)


def _run_command(command: Sequence[str], directory: Path) -> None:
    output_of(command, f"{' '.join(command[:4])} failed", PeerError, directory=directory)


_CLUSTER: Final = "Three brokers, plain, with the settings of the tests' own cluster."

SUITES: Final[tuple[Suite, ...]] = (
    Suite(
        name="librdkafka-transactions",
        project="librdkafka, transactions",
        version=_LIBRARY,
        source=f"`tests` of the library's sources in npm's `{_PACKAGE}` {_PACKAGE_VERSION}: those "
        "that are about transactions and idempotence and need a broker.",
        cluster=_CLUSTER,
        ask=partial(_ask_cluster, _TRANSACTIONS),
        reasons=TRANSACTIONS_REASONS,
    ),
    Suite(
        name="librdkafka-client",
        project="librdkafka, groups and administration",
        version=_LIBRARY,
        source="The same, those about consumer groups, offsets and administration.",
        cluster=_CLUSTER,
        ask=partial(_ask_cluster, _CLIENT),
        reasons=CLIENT_REASONS,
    ),
    Suite(
        name="librdkafka-share",
        project="librdkafka, share consumers",
        version=_LIBRARY,
        source="The same, those about share consumers.",
        cluster=_CLUSTER,
        ask=partial(_ask_cluster, _SHARE_CONSUMER, side_by_side=_SHARE_TESTS_SIDE_BY_SIDE),
        reasons=SHARE_REASONS,
    ),
)
