from __future__ import annotations

import argparse
import json
from pathlib import Path

import pytest

from tests.support.txnsim_server import TxnsimServer
from txnsim.cli.control.port import ControlPortError, add_arguments, port_of
from txnsim.cli.main import main
from txnsim.errors import ConfigError

TOKEN = "a-token-of-sixteen-letters"


def args_of(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    return parser.parse_args(words)


def ready_file(directory: Path, **facts: object) -> Path:
    file = directory / "ready.json"
    file.write_text(json.dumps({"bootstrap": "h:1", **facts}))
    return file


@pytest.mark.parametrize(
    ("words", "environment", "url"),
    [
        ((), {}, "http://127.0.0.1:9080"),
        (("--http", "1234"), {"TXNSIM_HTTP": "http://x:1"}, "http://127.0.0.1:1234"),
        (("--http", "host:1"), {}, "http://host:1"),
        ((), {"TXNSIM_HTTP": "https://host:1/", "TXNSIM_READY_FILE": "none"}, "https://host:1"),
    ],
)
def test_where_it_is(words: tuple[str, ...], environment: dict[str, str], url: str) -> None:
    assert port_of(args_of(*words), environment).url == url


def test_the_ready_file_says_it(tmp_path: Path) -> None:
    file = str(ready_file(tmp_path, http="http://h:2"))
    assert port_of(args_of(), {"TXNSIM_READY_FILE": file}).url == "http://h:2"
    named = port_of(args_of("--ready-file", file), {"TXNSIM_HTTP": "http://x:1"})
    assert named.url == "http://h:2"


@pytest.mark.parametrize("wrong", ["ftp://x", "h:x", "h:99999", "http://", "http://h/api", ""])
def test_an_address_that_is_none_is_refused(wrong: str) -> None:
    with pytest.raises(ConfigError, match=r"--http .*expected http://HOST:PORT"):
        port_of(args_of("--http", wrong), {})


def test_a_ready_file_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ControlPortError, match="there is no such file"):
        port_of(args_of("--ready-file", str(tmp_path / "none")), {})
    for content in ("{", "[]", "{}"):
        (tmp_path / "x").write_text(content)
        with pytest.raises(ConfigError, match="it is no ready file"):
            port_of(args_of("--ready-file", str(tmp_path / "x")), {})
    with pytest.raises(ControlPortError, match="has no control port"):
        port_of(args_of("--ready-file", str(ready_file(tmp_path, http=None))), {})


def test_nothing_there_says_how_to_start_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["clock", "show", "--http", "1"]) == 1
    told = capsys.readouterr().err
    assert told.startswith("txnsim: no control port answers at http://127.0.0.1:1 (")
    assert "`txnsim serve --http`" in told


@pytest.mark.slow
def test_the_token_comes_by_option_variable_or_ready_file(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TXNSIM_TOKEN", TOKEN)
    with TxnsimServer(brokers=1, arguments=("--http", "0")) as server:
        show = ["clock", "show", "--http", str(server.http)]
        assert main(show) == 0
        monkeypatch.delenv("TXNSIM_TOKEN")
        assert main(show) == 1
        assert "wants a token: set TXNSIM_TOKEN or --token" in capsys.readouterr().err
        assert main([*show, "--token", TOKEN]) == 0
        assert main([*show, "--token", TOKEN + "x"]) == 1
        assert "wants another token" in capsys.readouterr().err
        file = ready_file(tmp_path, http=server.http, token=TOKEN)
        assert main(["clock", "show", "--ready-file", str(file)]) == 0


@pytest.mark.slow
def test_what_is_no_control_port_is_asked_about(capsys: pytest.CaptureFixture[str]) -> None:
    with TxnsimServer(brokers=1, arguments=("--http", "0")) as server:
        kafka = server.bootstrap
        assert main(["clock", "show", "--http", kafka]) == 1
    assert f"no control port answers at http://{kafka}" in capsys.readouterr().err
