"""kafka-topics, kafka-configs, and the tools that are about partitions and their replicas."""

from __future__ import annotations

import json
from typing import Final

from tests.clients.kafka_tools.expect import (
    UnexpectedAnswerError,
    eventually,
    expect,
    expect_output,
    expect_refusal,
    require,
)
from tests.clients.kafka_tools.shop import Shop

_ALL_CONFIGS_MIN: Final = 30
"""Topics have more than thirty configs since 4.0."""


def topics(shop: Shop) -> None:
    """Create, list, describe, add partitions, delete."""
    topic, tool = shop.unique_name("topic"), "kafka-topics"
    create = ("--create", "--topic", topic, "--partitions", "2", "--replication-factor", "1")
    creation = shop.tools.ask(tool, *create, "--config", "retention.ms=1000000")
    expect_output(creation, f"Created topic {topic}.")
    expect_refusal(
        shop.tools.ask(tool, *create),
        f"Error while executing topic command : Topic '{topic}' already exists.",
    )
    expect_output(shop.tools.ask(tool, *create, "--if-not-exists"), "")
    eventually(lambda: expect_output(shop.tools.ask(tool, "--list", "--topic", topic), topic))
    _expect_description(shop, topic, partitions=2)
    expect_output(shop.tools.ask(tool, "--alter", "--topic", topic, "--partitions", "3"), "")
    _expect_description(shop, topic, partitions=3)
    expect_refusal(
        shop.tools.ask(tool, "--alter", "--topic", topic, "--partitions", "1"),
        f"The topic {topic} currently has 3 partition(s); 1 would not be an increase.",
    )
    for filter_option in ("--under-replicated-partitions", "--unavailable-partitions"):
        expect_output(shop.tools.ask(tool, "--describe", "--topic", topic, filter_option), "")
    expect_output(shop.tools.ask(tool, "--delete", "--topic", topic), "")
    absence = f"Error while executing topic command : Topic '{topic}' does not exist as expected"
    eventually(lambda: expect_refusal(shop.tools.ask(tool, "--delete", "--topic", topic), absence))
    expect_refusal(shop.tools.ask(tool, "--describe", "--topic", topic), absence)


def _expect_description(shop: Shop, topic: str, *, partitions: int) -> None:
    head_text = (
        f"Topic: {topic} TopicId: <word> PartitionCount: {partitions} ReplicationFactor: 1"
        " Configs: min.insync.replicas=1,retention.ms=1000000\n"
    )
    rows = "".join(
        f"Topic: {topic} Partition: {partition} Leader: <n> Replicas: <n> Isr: <n>"
        " Elr: LastKnownElr:\n"
        for partition in range(partitions)
    )
    describe = ("--describe", "--topic", topic)
    eventually(lambda: expect_output(shop.tools.ask("kafka-topics", *describe), head_text + rows))


def assignments(shop: Shop) -> None:
    """A topic whose replicas are named, and names that collide in metrics."""
    topic = shop.unique_name("assigned")
    creation = shop.tools.ask(
        "kafka-topics", "--create", "--topic", topic, "--replica-assignment", "1,1,1"
    )
    expect_output(creation, f"Created topic {topic}.")
    row = f"{topic}:0:0\n{topic}:1:0\n{topic}:2:0"
    eventually(lambda: expect_output(shop.tools.ask("kafka-get-offsets", "--topic", topic), row))
    dotted_topic = shop.unique_name("with.dot_and_underscore")
    create = ("--create", "--topic", dotted_topic, "--partitions", "1")
    expect_output(
        shop.tools.ask("kafka-topics", *create),
        "WARNING: Due to limitations in metric names, topics with a period ('.') or underscore"
        " ('_') could collide. To avoid issues it is best to use either, but not both.\n"
        f"Created topic {dotted_topic}.",
    )


