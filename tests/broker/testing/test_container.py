"""Environment variables to arguments and properties."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from txnsim.config import load
from txnsim.errors import ConfigError
from txnsim.testing import container
from txnsim.testing.container import (
    ContainerCommand,
    command_of_environment,
    health,
    main,
    property_name,
)

OPEN = ("--http", "9080", "--http-host", "0.0.0.0")


def words(**environment: str) -> tuple[str, ...]:
    return command_of_environment(environment).arguments


def test_without_variables_others_can_reach_it() -> None:
    assert command_of_environment({}) == ContainerCommand(arguments=("--host", "0.0.0.0", *OPEN))


def test_each_variable_is_an_option() -> None:
    assert words(
        TXNSIM_BROKERS="2",
        TXNSIM_PORT="19092",
        TXNSIM_ADVERTISED_HOST="kafka.test",
        TXNSIM_ADVERTISED="a:1,b:2",
        TXNSIM_TOPICS="orders:3, payments",
        TXNSIM_TRANSACTION_VERSION="1",
        TXNSIM_AS_VERSION="4.3,1=3.9",
        TXNSIM_HTTP_PORT="off",
        TXNSIM_HOST="127.0.0.1",
        TXNSIM_KIP_TEXT="true",
        TXNSIM_TRACE="brief",
        TXNSIM_READY_FILE="/tmp/ready",
    ) == (
        *("--host", "127.0.0.1", "--brokers", "2", "--port", "19092"),
        *("--advertised-host", "kafka.test", "--advertised", "a:1", "--advertised", "b:2"),
        *("--topic", "orders:3", "--topic", "payments:1", "--transaction-version", "1"),
        *("--as-version", "4.3", "--as-version", "1=3.9", "--kip-text", "--trace", "brief"),
        *("--ready-file", "/tmp/ready"),
    )
    assert "--kip-text" not in words(TXNSIM_KIP_TEXT="false")


def test_arguments_of_the_container_are_handed_on() -> None:
    assert command_of_environment({}, ["--brokers", "1"]).arguments[-2:] == ("--brokers", "1")


def test_properties_are_spelled_as_in_the_image_of_kafka() -> None:
    assert property_name("KAFKA_TRANSACTION_MAX_TIMEOUT_MS") == "transaction.max.timeout.ms"
    assert property_name("KAFKA_A__B_C___D") == "a_b.c-d"
    container_command = command_of_environment(
        {
            "KAFKA_TRANSACTION_MAX_TIMEOUT_MS": "60000",
            "KAFKA_CLUSTER_NAME": "a\\b\nc ü €",
            "KAFKA_HEAP_OPTS": "-Xmx1g",
            "OTHER": "x",
        }
    )
    assert container_command.properties == (
        "cluster.name=a\\\\b\\nc ü \\u20ac\ntransaction.max.timeout.ms=60000\n"
    )


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    container_command = command_of_environment(
        {"KAFKA_TRANSACTION_MAX_TIMEOUT_MS": "60000", "KAFKA_LOG_DIRS": " \U0001f600"}
    )
    file = tmp_path / "server.properties"
    file.write_text(container_command.properties, "latin-1")
    assert load(file).settings.transaction_max_timeout_ms == 60_000


def test_listeners_say_where_to_listen_unless_told_otherwise() -> None:
    environment = {"KAFKA_LISTENERS": "PLAINTEXT://:9092"}
    assert "--host" not in command_of_environment(environment).arguments
    assert "--host" in command_of_environment({**environment, "TXNSIM_HOST": "::1"}).arguments


@pytest.mark.parametrize(
    ("advertised", "listeners_text"),
    [
        ("IN://kafka:29092, OUT://localhost:9093", "IN://0.0.0.0:29092,OUT://0.0.0.0:9093"),
        ("IN://[::1]:29092", "IN://0.0.0.0:29092"),
        ("IN://kafka:x:29092", "IN://kafka:x:29092"),  # no listener: who reads it refuses it
        ("PLAINTEXT://kafka:9092", None),  # the listener that there is unless one is set
    ],
)
def test_advertised_listeners_without_others_are_bound_everywhere(
    advertised: str, listeners_text: str | None
) -> None:
    container_command = command_of_environment({"KAFKA_ADVERTISED_LISTENERS": advertised})
    assert f"advertised.listeners={advertised}\n" in container_command.properties
    assert (
        f"listeners={listeners_text}\n" in container_command.properties.splitlines(keepends=True)
    ) == bool(listeners_text)
    assert len(container_command.remarks) == bool(listeners_text)


@pytest.mark.parametrize(
    ("environment", "complaint"),
    [
        ({"TXNSIM_BROKER": "1"}, "no variable 'TXNSIM_BROKER'; did you mean TXNSIM_BROKERS?"),
        ({"TXNSIM_ZZZZZZZZZZZZ": "1"}, "there are: TXNSIM_ADVERTISED, "),
        ({"TXNSIM_KIP_TEXT": "yes"}, "TXNSIM_KIP_TEXT=yes: expected true or false"),
        (
            {"TXNSIM_CONFIG": "cluster.yaml", "KAFKA_LOG_ROLL_MS": "1"},
            "only go with a .properties file",
        ),
    ],
)
def test_what_is_unknown_or_wrong_is_refused(environment: dict[str, str], complaint: str) -> None:
    with pytest.raises(ConfigError) as error_info:
        command_of_environment(environment)
    assert complaint in str(error_info.value)


def test_what_kubernetes_says_of_a_service_of_that_name_is_not_meant_for_us() -> None:
    assert command_of_environment(
        {
            "TXNSIM_SERVICE_HOST": "10.0.0.1",
            "TXNSIM_SERVICE_PORT_KAFKA": "9092",
            "TXNSIM_PORT": "tcp://10.0.0.1:9092",
            "TXNSIM_PORT_9092_TCP_ADDR": "10.0.0.1",
            "KAFKA_SERVICE_PORT": "9092",
            "KAFKA_PORT": "tcp://10.0.0.1:9092",
        }
    ) == command_of_environment({})


@pytest.fixture
def executed(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The commands that ``execv`` gets, which replaces no process here."""
    commands: list[list[str]] = []
    monkeypatch.setattr(container.os, "execv", lambda _path, command: commands.append(command))
    monkeypatch.setattr(container.os, "environ", {})
    monkeypatch.setattr(sys, "argv", ["container"])
    return commands


