"""Loads log directories into real brokers: on copies, and notes the bounds of each log that they
report.

``LogManager`` logs for each replica, after ``LogLoader`` has recovered it, where it begins and
ends. The brokers are killed before they can change much.
"""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
import time  # noqa: TID251 - waits for processes on the real machine
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tests.spark.pipeline.corpus.truth import LoadedLog, Place
from tests.support.apache_kafka import free_ports, java_command, kafka_libs
from txnsim.storage.names import PartitionDirectory

PROPERTIES: Final = {
    "controlled.shutdown.enable": "true",
    "broker.session.timeout.ms": "5000",
    "min.insync.replicas": "1",
    "transaction.state.log.min.isr": "1",
    "log.index.size.max.bytes": "65536",
    "log.cleaner.backoff.ms": "100",
    "log.initial.task.delay.ms": "100",
    "log.retention.check.interval.ms": "200",
    "producer.id.expiration.check.interval.ms": "100",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "100",
}
"""Properties of the brokers that make the corpus: they look after their logs often, and one broker
alone keeps working.
"""
JVM: Final = ("-Xmx400m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
METADATA_TOPIC: Final = "__cluster_metadata"
"""The topic that the quorum loads, not ``LogManager``."""
_RENAMED: Final = re.compile(r"\.tmp'(?: for reading)?: No such file or directory$")
_PATIENCE_S: Final = 90.0
_PAUSE_S: Final = 0.05
_TELLING: Final = tuple(
    f"-Dorg.slf4j.simpleLogger.log.{name}=info"
    for name in ("org.apache.kafka.storage.internals.log.LogManager", "kafka.log.LogManager")
)
_LOADED: Final = re.compile(
    r"Completed load of Log\(dir=[^,]*, .*?topic=(?P<topic>[^,]+), partition=(?P<partition>\d+),"
    r".*? with (?P<segments>\d+) segments, local-log-start-offset (?P<start>\d+)"
    r" and log-end-offset (?P<end>\d+)"
)


def copy_tree(source_path: Path, target_path: Path) -> None:
    """Copy a directory; holes of sparse files, such as the brokers' indexes, stay holes.

    The broker may run: it writes a checkpoint to a file ``.tmp`` and renames it, so that such a
    file may be gone when it is copied.
    """
    target_path.parent.mkdir(parents=True, exist_ok=True)
    command = ["cp", "-a", str(source_path), str(target_path)]
    process = subprocess.run(
        command, env={**os.environ, "LC_ALL": "C"}, stderr=subprocess.PIPE, text=True, check=False
    )
    complaint_lines = [
        printed_line
        for printed_line in process.stderr.splitlines()
        if not _RENAMED.search(printed_line)
    ]
    if complaint_lines or (process.returncode and not process.stderr):
        raise OSError(f"{' '.join(command)}: exit status {process.returncode}: {complaint_lines}")


def loaded_by_kafka(homes: Mapping[int, Path], data: Mapping[int, Path]) -> tuple[LoadedLog, ...]:
    """Let brokers load copies of these log directories, and collect the bounds that they log.

    Args:
        homes: Broker → directory with the ``server.properties`` that it gets.
        data: Broker → log directory; it is not changed.
    """
    with tempfile.TemporaryDirectory(prefix="txnsim-loaded-") as scratch_path:
        copies = {broker: Path(scratch_path) / str(broker) / "data" for broker in data}
        for broker, path in data.items():
            copy_tree(path, copies[broker])
        partitions_by_broker = {broker: _replicas(path) for broker, path in copies.items()}
        controller, *ports = free_ports(1 + len(copies))
        processes = []
        try:
            for (broker, copied_path), port in zip(copies.items(), ports, strict=True):
                config = _configure(homes[broker], copied_path, port=port, controller=controller)
                processes.append(_start_broker(config))
            return _collect(copies, partitions_by_broker, processes)
        finally:
            for process in processes:
                process.kill()
            for process in processes:
                process.wait()


def _replicas(data_folder: Path) -> set[Place]:
    return {
        Place(directory.topic_partition.topic, directory.topic_partition.partition)
        for directory in PartitionDirectory.all_in(data_folder)
        if directory.topic_partition.topic != METADATA_TOPIC
    }


def _configure(home: Path, data_folder: Path, *, port: int, controller: int) -> Path:
    """Write the broker's own properties with other ports and another log directory."""
    lines = (home / "server.properties").read_text().splitlines()
    values = dict(line.split("=", 1) for line in lines)
    plain_listener = f"PLAINTEXT://127.0.0.1:{port}"
    is_controller = "CONTROLLER://" in values["listeners"]
    values |= {
        "log.dirs": str(data_folder),
        "controller.quorum.voters": f"1@127.0.0.1:{controller}",
        "listeners": f"{plain_listener},CONTROLLER://127.0.0.1:{controller}"
        if is_controller
        else plain_listener,
    }
    config = data_folder.parent / "server.properties"
    config.write_text(
        "".join(f"{name}={property_value}\n" for name, property_value in values.items())
    )
    return config


def _start_broker(config: Path) -> subprocess.Popen[bytes]:
    options = [*JVM, "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", *_TELLING]
    command = [*java_command(kafka_libs(), options=options), "kafka.Kafka", str(config)]
    with (config.parent / "broker.log").open("wb") as log:
        return subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT
        )


def _collect(
    copies: Mapping[int, Path],
    partitions_by_broker: Mapping[int, set[Place]],
    processes: list[subprocess.Popen[bytes]],
) -> tuple[LoadedLog, ...]:
    deadline_s = time.monotonic() + _PATIENCE_S
    while True:
        loaded_by_broker = {
            broker: _loaded_logs(broker, copied_path.parent)
            for broker, copied_path in copies.items()
        }
        missing = {
            broker: partitions - {directory.place for directory in loaded_by_broker[broker]}
            for broker, partitions in partitions_by_broker.items()
        }
        if not any(missing.values()):
            return tuple(row for rows in loaded_by_broker.values() for row in rows)
        tails = [
            (copied_path.parent / "broker.log").read_text()[-2_000:]
            for copied_path in copies.values()
        ]
        assert all(process.poll() is None for process in processes), tails
        assert time.monotonic() < deadline_s, (missing, tails)
        time.sleep(_PAUSE_S)


def _loaded_logs(broker: int, home: Path) -> list[LoadedLog]:
    file_text = (home / "broker.log").read_text(errors="replace")
    return [
        LoadedLog(
            broker=broker,
            place=Place(match["topic"], int(match["partition"])),
            segments=int(match["segments"]),
            start=int(match["start"]),
            end=int(match["end"]),
        )
        for match in _LOADED.finditer(file_text)
    ]
