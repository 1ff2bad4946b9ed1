"""From a run of a scenario to the cluster it is played on.

A mode is a level of ``transaction.version`` with or without verification, and, for transactions v2,
with or without KIP-1228's strict markers; a run may turn further switches and settings.
"""

from __future__ import annotations

from typing import Final

import msgspec

from txnsim.config import settings_of
from txnsim.controller.controller import TopicToCreate
from txnsim.metadata import configs
from txnsim.server.options import ClusterOptions
from txnsim.settings import Settings
from txnsim_lab.scenario.model import Run, Scenario, Topic
from txnsim_lab.scenario.steps_model import ClusterAct
from txnsim_lab.target.cluster import replicas_from

TRANSACTION_VERSION: Final = {"V-": 0, "V+": 1, "TV2": 2, "TV2+": 2}
VERIFICATION: Final = {"V-": False, "V+": True, "TV2": True, "TV2+": True}
STRICT_MARKERS: Final = "v2_markers_need_higher_epoch"
"""The switch of KIP-1228: what TV2+ has and TV2 has not."""
REPLICAS_MAX: Final = 3
TRANSACTION_LOG_PARTITIONS: Final = 6
"""Fewer than Kafka's 50: a story has a handful of transactional ids, and a leader of each kind."""


def options_of(scenario: Scenario, run: Run) -> ClusterOptions:
    """The cluster of a run.

    Raises:
        ConfigError: A setting is none.
    """
    rules = dict(run.rules)
    if run.mode in ("TV2", "TV2+"):
        rules.setdefault(STRICT_MARKERS, run.mode == "TV2+")
    return ClusterOptions(
        brokers=scenario.brokers,
        port=0,
        settings=_settings(scenario, run),
        as_version=() if run.as_version is None else (run.as_version,),
        rules=rules,
    )


def _settings(scenario: Scenario, run: Run) -> Settings:
    settings_of_run: dict[str, object] = {
        "transaction.state.log.num.partitions": TRANSACTION_LOG_PARTITIONS,
        **scenario.settings,
        **run.settings,
    }
    settings, _ = settings_of(settings_of_run, where=f"{scenario.name}: settings")
    return msgspec.structs.replace(
        settings,
        transaction_version=TRANSACTION_VERSION[run.mode],
        transaction_partition_verification_enable=VERIFICATION[run.mode],
    )


def new_topic(name: str, topic: Topic, *, brokers: int) -> TopicToCreate:
    """A topic whose leaders are where the story wants them."""
    replicas = topic.replication_factor or min(REPLICAS_MAX, brokers)
    return TopicToCreate(
        name=name,
        assignments=tuple(
            (index, replicas_from(leader, replicas, brokers=brokers))
            for index, leader in enumerate(leaders_of(topic, brokers=brokers))
        ),
        configs={key: configs.text(value) for key, value in topic.configs.items()},
    )


def topic_of(act: ClusterAct) -> Topic:
    """The topic that a step creates."""
    return Topic.model_validate(
        {
            "partitions": act.partitions or 1,
            "replication-factor": act.replication_factor,
            "leaders": act.leaders,
            "configs": act.configs,
        }
    )


def leaders_of(topic: Topic, *, brokers: int) -> tuple[int, ...]:
    """The broker that leads each partition at first."""
    return topic.leaders or tuple(index % brokers + 1 for index in range(topic.partitions))
