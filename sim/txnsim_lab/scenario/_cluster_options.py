"""The options of the cluster on which a run of a scenario is played.

A mode is a level of ``transaction.version`` with or without verification, and, for transactions v2,
with or without KIP-1228's strict markers; a run may change further switches and settings.
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
"""The switch of KIP-1228: on in mode TV2+, off in TV2."""
REPLICAS_MAX: Final = 3
TRANSACTION_LOG_PARTITIONS: Final = 6
"""Partitions of ``__transaction_state``, fewer than Kafka's 50: a story has few transactional ids,
and this is enough for each broker to lead some of the partitions.
"""


def options_of(scenario: Scenario, run: Run) -> ClusterOptions:
    """The options of the cluster for a run.

    Raises:
        ConfigError: A setting is unknown or its value is wrong.
    """
    rules = dict(run.rules)
    if run.mode in ("TV2", "TV2+"):
        rules.setdefault(STRICT_MARKERS, run.mode == "TV2+")
    return ClusterOptions(
        brokers=scenario.brokers,
        racks=scenario.racks,
        port=0,
        settings=_cluster_settings(scenario, run),
        as_version=_releases_of(run),
        rules=rules,
    )


def _cluster_settings(scenario: Scenario, run: Run) -> Settings:
    settings_of_run: dict[str, object] = {
        "transaction.state.log.num.partitions": TRANSACTION_LOG_PARTITIONS,
        **scenario.settings,
        **run.settings,
    }
    settings, _ = settings_of(
        settings_of_run, source_name=f"{scenario.name}: settings", as_version=_releases_of(run)
    )
    return msgspec.structs.replace(
        settings,
        transaction_version=TRANSACTION_VERSION[run.mode],
        transaction_partition_verification_enable=VERIFICATION[run.mode],
    )


def _releases_of(run: Run) -> tuple[str, ...]:
    return () if run.as_version is None else (run.as_version,)


def new_topic(topic_name: str, topic: Topic, *, broker_count: int) -> TopicToCreate:
    """The topic, with the leaders that the story declares for its partitions."""
    replicas = topic.replication_factor or min(REPLICAS_MAX, broker_count)
    return TopicToCreate(
        name=topic_name,
        assignments=tuple(
            (index, replicas_from(leader, replicas, broker_count=broker_count))
            for index, leader in enumerate(leaders_of(topic, broker_count=broker_count))
        ),
        configs={key: configs.text(value) for key, value in topic.configs.items()},
    )


def topic_of(cluster_act: ClusterAct) -> Topic:
    """The topic that a ``create-topic`` step creates."""
    return Topic.model_validate(
        {
            "partitions": cluster_act.partitions or 1,
            "replication-factor": cluster_act.replication_factor,
            "leaders": cluster_act.leaders,
            "configs": cluster_act.configs,
        }
    )


def leaders_of(topic: Topic, *, broker_count: int) -> tuple[int, ...]:
    """The broker that leads each partition when the topic is created."""
    return topic.leaders or tuple(
        partition_index % broker_count + 1 for partition_index in range(topic.partitions)
    )
