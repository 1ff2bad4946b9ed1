"""The clusters that programs are pointed at, started when first asked for.

Internal work is quick everywhere: groups don't wait for more members, members of the consumer
protocol (KIP-848) and timed-out transactions are looked after twice a second.
"""

from __future__ import annotations

import contextlib
import tempfile
import threading
from collections.abc import Collection, Mapping
from pathlib import Path
from types import TracebackType
from typing import Final

from tests.clients.matrix.questions import SECURED
from tests.support.apache_kafka import ApacheKafka
from tests.support.apache_listeners import demo, grant
from tests.support.txnsim_server import TxnsimServer

PROPERTIES: Final = {
    "group.initial.rebalance.delay.ms": "0",
    "group.consumer.heartbeat.interval.ms": "500",
    "group.consumer.min.heartbeat.interval.ms": "500",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
}
DEMO_USERS: Final = ("admin", "guest", "plain-user", "scram-user")
"""Those of ``serve --security demo`` that have a password, which is their name and ``-secret``."""
DEMO_PRINCIPALS: Final = (
    "User:plain-user",
    "User:scram-user",
    "User:oauth-user",
    "User:CN=tls-user,O=txnsim",
)
"""Those that may use every topic, group and transactional id."""
BUGS: Final = ("Traceback", "failed by a bug")
"""A server that prints one of these has met a bug of its own."""


class Bench:
    """Where clusters come from; as a context manager, which stops them.

    One lock for all: whoever needs a cluster that is just being started waits for it.
    """

    unsupported_checks: Collection[str] = ()
    """Checks that can't be asked here."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> Bench:
        return self

    def __exit__(
        self,
        exception_class: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stack.__exit__(exception_class, error, trace)

    def environment(self, transaction_version: int, checks: Collection[str]) -> dict[str, str]:
        """Environment variables with the addresses of the cluster of this level."""
        with self._lock:
            environment = {
                "TXNSIM_BOOTSTRAP": self._plain(transaction_version),
                "TXNSIM_TRANSACTION_VERSION": str(transaction_version),
            }
            if SECURED.intersection(checks):
                environment |= self._secured(transaction_version)
            return environment

    def complaints(self) -> Mapping[str, str]:
        """Forbidden output of each server, such as tracebacks, by the server's name."""
        return {}

    def _plain(self, transaction_version: int) -> str:
        raise NotImplementedError

    def _secured(self, transaction_version: int) -> dict[str, str]:
        raise NotImplementedError


class TxnsimBench(Bench):
    """Three simulated brokers per level, and three that ask for credentials."""

    def __init__(self) -> None:
        super().__init__()
        self._servers: dict[str, TxnsimServer] = {}

    def __enter__(self) -> TxnsimBench:
        directory = tempfile.TemporaryDirectory(prefix="txnsim-matrix-")
        self._directory = Path(self._stack.enter_context(directory))
        text = "".join(
            f"{property_name}={property_value}\n"
            for property_name, property_value in PROPERTIES.items()
        )
        (self._directory / "server.properties").write_text(text)
        return self

    def complaints(self) -> Mapping[str, str]:
        logs_by_server = {
            server_name: server.log_tail() for server_name, server in self._servers.items()
        }
        return {
            name: text for name, text in logs_by_server.items() if any(bug in text for bug in BUGS)
        }

    def _plain(self, transaction_version: int) -> str:
        return self._server(f"txnsim@{transaction_version}", transaction_version).bootstrap

    def _secured(self, transaction_version: int) -> dict[str, str]:
        directory = self._directory / f"security-{transaction_version}"
        arguments = ("--security", "demo", "--security-dir", str(directory))
        server = self._server(
            f"txnsim with security@{transaction_version}", transaction_version, *arguments
        )
        security = server.ready["security"]
        return {
            "TXNSIM_SASL_BOOTSTRAP": security["bootstrap"]["SASL_SSL"],
            "TXNSIM_TLS_BOOTSTRAP": security["bootstrap"]["SSL"],
            "TXNSIM_SECURITY_DIR": security["directory"],
        }

    def _server(self, server_name: str, transaction_version: int, *arguments: str) -> TxnsimServer:
        if server_name not in self._servers:
            config = ("--config", str(self._directory / "server.properties"))
            server = TxnsimServer(
                transaction_version=transaction_version, arguments=(*config, *arguments)
            )
            self._servers[server_name] = self._stack.enter_context(server)
        return self._servers[server_name]


class ApacheBench(Bench):
    """A real Apache Kafka per level, which is one broker, with listeners, users and rights as those
    of our demo, and its certificates.
    """

    def __init__(self) -> None:
        super().__init__()
        self._kafkas: dict[int, ApacheKafka] = {}
        self._with_rights: set[int] = set()

    def __enter__(self) -> ApacheBench:
        directory = tempfile.TemporaryDirectory(prefix="txnsim-matrix-")
        self._directory = Path(self._stack.enter_context(directory))
        demo_only = ("--security", "demo", "--security-dir", str(self._directory))
        with TxnsimServer(brokers=1, arguments=demo_only):
            return self  # what it leaves are the files

    def _plain(self, transaction_version: int) -> str:
        return self._kafka(transaction_version).bootstrap

    def _secured(self, transaction_version: int) -> dict[str, str]:
        kafka = self._kafka(transaction_version)
        if transaction_version not in self._with_rights:
            grant(kafka, DEMO_PRINCIPALS)
            self._with_rights.add(transaction_version)
        return {
            "TXNSIM_SASL_BOOTSTRAP": kafka.bootstrap_at("SASL_SSL"),
            "TXNSIM_TLS_BOOTSTRAP": kafka.bootstrap_at("SSL"),
            "TXNSIM_SECURITY_DIR": str(self._directory),
        }

    def _kafka(self, transaction_version: int) -> ApacheKafka:
        if transaction_version not in self._kafkas:
            kafka = ApacheKafka(
                transaction_version=transaction_version,
                properties=PROPERTIES,
                jvm_options=("-Xmx512m",),
                listeners=demo(
                    self._directory, {user_name: f"{user_name}-secret" for user_name in DEMO_USERS}
                ),
            )
            self._kafkas[transaction_version] = self._stack.enter_context(kafka)
        return self._kafkas[transaction_version]


class ForeignBench(Bench):
    """A cluster that was started elsewhere."""

    unsupported_checks = SECURED

    def __init__(self, bootstrap: str) -> None:
        super().__init__()
        self._bootstrap = bootstrap

    def _plain(self, transaction_version: int) -> str:
        return self._bootstrap
