"""Who reads which page of `docs`: the order of docs/README.md."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

READERS: Final[Mapping[str, tuple[str, ...]]] = {
    "For all": (
        "found.md",
        "commit-without-a-leader.md",
        "install.md",
        "serve.md",
        "first-client.md",
        "cli.md",
        "settings.md",
    ),
    "Testers of applications": (
        "testing.md",
        "in-ci.md",
        "recipes/README.md",
        "faults.md",
        "fault-points.md",
        "proxy.md",
        "on-real-kafka.md",
        "time.md",
        "control-api.md",
        "cluster-life.md",
        "security.md",
        "threat-model.md",
    ),
    "Authors of clients": (
        "clients.md",
        "exam.md",
        "raw-requests.md",
        "peers.md",
        "apis.md",
        "groups.md",
        "releases.md",
        "kip-text.md",
        "admin-client.md",
    ),
    "Operators of Kafka": (
        "repair.md",
        "see-it.md",
        "practise.md",
        "forensics.md",
        "questions.md",
        "operators-story.md",
        "engineers-story.md",
        "logs.md",
        "monitoring.md",
        "metrics.md",
        "event-log.md",
    ),
    "Learners and teachers": (
        "ten-pictures.md",
        "teaching.md",
        "transactions.md",
        "transaction-states.md",
        "scenarios.md",
        "writing-scenarios.md",
        "site.md",
        "simulate.md",
        "simulate-exam.md",
        "checkers.md",
        "rules.md",
    ),
    "Data engineers": (
        "kafka-log.md",
        "kafka-log-tables.md",
        "spark.md",
        "streaming.md",
        "analysis.md",
        "trace-tables.md",
    ),
    "Contributors": (
        "where.md",
        "one-request.md",
        "next-release.md",
        "public-api.md",
        "pipeline-design.md",
        "trace-kinds.md",
        "performance.md",
    ),
}
"""The pages of `docs` for each reader, in the order of reading; each page stands once."""
