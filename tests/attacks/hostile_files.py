"""Hostile files and peers for those who read them, as ``tests.attacks.readers`` plays them: log
directories for ``logs``, traces, histories, brokers for ``conformance``, flipped configurations.
"""

from __future__ import annotations

import contextlib
import gzip
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tests.attacks.readers import TXNSIM, HostileInput, ReaderEnd, await_reader_end, run_reader
from tests.support.hostile_brokers import HOSTILE_BROKERS, hostile_broker
from txnsim.wire.batch import Record, build_batch
from txnsim.wire.batch_header import BatchHeader
from txnsim.wire.compression import GZIP

STAMP_MS: Final = 1_700_000_000_000
LOG_READERS: Final = ("find-hanging", "verify", "decisions", "waiting")
SEGMENT: Final = "00000000000000000000.log"
HOLE_BYTES: Final = 64 << 30
MESSAGE_BYTES: Final = BatchHeader.BYTES_MAX
CHECKPOINTS: Final = (
    "meta.properties",
    "replication-offset-checkpoint",
    "log-start-offset-checkpoint",
    "recovery-point-offset-checkpoint",
)
SMALL_FILES_OF_REPLICA: Final = (
    "00000000000000000005.snapshot",
    "00000000000000000000.txnindex",
    "00000000000000000000.index",
    "00000000000000000000.timeindex",
    "leader-epoch-checkpoint",
    "partition.metadata",
)
FLIPS: Final = 4_000
FLIPS_AT_ONCE: Final = 200
"""A file of so many flips each: a process reads many configurations one after the other."""


def log_bombs(folder: Path) -> Iterator[ReaderEnd]:
    """A segment whose batches unpack to 300 MB each, in a log directory."""
    _write_bombs(folder)
    yield from _read_logs(folder)


def _write_bombs(folder: Path) -> None:
    bomb = build_batch(
        [Record(key=None, value=bytes(300_000_000))], timestamp_ms=STAMP_MS, compression=GZIP
    )
    (_replica(folder) / SEGMENT).write_bytes(bomb * 20)


def log_links(folder: Path) -> Iterator[ReaderEnd]:
    """A log directory of links: to itself, to a device without an end, to a secret, to a pipe."""
    _write_links(folder)
    for reader_end in _read_logs(folder):
        assert "root:" not in reader_end.output
        yield reader_end


def _write_links(folder: Path) -> None:
    for name, target_file in (
        ("itself", SEGMENT),
        ("endless", "/dev/zero"),
        ("secret", "/etc/shadow"),
    ):
        (_replica(folder, f"{name}-0") / SEGMENT).symlink_to(target_file)
    os.mkfifo(_replica(folder, "pipe-0") / SEGMENT)
    (folder / "parent-0").symlink_to(folder)


def growing_log(folder: Path) -> Iterator[ReaderEnd]:
    """A segment to which a process appends without an end while it is read."""
    with _appending(folder):
        yield from _read_logs(folder)


@contextlib.contextmanager
def _appending(folder: Path) -> Iterator[None]:
    """Append to the segment of a replica below a folder, as long as the context lasts."""
    replica = _replica(folder)
    batch = build_batch([Record(key=b"k", value=b"v" * 1_000)] * 50, timestamp_ms=STAMP_MS)
    ended_event = threading.Event()

    def append() -> None:
        with (replica / SEGMENT).open("ab") as segment:
            while not ended_event.is_set():
                segment.write(batch)
                segment.flush()
                ended_event.wait(0.005)

    writer = threading.Thread(target=append)
    writer.start()
    try:
        yield
    finally:
        ended_event.set()
        writer.join()


def sparse_logs(folder: Path) -> Iterator[ReaderEnd]:
    """Files of 64 GiB that take no room: indexes, snapshots, checkpoints; messages of 1 GiB."""
    _write_sparse(folder)
    yield from _read_logs(folder)


def _write_sparse(folder: Path) -> None:
    replica = _replica(folder)
    batch = build_batch([Record(key=b"k", value=b"v")] * 5, timestamp_ms=STAMP_MS)
    (replica / SEGMENT).write_bytes(batch)
    for path in (
        *(folder / name for name in CHECKPOINTS),
        *(replica / name for name in SMALL_FILES_OF_REPLICA),
    ):
        _write_hole(path, b"", HOLE_BYTES)
    of_batch = batch[:8] + (MESSAGE_BYTES - 12).to_bytes(4, "big") + batch[12 : BatchHeader.SIZE]
    of_message = bytes(8) + (MESSAGE_BYTES - 12).to_bytes(4, "big") + bytes(6)
    of_message += (-1).to_bytes(4, "big", signed=True) + (MESSAGE_BYTES - 26).to_bytes(4, "big")
    for name, start in (("batch-0", of_batch), ("message-0", of_message)):
        _write_hole(_replica(folder, name) / SEGMENT, start, 2 * MESSAGE_BYTES)