def topic_configs(shop: Shop) -> None:
    """Set, describe with where each value comes from, delete; a bad value is refused."""
    topic, tool = shop.new_topic("configured"), "kafka-configs"
    entity = ("--entity-type", "topics", "--entity-name", topic)
    confirmation = f"Completed updating config for topic {topic}."
    add = "retention.ms=5,cleanup.policy=[compact,delete]"
    expect_output(shop.tools.ask(tool, "--alter", *entity, "--add-config", add), confirmation)
    eventually(
        lambda: expect_output(
            shop.tools.ask(tool, "--describe", *entity),
            f"""
            Dynamic configs for topic {topic} are:
              cleanup.policy=compact,delete sensitive=false synonyms={{DYNAMIC_TOPIC_CONFIG:\
cleanup.policy=compact,delete, DEFAULT_CONFIG:log.cleanup.policy=delete}}
              retention.ms=5 sensitive=false synonyms={{DYNAMIC_TOPIC_CONFIG:retention.ms=5}}
            """,
        )
    )
    delete = ("--alter", *entity, "--delete-config", "retention.ms,cleanup.policy")
    expect_output(shop.tools.ask(tool, *delete), confirmation)
    no_configs = f"Dynamic configs for topic {topic} are:"
    eventually(lambda: expect_output(shop.tools.ask(tool, "--describe", *entity), no_configs))
    expect_refusal(
        shop.tools.ask(tool, "--alter", *entity, "--add-config", "retention.ms=banana"),
        "Invalid value banana for configuration retention.ms: Not a number of type LONG",
    )
    describe_result = shop.tools.ask(tool, "--describe", "--all", *entity)
    rows = [row.strip() for row in describe_result.stdout.splitlines()[1:]]
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
    confirmation = "Completed updating default config for brokers in the cluster."
    expect_output(
        shop.tools.ask(tool, "--alter", *entity, "--add-config", f"{name}=20000"), confirmation
    )
    row = f"  {name}=20000 sensitive=false synonyms={{DYNAMIC_DEFAULT_BROKER_CONFIG:{name}=20000}}"

    def look(*, is_listed: bool) -> None:
        description = shop.tools.ask(tool, "--describe", *entity)
        expect("is listed", row in description.stdout.splitlines(), is_listed)

    eventually(lambda: look(is_listed=True))
    expect_output(shop.tools.ask(tool, "--alter", *entity, "--delete-config", name), confirmation)
    eventually(lambda: look(is_listed=False))


