"""The classes for Testcontainers, in five languages, with the published libraries: what they ask an
engine for, and a container that runs.

No engine is here. ``tests/image/engine.py`` stands for one: it answers the libraries' requests and
runs this checkout as processes in namespaces of their own, so this is for root on Linux.
``tests/image`` does the same with the built image.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.image.container import commit_in
from tests.image.engine import Engine
from tests.support.apache_kafka import CACHE, REPOSITORY, hold_lock
from txnsim.errors import ConfigError

pytestmark = pytest.mark.real

HELPERS = REPOSITORY / "helpers"
COMMAND = "while [ ! -f /tmp/txnsim-start.sh ]; do sleep 0.05; done; exec sh /tmp/txnsim-start.sh"


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    with Engine() as engine:
        yield engine


@pytest.fixture
def container_class(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> Any:
    """TxnsimContainer, whose library looks for an engine when it is imported."""
    for variable_name, variable_value in engine.variables().items():
        monkeypatch.setenv(variable_name, variable_value)
    from txnsim.testing.testcontainers import TxnsimContainer

    return TxnsimContainer


# Python


async def test_python_a_client_commits_in_a_container(container_class: Any) -> None:
    options = {"brokers": 2, "topics": {"orders": 2}, "settings": {"num.partitions": 5}}
    with container_class(**options) as kafka:
        await commit_in(kafka.get_bootstrap_servers(), kafka.get_control_url(), kafka.control_token)


def test_python_what_is_asked_for_becomes_variables(container_class: Any) -> None:
    kafka = container_class(
        "txnsim:1",
        brokers=1,
        topics=["orders:3", "payments"],
        transaction_version=0,
        as_version="3.9",
        settings={"transaction.max.timeout.ms": 60_000, "auto.create.topics.enable": False},
        control_token="a-token-of-this-test",
    )
    assert kafka.env == {
        "TXNSIM_BROKERS": "1",
        "TXNSIM_PORT": "9092",
        "TXNSIM_HTTP_PORT": "9080",
        "TXNSIM_TOKEN": "a-token-of-this-test",
        "TXNSIM_TOPICS": "orders:3,payments:1",
        "TXNSIM_TRANSACTION_VERSION": "0",
        "TXNSIM_AS_VERSION": "3.9",
        "KAFKA_TRANSACTION_MAX_TIMEOUT_MS": "60000",
        "KAFKA_AUTO_CREATE_TOPICS_ENABLE": "false",
    }
    assert sorted(kafka.ports) == ["9080", "9092"]
    assert kafka.control_token == "a-token-of-this-test"


def test_python_a_container_waits_for_its_script(container_class: Any, engine: Engine) -> None:
    with container_class(brokers=1) as kafka:
        container_config = engine.containers[kafka.get_container_id()].wanted
        assert container_config["Entrypoint"] == ["sh"]
        assert container_config["Cmd"] == ["-c", COMMAND]


def test_python_settings_are_spelled_as_in_the_image_of_kafka(container_class: Any) -> None:
    from txnsim.testing.testcontainers import variable_of

    assert [variable_of(setting_text) for setting_text in ("a.b", "a_b", "a-b.c")] == [
        "KAFKA_A_B",
        "KAFKA_A__B",
        "KAFKA_A___B_C",
    ]


def test_python_a_fault_that_never_struck_is_an_error_at_the_end(
    container_class: Any, engine: Engine
) -> None:
    kafka = container_class(brokers=1)
    with (
        pytest.raises(AssertionError, match=r"^1 of the faults never struck \(idle: 0 crossings"),
        kafka,
    ):
        arm_in_vain(kafka)
    assert kafka.get_container_id() not in engine.containers


def test_python_a_test_that_has_failed_keeps_its_own_failure(
    container_class: Any, engine: Engine
) -> None:
    kafka = container_class(brokers=1)

    def fails() -> None:
        try:
            arm_in_vain(kafka.start())
            raise LookupError("of the test")
        finally:
            kafka.stop()

    with pytest.raises(LookupError, match="of the test"):
        fails()
    assert kafka.get_container_id() not in engine.containers


def test_python_a_fault_may_miss_where_that_is_said(container_class: Any) -> None:
    with container_class(brokers=1, faults_may_miss=True) as kafka:
        arm_in_vain(kafka)


def test_python_a_container_that_has_gone_before_its_test_is_told(
    container_class: Any, engine: Engine
) -> None:
    kafka = container_class(brokers=1).start()
    engine.containers[kafka.get_container_id()].kill()
    with pytest.raises(AssertionError, match="whether every fault has struck can't be asked"):
        kafka.stop()


def arm_in_vain(kafka: Any) -> None:
    arm(kafka.get_control_url(), kafka.control_token)


def arm(control_url: str, token: str) -> None:
    rule = {"id": "idle", "point": "client.request", "api": "EndTxn", "action": {"do": "drop"}}
    headers = {"Authorization": f"Bearer {token}"}
    response = httpx.post(f"{control_url}/api/v1/faults", json=rule, headers=headers)
    assert response.status_code == 201


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"brokers": 0}, "at least one broker, not 0"),
        ({"topics": 3}, "topics"),
        ({"settings": {"transaction.max.timeout": 1}}, "transaction.max.timeout.ms"),
        ({"transaction_version": 2, "as_version": "3.6"}, "3.6"),
    ],
)
def test_python_a_wrong_option_is_refused_before_anything_starts(
    container_class: Any, options: dict[str, Any], message: str
) -> None:
    with pytest.raises((ConfigError, TypeError), match=message):
        container_class(**options)


# Other languages: each has tests of its own; TXNSIM_TEST_IMAGE makes them start a container


def test_go(engine: Engine) -> None:
    folder = HELPERS / "go" / "testcontainers"
    run([tool("go"), "vet", "./..."], folder, engine)
    output = run([tool("go"), "test", "-count=1", "-v", "./..."], folder, engine)
    assert output.count("--- PASS") >= 11
    assert "--- SKIP" not in output


def test_node(engine: Engine) -> None:
    folder = CACHE / "testcontainers-node"
    with hold_lock(CACHE / "testcontainers-node.lock"):
        shutil.copytree(HELPERS / "node", folder, ignore=NEVER_COPIED, dirs_exist_ok=True)
        install = ("--no-audit", "--no-fund", "--no-package-lock", "--ignore-scripts")
        run([tool("npm"), "install", *install], folder, engine)
        tests = "test/testcontainers/containers.test.mjs"
        output = run([tool("node"), "--test", "--test-reporter=tap", tests], folder, engine)
    assert "\n# pass 10\n" in output
    assert "\n# skipped 0\n" in output


def test_java(engine: Engine) -> None:
    build_directory = CACHE / "testcontainers-java"
    pom_file = HELPERS / "testcontainers-java" / "pom.xml"
    with hold_lock(CACHE / "testcontainers-java.lock"):
        shutil.rmtree(build_directory, ignore_errors=True)
        build_directory.mkdir(parents=True)
        arguments = ("-q", "-B", "-f", str(pom_file), f"-Dtxnsim.build={build_directory}", "test")
        run([tool("mvn"), *arguments], build_directory, engine)
        assert count_passed(build_directory / "surefire-reports") >= 12


@pytest.fixture(scope="module")
def rust(engine: Engine) -> Path:
    """The program of the crate's example: a cluster until the end of its standard input."""
    folder, built = HELPERS / "testcontainers-rust", CACHE / "testcontainers-rust"
    build = ("--quiet", "--target-dir", str(built))
    with hold_lock(CACHE / "testcontainers-rust.lock"):
        output = run([tool("cargo"), "test", *build, "--lib"], folder, engine)
        assert "test result: ok. 2 passed" in output
        run([tool("cargo"), "build", *build, "--example", "serve"], folder, engine)
    return built / "debug" / "examples" / "serve"