def _write_hole(path: Path, start: bytes, size: int) -> None:
    with path.open("wb") as file:
        file.write(start)
        file.truncate(size)


def spark_tables(folder: Path) -> Iterator[ReaderEnd]:
    """Spark's tables of bombs, links, sparse files, and a segment that grows while it is read."""
    bombs, links, sparse_file, growing_file = (folder / name for name in ("b", "l", "s", "g"))
    for directory in (bombs, links, sparse_file, growing_file):
        directory.mkdir()
    _write_bombs(bombs)
    _write_links(links)
    _write_sparse(sparse_file)
    program_file = folder / "tables.py"
    program_file.write_text(_READ_TABLES)
    with _appending(growing_file):
        reader_end = _run_program(
            str(program_file), *map(str, (bombs, links, sparse_file, growing_file))
        )
    assert "root:" not in reader_end.output
    yield reader_end


_READ_TABLES: Final = """
import sys
from txnsim_spark.session import spark_session
config = {"spark.driver.memory": "1g", "spark.ui.enabled": "false"}
spark = spark_session("local[1]", config=config)
spark.sparkContext.setLogLevel("OFF")
for folder in sys.argv[1:]:
    for table in ("batches", "records", "producer_state", "aborted", "errors"):
        source = spark.read.format("kafka_log").option("table", table)
        try:
            print(table, folder[-1], len(source.load(folder).toPandas()))
        except Exception as refusal:
            lines = str(refusal).splitlines()
            print(table, folder[-1], next((line for line in lines if folder in line), lines[0]))
"""


def log_noise(folder: Path) -> Iterator[ReaderEnd]:
    """A thousand partitions of noise, and sizes of batches at the edges of numbers."""
    noise_source = random.Random(1)
    for partition in range(1_000):
        replica = _replica(folder, f"noise-{partition}")
        size = noise_source.choice((-1, 0, 2**31 - 1, -(2**31), 49, 61)) & 0xFFFFFFFF
        head = noise_source.randbytes(8) + size.to_bytes(4, "big")
        (replica / SEGMENT).write_bytes(head + noise_source.randbytes(200))
    yield from _read_logs(folder)


def traces(folder: Path) -> Iterator[ReaderEnd]:
    """Traces of a million nodes, of nested and endless values, and of causes in the future."""
    header = '{"k":"run","schema":2,"sim":"0.2.0","brokers":1,"level":"full","nodes":[%s]}\n'
    million = ",".join(f'"n{number}"' for number in range(1_000_000))
    event = '{"i":%d,"t":%d,"n":0,"l":%d,"p":[%s],"k":"note","d":{"text":%s}}\n'
    nested = "[" * 100_000 + "]" * 100_000
    texts = {
        "nodes": header % million + event % (0, 0, 0, "", '"x"'),
        "nested": header % '"a"' + event % (0, 0, 0, "", nested),
        "digits": header % '"a"' + event % (0, int("9" * 4_000), 0, "", '"x"'),
        "future": header % '"a"'
        + "".join(event % (number, 0, 0, str(10**15), '"x"') for number in range(1_000)),
        "causes": header % '"a"'
        + "".join(
            event % (number, number, number, ",".join(map(str, range(number))), '"x"')
            for number in range(1_500)
        ),
    }
    for name, text in texts.items():
        file = folder / f"{name}.jsonl"
        file.write_text(text)
        page_file = folder / f"{name}.html"
        for arguments in (
            ("trace", "brief", str(file)),
            ("explain", "lso", "orders-0", str(file)),
            ("diff", str(file), str(file)),
            ("trace", "convert", str(file), "--as", "html", "--to", str(page_file)),
        ):
            yield run_reader(*arguments)


