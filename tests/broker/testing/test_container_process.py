"""The container's program as a process, in an environment like the container's: a scratch
directory, no variables but its own. No container is built here.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time  # noqa: TID251 - a process on the real machine
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from tests.test_tidy import ROOT, source
from txnsim.cli._control_token import token_from
from txnsim.client.admin import Admin
from txnsim.client.cluster import Cluster
from txnsim.testing.container import command_of_environment

pytestmark = pytest.mark.slow

PROGRAM = (sys.executable, "-m", "txnsim.testing.container")
READY_SECONDS = 90


def scratch(directory: Path, **variables: str) -> dict[str, str]:
    """Environment variables that make this checkout importable, and ``variables``."""
    return {"PYTHONPATH": str(ROOT), "HOME": str(directory), "TMPDIR": str(directory), **variables}


@contextmanager
def running(
    directory: Path, variables: Mapping[str, str], *command: str
) -> Iterator[tuple[dict[str, object], subprocess.Popen[bytes]]]:
    """Start the process; yield it with its ready file's content. Its output is in ``output``."""
    ready_file, output = directory / "ready.json", directory / "output"
    environment = scratch(directory, TXNSIM_READY_FILE=str(ready_file), **variables)
    with output.open("wb") as log:
        process = subprocess.Popen(
            command or PROGRAM,
            cwd=directory,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
        )
    try:
        deadline_s = time.monotonic() + READY_SECONDS
        while not ready_file.exists():
            if process.poll() is not None or time.monotonic() > deadline_s:
                raise AssertionError(output.read_text())
            time.sleep(0.02)
        yield msgspec.json.decode(ready_file.read_bytes()), process
    finally:
        process.kill()
        process.wait()


@pytest.mark.costly
async def test_variables_make_a_cluster_that_others_reach(tmp_path: Path) -> None:
    variables = {
        "TXNSIM_BROKERS": "2",
        "TXNSIM_PORT": "0",
        "TXNSIM_HTTP_PORT": "0",
        "TXNSIM_ADVERTISED_HOST": "localhost",
        "TXNSIM_TOPICS": "orders:3",
        "TXNSIM_TRANSACTION_VERSION": "1",
        "KAFKA_TRANSACTION_MAX_TIMEOUT_MS": "60000",
        "KAFKA_LOG_DIRS": "/var/lib/kafka",
    }
    with running(tmp_path, variables) as (facts, process):
        assert facts["pid"] == process.pid, "it took the place of the program"
        bootstrap = str(facts["bootstrap"])
        assert re.fullmatch(r"localhost:\d+,localhost:\d+", bootstrap)
        async with Cluster(bootstrap) as cluster:
            (topic,) = await Admin(cluster).describe_topics(["orders"])
        assert len(topic.partitions) == 3
        assert _is_healthy(tmp_path, str(facts["http"]).rpartition(":")[2])
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
    output = (tmp_path / "output").read_text()
    assert "transaction.max.timeout.ms=60000" in output
    assert "without effect" in output
    assert "log.dirs" in output


def _is_healthy(directory: Path, port: str) -> bool:
    environment = scratch(directory, TXNSIM_HTTP_PORT=port)
    command = [*PROGRAM, "--health"]
    return subprocess.run(command, env=environment, check=False).returncode == 0


@pytest.mark.costly
def test_brokers_tell_the_addresses_that_are_published(tmp_path: Path) -> None:
    variables = {
        "TXNSIM_BROKERS": "2",
        "TXNSIM_PORT": "0",
        "TXNSIM_HTTP_PORT": "off",
        "TXNSIM_ADVERTISED": "docker.test:32768,docker.test:32769",
    }
    with running(tmp_path, variables) as (facts, _process):
        assert facts["bootstrap"] == "docker.test:32768,docker.test:32769"
        assert facts["http"] is None


