"""What every check of the tools is handed: the tools, the names of this run, and who listens."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType

from tests.clients.kafka_tools.expect import UnexpectedAnswerError, eventually, expect_output
from tests.clients.kafka_tools.runner import Tools
from tests.support.foreign_clients import run_java


class Shop:
    """A run of the program, as a context manager.

    Args:
        environment: As the program was started with.
    """

    def __init__(self, environment: Mapping[str, str]) -> None:
        self.environment = environment
        self.tools = Tools(environment["TXNSIM_BOOTSTRAP"])
        self.transaction_version = int(environment["TXNSIM_TRANSACTION_VERSION"])
        self._run = environment["TXNSIM_RUN"]
        self._directory = tempfile.TemporaryDirectory(prefix="txnsim-tools-")

    def __enter__(self) -> Shop:
        return self

    def __exit__(
        self,
        exception_class: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.tools.__exit__(exception_class, error, trace)
        self._directory.cleanup()

    def unique_name(self, stem: str) -> str:
        """A name that no other run uses."""
        return f"{self._run}-tools-{stem}"

    def file(self, file_name: str, text: str) -> str:
        """Path of a file with this text."""
        path = Path(self._directory.name) / file_name
        path.write_text(text)
        return str(path)

    def new_topic(self, stem: str, *, partitions: int = 1) -> str:
        """Create a topic of one replica per partition, and wait for its leaders."""
        topic = self.unique_name(stem)
        create = ("--create", "--topic", topic, "--partitions", str(partitions))
        expect_output(
            self.tools.ask("kafka-topics", *create, "--replication-factor", "1"),
            f"Created topic {topic}.",
        )
        rows = "".join(f"{topic}:{partition}:0\n" for partition in range(partitions))
        eventually(
            lambda: expect_output(self.tools.ask("kafka-get-offsets", "--topic", topic), rows)
        )
        return topic

    def open_transaction(self, stem: str) -> tuple[str, str]:
        """Transactional id and topic of a transaction with the record ``open``, left open.

        Raises:
            Unexpected: It could not be made.
        """
        transactional_id = self.unique_name(stem)
        run = run_java("OpenTransaction", self.tools.bootstrap, transactional_id, f"left-{stem}")
        if run.code != 0:
            raise UnexpectedAnswerError(f"no open transaction: {run.stdout}{run.stderr}")
        return transactional_id, str(json.loads(run.stdout)["topic"])

    def values(
        self, topic: str, isolation: str, *, count: int, patience_ms: int = 30_000
    ) -> list[str]:
        """What kafka-console-consumer prints until it has seen ``count`` records, or for a while.

        Raises:
            Unexpected: The tool failed.
        """
        result = self.tools.ask(
            "kafka-console-consumer",
            *("--topic", topic, "--from-beginning", "--isolation-level", isolation),
            *("--max-messages", str(count), "--timeout-ms", str(patience_ms)),
            *("--group", self.unique_name(f"of-{topic}-{isolation}-{count}-{patience_ms}")),
        )
        if result.code != 0:
            raise UnexpectedAnswerError(
                f"exit status {result.code}: {result.stdout}{result.stderr}"
            )
        return result.stdout.splitlines()
