"""Who reads which page of `docs`, and why: the content of docs/README.md."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

QUESTIONS: Final[Mapping[str, str]] = {
    "What does this error mean?": "troubleshooting.md",
    "How do I start a cluster?": "serve.md",
    "How do I test my application?": "testing.md",
    "How do I run tests in CI?": "in-ci.md",
    "My framework makes the transactions: how do I test it?": "recipes/README.md",
    "How do I delay a marker, lose an answer, kill a broker?": "faults.md",
    "How does a test wait for an hour?": "time.md",
    "Is my client library right?": "exam.md",
    "Which brokers and clients do as Kafka does?": "compatibility.md",
    "Can it be as a report says?": "hypotheses.md",
    "Consumers stand still. Why?": "repair.md",
    "Have we lost a commit to a defect?": "forensics.md#were-we-hit",
    "All I have is the brokers' disks.": "forensics.md",
    "Which alert should I have?": "monitoring.md",
    "How do transactions work?": "ten-pictures.md",
    "How do I show it to a class?": "teaching.md",
    "How does this differ from a real Kafka?": "../DEVIATIONS.md",
    "Which release of Kafka does that?": "releases.md",
    "Where in the code is that?": "contributing/where.md",
}
"""What a reader asks, and the page that answers."""

KINDS: Final[Mapping[str, tuple[str, ...]]] = {
    "Start": (
        "install.md",
        "serve.md",
        "first-client.md",
        "troubleshooting.md",
        "ten-pictures.md",
        "transactions.md",
    ),
    "How to test an application": (
        "testing.md",
        "in-ci.md",
        "recipes/README.md",
        "faults.md",
        "time.md",
        "cluster-life.md",
        "control-api.md",
        "security.md",
        "proxy.md",
        "on-real-kafka.md",
    ),
    "How to check a client": ("exam.md",),
    "How to check a broker": ("conformance.md",),
    "How to operate Kafka": (
        "repair.md",
        "practise.md",
        "monitoring.md",
        "forensics.md",
    ),
    "How to learn and teach": (
        "see-it.md",
        "teaching.md",
        "writing-scenarios.md",
        "hypotheses.md",
        "site.md",
        "simulate.md",
        "explore.md",
        "referee.md",
    ),
    "How to read logs and traces with Spark": (
        "kafka-log.md",
        "streaming.md",
    ),
    "Reference": (
        "cli.md",
        "settings.md",
        "apis.md",
        "rules.md",
        "releases.md",
        "clients.md",
        "compatibility.md",
        "groups.md",
        "transaction-states.md",
        "fault-actions.md",
        "fault-points.md",
        "scenarios.md",
        "which-rule-prevents-what.md",
        "checkers.md",
        "histories.md",
        "metrics.md",
        "trace-kinds.md",
        "trace-tables.md",
        "kafka-log-tables.md",
        "logs-reference.md",
        "admin-client.md",
        "kip-text.md",
        "public-api.md",
    ),
    "Background": ("found.md", "commit-without-a-leader.md", "proposals.md", "performance.md"),
    "For contributors": (
        "contributing/where.md",
        "contributing/one-request.md",
        "contributing/next-release.md",
        "contributing/pipeline-design.md",
        "contributing/spark-pushed-filters.md",
        "contributing/threat-model.md",
    ),
}
"""The pages of `docs` by kind and reader, in the order of reading; each page stands once."""
