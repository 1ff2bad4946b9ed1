"""The suite of Rust's rdkafka, whose crate contains the tests.

A crate is fetched by cargo, copied below ``.cache/`` and its tests are built and run there, each of
them in a run of its own, as a test that hangs says nothing of the others. Standard library only.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from tests.peers.suite import PeerError, PeerOutcome, PeerResult, PeerTarget, Suite
from tests.support.apache_kafka import CACHE, KAFKA_VERSION, ApacheKafka, make_once, output_of, tool
from tests.support.txnsim_server import TxnsimServer

_PEERS: Final = CACHE / "peers"
_TIMEOUT_S: Final = 300.0
_MESSAGE_MAX: Final = 160
_PANIC: Final = re.compile(r"^thread '.*' (?:\(\d+\) )?panicked at .*:\n(.+)$", re.M)

_SETTINGS: Final = {"num.partitions": "3"}
"""Settings as in the crates' own clusters."""


class _Crate(NamedTuple):
    name: str
    version: str
    brokers: int
    address: str
    """The environment variable with the brokers' addresses."""
    environment: Mapping[str, str]
    settings: Mapping[str, str]
    files: tuple[str, ...]
    """The files in ``tests/`` with tests that need brokers."""
    left_out: Mapping[str, str]
    """Tests that are not run, with the reason: their result depends on the machine's speed."""

    @property
    def home(self) -> Path:
        return _PEERS / f"{self.name}-{self.version}-crate"


def _ask_crate(
    crate: _Crate, target: PeerTarget, test_names: Sequence[str]
) -> Iterator[PeerOutcome]:
    """Run the tests one after the other on one cluster; their names are ``file::test``."""
    programs = _test_programs(crate)
    with contextlib.ExitStack() as stack:
        work_folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="txnsim-peer-")))
        bootstrap = stack.enter_context(_cluster(crate, target, work_folder))
        environment = {**os.environ, **crate.environment, crate.address: bootstrap}
        default_names = [
            test_name for test_name in _test_names(programs) if test_name not in crate.left_out
        ]
        for name in test_names or default_names:
            file, _, test = name.partition("::")
            yield _run(name, [str(programs[file]), "--exact", test, "--nocapture"], environment)


def _run(name: str, command: Sequence[str], environment: Mapping[str, str]) -> PeerOutcome:
    try:
        finished_process = subprocess.run(
            command,
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return PeerOutcome(name, PeerResult.FAILED, f"no end in {_TIMEOUT_S:.0f} s")
    if finished_process.returncode == 0:
        is_ignored = "1 ignored" in finished_process.stdout
        return PeerOutcome(name, PeerResult.SKIPPED if is_ignored else PeerResult.PASSED)
    messages = _PANIC.findall(finished_process.stdout)
    message = messages[-1].strip() if messages else f"ended with {finished_process.returncode}"
    return PeerOutcome(name, PeerResult.FAILED, message[:_MESSAGE_MAX])


def _test_names(programs: Mapping[str, Path]) -> list[str]:
    return [
        f"{file}::{printed_line.removesuffix(': test')}"
        for file, program_file in programs.items()
        for printed_line in _output([str(program_file), "--list"], program_file.parent).splitlines()
        if printed_line.endswith(": test")
    ]


@contextlib.contextmanager
def _cluster(crate: _Crate, target: PeerTarget, work_folder: Path) -> Iterator[str]:
    settings = {**_SETTINGS, **crate.settings}
    if target is PeerTarget.APACHE:
        options = ("-Xmx512m",)
        with ApacheKafka(brokers=crate.brokers, properties=settings, jvm_options=options) as kafka:
            yield kafka.bootstrap
        return
    config = work_folder / "server.properties"
    config.write_text(
        "".join(
            f"{setting_name}={setting_value}\n" for setting_name, setting_value in settings.items()
        )
    )
    with TxnsimServer(brokers=crate.brokers, arguments=("--config", str(config))) as server:
        yield server.bootstrap


# Building


def _test_programs(crate: _Crate) -> dict[str, Path]:
    """The programs of a crate's tests by source file, built on first use."""
    make_once(crate.home, partial(_fetch, crate), lock_file=_PEERS / f"{crate.name}-crate.lock")
    test_options = [option for file in crate.files for option in ("--test", file)]
    build = [_cargo(), "test", "--no-run", "--message-format=json", *test_options]
    build += ["--manifest-path", "sources/Cargo.toml", "--target-dir", str(_PEERS / "rust-target")]
    # Not in the crate's folder, where a file may name a compiler that is not there.
    printed_lines = _output(build, crate.home).splitlines()
    artifacts = [json.loads(line) for line in printed_lines if line.startswith("{")]
    return {
        artifact["target"]["name"]: Path(artifact["executable"])
        for artifact in artifacts
        if artifact.get("executable") and artifact["target"]["kind"] == ["test"]
    }


def _fetch(crate: _Crate, home: Path) -> None:
    """Fetch the sources of a crate from the registry."""
    (home / "src").mkdir(parents=True)
    (home / "src" / "lib.rs").touch()
    (home / "Cargo.toml").write_text(
        '[package]\nname = "fetching"\nversion = "0.1.0"\nedition = "2021"\n'
        f'[dependencies]\n{crate.name} = "={crate.version}"\n'
    )
    metadata = json.loads(_output([_cargo(), "metadata", "--format-version", "1"], home))
    (manifest,) = (
        package["manifest_path"]
        for package in metadata["packages"]
        if package["name"] == crate.name
    )
    shutil.copytree(Path(manifest).parent, home / "sources")


def _cargo() -> str:
    return tool("cargo", "these suites need Rust", PeerError)


def _output(command: Sequence[str], directory: Path) -> str:
    return output_of(command, f"{' '.join(command[:3])} failed", PeerError, directory=directory)


_RDKAFKA: Final = _Crate(
    name="rdkafka",
    version="0.39.0",
    brokers=1,
    address="KAFKA_HOST",
    environment={"KAFKA_VERSION": KAFKA_VERSION},
    settings={},
    files=(
        *("test_admin", "test_high_consumers", "test_high_producers", "test_low_consumers"),
        *("test_low_producers", "test_metadata", "test_transactions"),
    ),
    left_out={
        "test_low_producers::test_base_producer_timeout": "It passes where a broker takes longer "
        "than 100 ms to create a topic.",
        "test_low_consumers::test_produce_consume_message_queue_nonempty_callback": "It counts "
        "what wakes a queue of the library within a second.",
    },
)

_RDKAFKA_REASONS: Final[Mapping[str, str]] = {
    "test_metadata::test_metadata": "It expects a broker 0; ours are numbered from 1, and so are "
    "those of the real Kafka that was asked.",
}

SUITES: Final[tuple[Suite, ...]] = (
    Suite(
        name="rdkafka",
        project="rdkafka",
        version=_RDKAFKA.version,
        source="`tests` of the crate, which build the librdkafka that it carries. Not asked: "
        + " ".join(f"`{test}`. {reason}" for test, reason in _RDKAFKA.left_out.items()),
        cluster="One broker, plain.",
        ask=partial(_ask_crate, _RDKAFKA),
        reasons=_RDKAFKA_REASONS,
    ),
)
