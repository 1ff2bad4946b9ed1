"""``txnsim serve``: arguments to a cluster, what it announces, what it loads."""

from __future__ import annotations

import argparse
import errno
import gc
import json
import os
import re
import signal
import socket  # noqa: TID251 - a port must really be busy
import subprocess
import sys
import uuid
from collections.abc import Coroutine
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.log_dirs import hold_directory, write_disk
from tests.support.logs import NOW, LogDriver, plain
from tests.support.metadata_logs import feature, partition, topic, write_metadata_log
from tests.support.ports import free_port_before_a_busy_one
from tests.support.slow_machine import SLOW_S
from tests.support.txnsim_server import TxnsimServer, TxnsimServerError
from txnsim.cli import _serve_load as serve_load
from txnsim.cli import serve
from txnsim.cli.garbage_collection import THRESHOLDS
from txnsim.cli.main import main
from txnsim.cli.serve import STOCK_CLIENTS_FAIL, changed_defaults, options_from
from txnsim.client.admin import Admin
from txnsim.client.cluster import Cluster
from txnsim.errors import ConfigError, MissingExtraError
from txnsim.metadata.image import ClusterImage
from txnsim.runtime.real_world import real_environment, run
from txnsim.server.disk_loading import LoadedCluster
from txnsim.server.options import ClusterOptions
from txnsim.settings import DEFAULTS, Settings
from txnsim.storage.replica_loading import DataLoss
from txnsim.types import BrokerId, ProducerId


def arguments(*argv: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    serve.add_arguments(parser)
    return parser.parse_args(argv)


# Arguments


def test_without_arguments_the_options_are_the_defaults() -> None:
    assert options_from(arguments()) == ClusterOptions()


def test_arguments_become_options() -> None:
    options = options_from(
        arguments(
            *("--brokers", "5", "--port", "0", "--host", "0.0.0.0", "--advertised-host", "box"),
            *("--topic", "orders:6", "--topic", "payments:2", "--transaction-version", "1"),
        )
    )
    assert options == ClusterOptions(
        brokers=5,
        port=0,
        host="0.0.0.0",
        advertised_host="box",
        topics=(("orders", 6), ("payments", 2)),
        settings=Settings(transaction_version=1),
    )


def test_arguments_win_over_the_file_and_topics_add_up(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text("transaction.max.timeout.ms=5000\nnum.partitions=4\n")
    options = options_from(arguments("--config", str(file), "--transaction-version", "0"))
    assert options.settings == Settings(
        transaction_max_timeout_ms=5_000, num_partitions=4, transaction_version=0
    )


def test_the_budget_of_logs_is_a_size() -> None:
    settings = options_from(arguments("--log-budget", "128MiB")).settings
    assert settings == Settings(log_budget_bytes=128 * 2**20)
    with pytest.raises(ConfigError, match="--log-budget 'much' is no size such as 128MiB"):
        options_from(arguments("--log-budget", "much"))


def test_the_text_of_the_kips_is_asked_for_by_argument_or_file(tmp_path: Path) -> None:
    options = options_from(arguments("--kip-text", "--kip-text-port", "0"))
    assert (options.settings.kip_text, options.kip_text_port) == (True, 0)
    file = tmp_path / "txnsim.yaml"
    file.write_text("settings:\n  kip_text: true\n")
    assert options_from(arguments("--config", str(file))).settings == Settings(kip_text=True)


@pytest.mark.parametrize(
    ("argv", "complaint"),
    [
        (("--kip-text-port", "9500"), "only with --kip-text"),
        (("--kip-text", "--kip-text-port", "65534"), "--kip-text-port 65534: 3 brokers need"),
        (("--kip-text", "--kip-text-port", "-1"), "--kip-text-port -1"),
        (("--kip-text", "--port", "65500"), "--kip-text-port 65600"),
    ],
)
def test_a_port_for_the_text_that_can_not_be_is_refused(
    argv: tuple[str, ...], complaint: str
) -> None:
    with pytest.raises(ConfigError, match=complaint):
        options_from(arguments(*argv))


@pytest.mark.parametrize("text", ["orders:", ":3", "orders:0", "orders:-1", "orders:x"])
def test_a_topic_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="expected NAME or NAME:PARTITIONS"):
        options_from(arguments("--topic", text))


@pytest.mark.parametrize(
    ("argv", "port"), [((), None), (("--http",), serve.HTTP_PORT_DEFAULT), (("--http", "0"), 0)]
)
def test_the_control_port_is_off_unless_asked_for(argv: tuple[str, ...], port: int | None) -> None:
    assert arguments(*argv).http == port


def test_a_file_may_ask_for_the_control_port_and_the_argument_wins(tmp_path: Path) -> None:
    file = tmp_path / "cluster.yaml"
    file.write_text("http: 9090\n")
    for argv, port in (
        (("--config", str(file)), 9_090),
        (("--http", "1", "--config", str(file)), 1),
    ):
        args = arguments(*argv)
        options_from(args)
        assert args.http == port


def test_clients_may_be_told_other_addresses() -> None:
    advertised = ("--advertised", "localhost:31000", "--advertised", "localhost:31001")
    options = options_from(arguments("--brokers", "2", *advertised))
    assert options.advertised == (("localhost", 31_000), ("localhost", 31_001))
    with pytest.raises(ConfigError, match="--advertised: 2 addresses for 3 brokers"):
        options_from(arguments(*advertised))


@pytest.mark.parametrize("text", ["localhost", ":9092", "localhost:", "localhost:0", "a:99999"])
def test_an_address_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="expected HOST:PORT"):
        options_from(arguments("--brokers", "1", "--advertised", text))


