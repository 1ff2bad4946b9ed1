"""The built image: a client works against it, its health check and SIGTERM do what they should, and
it runs under an arbitrary user with a read-only root.

There is no engine here. ``buildah run --isolation chroot`` starts what the image says, on the
machine's own ports; the read-only root is a mount of our own; ``tests/image/engine.py`` publishes
ports for Testcontainers. Networks between containers are not tried.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import time  # noqa: TID251 - a process on the real machine
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.image.builder import IMAGE, Builder
from tests.image.container import commit_in, commit_something
from tests.image.engine import Engine
from tests.image.engine import Image as EngineImage
from tests.support.apache_kafka import REPOSITORY, free_ports

pytestmark = pytest.mark.image

READY_SECONDS = 60
ANYBODY = "12345:0"
"""A user of no account, in group 0, as OpenShift gives one."""
TOKEN = "a-token-of-the-image-test"


class Image(NamedTuple):
    """The built image and one container of it."""

    builder: Builder
    container: str
    root: Path
    """The container's files."""
    config: dict[str, Any]


@pytest.fixture(scope="module")
def image() -> Iterator[Image]:
    with Builder() as builder:
        builder.build()
        container = builder.ask("buildah", "from", "--pull-never", IMAGE).split()[-1]
        inspection = json.loads(builder.ask("buildah", "inspect", "--type", "image", IMAGE))
        root = Path(builder.ask("buildah", "mount", container).strip())
        yield Image(builder, container, root, inspection["Docker"]["config"])


class RunningContainer(NamedTuple):
    """A running container and its addresses."""

    bootstrap: str
    http: int
    process: subprocess.Popen[bytes]
    pid: int


@contextmanager
def serving(image: Image, command: Sequence[str], output: Path) -> Iterator[RunningContainer]:
    """Start a server by ``command``, which prints its facts as one line of JSON."""
    with output.open("wb") as log:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT
        )
    server_pid = None
    try:
        deadline_s = time.monotonic() + READY_SECONDS
        while not (
            printed_lines := [
                printed_line
                for printed_line in output.read_text().splitlines()
                if printed_line[:1] == "{"
            ]
        ):
            if process.poll() is not None or time.monotonic() > deadline_s:
                raise AssertionError(output.read_text())
            time.sleep(0.05)
        facts = json.loads(printed_lines[0])
        server_pid = int(facts["pid"])
        yield RunningContainer(
            facts["bootstrap"], int(facts["http"].rpartition(":")[2]), process, server_pid
        )
    finally:
        for process_id in (server_pid, process.pid):
            if process_id is not None and process.poll() is None:
                os.kill(process_id, signal.SIGKILL)
        process.wait()


def in_chroot(image: Image, *arguments: str, user_name: str | None = None, http: int) -> list[str]:
    """The command that an engine would run: the entry point, with variables and arguments."""
    environment = {"TXNSIM_PORT": "0", "TXNSIM_HTTP_PORT": str(http), "TXNSIM_TOKEN": TOKEN}
    environment["TXNSIM_ADVERTISED_HOST"] = "127.0.0.1"
    options = [
        argument
        for name, variable_value in environment.items()
        for argument in ("-e", f"{name}={variable_value}")
    ]
    user_option = () if user_name is None else ("--user", user_name)
    run = image.builder.words(
        "run", "--isolation", "chroot", *user_option, *options, image.container
    )
    return [*run, "--", *arguments]


def entry_point(image: Image) -> list[str]:
    return [*image.config["Entrypoint"], "--topic", "orders:2", "--json"]


def free_port() -> int:
    (port,) = free_ports(1)
    return port


async def test_a_client_commits_and_sigterm_ends_it(image: Image, tmp_path: Path) -> None:
    port = free_port()
    command = in_chroot(image, *entry_point(image), http=port)
    with serving(image, command, tmp_path / "output") as server:
        assert server.http == port
        await commit_something(server.bootstrap)
        assert health(image, port).returncode == 0
        os.kill(server.pid, signal.SIGTERM)
        assert server.process.wait(timeout=60) == 0
    health_after = health(image, port)
    assert health_after.returncode == 1
    assert f"http://127.0.0.1:{port}/healthz" in health_after.stderr


def health(image: Image, port: int) -> subprocess.CompletedProcess[str]:
    """The image's own health check."""
    kind, *arguments = image.config["Healthcheck"]["Test"]
    assert kind == "CMD"
    command = in_chroot(image, *arguments, http=port)
    return subprocess.run(command, capture_output=True, text=True, check=False)


async def test_an_arbitrary_user_will_do(image: Image, tmp_path: Path) -> None:
    command = in_chroot(image, *entry_point(image), user_name=ANYBODY, http=free_port())
    with serving(image, command, tmp_path / "output") as server:
        assert os.stat(f"/proc/{server.pid}").st_uid == 12345
        await commit_something(server.bootstrap)


