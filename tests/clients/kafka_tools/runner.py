"""Kafka's command-line tools, many of them in one JVM: what an operator types and what he sees.

A JVM per tool would cost a second each time. ``ToolRunner`` (tests/clients/java) calls their
``main``, catches their exit and hands back what they printed.
"""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from tests.support.apache_kafka import KAFKA_VERSION, ToolResult
from tests.support.foreign_clients import java_program
from tests.support.lifetime import ManagedResource

_TOOLS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "kafka-acls": "org.apache.kafka.tools.AclCommand",
        "kafka-broker-api-versions": "org.apache.kafka.tools.BrokerApiVersionsCommand",
        "kafka-client-metrics": "org.apache.kafka.tools.ClientMetricsCommand",
        "kafka-cluster": "org.apache.kafka.tools.ClusterTool",
        "kafka-configs": "org.apache.kafka.tools.ConfigCommand",
        "kafka-console-consumer": "org.apache.kafka.tools.consumer.ConsoleConsumer",
        "kafka-console-producer": "org.apache.kafka.tools.ConsoleProducer",
        "kafka-consumer-groups": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
        "kafka-consumer-perf-test": "org.apache.kafka.tools.ConsumerPerformance",
        "kafka-delegation-tokens": "org.apache.kafka.tools.DelegationTokenCommand",
        "kafka-delete-records": "org.apache.kafka.tools.DeleteRecordsCommand",
        "kafka-e2e-latency": "org.apache.kafka.tools.EndToEndLatency",
        "kafka-features": "org.apache.kafka.tools.FeatureCommand",
        "kafka-get-offsets": "org.apache.kafka.tools.GetOffsetShell",
        "kafka-groups": "org.apache.kafka.tools.GroupsCommand",
        "kafka-leader-election": "org.apache.kafka.tools.LeaderElectionCommand",
        "kafka-log-dirs": "org.apache.kafka.tools.LogDirsCommand",
        "kafka-metadata-quorum": "org.apache.kafka.tools.MetadataQuorumCommand",
        "kafka-producer-perf-test": "org.apache.kafka.tools.ProducerPerformance",
        "kafka-reassign-partitions": "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
        "kafka-streams-application-reset": "org.apache.kafka.tools.StreamsResetter",
        "kafka-topics": "org.apache.kafka.tools.TopicCommand",
        "kafka-transactions": "org.apache.kafka.tools.TransactionsCommand",
        "kafka-verifiable-consumer": "org.apache.kafka.tools.VerifiableConsumer",
        "kafka-verifiable-producer": "org.apache.kafka.tools.VerifiableProducer",
    }
)
"""As the scripts are called → the class that each of them runs."""
_BEFORE_4_4: Final = {"kafka-configs": "kafka.admin.ConfigCommand"}
_PATIENCE_S: Final = 60.0


class ToolError(Exception):
    """A tool did not end, or took its JVM with it."""


def tools_command(version: str = KAFKA_VERSION) -> list[str]:
    """Command line of the JVM in which the tools run; compiled on first use."""
    return java_program("ToolRunner", version=version)


class Tools(ManagedResource):
    """The tools of a release, against one address; as a context manager, which ends their JVM."""

    def __init__(self, bootstrap: str, *, version: str = KAFKA_VERSION) -> None:
        self.bootstrap = bootstrap
        self._version = version
        self._process: subprocess.Popen[str] | None = None

    def _on_exit(self, error: BaseException | None) -> None:
        self._end_process()

    def ask(self, name: str, *args: str, stdin: str = "") -> ToolResult:
        """Run a tool with ``--bootstrap-server`` of our address in front of its arguments."""
        return self.run(name, "--bootstrap-server", self.bootstrap, *args, stdin=stdin)

    def run(self, name: str, *args: str, stdin: str = "") -> ToolResult:
        """Run a tool.

        Raises:
            ToolError: It did not end in time.
        """
        if self._process is None:
            self._process = subprocess.Popen(
                tools_command(self._version),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                encoding="utf-8",
            )
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        request = {"main": self._main(name), "args": args, "stdin": stdin}
        timer = threading.Timer(_PATIENCE_S, process.kill)
        timer.start()
        try:
            process.stdin.write(json.dumps(request) + "\n")
            process.stdin.flush()
            printed_line = process.stdout.readline()
        finally:
            timer.cancel()
        if not printed_line:
            self._end_process()
            command_line = " ".join((name, *args))
            raise ToolError(
                f"{command_line}: no answer in {_PATIENCE_S:.0f} s, or the tools' JVM ended"
            )
        answer = json.loads(printed_line)
        return ToolResult(answer["code"], answer["stdout"], answer["stderr"])

    def _main(self, tool_name: str) -> str:
        major, minor, *_ = map(int, self._version.split("."))
        return (_BEFORE_4_4.get(tool_name) if (major, minor) < (4, 4) else None) or _TOOLS[
            tool_name
        ]

    def _end_process(self) -> None:
        if self._process is None:
            return
        process, self._process = self._process, None
        process.kill()
        process.communicate()