def other_configs(shop: Shop) -> None:
    """Quotas, SCRAM credentials, configs of groups."""
    client, user_name, group = (
        shop.unique_name("client"),
        shop.unique_name("user"),
        shop.unique_name("configured-group"),
    )
    for entity, add, delete, description in (
        (
            ("client", "clients", client),
            "producer_byte_rate=1000000",
            "producer_byte_rate",
            f"Quota configs for client-id '{client}' are producer_byte_rate=1000000.0",
        ),
        (
            ("user", "users", user_name),
            "SCRAM-SHA-256=[iterations=8192,password=secret]",
            "SCRAM-SHA-256",
            f"SCRAM credential configs for user-principal '{user_name}' are"
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
        _set_and_forget(shop, entity, add, delete, description)


def _set_and_forget(
    shop: Shop, entity: tuple[str, str, str], add: str, delete: str, description: str
) -> None:
    kind, plural, name = entity
    options = ("--entity-type", plural, "--entity-name", name)
    confirmation = f"Completed updating config for {kind} {name}."
    tool = "kafka-configs"
    expect_output(shop.tools.ask(tool, "--alter", *options, "--add-config", add), confirmation)
    eventually(lambda: expect_output(shop.tools.ask(tool, "--describe", *options), description))
    expect_output(
        shop.tools.ask(tool, "--alter", *options, "--delete-config", delete), confirmation
    )

    def look() -> None:
        output = shop.tools.ask(tool, "--describe", *options)
        require("it is forgotten", delete not in output.stdout)

    eventually(look)


def offsets_and_records(shop: Shop) -> None:
    """kafka-get-offsets by every kind of time, kafka-delete-records."""
    topic, tool = shop.new_topic("records", partitions=2), "kafka-get-offsets"
    first_partition_name = f"{topic}-0"
    payload_text = "".join(f"key\t{record_number}\n" for record_number in range(5))
    keyed_options = ("--reader-property", "parse.key=true")
    expect_output(
        shop.tools.ask(
            "kafka-console-producer", "--topic", topic, *keyed_options, stdin=payload_text
        ),
        "",
    )
    end_rows = shop.tools.ask(tool, "--topic", topic).stdout.split()
    require(
        f"one partition has all: {end_rows}",
        sorted(end_row[-1] for end_row in end_rows) == ["0", "5"],
    )
    partition = next(end_row for end_row in end_rows if end_row.endswith(":5")).split(":")[1]
    partition_options = ("--topic-partitions", f"{topic}:{partition}", "--time")
    for time, offset in (
        ("earliest", 0),
        ("latest", 5),
        ("-1", 5),
        ("max-timestamp", 4),
        ("1", 0),
        ("earliest-local", 0),
    ):
        row = "<any>" if time == "max-timestamp" else f"{topic}:{partition}:{offset}"
        expect_output(shop.tools.ask(tool, *partition_options, time), row)
    expect_output(shop.tools.ask(tool, *partition_options, "latest-tiered"), "")
    expect_refusal(
        shop.tools.ask(tool, "--topic", f"{first_partition_name}-nowhere"),
        "Error occurred: Could not match any topic-partitions with the specified filters",
    )
    position = {"topic": topic, "partition": int(partition), "offset": 3}
    request_file = shop.file("delete.json", json.dumps({"partitions": [position], "version": 1}))
    deletion = shop.tools.ask("kafka-delete-records", "--offset-json-file", request_file)
    expect_output(
        deletion,
        f"""
        Executing records delete operation
        Records delete operation completed:
        partition: {topic}-{partition} low_watermark: 3
        """,
    )
    expect_output(shop.tools.ask(tool, *partition_options, "earliest"), f"{topic}:{partition}:3")


def log_dirs(shop: Shop) -> None:
    topic, tool = shop.new_topic("sized"), "kafka-log-dirs"
    shop.tools.ask("kafka-console-producer", "--topic", topic, stdin="one\n")
    output = expect_output(
        shop.tools.ask(tool, "--describe", "--topic-list", topic),
        """
        Querying brokers for log directories information
        Received log directory information from brokers <word>
        {<any>}
        """,
    )
    report = json.loads(output.stdout.splitlines()[-1])
    expect("version", report["version"], 1)
    replicas = [
        replica
        for broker in report["brokers"]
        for directory in broker["logDirs"]
        for replica in directory["partitions"]
    ]
    expect("replicas", [replica["partition"] for replica in replicas], [f"{topic}-0"])
    require("it is as large as a batch", 60 < replicas[0]["size"] < 200)
    expect("lag, future", (replicas[0]["offsetLag"], replicas[0]["isFuture"]), (0, False))
    expect_refusal(
        shop.tools.ask(tool, "--describe", "--broker-list", "77"),
        "ERROR: The given brokers do not exist from --broker-list: 77."
        " Current existent brokers: <word>",
    )


def leader_election(shop: Shop) -> None:
    """An election of healthy partitions changes nothing; an unknown partition gets an error."""
    topic, tool = shop.new_topic("elected"), "kafka-leader-election"
    for kind in ("preferred", "unclean"):
        options = ("--election-type", kind, "--topic", topic, "--partition", "0")
        expect_output(
            shop.tools.ask(tool, *options),
            f"Valid replica already elected for partitions {topic}-0",
        )
    unknown_options = (
        "--election-type",
        "preferred",
        "--topic",
        f"{topic}-nowhere",
        "--partition",
        "0",
    )
    expect_refusal(
        shop.tools.ask(tool, *unknown_options),
        f"Error completing leader election (PREFERRED) for partition: {topic}-nowhere-0:"
        " org.apache.kafka.common.errors.UnknownTopicOrPartitionException:"
        f" No such topic as {topic}-nowhere",
    )


def reassignments(shop: Shop) -> None:
    listing = shop.tools.ask("kafka-reassign-partitions", "--list")
    if listing.code != 0 or "reassignments" not in listing.stdout:
        raise UnexpectedAnswerError(f"exit status {listing.code}: {listing.stdout}{listing.stderr}")
