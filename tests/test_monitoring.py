"""The alerts and the dashboard of ``monitoring/`` agree with the metrics and with their page."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from tests.docs import ROOT
from tests.support.dashboard import ENDINGS, add_missing_panels
from tests.support.kafka_monitoring import exported_name
from tests.support.promtool import is_to_be_had, promtool
from txnsim.metrics.exposition import exposition
from txnsim.metrics.table import METRICS, Metric, MetricKind, Reading

FOLDER: Final = ROOT / "monitoring"
LABELS: Final = {
    metric.name + ending: (*metric.labels, "le") if ending == "_bucket" else metric.labels
    for metric in METRICS
    for ending in ENDINGS[metric.kind]
}
"""Labels of each metric, by the names under which Prometheus knows it."""
PLAIN: Final = {metric.name for metric in METRICS} - LABELS.keys()
RULES: Final[dict[str, Any]] = {
    rule["alert"]: rule
    for group in yaml.safe_load((FOLDER / "alerts.yml").read_text("utf-8"))["groups"]
    for rule in group["rules"]
}
PAGE: Final = (ROOT / "docs/monitoring.md").read_text("utf-8")


def names(text: str) -> set[str]:
    """Names of time series in a text."""
    return set(re.findall(r"\btxnsim_\w+", text)) - PLAIN


def targets(node: Any) -> Iterator[dict[str, Any]]:
    """All queries of the dashboard, at any depth."""
    if isinstance(node, dict):
        if "expr" in node:
            yield node
        node = list(node.values())
    if isinstance(node, list):
        for child in node:
            yield from targets(child)


@pytest.mark.parametrize("file", ["alerts.yml", "alerts_test.yml", "grafana-dashboard.json"])
def test_only_metrics_of_the_table_are_named(file: str) -> None:
    assert names((FOLDER / file).read_text("utf-8")) - LABELS.keys() == set()


def test_the_dashboard_shows_every_metric() -> None:
    shown_names = names((FOLDER / "grafana-dashboard.json").read_text("utf-8"))
    for metric in METRICS:
        assert shown_names & {metric.name + ending for ending in ENDINGS[metric.kind]}, metric.name


@pytest.mark.parametrize(
    ("metric_kind", "expression"),
    [
        (MetricKind.GAUGE, 'txnsim_new{instance=~"$instance"}'),
        (MetricKind.COUNTER, 'rate(txnsim_new_total{instance=~"$instance"}[$__rate_interval])'),
        (
            MetricKind.HISTOGRAM,
            "histogram_quantile(0.99, sum by (broker, le) "
            '(rate(txnsim_new_bucket{instance=~"$instance"}[$__rate_interval])))',
        ),
    ],
)
def test_a_metric_that_no_panel_shows_gets_one(metric_kind: MetricKind, expression: str) -> None:
    metric = Metric(
        name="txnsim_new",
        kind=metric_kind,
        unit="seconds",
        labels=("broker",),
        meaning="what is new",
        advice="",
    )
    old_text = (FOLDER / "grafana-dashboard.json").read_text("utf-8")
    new_text = add_missing_panels(old_text, [*METRICS, metric])
    *old_panels, panel = json.loads(new_text)["panels"]
    assert old_panels == json.loads(old_text)["panels"]
    (target,) = panel["targets"]
    assert (target["expr"], target["legendFormat"]) == (expression, "broker {{broker}}")
    assert (panel["title"], panel["description"]) == ("New", "What is new.")
    assert panel["id"] not in {old_panel["id"] for old_panel in old_panels}
    assert panel["gridPos"] not in [old_panel["gridPos"] for old_panel in old_panels]
    assert add_missing_panels(new_text, [*METRICS, metric]) == new_text, "once"


def test_legends_of_the_dashboard_name_labels_of_their_metrics() -> None:
    all_targets = list(targets(json.loads((FOLDER / "grafana-dashboard.json").read_text("utf-8"))))
    assert all_targets
    for target in all_targets:
        labels = {label for label_name in names(target["expr"]) for label in LABELS[label_name]}
        assert set(re.findall(r"{{(\w+)}}", target["legendFormat"])) <= labels, target


@pytest.mark.parametrize("alert_name", RULES)
def test_an_alert_is_explained(alert_name: str) -> None:
    rule = RULES[alert_name]
    sections = re.findall(rf"^### {alert_name}\n\n\*\*(\w+)\.\*\*", PAGE, re.MULTILINE)
    assert sections == [rule["labels"]["severity"]]
    assert rule["annotations"]["runbook"] == f"docs/monitoring.md#{alert_name.lower()}"
    labels = {label for label_name in names(rule["expr"]) for label in LABELS[label_name]}
    assert set(re.findall(r"\$labels\.(\w+)", str(rule["annotations"]))) <= labels


def test_each_alert_is_seen_quiet_and_firing() -> None:
    tests = yaml.safe_load((FOLDER / "alerts_test.yml").read_text("utf-8"))["tests"]
    states_by_alert = {
        (step["alertname"], bool(step["exp_alerts"]))
        for test in tests
        for step in test["alert_rule_test"]
    }
    assert states_by_alert == {
        (alert_name, fires) for alert_name in RULES for fires in (False, True)
    }


@pytest.fixture(scope="module")
def judge() -> Path:
    """Path of promtool, Prometheus' own checker."""
    return promtool()