@pytest.mark.costly
def test_the_start_script_of_the_testcontainers_helper_starts_it(tmp_path: Path) -> None:
    """The very words of TxnsimContainer, run by sh: it waits for the script, which comes later."""
    java = source(
        "helpers/testcontainers-java/src/main/java/io/txnsim/testcontainers/TxnsimContainer.java"
    )
    starter_file = tmp_path / "txnsim-start.sh"
    java_words = re.search(r'"(while \[ ! -f )" \+ STARTER \+ "(.*?)" \+ STARTER\)', java)
    assert java_words
    wait_text = f"{java_words[1]}{starter_file}{java_words[2]}{starter_file}"
    (exec_line,) = re.findall(r'"(exec python .*?)\\n"', java)
    partial_file = tmp_path / "partial"
    partial_file.write_text(
        f"#!/bin/sh\nexport TXNSIM_ADVERTISED='docker.test:32768'\n{exec_line}\n"
    )
    variables = {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "TXNSIM_PORT": "0",
        "TXNSIM_HTTP_PORT": "off",
        "TXNSIM_BROKERS": "1",
    }
    # The script comes while the container waits for it.
    late_command = ("sh", "-c", f"(sleep 0.2; mv {partial_file} {starter_file}) & {wait_text}")
    with running(tmp_path, variables, *late_command) as (facts, process):
        assert facts["bootstrap"] == "docker.test:32768"
        assert facts["pid"] == process.pid


def test_the_image_runs_this_program_as_nobody_and_asks_for_its_health() -> None:
    text = source("Containerfile")
    assert "FROM docker.io/library/python:3.11-slim\n" in text
    assert 'ENTRYPOINT ["python", "-m", "txnsim.testing.container"]' in text
    assert 'CMD ["python", "-m", "txnsim.testing.container", "--health"]' in text
    assert "USER 65534:65534" in text
    for name in re.findall(r"^COPY ((?!--from)[^\n]+) \S+$", text, re.MULTILINE):
        assert all((ROOT / part).exists() for part in name.split()), name


# compose.yaml: no engine is here, so what it says is held against what it names


def test_compose_starts_what_the_image_takes() -> None:
    services = compose()["services"]
    assert set(services) == {"txnsim", "prometheus", "grafana"}
    service = services["txnsim"]
    environment = {
        name: str(variable_value) for name, variable_value in service["environment"].items()
    }
    environment["TXNSIM_TOKEN"] = re.sub(r"\$\{\w+:-(.*)\}", r"\1", environment["TXNSIM_TOKEN"])
    assert token_from(environment) == "only-for-this-machine"
    arguments = command_of_environment(environment).arguments
    assert "orders:3" in arguments
    recipe = (ROOT / "Containerfile").read_text("utf-8")
    kind, *check = service["healthcheck"]["test"]
    assert kind == "CMD"
    assert f"CMD {msgspec.json.encode(check).decode().replace(',', ', ')}" in recipe
    exposed = set(re.search(r"^EXPOSE (.*)$", recipe, re.MULTILINE)[1].split())  # type: ignore[index]
    inside = {port.rpartition(":")[2] for port in service["ports"]}
    assert inside == {"9092-9094", "9080"}
    assert exposed == {"9092", "9093", "9094", "9080"}


def test_compose_mounts_files_that_are_there_and_scrapes_the_service() -> None:
    mounted = [
        volume.split(":")[0]
        for service in compose()["services"].values()
        for volume in service.get("volumes", ())
    ]
    assert [path for path in mounted if not (ROOT / path).exists()] == []
    scrape = yaml.safe_load((ROOT / "monitoring" / "prometheus-compose.yml").read_text("utf-8"))
    assert scrape["scrape_configs"][0]["static_configs"][0]["targets"] == ["txnsim:9080"]


def compose() -> dict[str, Any]:
    read: dict[str, Any] = yaml.safe_load((ROOT / "compose.yaml").read_text("utf-8"))
    return read


# Services of a job in CI (docs/in-ci.md): GitHub starts containers with mapped ports, GitLab beside
# the job's own


def test_a_job_finds_the_service_under_the_name_that_it_advertises() -> None:
    blocks = re.findall(r"```yaml\n(# Git.*?)```", source("docs/in-ci.md"), re.DOTALL)
    github, gitlab = (yaml.safe_load(block)["services"] for block in blocks)
    (github_service,) = github.values()
    (gitlab_service,) = gitlab
    exposed = re.findall(r"^EXPOSE (.*)$", source("Containerfile"), re.MULTILINE)[0].split()
    assert github_service["ports"] == [f"{port}:{port}" for port in exposed]
    for variables, name in (
        (github_service["env"], "localhost"),
        (gitlab_service["variables"], gitlab_service["alias"]),
    ):
        assert token_from(variables) == variables["TXNSIM_TOKEN"]
        arguments = command_of_environment(variables).arguments
        assert arguments[arguments.index("--advertised-host") + 1] == name
        assert "orders:3" in arguments
    assert github_service["image"] == gitlab_service["name"]