def packed_traces(folder: Path) -> Iterator[ReaderEnd]:
    """Packed traces: cut off, changed, noise, and a thousand times as large as they look."""
    lines = (
        b'{"k":"run","schema":2,"sim":"0.2.0","brokers":1,"level":"full","nodes":["a"]}\n'
        b'{"i":0,"t":0,"n":0,"l":0,"p":[],"k":"note","d":{"text":"x"}}\n'
    )
    packed_lines = gzip.compress(lines * 100)
    for name, content in {
        "cut-off": packed_lines[:-12],
        "changed": packed_lines[:60] + bytes(20) + packed_lines[80:],
        "noise": random.Random(1).randbytes(3_000),
        "bomb": gzip.compress(lines + b" " * 600_000_000 + lines),
    }.items():
        file = folder / f"{name}.jsonl.gz"
        file.write_bytes(content)
        yield run_reader("trace", "analyse", str(file))


def histories(folder: Path) -> Iterator[ReaderEnd]:
    """Histories of nested values, of endless numbers, and of 20,000 writers of one item."""
    write = {"seen": "wrote", "at_ms": 0, "who": "p", "topic": "a", "partition": 0}
    same_history = "".join(
        json.dumps(
            {**write, "who": f"p{number}", "value": f"v{number}", "item": "v", "offset": number}
        )
        + "\n"
        for number in range(20_000)
    )
    texts = {
        "nested": json.dumps({**write, "offset": 0, "value": "@"}).replace('"@"', "[" * 200_000),
        "digits": json.dumps({**write, "offset": 0, "value": "v"}).replace(
            '"at_ms": 0', '"at_ms": ' + "9" * 5_000
        ),
        "infinite": json.dumps({**write, "offset": 0, "value": "v"}).replace(
            '"at_ms": 0', '"at_ms": 1e400'
        ),
        "same": same_history,
    }
    for name, text in texts.items():
        file = folder / f"{name}.jsonl"
        file.write_text(text + "\n")
        yield run_reader("check", str(file))


def conformance_peers(_folder: Path) -> Iterator[ReaderEnd]:
    """Every kind of hostile broker, before ``conformance``."""
    for serve in HOSTILE_BROKERS.values():
        with hostile_broker(serve) as address:
            options = ("--patience", "1", "--only", "leader/metadata")
            yield run_reader("conformance", address, *options)