async def test_rust_a_client_commits_in_a_container(rust: Path, engine: Engine) -> None:
    with serving(rust, engine) as (process, arguments):
        await commit_in(*arguments)
        assert process.communicate(timeout=60) == ("", "")
    assert process.returncode == 0


def test_rust_a_fault_that_never_struck_is_an_error_at_the_end(rust: Path, engine: Engine) -> None:
    with serving(rust, engine) as (process, (_, control_url, token)):
        arm(control_url, token)
        _, output = process.communicate(timeout=60)
    assert "1 of the faults never struck (idle: 0 crossings" in output
    assert process.returncode == 1


@contextmanager
def serving(
    program_file: Path, engine: Engine
) -> Iterator[tuple[subprocess.Popen[str], tuple[str, str, str]]]:
    with subprocess.Popen(
        [program_file],
        env={**os.environ, **engine.variables()},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        bootstrap, control_url, token = process.stdout.readline().split()
        yield process, (bootstrap, control_url, token)


NEVER_COPIED = shutil.ignore_patterns("node_modules")


def tool(name: str) -> str:
    program = shutil.which(name)
    assert program, f"{name} not found: its classes for Testcontainers are tried with it"
    return program


def run(command: Sequence[str], directory: Path, engine: Engine) -> str:
    process = subprocess.run(
        command,
        cwd=directory,
        env={**os.environ, **engine.variables()},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        check=False,
        timeout=600,
    )
    assert process.returncode == 0, process.stdout
    return process.stdout


def count_passed(reports_folder: Path) -> int:
    suites = [
        ElementTree.parse(file).getroot() for file in sorted(reports_folder.glob("TEST-*.xml"))
    ]
    for suite in suites:
        assert (suite.get("failures"), suite.get("errors"), suite.get("skipped")) == (*("0",) * 3,)
    return sum(int(suite.get("tests", "0")) for suite in suites)
