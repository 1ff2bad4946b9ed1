"""What a suite asks ``docker compose`` to do to a broker, done through the control port.

``python -m tests.peers.compose compose stop kafka-3``; TXNSIM_PEER_HTTP says where the control port
is. As with containers, what is already so is no error. Standard library only.
"""

from __future__ import annotations

import os
import sys
import urllib.error
import urllib.request
from collections.abc import Sequence
from http import HTTPStatus
from pathlib import Path

from tests.support.apache_kafka import REPOSITORY


def main(argv: Sequence[str]) -> int:
    """Do it, or say that it is not offered."""
    match argv:
        case ["compose", "start" | "stop" as verb, service] if service.startswith("kafka-"):
            broker = service.removeprefix("kafka-")
        case _:
            sys.stderr.write(f"not offered here: docker {' '.join(argv)}\n")
            return 1
    address = os.environ.get("TXNSIM_PEER_HTTP")
    if not address:
        sys.stderr.write("these brokers can't be stopped and started\n")
        return 1
    request = urllib.request.Request(f"{address}/api/v1/brokers/{broker}/{verb}", method="POST")
    try:
        with urllib.request.urlopen(request, timeout=60):
            return 0
    except urllib.error.HTTPError as refused:
        if refused.code == HTTPStatus.CONFLICT:
            return 0
        sys.stderr.write(f"{verb} broker {broker}: {refused.read().decode(errors='replace')}\n")
        return 1


def write_docker(directory: Path) -> None:
    """Put a command named ``docker`` there that calls this module."""
    script = directory / "docker"
    script.write_text(
        "#!/bin/sh\n"
        f'PYTHONPATH="{REPOSITORY}" exec "{sys.executable}" -m tests.peers.compose "$@"\n'
    )
    script.chmod(0o755)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
