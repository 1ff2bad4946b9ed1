"""A cluster for tests: the one that TXNSIM_BOOTSTRAP names, or a process of its own."""

import contextlib
import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Addresses of the brokers."""
    if given_address := os.environ.get("TXNSIM_BOOTSTRAP"):
        yield given_address
        return
    ready_file = tmp_path_factory.mktemp("txnsim") / "ready.json"
    config = Path(__file__).with_name("cluster.yaml")
    options = ["--port", "0", "--config", str(config), "--ready-file", str(ready_file)]
    server = subprocess.Popen(["txnsim", "serve", *options], stdout=subprocess.DEVNULL)
    try:
        # The file appears in one move, once every listener accepts.
        while not ready_file.exists():
            with contextlib.suppress(subprocess.TimeoutExpired):
                raise RuntimeError(f"txnsim serve ended with {server.wait(timeout=0.02)}")
        yield json.loads(ready_file.read_text())["bootstrap"]
    finally:
        server.terminate()
        server.wait()
