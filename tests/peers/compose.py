"""What a suite asks of ``docker compose``, done to brokers that are no containers.

``python -m tests.peers.compose compose stop kafka-3``. Brokers are there before a suite asks for
them (``up``) and after it has done with them (``down``). They are stopped and started through the
control port, as far as they have one; as with containers, what is already so is no error. Of what
would be run inside a container, Kafka's tools are run here, from their jars. A broker's log is what
its trace tells of refused batches. The environment says where all this is: TXNSIM_PEER_HTTP,
TXNSIM_PEER_STARTED (ISO 8601), TXNSIM_PEER_BOOTSTRAP, TXNSIM_PEER_TOOLS. Standard library only.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import sys
import urllib.error
import urllib.request
from collections.abc import Sequence
from datetime import datetime, timedelta
from http import HTTPStatus
from pathlib import Path
from typing import Final

from tests.support.apache_kafka import REPOSITORY, java_command, kafka_libs

_TOOLS: Final = {
    "kafka-console-consumer": "org.apache.kafka.tools.consumer.ConsoleConsumer",
    "kafka-console-producer": "org.apache.kafka.tools.ConsoleProducer",
    "kafka-verifiable-consumer": "org.apache.kafka.tools.VerifiableConsumer",
}
"""As Kafka calls its scripts → what they run."""

_TOOLS_THERE: Final = re.compile(r"/opt/kafka-[\d.]+/bin\b")

_JAVA: Final = {"OUT_OF_ORDER_SEQUENCE_NUMBER": "OutOfOrderSequenceException"}

_BROKER_THERE: Final = re.compile(r"^kafka-\d:9091$")
"""A broker's address between containers."""


def main(argv: Sequence[str]) -> int:
    """Carry out the command, or print that it is not offered."""
    match argv:
        case ["compose", "--profile", _, *arguments]:
            return main(["compose", *arguments])
        case ["compose", "up" | "down" | "rm", *_]:
            return 0
        case ["compose", "start" | "stop" as verb, service] if service.startswith("kafka-"):
            return _ask_broker(service.removeprefix("kafka-"), verb)
        case ["compose", "logs", "--since", since, service] if "TXNSIM_PEER_STARTED" in os.environ:
            return _tell_refusals(service.removeprefix("kafka-"), datetime.fromisoformat(since))
        case ["compose", "exec", "-T", _, *command] if "TXNSIM_PEER_TOOLS" in os.environ:
            local_command = [_local_word(argument) for argument in command]
            os.execvp(local_command[0], local_command)
        case _:
            sys.stderr.write(f"not offered here: docker {shlex.join(argv)}\n")
            return 1


def _ask_broker(broker: str, verb: str) -> int:
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


def _tell_refusals(broker: str, since: datetime) -> int:
    """Batches that a broker has refused, as Java calls the reason where a suite looks for it."""
    started_at = datetime.fromisoformat(os.environ["TXNSIM_PEER_STARTED"])
    since_us = (since - started_at) // timedelta(microseconds=1)
    address = f"{os.environ['TXNSIM_PEER_HTTP']}/api/v1/trace"
    with urllib.request.urlopen(address, timeout=60) as answer:
        header, *lines = (json.loads(line) for line in answer)
    nodes = [node_name.startswith(f"broker/{broker}/") for node_name in header["nodes"]]
    for line in lines:
        if line["k"] == "log.reject" and line["t"] >= since_us and nodes[line["n"]]:
            error = line["d"]["error"]
            sys.stdout.write(f"{_JAVA.get(error, error)}: {json.dumps(line['d'])}\n")
    return 0


def _local_word(argument: str) -> str:
    """Translate a word of a command line that was meant for a container."""
    if _BROKER_THERE.match(argument):
        return os.environ["TXNSIM_PEER_BOOTSTRAP"]
    return _TOOLS_THERE.sub(os.environ["TXNSIM_PEER_TOOLS"], argument)


def write_docker(directory: Path) -> None:
    """Put a command named ``docker`` there that calls this module, and Kafka's scripts.

    Raises:
        ApacheKafkaError: Kafka's jars or Java can't be had.
    """
    module_name = f"{shlex.quote(sys.executable)} -m tests.peers.compose"
    _script(directory / "docker", f"PYTHONPATH={shlex.quote(str(REPOSITORY))} exec {module_name}")
    options = ["-XX:TieredStopAtLevel=1", "-Xmx256m"]
    java = shlex.join(java_command(kafka_libs(), options=options))
    for tool_name, main_class in _TOOLS.items():
        _script(directory / f"{tool_name}.sh", f"exec {java} {main_class}")


def _script(path: Path, command: str) -> None:
    path.write_text(f'#!/bin/sh\n{command} "$@"\n')
    path.chmod(0o755)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