@pytest.mark.parametrize(
    "arguments",
    [
        ("serve", "--host", "a..b"),
        ("serve", "--http-host", "a\N{RIGHT-TO-LEFT OVERRIDE}b"),
    ],
)
def test_a_host_that_none_can_be_is_refused(
    arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(list(arguments)) == 2
    assert f"{arguments[-2]} {arguments[-1]!r}: expected the name" in capsys.readouterr().err


# The banner


# What can go wrong


@pytest.mark.parametrize("by_make", [False, True])
def test_a_busy_port_is_named_and_free_ones_are_suggested(
    by_make: bool, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MAKELEVEL", raising=False)
    if by_make:
        monkeypatch.setenv("MAKELEVEL", "1")
    hint = ": make run ARGS='--port 0'" if by_make else ""
    with socket.socket() as busy_socket:
        busy_socket.bind(("127.0.0.1", 0))
        busy_socket.listen()
        port = busy_socket.getsockname()[1]
        assert serve.run(arguments("--port", str(port), "--brokers", "1")) == 1
    complaint = capsys.readouterr().err
    assert complaint == (
        f"txnsim: 127.0.0.1:{port} is in use: choose another --port, or --port 0 for a free one"
        f"{hint}\n"
    )


def test_of_several_ports_the_busy_one_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    with free_port_before_a_busy_one() as port:
        assert serve.run(arguments("--port", str(port), "--brokers", "2")) == 1
    assert f":{port + 1} is in use" in capsys.readouterr().err


def test_a_busy_control_port_is_not_taken_for_a_brokers(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with socket.socket() as busy_socket:
        busy_socket.bind(("127.0.0.1", 0))
        busy_socket.listen()
        port = busy_socket.getsockname()[1]
        assert serve.run(arguments("--port", "0", "--http", str(port))) == 1
    complaint = capsys.readouterr().err
    assert complaint.startswith(f"txnsim: control port: 127.0.0.1:{port}: ")
    assert "--http 0" in complaint


@pytest.mark.parametrize(
    "argv",
    [
        ("--port", "-1"),
        ("--port", "70000"),
        ("--port", "65534", "--brokers", "3"),
        ("--http", "70000"),
    ],
)
def test_ports_that_do_not_exist_are_refused(argv: tuple[str, ...]) -> None:
    with pytest.raises(ConfigError, match=argv[0]):
        options_from(arguments(*argv))


def test_the_last_ports_there_are_can_be_had() -> None:
    assert options_from(arguments("--port", "65533", "--brokers", "3")).port == 65_533


def test_a_host_of_somebody_else_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    # TEST-NET-1 of RFC 5737: nobody's address.
    assert serve.run(arguments("--port", "0", "--host", "192.0.2.1")) == 1
    assert "can't listen on 192.0.2.1" in capsys.readouterr().err


def test_a_host_of_somebody_else_for_the_control_port_is_named_with_its_option(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert serve.run(arguments("--port", "0", "--http", "0", "--http-host", "192.0.2.1")) == 1
    complaint = capsys.readouterr().err
    assert complaint.startswith("txnsim: control port: can't listen on 192.0.2.1: ")
    assert complaint.endswith(": --http-host takes an address of this machine\n")


@pytest.mark.costly
def test_ipv6_addresses_stand_in_brackets_wherever_clients_take_them() -> None:
    if not has_ipv6():
        pytest.skip("this machine has no IPv6 loopback")
    options = ("--host", "::1", "--http-host", "::1", "--http", "0")
    with TxnsimServer(brokers=1, arguments=options) as server:
        ready_facts = server.ready
        assert re.fullmatch(r"\[::1\]:\d+", ready_facts["bootstrap"])
        assert re.fullmatch(r"http://\[::1\]:\d+", ready_facts["http"])
        brokers = httpx.get(f"{ready_facts['http']}/api/v1/brokers").json()
        assert main(["txns", "--bootstrap-server", ready_facts["bootstrap"], "list"]) == 0
    assert brokers[0]["host"] == "::1"


def has_ipv6() -> bool:
    try:
        with socket.socket(socket.AF_INET6) as ipv6_socket:
            ipv6_socket.bind(("::1", 0))
    except OSError:
        return False
    return True


@pytest.mark.parametrize(
    ("failure", "status", "complaint"),
    [
        (ConfigError("topic is odd"), 2, "topic is odd"),
        (MissingExtraError("pip install '.[http]'"), 2, "pip install '.[http]'"),
        (OSError(errno.EACCES, "Permission denied"), 1, "Permission denied"),
    ],
)
def test_a_failed_start_is_one_line_and_a_status(
    failure: Exception,
    status: int,
    complaint: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def fail(coroutine: Any) -> int:
        coroutine.close()
        raise failure

    monkeypatch.setattr("txnsim.runtime.real_world.run", fail)
    assert main(["serve"]) == status
    assert complaint in capsys.readouterr().err


def test_the_collector_looks_seldom_while_the_server_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    thresholds: list[tuple[int, int, int]] = []

    def note(serving_coroutine: Coroutine[Any, Any, int]) -> int:
        serving_coroutine.close()
        thresholds.append(gc.get_threshold())
        return 0

    thresholds_before = gc.get_threshold()
    monkeypatch.setattr("txnsim.runtime.real_world.run", note)
    assert serve.run(arguments("--port", "0")) == 0
    assert thresholds == [THRESHOLDS] != [thresholds_before]
    assert gc.get_threshold() == thresholds_before


def test_a_wrong_argument_is_told_before_anything_starts(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["serve", "--topic", "orders:many"]) == 2
    assert "orders:many" in capsys.readouterr().err


def test_a_topic_that_kafka_would_refuse_stops_the_start(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["serve", "--port", "0", "--topic", "bad name:3"]) == 2
    assert "topic bad name" in capsys.readouterr().err


# A whole run


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_it_cleanly(number: signal.Signals, tmp_path: Path) -> None:
    ready_file = tmp_path / "ready.json"
    command = [sys.executable, "-m", "txnsim.cli.main", "serve", "--port", "0", "--json"]
    with subprocess.Popen(
        [*command, "--ready-file", str(ready_file), "--http", "0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        facts = json.loads(process.stdout.readline())
        # The file is there before anything is printed, whole and under its own name only.
        assert json.loads(ready_file.read_text()) == facts
        assert [path.name for path in tmp_path.iterdir()] == ["ready.json"]
        process.send_signal(number)
        _out, complaints_text = process.communicate(timeout=SLOW_S)
    assert process.returncode == 0
    assert complaints_text == ""
    assert not ready_file.exists()
    assert facts["pid"] == process.pid
    assert len(facts["bootstrap"].split(",")) == 3
    assert facts["http"].startswith("http://127.0.0.1:")
    assert process.pid != os.getpid()


@pytest.mark.slow
def test_a_closed_standard_output_is_no_reason_to_abort(tmp_path: Path) -> None:
    ready_file = tmp_path / "ready.json"
    line = (
        f"exec {sys.executable} -m txnsim serve --port 0 --brokers 1 --ready-file {ready_file} >&-"
    )
    with subprocess.Popen(["sh", "-c", line], stderr=subprocess.PIPE) as process:
        while not ready_file.exists():
            assert process.poll() is None
        process.terminate()
        _, complaints = process.communicate(timeout=SLOW_S)
    assert (process.returncode, complaints) == (0, b"")


@pytest.mark.slow
def test_a_reader_of_its_output_that_is_gone_ends_it_without_a_complaint() -> None:
    command = [sys.executable, "-m", "txnsim", "serve", "--port", "0", "--brokers", "1"]
    reader, writer = os.pipe()
    os.close(reader)
    try:
        process = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, check=False)
    finally:
        os.close(writer)
    assert (process.returncode, process.stderr) == (1, b"")


@pytest.mark.slow
def test_a_token_is_printed_where_it_was_made_up_and_never_where_it_was_set(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server_arguments = ("--http", "0", "--http-host", "0.0.0.0", "--log-level", "debug")
    with TxnsimServer(brokers=1, arguments=server_arguments) as server:
        token = server.ready["token"]
        output = server.wait_for_output("SIGTERM to the process")
        assert f"its token       {token}  (Authorization: Bearer TOKEN)" in output
        assert output.count(token) == 1
    monkeypatch.setenv("TXNSIM_TOKEN", "a-secret-of-the-environment")
    with TxnsimServer(brokers=1, arguments=("--http", "0", "--log-level", "debug")) as server:
        assert server.ready["token"] == "a-secret-of-the-environment"
        url = f"{server.http}/api/v1/clock"
        assert httpx.get(url, timeout=SLOW_S).status_code == 401
        headers = {"Authorization": "Bearer a-secret-of-the-environment"}
        assert httpx.get(url, headers=headers, timeout=SLOW_S).status_code == 200
        output = server.wait_for_output("SIGTERM to the process")
        assert "its token       that of TXNSIM_TOKEN" in output
        assert "a-secret-of-the-environment" not in output


def test_a_missing_folder_of_the_ready_file_is_told_as_such(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["serve", "--ready-file", str(tmp_path / "no" / "ready")]) == 2
    assert f"there is no directory {tmp_path / 'no'}" in capsys.readouterr().err


@pytest.mark.slow
def test_a_killed_process_leaves_its_ready_file_and_the_next_one_removes_it_first(
    tmp_path: Path,
) -> None:
    ready_file = tmp_path / "ready.json"
    line = [
        sys.executable,
        "-m",
        "txnsim",
        "serve",
        "--brokers",
        "1",
        "--ready-file",
        str(ready_file),
    ]
    with subprocess.Popen([*line, "--port", "0"], stdout=subprocess.DEVNULL) as process:
        while not ready_file.exists():
            assert process.poll() is None
        process.kill()
    assert json.loads(ready_file.read_text())["pid"] == process.pid
    assert main(["serve", "--ready-file", str(ready_file), "--topic", "a:0"]) == 2
    assert not ready_file.exists()


@pytest.mark.slow
def test_it_ends_with_its_standard_input(tmp_path: Path) -> None:
    ready_file = tmp_path / "ready.json"
    command = [sys.executable, "-m", "txnsim.cli.main", "serve", "--port", "0", "--brokers", "1"]
    with subprocess.Popen(
        [*command, "--until-eof", "--ready-file", str(ready_file)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
    ) as process:
        assert process.stdin is not None
        process.stdin.write(b"not yet\n")
        process.stdin.flush()
        while not ready_file.exists():
            assert process.poll() is None
        process.stdin.close()
        assert process.wait(timeout=SLOW_S) == 0


@pytest.mark.slow
def test_the_banner_tells_where_it_is_and_how_to_stop_it() -> None:
    with TxnsimServer(brokers=1, transaction_version=1) as server:
        output = server.wait_for_output(f"SIGTERM to the process {server.pid}")
        assert f"txnsim {version('txnsim')}: 1 broker up as Apache Kafka 4.4" in output
        assert ", transaction.version 1\n" in output
        assert f"bootstrap.servers={server.bootstrap}" in output
        assert "control port" not in output
        assert "KIP text" not in output


@pytest.mark.slow
async def test_requests_are_logged_as_json_where_that_is_asked_for() -> None:
    arguments = ("--log-level", "debug", "--log-format", "json")
    with TxnsimServer(brokers=1, arguments=arguments) as server:
        async with Cluster(server.bootstrap) as cluster:
            await Admin(cluster).describe_cluster()
        output = server.wait_for_output('"event": "connection.closed"')
    lines = [
        json.loads(printed_line)
        for printed_line in output.splitlines()
        if printed_line.startswith("{")
    ]
    (answer_event,) = (
        line
        for line in lines
        if line["event"] == "request.answered" and line["api"] == "DescribeCluster"
    )
    assert answer_event["level"] == "debug"
    assert answer_event["logger"] == "txnsim.request"
    assert {"broker", "connection", "client_id", "correlation_id", "version", "ms"} <= set(
        answer_event
    )


@pytest.mark.slow
def test_the_banner_tells_of_the_second_listener_and_who_fails_there() -> None:
    with TxnsimServer(brokers=2, arguments=("--kip-text",)) as server:
        listeners = server.ready["kip_text_bootstrap"].split(",")
        assert len(listeners) == 2
        assert not set(listeners) & set(server.bootstrap.split(","))
        output = server.wait_for_output(STOCK_CLIENTS_FAIL)  # it comes behind the ready file
        assert f"KIP text          {','.join(listeners)}" in output


@pytest.mark.slow
def test_a_server_that_can_not_start_says_why() -> None:
    with pytest.raises(TxnsimServerError, match=r"exited with 2:\n.*x:many"):
        TxnsimServer(arguments=("--topic", "x:many")).start()


WITHOUT_STARLETTE = """
import sys

class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "starlette":
            raise ModuleNotFoundError(f"No module named {name!r}", name="starlette")

sys.meta_path.insert(0, Blocker())
from txnsim.cli.main import main
sys.exit(main(["serve", "--port", "0", "--http", "0"]))
"""


@pytest.mark.slow
def test_the_control_port_without_its_extra_gives_the_pip_line() -> None:
    finished_process = subprocess.run(
        [sys.executable, "-c", WITHOUT_STARLETTE],
        capture_output=True,
        text=True,
        check=False,
    )
    assert finished_process.returncode == 2
    assert (
        finished_process.stderr
        == f"txnsim: the control port needs starlette: {MissingExtraError.pip_line('http')}\n"
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("file_name", "text"),
    [
        ("cluster.yaml", "advertised_host: localhost\ntopics:\n  orders: 2\n"),
        ("server.properties", "num.partitions=2\nadvertised.listeners=PLAINTEXT://localhost:9\n"),
    ],
)
async def test_a_file_says_what_is_started(file_name: str, text: str, tmp_path: Path) -> None:
    file = tmp_path / file_name
    file.write_text(text)
    with TxnsimServer(brokers=1, arguments=("--config", str(file))) as server:
        assert server.bootstrap.startswith("localhost:")
        async with Cluster(server.bootstrap) as cluster:
            (address,) = cluster.view.brokers
            assert address.host == "localhost"
            await cluster.refresh(["orders"], create=True)
            topic = await Admin(cluster).wait_for_topic("orders")
            assert len(topic.partitions) == 2


# Security


def test_a_directory_for_security_makes_sense_only_with_it() -> None:
    with pytest.raises(ConfigError, match="--security-dir d: only with --security"):
        options_from(arguments("--security-dir", "d"))


def test_the_listeners_of_security_need_ports_too() -> None:
    options_from(arguments("--security", "demo", "--port", "65133"))
    with pytest.raises(ConfigError, match="would need port 65537"):
        options_from(arguments("--security", "demo", "--port", "65135"))


@pytest.mark.slow
def test_security_says_where_its_files_are_and_takes_them_away_again(tmp_path: Path) -> None:
    security_dir = tmp_path / "kept"
    demo = ("--security", "demo")
    with TxnsimServer(brokers=1, arguments=(*demo, "--security-dir", str(security_dir))) as server:
        security = server.ready["security"]
        assert security["directory"] == str(security_dir)
        assert set(security["bootstrap"]) == {"SASL_PLAINTEXT", "SASL_SSL", "SSL"}
    assert (security_dir / "admin.properties").exists()
    with TxnsimServer(brokers=1, arguments=demo) as server:
        security = server.ready["security"]
        assert Path(security["directory"], "ca.pem").exists()
    assert not Path(security["directory"]).exists()


@pytest.mark.slow
def test_a_file_may_have_security_and_its_listeners_are_told(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text(
        "listeners=CLEAR://127.0.0.1:0,PASSWORDS://127.0.0.1:0\n"
        "listener.security.protocol.map=CLEAR:PLAINTEXT,PASSWORDS:SASL_PLAINTEXT\n"
        "sasl.enabled.mechanisms=PLAIN\n"
        'listener.name.passwords.plain.sasl.jaas.config=P required user_alice="secret";\n'
    )
    with TxnsimServer(brokers=2, arguments=("--config", str(file))) as server:
        security = server.ready["security"]
        assert list(security) == ["bootstrap"]
        assert list(security["bootstrap"]) == ["PASSWORDS"]
        assert len(security["bootstrap"]["PASSWORDS"].split(",")) == 2


def test_security_is_the_files_or_the_demos(tmp_path: Path) -> None:
    file = tmp_path / "cluster.yaml"
    file.write_text("security: {listeners: {SASL_PLAINTEXT: {}}}\n")
    with pytest.raises(ConfigError, match="has security of its own"):
        options_from(arguments("--security", "demo", "--config", str(file)))


STARTED = """
import sys
from txnsim.cli import serve
from txnsim.runtime.virtual.run import run_virtual
from txnsim.server.cluster import SimCluster
from txnsim.server.options import ClusterOptions

async def start(env):
    cluster = SimCluster(env, ClusterOptions())
    await cluster.start()
    print(*sorted(sys.modules))
    await cluster.stop()

run_virtual(start, seed=1)
"""
LATER = (
    *("txnsim.group.", "txnsim.coordinators.group.", "txnsim.api._transactions."),
    *("txnsim.cli._security_settings", "txnsim.server.security_demo"),
    *("txnsim.http.", "txnsim.config.", "txnsim.storage.", "structlog", "pydantic", "yaml"),
)
"""What is imported when somebody asks for it: a start should take no time."""


def test_a_cluster_starts_without_what_nobody_has_asked_for() -> None:
    process = subprocess.run(
        [sys.executable, "-c", STARTED], capture_output=True, text=True, check=True
    )
    modules = process.stdout.split()
    assert "txnsim.coordinators.txn.service" in modules
    assert [module_name for module_name in modules if module_name.startswith(LATER)] == []


# The arguments of ``serve`` for disks.


ORDERS = uuid.UUID(int=11)


@pytest.fixture
def disk(tmp_path: Path) -> Path:
    """A broker's directory with two topics."""
    path = tmp_path / "disk"
    driver = LogDriver()
    for _ in range(4):
        assert driver.append(plain(record_value=bytes(500_000))) == 0
    write_disk(
        path,
        {("orders", 0): driver.log, ("other", 0): LogDriver().log},
        node_id=4,
        topic_ids={"orders": ORDERS},
    )
    return path


def complaint_of_disks(*argv: str) -> str:
    with pytest.raises(ConfigError) as error_info:
        serve_load.disks_of(arguments(*argv))
    return str(error_info.value)


def test_without_directories_there_are_none() -> None:
    assert serve_load.disks_of(arguments()) is None
    assert complaint_of_disks("--load-topic", "orders") == "--load-topic orders: only with --load"
    assert complaint_of_disks("--clock-at", "stopped") == "--clock-at stopped: only with --load"


def test_directories_are_named_together_or_one_by_one(disk: Path) -> None:
    args = arguments("--load", "a", "b", "--load", "c")
    assert args.load == [Path("a"), Path("b"), Path("c")]
    disks = serve_load.disks_of(arguments("--load", str(disk), "--load-topic", "orders"))
    assert disks is not None
    assert [str(folder.replica.topic_partition) for _, folder in disks.all_folders()] == [
        "orders-0"
    ]


def test_a_directory_on_which_a_broker_runs_is_loaded_with_a_warning(
    disk: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with hold_directory(disk):
        assert serve_load.disks_of(arguments("--load", str(disk))) is not None
    assert capsys.readouterr().err.startswith(f"txnsim: {disk}: a broker runs there")
    assert serve_load.disks_of(arguments("--load", str(disk))) is not None
    assert capsys.readouterr().err == ""


def test_arguments_that_contradict_the_disks_are_refused(disk: Path) -> None:
    load = ("--load", str(disk))
    assert complaint_of_disks(*load, "--load-topic", "x") == "--load-topic x: no directory holds it"
    assert complaint_of_disks(*load, "--brokers", "3").startswith("--brokers 3: the directories")
    complaint = complaint_of_disks(*load, "--load-limit-mb", "1")
    assert complaint.startswith(
        "--load: 2 MB of segments would be kept in memory (orders 2 MB, other 0"
    )
    write_metadata_log(
        disk / "__cluster_metadata-0",
        [feature("transaction.version", 1), topic("orders", ORDERS), partition(ORDERS)],
    )
    assert complaint_of_disks(*load, "--transaction-version", "2").startswith(
        "--transaction-version 2: it is 1 on the disks"
    )
    assert serve_load.disks_of(arguments(*load, "--transaction-version", "1")) is not None


def test_a_file_that_cannot_be_read_is_named(disk: Path) -> None:
    (disk / "meta.properties").unlink()
    assert "meta.properties is missing" in complaint_of_disks("--load", str(disk))
    (disk / "orders-0" / "partition.metadata").unlink()
    (disk / "orders-0" / "partition.metadata").mkdir()
    (disk / "meta.properties").write_text("node.id=4\ncluster.id=abc\nversion=1\n")
    assert complaint_of_disks("--load", str(disk)).endswith(
        "partition.metadata: a folder, not a file"
    )


def test_the_disks_settle_how_many_brokers_there_are_and_of_which_cluster(disk: Path) -> None:
    args = arguments("--load", str(disk), "--port", "0", "--as-version", "4=3.9")
    disks = serve_load.disks_of(args)
    assert disks is not None
    options = serve.options_from(args, disks)
    assert (options.brokers, options.settings.cluster_id) == (1, "abc")
    loaded_cluster = serve_load.load(options, disks, now_ms=NOW)
    assert loaded_cluster.broker_ids == (4,)
    assert loaded_cluster.loaded is not None
    assert (
        serve_load.line(loaded_cluster.loaded) == "loaded 2.0 MB: 2 replicas, their disks untouched"
    )


def test_a_file_that_vanishes_is_named(disk: Path) -> None:
    disks = serve_load.disks_of(arguments("--load", str(disk)))
    assert disks is not None
    for path in (disk / "orders-0").iterdir():
        path.unlink()
    (disk / "orders-0").rmdir()
    with pytest.raises(ConfigError, match="orders-0: No such file or directory"):
        serve_load.load(ClusterOptions(brokers=1), disks, now_ms=NOW)


# The clock


def clock_at(text: str, *, log_directory: Path | None = None) -> int:
    async def main() -> int:
        environment = real_environment()
        disks = (
            None
            if log_directory is None
            else serve_load.disks_of(arguments("--load", str(log_directory)))
        )
        serve_load.set_clock(environment, text, disks)
        return environment.clock.now_ms()

    return run(main())


@pytest.mark.parametrize(
    "text", [str(NOW), "2023-11-14T22:13:20Z", "2023-11-14T22:13:20", "2023-11-14T23:13:20+01:00"]
)
def test_the_clock_begins_where_it_is_told(text: str) -> None:
    assert datetime.fromtimestamp(NOW / 1_000, UTC).isoformat() == "2023-11-14T22:13:20+00:00"
    assert NOW <= clock_at(text) < NOW + 60_000


def test_the_clock_begins_where_the_disks_stopped(disk: Path, tmp_path: Path) -> None:
    assert NOW <= clock_at("stopped", log_directory=disk) < NOW + 60_000
    write_disk(tmp_path / "empty", {("orders", 0): LogDriver().log})
    with pytest.raises(ConfigError, match="no record on the disks"):
        clock_at("stopped", log_directory=tmp_path / "empty")
    (log_path,) = (tmp_path / "empty" / "orders-0").glob("*.log")
    log_path.write_bytes(plain(timestamp=2**63 - 1))
    with pytest.raises(ConfigError, match="9223372036854775807 ms, after the year 9999: give"):
        clock_at("stopped", log_directory=tmp_path / "empty")


def test_what_is_no_time_is_refused() -> None:
    with pytest.raises(ConfigError, match="--clock-at noon: expected a time"):
        clock_at("noon")


# What is told


def loaded_cluster(loss_count: int, left_out: int) -> LoadedCluster:
    return LoadedCluster(
        image=ClusterImage(cluster_id="abc"),
        logs={BrokerId(1): ()},
        first_producer_id=ProducerId(0),
        size=7,
        losses=tuple(
            DataLoss(path=f"f{loss_number}", position=3, size=9, reason="torn")
            for loss_number in range(loss_count)
        ),
        left_out=tuple(f"g{group_number}: gone" for group_number in range(left_out)),
    )


def test_each_loss_is_told_on_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    serve_load.warn_of_losses(loaded_cluster(1, 1))
    assert capsys.readouterr().err == (
        "txnsim: f0, byte 3: torn; 9 bytes are thrown away\ntxnsim: g0: gone\n"
    )


def test_a_cluster_without_its_coordinators_is_warned_of(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    driver = LogDriver()
    driver.txn(0)
    write_disk(tmp_path, {("orders", 0): driver.log})
    disks = serve_load.disks_of(arguments("--load", str(tmp_path)))
    assert disks is not None
    options = serve_load.load(ClusterOptions(brokers=1), disks, now_ms=NOW)
    assert options.loaded is not None
    serve_load.warn_of_losses(options.loaded)
    assert capsys.readouterr().err.endswith(": all of them will seem to hang\n")


def test_many_losses_are_counted(capsys: pytest.CaptureFixture[str]) -> None:
    serve_load.warn_of_losses(loaded_cluster(22, 21))
    printed_lines = capsys.readouterr().err.splitlines()
    assert (len(printed_lines), printed_lines[-1]) == (
        41,
        "txnsim: and 3 more of that kind; --json has all of them",
    )


def test_all_of_it_is_there_as_json() -> None:
    facts: dict[str, Any] = json.loads(json.dumps(serve_load.facts(loaded_cluster(22, 1))))
    assert (facts["bytes"], facts["replicas"], len(facts["losses"])) == (7, 0, 22)
    assert facts["losses"][0] == {"path": "f0", "position": 3, "size": 9, "reason": "torn"}
    assert facts["left_out"] == ["g0: gone"]


# What ``serve`` says of its settings; the rest is read by tests that start it (``test_serve``).


def test_the_banner_names_each_changed_default_with_kafkas_own() -> None:
    assert changed_defaults(DEFAULTS) == ["every setting has Apache Kafka's default"]
    (line,) = changed_defaults(DEFAULTS, is_secured=True)
    assert line == "every other setting has Apache Kafka's default"
    (line,) = changed_defaults(Settings(transactional_id_expiration_ms=5))
    assert line.startswith("transactional.id.expiration.ms=5 (Apache Kafka: 604800000; ")
    (line,) = changed_defaults(Settings(log_roll_ms=5))
    assert line.startswith("log.roll.ms=5 (Apache Kafka: unset; ")


def test_the_banner_says_what_becomes_of_coordinators_replicas() -> None:
    assert changed_defaults(DEFAULTS, broker_count=3) == changed_defaults(DEFAULTS)
    assert changed_defaults(DEFAULTS, broker_count=1) == [
        "transaction.state.log.replication.factor=1, transaction.state.log.min.isr=1, "
        "offsets.topic.replication.factor=1: not set, so no more than there are brokers "
        "(Apache Kafka waits for 3, 2, 3)",
        "every other setting has Apache Kafka's default",
    ]
    two, offsets = changed_defaults(Settings(offsets_topic_replication_factor=1), broker_count=2)
    assert two.startswith("transaction.state.log.replication.factor=2: not set, ")
    assert offsets == (
        "offsets.topic.replication.factor=1 (Apache Kafka: 3; of __consumer_offsets)"
    )


def test_the_banner_says_that_what_is_set_leaves_clients_without_a_coordinator() -> None:
    settings = Settings(transaction_state_log_replication_factor=3, transaction_state_log_min_isr=2)
    lines = changed_defaults(settings, broker_count=1)
    assert lines[0] == (
        "transaction.state.log.replication.factor=3 is set, and there is 1 broker: as of a real "
        "broker, clients get COORDINATOR_NOT_AVAILABLE"
    )
    assert lines[1].startswith("offsets.topic.replication.factor=1: not set, ")


def test_values_are_spelled_as_in_a_brokers_file() -> None:
    (line,) = changed_defaults(Settings(auto_create_topics_enable=False))
    assert line.startswith("auto.create.topics.enable=false (Apache Kafka: true; ")