async def test_a_read_only_root_will_do(image: Image, tmp_path: Path) -> None:
    port = free_port()
    (tmp_path / "root").mkdir()
    # As `podman run --read-only --user 12345:0`: only /tmp can be written, which is empty memory.
    script = (
        'set -e; mount --bind "$1" "$2"; mount -o remount,ro,bind "$2"; '
        'mount -t tmpfs -o mode=1777 tmpfs "$2/tmp"; mount -t proc proc "$2/proc"; '
        'mount --rbind /dev "$2/dev"; target="$2"; shift 2; '
        'if touch "$target/opt/written" 2>/dev/null; then echo writable; exit 9; fi; '
        f'exec chroot --userspec={ANYBODY} "$target" env -i "$@"'
    )
    environment = (
        *image.config["Env"],
        "TXNSIM_PORT=0",
        f"TXNSIM_HTTP_PORT={port}",
        f"TXNSIM_TOKEN={TOKEN}",
        "TXNSIM_ADVERTISED_HOST=127.0.0.1",
        # Made of these, a file is written before the start: to /tmp.
        "KAFKA_TRANSACTION_MAX_TIMEOUT_MS=60000",
    )
    mount_options = (str(image.root), str(tmp_path / "root"))
    command = ["unshare", "-m", "sh", "-c", script, "sh", *mount_options, *environment]
    with serving(image, [*command, *entry_point(image)], tmp_path / "output") as server:
        await commit_something(server.bootstrap)
        os.kill(server.pid, signal.SIGTERM)
        assert server.process.wait(timeout=60) == 0


async def test_testcontainers_starts_it(image: Image, monkeypatch: pytest.MonkeyPatch) -> None:
    runs = EngineImage(
        root=image.root,
        entry_point=tuple(image.config["Entrypoint"]),
        environment=tuple(image.config["Env"]),
        user=image.config["User"],
    )
    with Engine(runs) as engine:
        for variable_name, variable_value in engine.variables().items():
            monkeypatch.setenv(variable_name, variable_value)
        from txnsim.testing.testcontainers import TxnsimContainer

        with TxnsimContainer(topics={"orders": 2}) as kafka:
            await commit_in(
                kafka.get_bootstrap_servers(), kafka.get_control_url(), kafka.control_token
            )


async def test_a_driver_outside_sits_the_exam_over_tcp(image: Image) -> None:
    """docs/exam.md: the exam runs in the container, and the library where its driver listens."""
    program = [sys.executable, str(REPOSITORY / "helpers" / "exam" / "kafka_python_driver.py")]

    async def drive(
        command_reader: asyncio.StreamReader, answer_writer: asyncio.StreamWriter
    ) -> None:
        pipe = asyncio.subprocess.PIPE
        driver_process = await asyncio.create_subprocess_exec(*program, stdin=pipe, stdout=pipe)
        assert driver_process.stdin is not None
        assert driver_process.stdout is not None
        while line := await command_reader.readline():
            driver_process.stdin.write(line)
            answer_writer.write(await driver_process.stdout.readline())
        driver_process.kill()
        await driver_process.wait()
        answer_writer.close()

    async with await asyncio.start_server(drive, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        arguments = ("txnsim", "exam", "run", "--driver", f"tcp://127.0.0.1:{port}", "--json")
        only = ("--only", "fenced-by-newer", "--only", "reads-overlapping")
        command = in_chroot(image, *arguments, *only, "--transaction-version", "2", http=0)
        exam_process = await asyncio.create_subprocess_exec(
            *command, stdout=asyncio.subprocess.PIPE
        )
        output, _ = await exam_process.communicate()
    results = json.loads(output)
    assert results["library"] == "kafka-python"
    assert [result["outcome"] for result in results["results"]] == ["passed", "passed"]
    assert exam_process.returncode == 0


def test_a_driver_inside_sits_the_exam(image: Image, tmp_path: Path) -> None:
    """docs/exam.md: an image of one's own on top of this one, word by word but for the library."""
    page_text = (REPOSITORY / "docs" / "exam.md").read_text()
    (example,) = re.findall(r"^FROM txnsim\n.*?(?=^```)", page_text, re.MULTILINE | re.DOTALL)
    file, image_name = tmp_path / "Containerfile", "localhost/exam:latest"
    example_text = example.replace("my-library", "kafka-python")
    file.write_text(example_text.replace("my_driver.py", "kafka_python_driver.py"))
    image.builder.build_file(file, context_folder=REPOSITORY / "helpers" / "exam", name=image_name)
    inspection = json.loads(image.builder.ask("buildah", "inspect", "--type", "image", image_name))
    config = inspection["Docker"]["config"]
    assert config["User"] == "65534:65534"
    container = image.builder.ask("buildah", "from", "--pull-never", image_name).split()[-1]
    only = ("--only", "fenced-by-newer", "--only", "reads-overlapping")
    run = image.builder.words("run", "--isolation", "chroot", container, "--")
    command_line = (*config["Entrypoint"], *only, "--transaction-version", "2", "--json")
    finished_process = subprocess.run(
        [*run, *command_line], capture_output=True, text=True, check=False
    )
    results = json.loads(finished_process.stdout)
    assert results["library"] == "kafka-python"
    assert [result["outcome"] for result in results["results"]] == ["passed", "passed"]
    assert finished_process.returncode == 0


def test_it_runs_as_nobody_and_says_how_to_use_it(image: Image) -> None:
    assert image.config["User"] == "65534:65534"
    assert sorted(image.config["ExposedPorts"]) == ["9080/tcp", "9092/tcp", "9093/tcp", "9094/tcp"]
