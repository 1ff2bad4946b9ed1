"""Brokers for one test of a peer, until standard input closes: ``python -m tests.peers.broker``.

``--listen`` names the first of the ports in a row, one per broker, at which clients will look for
them: the caller holds these ports already, and stands between. The first line of output is JSON,
the brokers' own addresses. Standard library only.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from tests.peers.suite import PeerTarget
from tests.support.apache_kafka import ApacheKafka
from tests.support.txnsim_server import TxnsimServer

_OURS: Final = "127.0.0.2"
"""Another address of this machine, at which ports are free that are taken at 127.0.0.1."""
_SETTINGS: Final = {
    "group.initial.rebalance.delay.ms": "0",
    # What tests set below Kafka's lower bounds is allowed here.
    "group.consumer.min.heartbeat.interval.ms": "1",
    "group.consumer.min.session.timeout.ms": "1",
    "group.min.session.timeout.ms": "1",
}


def main(argv: Sequence[str] | None = None) -> int:
    """Start a cluster, print its addresses, and stop it at the end of the input."""
    parser = argparse.ArgumentParser(prog="python -m tests.peers.broker", description=__doc__)
    parser.add_argument("--target", type=PeerTarget, default=PeerTarget.TXNSIM)
    parser.add_argument("--listen", type=int, required=True, metavar="PORT")
    parser.add_argument("--brokers", type=int, default=1)
    parser.add_argument("--property", action="append", default=[], metavar="NAME=VALUE")
    options = parser.parse_args(argv)
    properties = _SETTINGS | dict(line.split("=", 1) for line in options.property)
    if "group.max.size" in properties:  # that of a classic group; a fake has one setting for both
        properties["group.consumer.max.size"] = properties["group.max.size"]
    if options.target is PeerTarget.TXNSIM:
        _run_simulated(options.brokers, options.listen, properties)
    else:
        _real(options.listen, properties)
    return 0


def _run_simulated(brokers: int, port: int, properties: Mapping[str, str]) -> None:
    with tempfile.TemporaryDirectory(prefix="txnsim-peer-") as directory:
        config = Path(directory) / "server.properties"
        config.write_text(
            "".join(
                f"{property_name}={property_value}\n"
                for property_name, property_value in properties.items()
            )
        )
        address_options = ("--host", _OURS, "--advertised-host", "127.0.0.1")
        arguments = (*address_options, "--port", str(port), "--config", str(config))
        with TxnsimServer(brokers=brokers, arguments=arguments):
            _tell([f"{_OURS}:{port + n}" for n in range(brokers)])


def _real(port: int, properties: Mapping[str, str]) -> None:
    """Run one broker, however many are requested. A test that needs more fails."""
    settings = {**properties, "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}"}
    with ApacheKafka(properties=settings, jvm_options=("-Xmx512m",)) as kafka:
        _tell([kafka.bootstrap])


def _tell(brokers: Sequence[str]) -> None:
    sys.stdout.write(json.dumps(brokers) + "\n")
    sys.stdout.flush()
    while os.read(sys.stdin.fileno(), 4096):
        pass


if __name__ == "__main__":
    sys.exit(main())
