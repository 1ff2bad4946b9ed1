"""``monitoring/kafka``: rules for Prometheus' JMX exporter, alerts and a dashboard for a real
Apache Kafka, made of the table of metrics and of the alerts for the simulator.

A metric of ours that names a bean of Kafka's is exported from there, with Kafka's words in its name
and in Prometheus' units: seconds and ratios. What Kafka does not count has no alert there.
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Mapping
from typing import Any, Final

import yaml

from txnsim.metrics import table
from txnsim.metrics.table import METRICS, Metric, MetricKind

FOLDER: Final = "monitoring/kafka"
_PROPERTY: Final = re.compile(r"(\w+)=([^,]*)")
_ATTRIBUTES: Final = {
    table.CONNECTIONS: "connection-count",
    table.STREAMS_GROUPS: "streams-group-count",
    table.STREAMS_REBALANCES: "streams-group-rebalance-count",
}
"""Attributes of beans of Kafka's own metrics library; the others have ``Value`` or ``Count``."""
_QUANTILES: Final = ("50", "95", "99")


def exported_name(metric: Metric) -> str | None:
    """The metric's name in the exporter's rules. For times and sizes it lacks the suffix."""
    if metric.kafka is None:
        return None
    domain, _, _ = metric.kafka.partition(":")
    has = _properties(metric)
    name = re.sub(r"([a-z])([A-Z])", r"\1_\2", has.get("name", _ATTRIBUTES.get(metric.name, "")))
    metric_name = f"{domain}_{has['type']}_{name}".lower()
    metric_name = re.sub(r"_time_ms$", "_time_seconds", re.sub(r"\W", "_", metric_name))
    metric_name = re.sub(r"_(per_sec|rate)$", "_total", metric_name)
    return re.sub(r"_count$", "_total", metric_name) if _is_meter(metric) else metric_name


def _properties(metric: Metric) -> dict[str, str]:
    properties = dict(_PROPERTY.findall(metric.kafka or ""))
    if metric.labels == ("topic", "partition"):  # the bean is one partition's
        properties |= {"topic": "*", "partition": "*"}
    return properties


def _is_meter(metric: Metric) -> bool:
    """Whether Kafka's metric is a counter; then its JMX attribute is ``Count``."""
    return metric.kind is MetricKind.COUNTER and metric.name not in _ATTRIBUTES


def _has_histogram(metric: Metric) -> bool:
    """Whether Kafka keeps a histogram of the metric."""
    by_name = (exported_name(metric) or "").endswith(("_seconds", "_bytes"))
    return by_name or metric.kind is MetricKind.HISTOGRAM


def exporter() -> str:
    """The text of the exporter's rules."""
    rules: list[dict[str, Any]] = []
    for metric in METRICS:
        name = exported_name(metric)
        if name is None:
            continue
        domain, _, _ = (metric.kafka or "").partition(":")
        has = _properties(metric)
        label_keys = [key for key, value in has.items() if value == "*"]
        bean = ", ".join(f"{key}={'(.+)' if value == '*' else value}" for key, value in has.items())
        labels = {
            _snake(key): f"${label_key_number}"
            for label_key_number, key in enumerate(label_keys, 1)
        }
        description = {"name": name, "help": metric.meaning[0].upper() + metric.meaning[1:]}
        factors = {"seconds": 0.001, "ratio": 0.01}
        factor = factors.get(name.rpartition("_")[2])
        in_unit = {} if factor is None else {"valueFactor": factor}
        if _has_histogram(metric):
            quantile = {"quantile": f"0.${len(label_keys) + 1}"}
            rules += [
                {"pattern": f"{domain}<{bean}><>Count"}
                | description
                | {"name": f"{name}_count", "type": "UNTYPED", "labels": labels},
                {"pattern": f"{domain}<{bean}><>({'|'.join(_QUANTILES)})thPercentile"}
                | description
                | {"type": "GAUGE", "labels": labels | quantile}
                | in_unit,
            ]
            continue
        attribute_name = _ATTRIBUTES.get(metric.name, "Value")
        kind = "GAUGE"
        if name.endswith("_total"):
            attribute_name, kind = "Count", "COUNTER"
        rules.append(
            {"pattern": f"{domain}<{bean}><>{attribute_name}"}
            | description
            | {"type": kind, "labels": labels}
        )
    beans = [f"{metric.kafka},*" for metric in METRICS if metric.kafka]
    config = {"lowercaseOutputName": True, "includeObjectNames": sorted(set(beans)), "rules": rules}
    return _yaml(
        "# Rules of Prometheus' JMX exporter for the brokers of a real Apache Kafka.", config
    )


def _snake(key: str) -> str:
    return re.sub(r"([a-z])([A-Z])", r"\1_\2", key).lower()


def _name(metric: str) -> str:
    (name,) = (
        exported_name(known_metric) for known_metric in METRICS if known_metric.name == metric
    )
    assert name is not None, metric
    return name


