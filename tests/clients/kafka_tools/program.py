"""Kafka's command-line tools as a client of the matrix: what they print, on any Kafka address.

``python -m tests.clients.kafka_tools.program CHECK...``; no name means all, those with a secured
listener only where the environment tells of one. ``TXNSIM_BOOTSTRAP``,
``TXNSIM_TRANSACTION_VERSION`` and ``TXNSIM_RUN`` say where, at which level and how names begin. One
line per check, then ``N passed, M failed``; exit status 1 if any failed, 2 for wrong usage.
Standard library only.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from tests.clients.kafka_tools import cluster, groups, records, secured, topics, transactions
from tests.clients.kafka_tools.expect import UnexpectedAnswerError
from tests.clients.kafka_tools.runner import ToolError
from tests.clients.kafka_tools.shop import Shop
from tests.clients.kafka_tools.transactions_command import CheckFailure
from tests.support.apache_kafka import ApacheKafkaError
from tests.support.foreign_clients import ForeignClientError

CHECKS: Final[Mapping[str, Callable[[Shop], None]]] = MappingProxyType(
    {
        "produce": records.produce,
        "idempotent": records.idempotent,
        "abort": records.abort,
        "read-committed": records.read_committed,
        "admin": transactions.administration,
        "kafka-topics": topics.topics,
        "kafka-topics-assignments": topics.assignments,
        "kafka-configs-topics": topics.topic_configs,
        "kafka-configs-brokers": topics.broker_configs,
        "kafka-configs-others": topics.other_configs,
        "kafka-get-offsets-delete-records": topics.offsets_and_records,
        "kafka-log-dirs": topics.log_dirs,
        "kafka-leader-election": topics.leader_election,
        "kafka-reassign-partitions": topics.reassignments,
        "kafka-consumer-groups": groups.consumer_groups,
        "kafka-groups": groups.groups,
        "kafka-streams-application-reset": groups.streams_reset,
        "kafka-perf-test": records.performance,
        "kafka-verifiable": records.verifiable,
        "kafka-e2e-latency": records.latency,
        "kafka-features": cluster.features,
        "kafka-metadata-quorum": cluster.quorum,
        "kafka-cluster": cluster.endpoints,
        "kafka-broker-api-versions": cluster.api_versions,
        "kafka-client-metrics": cluster.client_metrics,
        "kafka-delegation-tokens": cluster.delegation_tokens,
        "sasl": secured.sasl,
        "tls": secured.tls,
        "kafka-acls": secured.acls,
    }
)
SECURED: Final = ("sasl", "tls", "kafka-acls")
"""These need the secured listeners."""

_NEEDED: Final = ("TXNSIM_BOOTSTRAP", "TXNSIM_TRANSACTION_VERSION", "TXNSIM_RUN")
_NEEDED_SECURED: Final = ("TXNSIM_SASL_BOOTSTRAP", "TXNSIM_TLS_BOOTSTRAP", "TXNSIM_SECURITY_DIR")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the named checks, or all."""
    check_names = list(sys.argv[1:] if argv is None else argv)
    if not check_names:
        is_secured = "TXNSIM_SASL_BOOTSTRAP" in os.environ
        check_names = [
            check_name for check_name in CHECKS if is_secured or check_name not in SECURED
        ]
    variables = (*_NEEDED, *(_NEEDED_SECURED if set(SECURED) & set(check_names) else ()))
    missing = [variable_name for variable_name in variables if not os.environ.get(variable_name)]
    unknown_names = [check_name for check_name in check_names if check_name not in CHECKS]
    if missing or unknown_names:
        sys.stderr.write(
            f"not set: {missing}; unknown: {unknown_names}; known: {' '.join(CHECKS)}\n"
        )
        return 2
    failed_count = 0
    with Shop(os.environ) as shop:
        for check_name in check_names:
            reason = _failure(shop, CHECKS[check_name])
            failed_count += reason is not None
            line = f"PASS {check_name}" if reason is None else f"FAIL {check_name}: {reason}"
            sys.stdout.write(f"{line}\n")
            sys.stdout.flush()
    sys.stdout.write(f"{len(check_names) - failed_count} passed, {failed_count} failed\n")
    return 1 if failed_count else 0


def _failure(shop: Shop, check: Callable[[Shop], None]) -> str | None:
    """Why it failed, in one line."""
    try:
        check(shop)
    except (
        UnexpectedAnswerError,
        CheckFailure,
        ToolError,
        ApacheKafkaError,
        ForeignClientError,
    ) as failure:
        return str(failure).replace("\n", " ⏎ ")
    return None


if __name__ == "__main__":
    sys.exit(main())