def exam_drivers(folder: Path) -> Iterator[ReaderEnd]:
    """Drivers of the exam that print without an end, end at once, and leave a child behind."""
    for name, program in {
        "endless": "import sys\nwhile True: sys.stdout.write('x' * 65536)",
        "at-once": "raise SystemExit(7)",
        "child": (
            "import subprocess, sys\n"
            "subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        ),
        "orders": "print('\\x1b[2J\\x1b]0;taken\\x07' * 100)",
    }.items():
        driver_file = folder / f"{name}.py"
        driver_file.write_text(program)
        command = f"{sys.executable} {driver_file}"
        yield run_reader("exam", "run", "--driver", command, "--only", "fenced-by-newer")


def killed_exam(folder: Path) -> Iterator[ReaderEnd]:
    """An exam whose driver ignores all signals, ended by SIGKILL: nothing of it is left."""
    driver_file = folder / "hanging.py"
    driver_file.write_text(
        "import signal\n"
        "for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):\n"
        "    signal.signal(number, signal.SIG_IGN)\n"
        "while True: signal.pause()\n"
    )
    options = ("--driver", f"{sys.executable} {driver_file}", "--only", "fenced-by-newer")
    yield _end_by_kill([*TXNSIM, "exam", "run", *options], folder)


def flipped_configurations(folder: Path) -> Iterator[ReaderEnd]:
    """4,000 flips of a bit or a line of a wide configuration: each is read or refused in words."""
    lines = [
        f"{name}={value}\n"
        for name, value in (
            ("log.retention.ms", 604800000),
            ("transaction.max.timeout.ms", 900000),
            ("message.max.bytes", 1048588),
            ("num.partitions", 3),
            ("auto.create.topics.enable", "true"),
            ("group.max.size", 200),
            ("listeners", "PLAINTEXT://127.0.0.1:0"),
            ("compression.type", "producer"),
        )
    ]
    random_source = random.Random(1)
    program_file = folder / "read.py"
    program_file.write_text(_READ_ALL)
    for batch_start in range(0, FLIPS, FLIPS_AT_ONCE):
        files = []
        for number in range(batch_start, batch_start + FLIPS_AT_ONCE):
            flipped = bytearray("".join(lines), "ascii")
            for _ in range(random_source.randint(1, 3)):
                flipped[random_source.randrange(len(flipped))] ^= 1 << random_source.randrange(8)
            file = folder / f"{number}.properties"
            file.write_bytes(flipped)
            files.append(str(file))
        yield _run_program(str(program_file), *files)


_READ_ALL: Final = """
import sys
from pathlib import Path
from txnsim.config import load
from txnsim.errors import ConfigError
for name in sys.argv[1:]:
    try:
        load(Path(name))
    except ConfigError as refusal:
        assert str(refusal)
"""


def killed_tests(folder: Path) -> Iterator[ReaderEnd]:
    """pytest with two workers and a simulator each, ended by SIGKILL: nothing of it is left."""
    test = folder / "test_killed.py"
    test.write_text(
        "import pytest, time\n"
        "@pytest.mark.parametrize('number', range(4))\n"
        "def test_wait(txnsim_cluster, number):\n"
        "    assert txnsim_cluster.bootstrap\n"
        "    time.sleep(300)\n"
    )
    options = ("-q", "-n", "2", "-p", "no:cacheprovider")
    yield _end_by_kill([sys.executable, "-m", "pytest", *options, str(test)], folder)


def _end_by_kill(command: list[str], folder: Path) -> ReaderEnd:
    """Run a command until it has two children, end it by SIGKILL, and wait for their end."""
    process = subprocess.Popen(
        command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    begun_s = time.monotonic()
    children = _wait_for_children(process.pid, at_least=2)
    process.kill()
    process.wait()
    assert len(children) >= 2, f"{command} ended before it was killed"
    remaining_children = _wait_for_end(children, 30.0)
    for child_pid in remaining_children:
        with contextlib.suppress(ProcessLookupError):
            os.kill(child_pid, signal.SIGKILL)
    return ReaderEnd(
        time.monotonic() - begun_s,
        0.0,
        len(remaining_children),
        f"left: {remaining_children}" if remaining_children else "",
    )


def _replica(folder: Path, name: str = "orders-0") -> Path:
    replica = folder / name
    replica.mkdir(exist_ok=True)
    return replica


def _read_logs(folder: Path) -> Iterator[ReaderEnd]:
    for reader in LOG_READERS:
        yield run_reader("logs", reader, str(folder))


def _run_program(*arguments: str) -> ReaderEnd:
    process = subprocess.Popen(
        [sys.executable, *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    return await_reader_end(process)


def _wait_for_children(process_id: int, *, at_least: int) -> list[int]:
    deadline_s = time.monotonic() + 60.0
    children: list[int] = []
    while len(children) < at_least and time.monotonic() < deadline_s:
        time.sleep(0.2)
        task_file = Path(f"/proc/{process_id}/task/{process_id}/children")
        with contextlib.suppress(OSError):
            children = [int(child) for child in task_file.read_text().split()]
    time.sleep(3.0)  # let them start their simulators
    return children


def _wait_for_end(pids: list[int], limit_s: float) -> list[int]:
    """The processes that are still there after a while."""
    deadline_s = time.monotonic() + limit_s
    while time.monotonic() < deadline_s and any(
        Path(f"/proc/{process_id}").exists() for process_id in pids
    ):
        time.sleep(0.2)
    return [process_id for process_id in pids if Path(f"/proc/{process_id}").exists()]


SPARK_MIB_MAX: Final = 1_500.0
"""Where much has to be read, Spark reads it."""
INPUTS: Final = (
    HostileInput("log-bombs", log_bombs, statuses=(0, 1, 3, 4), mib_max=SPARK_MIB_MAX),
    HostileInput("log-links", log_links, statuses=(1, 2, 3, 4)),
    HostileInput("growing-log", growing_log, statuses=(0, 1, 3, 4), mib_max=SPARK_MIB_MAX),
    HostileInput("sparse-logs", sparse_logs, statuses=(1, 3, 4), mib_max=SPARK_MIB_MAX),
    HostileInput(
        "spark-tables", spark_tables, statuses=(0,), mib_max=SPARK_MIB_MAX, cpu_s_max=240.0
    ),
    HostileInput("log-noise", log_noise, statuses=(1, 3, 4)),
    HostileInput("traces", traces, statuses=(0, 1, 2, 4), mib_max=1_000.0),
    HostileInput("packed-traces", packed_traces, statuses=(1, 2), mib_max=SPARK_MIB_MAX),
    HostileInput("histories", histories, statuses=(0, 1, 2)),
    HostileInput("conformance-peers", conformance_peers, statuses=(1, 2)),
    HostileInput("exam-drivers", exam_drivers, statuses=(1, 2)),
    HostileInput("flipped-configurations", flipped_configurations, statuses=(0,)),
    HostileInput("killed-tests", killed_tests, statuses=(0,)),
    HostileInput("killed-exam", killed_exam, statuses=(0,)),
)
