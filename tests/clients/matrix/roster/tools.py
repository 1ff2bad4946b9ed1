"""Kafka's command-line tools, as an operator types them."""

from __future__ import annotations

import sys
from typing import Final

from tests.clients.kafka_tools.program import CHECKS as TOOL_CHECKS
from tests.clients.kafka_tools.runner import tools_command
from tests.clients.matrix.client import CHECKS, Client
from tests.support.apache_kafka import KAFKA_VERSION

_EVERYWHERE: Final = ("kafka-consumer-groups", "kafka-perf-test", "kafka-features")
"""What differs between the levels, or may."""


def _program() -> list[str]:
    tools_command()  # builds
    return [sys.executable, "-m", "tests.clients.kafka_tools.program"]


CLIENTS: Final[tuple[Client, ...]] = (
    Client(
        name="Kafka's command-line tools",
        version=KAFKA_VERSION,
        language="Java",
        command=_program,
        checks=(*CHECKS, *(check_name for check_name in TOOL_CHECKS if check_name not in CHECKS)),
        everywhere=_EVERYWHERE,
        limits={
            "commit": "no tool commits at a moment of one's choosing; kafka-producer-perf-test's"
            " transactions are asked in a check of their own",
            "fence": "no tool keeps a transactional producer while another one comes",
            "timeout": "no tool keeps a transaction open",
            "transform": "no tool consumes and produces in one transaction",
            "rebalance": "no tool consumes and produces in one transaction",
        },
    ),
)
