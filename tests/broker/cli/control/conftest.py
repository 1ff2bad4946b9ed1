"""One running simulator with its control port, for all tests of the commands that ask it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest

from tests.support.txnsim_server import TxnsimServer
from txnsim.cli.main import main


class CommandResult(NamedTuple):
    """The exit status and the output of a command."""

    status: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        assert self.out, self.err
        return json.loads(self.out)


Ask = Callable[..., CommandResult]


@pytest.fixture(scope="package")
def control_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    # A killed broker may come back once its session has ended.
    config = tmp_path_factory.mktemp("control") / "server.properties"
    config.write_text("broker.session.timeout.ms=1500\nbroker.heartbeat.interval.ms=300\n")
    arguments = ("--http", "0", "--topic", "orders:3", "--config", str(config))
    with TxnsimServer(arguments=arguments) as server:
        assert server.http is not None
        yield server.http


@pytest.fixture
def txnsim(
    control_url: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Ask:
    """Runs a command, which finds the port by the environment."""
    monkeypatch.setenv("TXNSIM_HTTP", control_url)

    def ask(*arguments: str) -> CommandResult:
        status = main(arguments)
        return CommandResult(status, *capsys.readouterr())

    return ask
