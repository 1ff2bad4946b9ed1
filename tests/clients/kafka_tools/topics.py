"""kafka-topics, kafka-configs, and the tools that are about partitions and their replicas."""

from __future__ import annotations

import json
from typing import Final

from tests.clients.kafka_tools.expect import (
    Unexpected,
    eventually,
    expect,
    printed,
    refused,
    require,
)
from tests.clients.kafka_tools.shop import Shop

_ALL_CONFIGS_MIN: Final = 30
"""Topics have more than thirty configs since 4.0."""


def topics(shop: Shop) -> None:
    """Create, list, describe, add partitions, delete."""
    topic, tool = shop.named("topic"), "kafka-topics"
    create = ("--create", "--topic", topic, "--partitions", "2", "--replication-factor", "1")
    created = shop.tools.at(tool, *create, "--config", "retention.ms=1000000")
    printed(created, f"Created topic {topic}.")
    refused(
        shop.tools.at(tool, *create),
        f"Error while executing topic command : Topic '{topic}' already exists.",
    )
    printed(shop.tools.at(tool, *create, "--if-not-exists"), "")
    eventually(lambda: printed(shop.tools.at(tool, "--list", "--topic", topic), topic))
    _described(shop, topic, partitions=2)
    printed(shop.tools.at(tool, "--alter", "--topic", topic, "--partitions", "3"), "")
    _described(shop, topic, partitions=3)
    refused(
        shop.tools.at(tool, "--alter", "--topic", topic, "--partitions", "1"),
        f"The topic {topic} currently has 3 partition(s); 1 would not be an increase.",
    )
    for filtered in ("--under-replicated-partitions", "--unavailable-partitions"):
        printed(shop.tools.at(tool, "--describe", "--topic", topic, filtered), "")
    printed(shop.tools.at(tool, "--delete", "--topic", topic), "")
    missing = f"Error while executing topic command : Topic '{topic}' does not exist as expected"
    eventually(lambda: refused(shop.tools.at(tool, "--delete", "--topic", topic), missing))
    refused(shop.tools.at(tool, "--describe", "--topic", topic), missing)


def _described(shop: Shop, topic: str, *, partitions: int) -> None:
    head = (
        f"Topic: {topic} TopicId: <word> PartitionCount: {partitions} ReplicationFactor: 1"
        " Configs: min.insync.replicas=1,retention.ms=1000000\n"
    )
    rows = "".join(
        f"Topic: {topic} Partition: {partition} Leader: <n> Replicas: <n> Isr: <n>"
        " Elr: LastKnownElr:\n"
        for partition in range(partitions)
    )
    describe = ("--describe", "--topic", topic)
    eventually(lambda: printed(shop.tools.at("kafka-topics", *describe), head + rows))


def assignments(shop: Shop) -> None:
    """A topic whose replicas are named, and names that collide in metrics."""
    topic = shop.named("assigned")
    created = shop.tools.at(
        "kafka-topics", "--create", "--topic", topic, "--replica-assignment", "1,1,1"
    )
    printed(created, f"Created topic {topic}.")
    row = f"{topic}:0:0\n{topic}:1:0\n{topic}:2:0"
    eventually(lambda: printed(shop.tools.at("kafka-get-offsets", "--topic", topic), row))
    dotted = shop.named("with.dot_and_underscore")
    create = ("--create", "--topic", dotted, "--partitions", "1")
    printed(
        shop.tools.at("kafka-topics", *create),
        "WARNING: Due to limitations in metric names, topics with a period ('.') or underscore"
        " ('_') could collide. To avoid issues it is best to use either, but not both.\n"
        f"Created topic {dotted}.",
    )