def test_a_file_and_variables_become_one_file(
    executed: list[list[str]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    mounted_path = tmp_path / "mounted.properties"
    mounted_path.write_text("log.roll.ms=5")
    monkeypatch.setattr(
        container.os,
        "environ",
        {"TXNSIM_CONFIG": str(mounted_path), "KAFKA_TRANSACTION_MAX_TIMEOUT_MS": "60000"},
    )
    main()
    (command,) = executed
    assert command[1:5] == ["-m", "txnsim.cli.main", "serve", "--config"]
    settings = load(Path(command[5])).settings
    assert (settings.log_roll_ms, settings.transaction_max_timeout_ms) == (5, 60_000)


def test_a_file_alone_is_used_as_it_is(
    executed: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(container.os, "environ", {"TXNSIM_CONFIG": "cluster.yaml"})
    main()
    assert executed[0][4:6] == ["--config", "cluster.yaml"]


def test_a_wrong_variable_ends_it_with_its_name(
    executed: list[list[str]],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for environment, complaint in (
        ({"TXNSIM_TOPIC": "a"}, "no variable 'TXNSIM_TOPIC'"),
        (
            {"TXNSIM_CONFIG": "/nowhere.properties", "KAFKA_LOG_ROLL_MS": "1"},
            "TXNSIM_CONFIG=/nowhere.properties: No such file",
        ),
    ):
        monkeypatch.setattr(container.os, "environ", environment)
        assert main() == 2
        assert complaint in capsys.readouterr().err
    assert executed == []


def test_health_without_a_control_port_can_not_be_told(
    executed: list[list[str]], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert health({"TXNSIM_HTTP_PORT": "off"}) == 0
    monkeypatch.setattr(sys, "argv", ["container", "--health"])
    monkeypatch.setattr(container.os, "environ", {"TXNSIM_HTTP_PORT": "1"})
    assert main() == 1
    assert "http://127.0.0.1:1/healthz: " in capsys.readouterr().err


def test_a_token_is_handed_on_by_the_environment_and_by_no_argument() -> None:
    container_command = command_of_environment({"TXNSIM_TOKEN": "a-secret-of-the-environment"})
    assert container_command == command_of_environment({})