@pytest.mark.costly
@pytest.mark.slow
@pytest.mark.skipif(
    not is_to_be_had(), reason="no promtool on this machine, and no apt and dpkg to fetch it with"
)
@pytest.mark.parametrize(
    "arguments",
    [
        ("check", "config", "prometheus.yml"),
        ("check", "config", "prometheus-compose.yml"),
        ("check", "rules", "alerts.yml"),
        ("test", "rules", "alerts_test.yml"),
        ("check", "rules", "kafka/alerts-kafka.yml"),
        ("test", "rules", "kafka/alerts-kafka_test.yml"),
    ],
    ids="-".join,
)
def test_prometheus_accepts_the_files(judge: Path, arguments: tuple[str, ...]) -> None:
    finished_process = subprocess.run(
        [str(judge), *arguments],
        cwd=FOLDER,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert finished_process.returncode == 0, finished_process.stdout


@pytest.mark.costly
@pytest.mark.slow
@pytest.mark.skipif(
    not is_to_be_had(), reason="no promtool on this machine, and no apt and dpkg to fetch it with"
)
def test_prometheus_has_nothing_against_the_metrics(judge: Path) -> None:
    shown_lines = [
        Reading(
            metric=metric.name, labels=("1",) * len(metric.labels), value=1, counts=(1,) * counts
        )
        for metric in METRICS
        if (counts := len(metric.bounds) + 1)
    ]
    old_names = {metric.old_name for metric in METRICS if metric.old_name is not None}
    lines = exposition(shown_lines).decode().splitlines(keepends=True)
    text = "".join(line for line in lines if not any(name in line for name in old_names))
    finished_process = subprocess.run(
        [str(judge), "check", "metrics"],
        input=text,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert (finished_process.returncode, finished_process.stdout) == (0, "")


# For a real Kafka


def kafka_names(file: str) -> set[str]:
    lines = (FOLDER / "kafka" / file).read_text("utf-8").splitlines()
    text = "\n".join(line for line in lines if not line.startswith("#"))
    return set(re.findall(r"\bkafka_[a-z_]+", text))


KAFKAS: Final = {name for metric in METRICS if (name := exported_name(metric)) is not None}


@pytest.mark.parametrize("file", ["alerts-kafka.yml", "grafana-dashboard-kafka.json"])
def test_only_what_the_exporter_has_is_asked_of_a_real_kafka(file: str) -> None:
    queried = {
        re.sub(r"_count$", "", kafka_name) if kafka_name not in KAFKAS else kafka_name
        for kafka_name in kafka_names(file)
    }
    assert queried <= KAFKAS


def test_the_exporter_and_its_dashboard_have_every_metric_of_kafkas() -> None:
    assert kafka_names("jmx-exporter.yml") >= KAFKAS
    assert kafka_names("grafana-dashboard-kafka.json") >= KAFKAS
    assert len(KAFKAS) == sum(metric.kafka is not None for metric in METRICS)


def test_each_alert_is_there_for_a_real_kafka_or_named_as_missing() -> None:
    file_text = (FOLDER / "kafka/alerts-kafka.yml").read_text("utf-8")
    theirs = {
        rule["alert"] for group in yaml.safe_load(file_text)["groups"] for rule in group["rules"]
    }
    (missing,) = re.findall(r"^# Not here, .*: (.*)\.$", file_text, re.MULTILINE)
    assert theirs | set(missing.split(", ")) == RULES.keys()
    assert "$labels.broker" not in file_text
