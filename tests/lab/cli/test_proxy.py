"""``txnsim proxy`` as a process: it says where it is, and ends in order; what can't be is named."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from tests.support.txnsim_server import TxnsimServer
from txnsim.cli.main import main
from txnsim.errors import ConfigError
from txnsim.security.options import TlsFiles
from txnsim_lab.cli import _proxy as proxy
from txnsim_lab.proxy.addresses import Endpoint


def arguments(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    proxy.add_arguments(parser)
    return parser.parse_args(["--bootstrap-server", "127.0.0.1:1", *words])


def test_arguments_become_options(tmp_path: Path) -> None:
    config = tmp_path / "client.properties"
    config.write_text("client.id=me\nrequest.timeout.ms=5\n")
    options = proxy.options_from(
        arguments(
            *("--command-config", str(config), "--peer", "2=kafka-2:9094", "--port", "0"),
            *("--peer-certificate", "p.pem", "--peer-key", "p.key"),
            *("--certificate", "c.pem", "--key", "k.pem", "--wait", "1.5", "--seed", "7"),
        )
    )
    assert options.peers == (Endpoint(2, "kafka-2", 9094),)
    assert options.tls == TlsFiles(certificate="c.pem", key="k.pem")
    assert options.peer_tls == TlsFiles(certificate="p.pem", key="p.key")
    assert (options.wait_ms, options.seed, options.port) == (1_500, 7, 0)
    assert (options.settings.client_id, options.settings.request_timeout_ms) == ("me", 5)
    assert proxy.options_from(arguments()).host == "127.0.0.1", "loopback unless told"


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (("--peer", "kafka:9094"), "--peer kafka:9094"),
        (("--certificate", "c.pem"), "--key"),
        (("--peer-key", "k.pem"), "--peer-certificate"),
        (("--wait", "-1"), "--wait -1"),
    ],
)
def test_what_makes_no_sense_is_named(words: tuple[str, ...], named: str) -> None:
    with pytest.raises(ConfigError, match=named):
        proxy.options_from(arguments(*words))


def test_a_cluster_that_does_not_answer_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert proxy.run(arguments("--port", "0", "--http", "0")) == 1
    assert "127.0.0.1:1" in capsys.readouterr().err


def test_gssapi_for_look_ups_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = tmp_path / "client.properties"
    config.write_text("security.protocol=SASL_PLAINTEXT\nsasl.mechanism=GSSAPI\n")
    words = ["--bootstrap-server", "127.0.0.1:1", "--command-config", str(config)]
    assert main(["proxy", *words]) == 2
    assert "GSSAPI" in capsys.readouterr().err


@pytest.mark.slow
def test_it_says_where_it_is_and_ends_in_order(tmp_path: Path) -> None:
    ready = tmp_path / "ready.json"
    with TxnsimServer(arguments=("--brokers", "1")) as server:
        command = [
            *(sys.executable, "-m", "txnsim", "proxy", "--bootstrap-server", server.bootstrap),
            *("--port", "0", "--http", "0", "--ready-file", str(ready), "--until-eof"),
        ]
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=dict(os.environ)
        ) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            said = []
            for line in process.stdout:
                said.append(line)
                if "stop with" in line:
                    break
            facts = json.loads(ready.read_text())
            assert facts["bootstrap"] != server.bootstrap
            health = httpx.get(f"{facts['http']}/healthz", timeout=60).json()
            assert health["bootstrap"] == facts["bootstrap"]
            assert any("can't pass: client certificates" in line for line in said)
            assert any("GSSAPI" in line for line in said)
            process.stdin.close()
            assert process.wait(timeout=60) == 0
    assert not ready.exists()