def topic_configs(shop: Shop) -> None:
    """Set, describe with where each value comes from, delete; a bad value is refused."""
    topic, tool = shop.new_topic("configured"), "kafka-configs"
    entity = ("--entity-type", "topics", "--entity-name", topic)
    done = f"Completed updating config for topic {topic}."
    add = "retention.ms=5,cleanup.policy=[compact,delete]"
    printed(shop.tools.at(tool, "--alter", *entity, "--add-config", add), done)
    eventually(
        lambda: printed(
            shop.tools.at(tool, "--describe", *entity),
            f"""
            Dynamic configs for topic {topic} are:
              cleanup.policy=compact,delete sensitive=false synonyms={{DYNAMIC_TOPIC_CONFIG:\
cleanup.policy=compact,delete, DEFAULT_CONFIG:log.cleanup.policy=delete}}
              retention.ms=5 sensitive=false synonyms={{DYNAMIC_TOPIC_CONFIG:retention.ms=5}}
            """,
        )
    )
    delete = ("--alter", *entity, "--delete-config", "retention.ms,cleanup.policy")
    printed(shop.tools.at(tool, *delete), done)
    nothing = f"Dynamic configs for topic {topic} are:"
    eventually(lambda: printed(shop.tools.at(tool, "--describe", *entity), nothing))
    refused(
        shop.tools.at(tool, "--alter", *entity, "--add-config", "retention.ms=banana"),
        "Invalid value banana for configuration retention.ms: Not a number of type LONG",
    )
    everything = shop.tools.at(tool, "--describe", "--all", *entity)
    rows = [row.strip() for row in everything.stdout.splitlines()[1:]]
    require(f"more than {_ALL_CONFIGS_MIN} configs", len(rows) > _ALL_CONFIGS_MIN)
    require(
        "max.message.bytes is the broker's",
        "max.message.bytes=1048588 sensitive=false"
        " synonyms={DEFAULT_CONFIG:message.max.bytes=1048588}" in rows,
    )


def broker_configs(shop: Shop) -> None:
    """Configs of the default broker, which are those of all brokers."""
    tool, name = "kafka-configs", "log.cleaner.backoff.ms"
    entity = ("--entity-type", "brokers", "--entity-default")
    done = "Completed updating default config for brokers in the cluster."
    printed(shop.tools.at(tool, "--alter", *entity, "--add-config", f"{name}=20000"), done)
    row = f"  {name}=20000 sensitive=false synonyms={{DYNAMIC_DEFAULT_BROKER_CONFIG:{name}=20000}}"

    def look(*, there: bool) -> None:
        described = shop.tools.at(tool, "--describe", *entity)
        expect("is listed", row in described.stdout.splitlines(), there)

    eventually(lambda: look(there=True))
    printed(shop.tools.at(tool, "--alter", *entity, "--delete-config", name), done)
    eventually(lambda: look(there=False))


def other_configs(shop: Shop) -> None:
    """Quotas, SCRAM credentials, configs of groups."""
    client, user, group = shop.named("client"), shop.named("user"), shop.named("configured-group")
    for entity, add, delete, shown in (
        (
            ("client", "clients", client),
            "producer_byte_rate=1000000",
            "producer_byte_rate",
            f"Quota configs for client-id '{client}' are producer_byte_rate=1000000.0",
        ),
        (
            ("user", "users", user),
            "SCRAM-SHA-256=[iterations=8192,password=secret]",
            "SCRAM-SHA-256",
            f"SCRAM credential configs for user-principal '{user}' are"
            " SCRAM-SHA-256=iterations=8192",
        ),
        (
            ("group", "groups", group),
            "consumer.session.timeout.ms=50000",
            "consumer.session.timeout.ms",
            f"Dynamic configs for group {group} are:\n  consumer.session.timeout.ms=50000"
            " sensitive=false synonyms={DYNAMIC_GROUP_CONFIG:consumer.session.timeout.ms=50000,"
            " DEFAULT_CONFIG:group.consumer.session.timeout.ms=45000}",
        ),
    ):
        _set_and_forget(shop, entity, add, delete, shown)


def _set_and_forget(
    shop: Shop, entity: tuple[str, str, str], add: str, delete: str, shown: str
) -> None:
    kind, plural, name = entity
    options = ("--entity-type", plural, "--entity-name", name)
    done = f"Completed updating config for {kind} {name}."
    tool = "kafka-configs"
    printed(shop.tools.at(tool, "--alter", *options, "--add-config", add), done)
    eventually(lambda: printed(shop.tools.at(tool, "--describe", *options), shown))
    printed(shop.tools.at(tool, "--alter", *options, "--delete-config", delete), done)

    def look() -> None:
        described = shop.tools.at(tool, "--describe", *options)
        require("it is forgotten", delete not in described.stdout)

    eventually(look)


