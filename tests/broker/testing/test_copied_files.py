"""Environments as widely copied compose files have them, and properties files: names as there,
values made up. A real broker starts with each of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from txnsim.config import Configuration, load
from txnsim.errors import ConfigError
from txnsim.testing.container import ContainerCommand, command_of_environment

ONE_OF_EACH = {
    "KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR": "1",
    "KAFKA_TRANSACTION_STATE_LOG_REPLICATION_FACTOR": "1",
    "KAFKA_TRANSACTION_STATE_LOG_MIN_ISR": "1",
}
TWO_LISTENERS = {
    "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "PLAINTEXT:PLAINTEXT,PLAINTEXT_HOST:PLAINTEXT",
    "KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT://broker:29092,PLAINTEXT_HOST://localhost:9092",
}
COMBINED = {
    "KAFKA_NODE_ID": "1",
    "KAFKA_PROCESS_ROLES": "broker,controller",
    "KAFKA_CONTROLLER_QUORUM_VOTERS": "1@broker:29093",
    "KAFKA_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
    "KAFKA_INTER_BROKER_LISTENER_NAME": "PLAINTEXT",
    "KAFKA_LISTENERS": "PLAINTEXT://:29092,CONTROLLER://:29093,PLAINTEXT_HOST://:9092",
    "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,"
    "PLAINTEXT_HOST:PLAINTEXT",
    "KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT://broker:29092,PLAINTEXT_HOST://localhost:9092",
}
BITNAMI = {
    "KAFKA_CFG_NODE_ID": "0",
    "KAFKA_CFG_PROCESS_ROLES": "controller,broker",
    "KAFKA_CFG_CONTROLLER_QUORUM_VOTERS": "0@kafka:9093",
    "KAFKA_CFG_LISTENERS": "PLAINTEXT://:9092,CONTROLLER://:9093,EXTERNAL://:9094",
    "KAFKA_CFG_ADVERTISED_LISTENERS": "PLAINTEXT://kafka:9092,EXTERNAL://localhost:9094",
    "KAFKA_CFG_LISTENER_SECURITY_PROTOCOL_MAP": "CONTROLLER:PLAINTEXT,EXTERNAL:PLAINTEXT,"
    "PLAINTEXT:PLAINTEXT",
    "KAFKA_CFG_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
    "KAFKA_CFG_AUTO_CREATE_TOPICS_ENABLE": "false",
    "KAFKA_ENABLE_KRAFT": "yes",
    "KAFKA_KRAFT_CLUSTER_ID": "abcdefghijklmnopqrstuv",
}
FILES: Mapping[str, tuple[Mapping[str, str], frozenset[str]]] = {
    # what it is: its variables, and properties that must be named as without effect
    "a Confluent server with ZooKeeper": (
        {
            **ONE_OF_EACH,
            **TWO_LISTENERS,
            "KAFKA_BROKER_ID": "1",
            "KAFKA_ZOOKEEPER_CONNECT": "zookeeper:2181",
            "KAFKA_METRIC_REPORTERS": "io.confluent.metrics.reporter.ConfluentMetricsReporter",
            "KAFKA_GROUP_INITIAL_REBALANCE_DELAY_MS": "0",
            "KAFKA_CONFLUENT_LICENSE_TOPIC_REPLICATION_FACTOR": "1",
            "KAFKA_CONFLUENT_BALANCER_TOPIC_REPLICATION_FACTOR": "1",
            "KAFKA_CONFLUENT_SCHEMA_REGISTRY_URL": "http://schema-registry:8081",
            "KAFKA_JMX_PORT": "9101",
            "KAFKA_JMX_HOSTNAME": "localhost",
        },
        frozenset(
            {
                "confluent.license.topic.replication.factor",
                "confluent.balancer.topic.replication.factor",
                "confluent.schema.registry.url",
                "jmx.port",
            }
        ),
    ),
    "a Confluent broker with KRaft": (
        {**ONE_OF_EACH, **COMBINED, "KAFKA_BROKER_ID": "1", "KAFKA_JMX_PORT": "9101"},
        frozenset({"broker.id", "jmx.port"}),
    ),
    "a self-hosted stack": (
        {
            "KAFKA_ZOOKEEPER_CONNECT": "zookeeper:2181",
            "KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT://kafka:9092",
            "KAFKA_OFFSETS_TOPIC_NUM_PARTITIONS": "1",
            "KAFKA_MESSAGE_MAX_BYTES": "50000000",
            "KAFKA_MAX_REQUEST_SIZE": "50000000",
            "KAFKA_TOOLS_LOG4J_LOGLEVEL": "WARN",
            "KAFKA_LOG4J_LOGGERS": "kafka.log=WARN",
        },
        frozenset({"max.request.size"}),
    ),
    "one of the oldest images": (
        {
            "KAFKA_ADVERTISED_HOST_NAME": "localhost",
            "KAFKA_ADVERTISED_PORT": "9092",
            "KAFKA_CREATE_TOPICS": "orders:1:1",
            "KAFKA_ZOOKEEPER_CONNECT": "zookeeper:2181",
            "KAFKA_DELETE_RETENTION_MS": "1000",
            "KAFKA_REPLICA_MAX_LOG_SIZE": "2000000000",
            "KAFKA_HOME": "/opt/kafka",
        },
        frozenset({"create.topics", "delete.retention.ms", "replica.max.log.size", "home"}),
    ),
    "several listeners, internal and external": (
        {
            "KAFKA_BROKER_ID": "1",
            "KAFKA_ZOOKEEPER_CONNECT": "zoo1:2181",
            "KAFKA_ADVERTISED_LISTENERS": "LISTENER_INTERNAL://kafka1:19092,"
            "LISTENER_EXTERNAL://127.0.0.1:9092",
            "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "LISTENER_INTERNAL:PLAINTEXT,"
            "LISTENER_EXTERNAL:PLAINTEXT",
        },
        frozenset(),
    ),
    "Bitnami's image": (BITNAMI, frozenset({"enable.kraft", "kraft.cluster.id"})),
    "another program's variables beside it": (
        {
            **COMBINED,
            "KAFKA_CLUSTERS_0_NAME": "local",
            "KAFKA_CLUSTERS_0_BOOTSTRAPSERVERS": "broker:29092",
            "KAFKA_BOOTSTRAP_SERVERS": "broker:29092",
            "KAFKA_REST_HOST_NAME": "rest-proxy",
            "KAFKA_CONFLUENT_SUPPORT_METRICS_ENABLE": "false",
            "KAFKA_STRIMZI_AUTHORIZATION_CLIENT_ID": "kafka",
        },
        frozenset({"bootstrap.servers", "clusters.0.name", "strimzi.authorization.client.id"}),
    ),
    "a listener with a hyphen": (
        {
            **COMBINED,
            "KAFKA_LISTENERS": "IN-SIDE://:29092,CONTROLLER://:29093",
            "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "CONTROLLER:PLAINTEXT,IN-SIDE:PLAINTEXT",
            "KAFKA_ADVERTISED_LISTENERS": "IN-SIDE://broker:29092",
        },
        frozenset(),
    ),
}


def of_variables(
    variables: Mapping[str, str], directory: Path
) -> tuple[ContainerCommand, Configuration]:
    """The command and configuration with which the container starts."""
    container_command = command_of_environment(variables)
    file = directory / "server.properties"
    file.write_text(container_command.properties, "latin-1")
    return container_command, load(file)


@pytest.mark.parametrize("name", FILES)
def test_a_copied_file_starts_one_broker_and_says_what_has_no_effect(
    name: str, tmp_path: Path
) -> None:
    variables, idle_variables = FILES[name]
    _, options = of_variables(variables, tmp_path)
    assert options.brokers == 1, "two others would be behind no port"
    named_variables = {
        property_name.strip()
        for warning in options.warnings
        if "without effect" in warning
        for property_name in warning.rpartition(": ")[2].split(",")
    }
    assert idle_variables <= named_variables


def test_what_is_advertised_says_where_to_listen_where_nothing_else_does(tmp_path: Path) -> None:
    container_command, options = of_variables(TWO_LISTENERS, tmp_path)
    assert (options.host, options.port, options.advertised_host) == ("0.0.0.0", 29092, "broker")
    assert options.security is not None
    assert [(listener.name, listener.port) for listener in options.security.listeners] == [
        ("PLAINTEXT_HOST", 9092)
    ]
    assert "KAFKA_LISTENERS is not set" in container_command.remarks[0]
    assert "PLAINTEXT://0.0.0.0:29092,PLAINTEXT_HOST://0.0.0.0:9092" in container_command.remarks[0]
    variables = {"KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT://kafka:9092"}
    assert command_of_environment(variables).remarks == ()
    with_file = {**TWO_LISTENERS, "TXNSIM_CONFIG": "server.properties"}
    assert "\nlisteners=" not in command_of_environment(with_file).properties


def test_bitnamis_prefix_is_obeyed_with_a_sentence_and_ours_wins(tmp_path: Path) -> None:
    container_command, options = of_variables({**BITNAMI, "KAFKA_NODE_ID": "7"}, tmp_path)
    assert container_command.remarks[0].startswith(
        "KAFKA_CFG_ is the prefix of Bitnami's image, and taken for"
    )
    assert "; write KAFKA_ADVERTISED_LISTENERS, KAFKA_AUTO_CREATE" in container_command.remarks[0]
    assert options.settings.auto_create_topics_enable is False
    assert options.first_broker_id == 7


@pytest.mark.parametrize(
    ("variable", "meant"),
    [
        ("KAFKA_OFFSETS_TOPIC_NUM_PARTITONS", "offsets.topic.num.partitions"),
        ("KAFKA_AUTO_CREATE_TOPICS", "auto.create.topics.enable"),
        ("KAFKA_TRANSACTION_TIMEOUT_MAX_MS", "transaction.max.timeout.ms"),
        ("KAFKA_TRANSACTION_STATE_LOG_REREPLICATION_FACTOR", "transaction.state.log.replication"),
        ("KAFKA_CFG_AUTO_CREATE_TOPICS_ENABLED", "auto.create.topics.enable"),
    ],
)
def test_a_typing_error_is_refused_with_what_was_meant(
    variable: str, meant: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match=f"did you mean {meant}"):
        of_variables({variable: "1"}, tmp_path)


def test_names_of_plugins_have_a_reason_of_their_own(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text(
        "remote.log.storage.manager.impl.prefix=mine.\n"
        "mine.bucket=x\nrsm.config.storage.s3.bucket.name=x\nrlmm.config.x=1\n"
    )
    (of_plugins,) = (
        warning for warning in load(file).warnings if "it is for one of them" in warning
    )
    assert of_plugins.endswith("mine.bucket, rsm.config.storage.s3.bucket.name, rlmm.config.x")


def test_one_broker_tells_clients_the_port_that_is_advertised(tmp_path: Path) -> None:
    """With ``9092:9094`` in a compose file, Docker translates the ports of clients."""
    variables = {
        **BITNAMI,
        "KAFKA_CFG_ADVERTISED_LISTENERS": "PLAINTEXT://kafka:19092,EXTERNAL://localhost:9092",
    }
    _, options = of_variables(variables, tmp_path)
    assert (options.port, options.advertised_port) == (9092, 19092)
    assert options.security is not None
    (external_listener,) = options.security.listeners
    assert (external_listener.port, external_listener.advertised_port) == (9094, 9092)
    assert not any("real port" in warning for warning in options.warnings)