REQUESTS: Final = "InitProducerId|AddPartitionsToTxn|AddOffsetsToTxn|TxnOffsetCommit|EndTxn"
OTHERWISE: Final[Mapping[str, Mapping[str, str]]] = {
    "VerificationFails": {
        "expr": f"rate({_name(table.UNVERIFIED)}[5m]) > "
        f"0.05 * rate({_name(table.VERIFICATION_MS)}_count[5m])",
        "summary": "Partitions that {{ $labels.instance }} asks coordinators to verify are refused"
        " or not answered: {{ $value | humanize }} a second",
    },
    "VerificationSlow": {
        "expr": f'{_name(table.VERIFICATION_MS)}{{quantile="0.50"}} > 0.1',
        "summary": "Half of the first writes of transactions to {{ $labels.instance }} wait for"
        " their coordinator for {{ $value | humanizeDuration }} or longer",
    },
    "TransactionRequestsSlow": {
        "expr": f'{_name(table.REQUEST_MS)}{{quantile="0.99",request=~"{REQUESTS}"}} > 1',
        "summary": "One in a hundred {{ $labels.request }} at {{ $labels.instance }} takes "
        "{{ $value | humanizeDuration }} or longer",
        "description": f"See whether it waits ({_name(table.REQUEST_REMOTE_MS)}) or works.",
    },
}
"""Alerts with other expressions for Kafka, whose histograms have quantiles and no buckets."""


def alerts(ours: str) -> str:
    """The alerts of ``alerts.yml`` for which Kafka has the metrics."""
    names = {metric.name: exported_name(metric) for metric in METRICS}
    groups, missing = [], []
    for group in yaml.safe_load(ours)["groups"]:
        rules = []
        for rule in group["rules"]:
            if rule["alert"] not in OTHERWISE and any(
                names.get(re.sub(r"_(total|bucket|sum|count)$", "", metric_name)) is None
                for metric_name in re.findall(r"txnsim_\w+", rule["expr"])
            ):
                missing.append(rule["alert"])
            else:
                rules.append(_of_kafka(rule, names))
        if rules:
            name = group["name"].replace("txnsim-", "kafka-")
            groups.append({"name": name, "rules": rules})
    heading = (
        "# Alert rules for a real Apache Kafka with jmx-exporter.yml. What to do: "
        "docs/monitoring.md.\n"
        "# Checked by: promtool check rules alerts-kafka.yml && promtool test rules "
        "alerts-kafka_test.yml\n"
        f"# Not here, as no release of Apache Kafka counts it: {', '.join(missing)}."
    )
    return _yaml(heading, {"groups": groups})


def _of_kafka(rule: dict[str, Any], names: Mapping[str, str | None]) -> dict[str, Any]:
    kafka_rule = copy.deepcopy(rule)
    annotations = kafka_rule["annotations"]
    for key in ("summary", "description"):
        annotations[key] = re.sub(
            r"(of )?broker {{ \$labels.broker }}", r"\1{{ $labels.instance }}", annotations[key]
        )
        annotations[key] = annotations[key].replace("$labels.broker", "$labels.instance")
    kafka_rule["expr"] = re.sub(
        r"txnsim_\w+", lambda match: names.get(match[0]) or match[0], kafka_rule["expr"]
    )
    for key, value in OTHERWISE.get(rule["alert"], {}).items():
        (kafka_rule if key == "expr" else annotations)[key] = value
    return kafka_rule


def dashboard(ours: str) -> str:
    """The dashboard with a panel for each metric that a real Kafka has."""
    board = json.loads(ours)
    template = board["panels"][-1]
    board |= {"title": "Apache Kafka: transactions", "uid": "kafka-transactions", "panels": []}
    for index, metric in enumerate(metric for metric in METRICS if metric.kafka):
        name = _name(metric.name)
        panel = copy.deepcopy(template)
        selector = 'instance=~"$instance"'
        if name.endswith("_total"):
            expression, unit = f"rate({name}{{{selector}}}[$__rate_interval])", "ops"
        elif _has_histogram(metric):
            expression = f'{name}{{quantile="0.99",{selector}}}'
            units = {"seconds": "s", "bytes": "bytes", "ratio": "percentunit"}
            unit = units.get(name.rpartition("_")[2], "short")
        else:
            expression, unit = f"{name}{{{selector}}}", "short"
        panel |= {
            "id": index + 1,
            "title": name.removeprefix("kafka_").replace("_", " "),
            "description": f"{metric.meaning[0].upper()}{metric.meaning[1:]}.",
            "gridPos": {"x": 12 * (index % 2), "y": 8 * (index // 2), "w": 12, "h": 8},
        }
        panel["fieldConfig"]["defaults"]["unit"] = unit
        keys = [
            _snake(property_name)
            for property_name, property_value in _properties(metric).items()
            if property_value == "*"
        ]
        legend = " ".join(f"{{{{{label}}}}}" for label in ("instance", *keys))
        (target, *_) = panel["targets"]
        panel["targets"] = [target | {"expr": expression, "legendFormat": legend}]
        board["panels"].append(panel)
    text = json.dumps(board, indent=2) + "\n"
    return text.replace(table.OFFLINE_PARTITIONS, _name(table.UNDER_MIN_ISR))


def _yaml(heading: str, content: object) -> str:
    generator = "`python -m tests.docs --write`; edit tests/support/kafka_monitoring.py instead."
    text = yaml.safe_dump(content, sort_keys=False, width=160, allow_unicode=True)
    return f"# Generated by {generator}\n{heading}\n{text}"