def offsets_and_records(shop: Shop) -> None:
    """kafka-get-offsets by every kind of time, kafka-delete-records."""
    topic, tool = shop.new_topic("records", partitions=2), "kafka-get-offsets"
    filled = f"{topic}-0"
    payload = "".join(f"key\t{n}\n" for n in range(5))
    keyed = ("--reader-property", "parse.key=true")
    printed(shop.tools.at("kafka-console-producer", "--topic", topic, *keyed, stdin=payload), "")
    ends = shop.tools.at(tool, "--topic", topic).stdout.split()
    require(f"one partition has all: {ends}", sorted(end[-1] for end in ends) == ["0", "5"])
    partition = next(end for end in ends if end.endswith(":5")).split(":")[1]
    only = ("--topic-partitions", f"{topic}:{partition}", "--time")
    for when, offset in (
        ("earliest", 0),
        ("latest", 5),
        ("-1", 5),
        ("max-timestamp", 4),
        ("1", 0),
        ("earliest-local", 0),
    ):
        row = "<any>" if when == "max-timestamp" else f"{topic}:{partition}:{offset}"
        printed(shop.tools.at(tool, *only, when), row)
    printed(shop.tools.at(tool, *only, "latest-tiered"), "")
    refused(
        shop.tools.at(tool, "--topic", f"{filled}-nowhere"),
        "Error occurred: Could not match any topic-partitions with the specified filters",
    )
    where = {"topic": topic, "partition": int(partition), "offset": 3}
    wanted = shop.file("delete.json", json.dumps({"partitions": [where], "version": 1}))
    deleted = shop.tools.at("kafka-delete-records", "--offset-json-file", wanted)
    printed(
        deleted,
        f"""
        Executing records delete operation
        Records delete operation completed:
        partition: {topic}-{partition} low_watermark: 3
        """,
    )
    printed(shop.tools.at(tool, *only, "earliest"), f"{topic}:{partition}:3")


def log_dirs(shop: Shop) -> None:
    topic, tool = shop.new_topic("sized"), "kafka-log-dirs"
    shop.tools.at("kafka-console-producer", "--topic", topic, stdin="one\n")
    described = printed(
        shop.tools.at(tool, "--describe", "--topic-list", topic),
        """
        Querying brokers for log directories information
        Received log directory information from brokers <word>
        {<any>}
        """,
    )
    found = json.loads(described.stdout.splitlines()[-1])
    expect("version", found["version"], 1)
    replicas = [
        replica
        for broker in found["brokers"]
        for directory in broker["logDirs"]
        for replica in directory["partitions"]
    ]
    expect("replicas", [replica["partition"] for replica in replicas], [f"{topic}-0"])
    require("it is as large as a batch", 60 < replicas[0]["size"] < 200)
    expect("lag, future", (replicas[0]["offsetLag"], replicas[0]["isFuture"]), (0, False))
    refused(
        shop.tools.at(tool, "--describe", "--broker-list", "77"),
        "ERROR: The given brokers do not exist from --broker-list: 77."
        " Current existent brokers: <word>",
    )


def leader_election(shop: Shop) -> None:
    """Nothing to do for healthy partitions; an unknown one is told of."""
    topic, tool = shop.new_topic("elected"), "kafka-leader-election"
    for kind in ("preferred", "unclean"):
        where = ("--election-type", kind, "--topic", topic, "--partition", "0")
        printed(
            shop.tools.at(tool, *where), f"Valid replica already elected for partitions {topic}-0"
        )
    nowhere = ("--election-type", "preferred", "--topic", f"{topic}-nowhere", "--partition", "0")
    refused(
        shop.tools.at(tool, *nowhere),
        f"Error completing leader election (PREFERRED) for partition: {topic}-nowhere-0:"
        " org.apache.kafka.common.errors.UnknownTopicOrPartitionException:"
        f" No such topic as {topic}-nowhere",
    )


def reassignments(shop: Shop) -> None:
    listed = shop.tools.at("kafka-reassign-partitions", "--list")
    if listed.code != 0 or "reassignments" not in listed.stdout:
        raise Unexpected(f"exit status {listed.code}: {listed.stdout}{listed.stderr}")
