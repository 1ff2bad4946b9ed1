"""What operators ask about the cluster itself: the quorum, brokers, directories, quotas, delegation
tokens.
"""

from __future__ import annotations

from typing import Any, Final

from txnsim_lab.conformance._book.frame_player import FramePlayer, Story

METADATA_TOPIC: Final = "__cluster_metadata"
NO_BROKER: Final = 4711


def describe_quorum(player: FramePlayer) -> None:
    """DescribeQuorum of the metadata log, of its missing partitions and of other topics."""
    topic, _ = player.create_topic()
    for version in range(3):
        answer = player.ask_unrecorded(
            "DescribeQuorum",
            version,
            topics=[{"topic_name": METADATA_TOPIC, "partitions": [{"partition_index": 0}]}],
        )
        (partition,) = answer.topics[0].partitions
        player.note(
            f"DescribeQuorum v{version}",
            {
                "errors": (answer.error_code, partition.error_code),
                "message": getattr(partition, "error_message", "not in this version"),
                "leader": partition.leader_id,
                "is replicated": partition.high_watermark > 0,
                "voters": [voter.replica_id for voter in partition.current_voters],
                "observers": [observer.replica_id for observer in partition.observers],
                "nodes": [
                    (node.node_id, [listener.name for listener in node.listeners])
                    for node in getattr(answer, "nodes", ())
                ],
            },
        )
        for topic_name, partition_indexes in (
            (METADATA_TOPIC, [1]),
            (topic, [0]),
            (METADATA_TOPIC, [0, 1]),
        ):
            answer = player.ask_unrecorded(
                "DescribeQuorum",
                version,
                topics=[
                    {
                        "topic_name": topic_name,
                        "partitions": [
                            {"partition_index": partition_index}
                            for partition_index in partition_indexes
                        ],
                    }
                ],
            )
            player.note(
                f"DescribeQuorum v{version} {topic_name} {partition_indexes}", _quorum_state(answer)
            )
        player.note(
            f"DescribeQuorum v{version} nothing",
            _quorum_state(player.ask_unrecorded("DescribeQuorum", version, topics=[])),
        )


def _quorum_state(answer: Any) -> object:
    """The quorum's state without the figures that grow with the log."""
    return (
        answer.error_code,
        getattr(answer, "error_message", "not in this version"),
        [node.node_id for node in getattr(answer, "nodes", ())],
        [
            (
                topic.topic_name,
                partition.partition_index,
                partition.error_code,
                getattr(partition, "error_message", "not in this version"),
                partition.leader_id,
                partition.high_watermark > 0,
                [voter.replica_id for voter in partition.current_voters],
                [observer.replica_id for observer in partition.observers],
            )
            for topic in answer.topics
            for partition in topic.partitions
        ],
    )


def unregister_broker(player: FramePlayer) -> None:
    """UnregisterBroker of unknown brokers."""
    for broker in (NO_BROKER, -1):
        player.ask("UnregisterBroker", 0, str(broker), broker_id=broker)


def move_log_dirs(player: FramePlayer) -> None:
    """Moves of replicas to a missing directory."""
    topic, _ = player.create_topic()
    for version in (1, 2):
        for note, path, name, indexes in (
            ("no such directory", "/no/such/directory", topic, [0]),
            ("relative", "logs", topic, [0]),
            ("no such partition", "/no/such/directory", topic, [7]),
            ("no such topic", "/no/such/directory", player.full_name("absent"), [0]),
        ):
            player.ask(
                "AlterReplicaLogDirs",
                version,
                note,
                dirs=[{"path": path, "topics": [{"name": name, "partitions": indexes}]}],
            )
        player.ask("AlterReplicaLogDirs", version, "nothing", dirs=[])
        log_dirs_answer = player.ask_unrecorded("DescribeLogDirs", 4, topics=None)
        own_directory = log_dirs_answer.results[0].log_dir
        for note, dirs in (
            ("where it is", [(own_directory, topic, 0)]),
            ("where it would be", [(own_directory, topic, 7)]),
            ("of no topic", [(own_directory, player.full_name("absent"), 0)]),
            ("here and there", [(own_directory, topic, 0), ("/no/such/directory", topic, 0)]),
        ):
            player.ask(
                "AlterReplicaLogDirs",
                version,
                note,
                dirs=[
                    {"path": path, "topics": [{"name": name, "partitions": [dir_index]}]}
                    for path, name, dir_index in dirs
                ],
            )


def delegation_tokens(player: FramePlayer) -> None:
    """Delegation tokens on a broker without a secret key."""
    for version in (1, 2, 3):
        player.ask("CreateDelegationToken", version, renewers=[], max_lifetime=-1)
        player.ask("DescribeDelegationToken", version, owners=None)
    for version in (1, 2):
        player.ask("RenewDelegationToken", version, hmac=b"x", renew_period=-1)
        player.ask("ExpireDelegationToken", version, hmac=b"x", expiry_time_period=-1)


def client_quotas(player: FramePlayer) -> None:
    """Client quotas are set, described by each kind of filter, removed; bad ones refused."""
    user, client = ("user", player.full_name("u")), ("client-id", player.full_name("c"))
    address = ("ip", "192.0.2.1")
    rate = ("producer_byte_rate", 1024.0)
    _alter(player, "of a user", [user], rate, version=0)
    _alter(player, "of both", [user, client], ("consumer_byte_rate", 5.5))
    _alter(player, "of a client", [client], ("request_percentage", 50.0))
    _alter(player, "only tried", [client], ("request_percentage", 60.0), validate_only=True)
    _alter(player, "of an address", [address], ("connection_creation_rate", 10.0))
    _until_told(player, address, is_set=True)
    for version in (0, 1):
        _describe(player, "user", [(*user, 0)], version=version)
        _describe(player, "user alone", [(*user, 0)], is_strict=True, version=version)
        _describe(player, "client", [(*client, 0)], version=version)
        _describe(player, "both", [(*user, 0), (*client, 0)], version=version)
        _describe(player, "address", [(*address, 0)], version=version)
        _describe(player, "nobody", [("user", player.full_name("absent"), 0)], version=version)
        _describe(player, "default", [("user", None, 1)], version=version)
    rates = (("producer_byte_rate", 2048.0), ("consumer_byte_rate", 1.0))
    _alter(player, "replaced", [user], *rates)
    _alter(player, "removed", [user], ("producer_byte_rate", None))
    _alter(player, "removed again", [user], ("producer_byte_rate", None))
    _alter(player, "all removed", [user, client], ("consumer_byte_rate", None))
    _alter(player, "and this", [client], ("request_percentage", None))
    _until_told(player, client, is_set=False)
    _describe(player, "after removals", [(*user, 0)])
    _alter(player, "the rest", [user], ("consumer_byte_rate", None))
    _alter(player, "and the address", [address], ("connection_creation_rate", None))


def bad_quotas(player: FramePlayer) -> None:
    """Quotas for entities that are not allowed, and values that are not allowed."""
    name = player.full_name("u")
    user, address = ("user", name), ("ip", "192.0.2.1")
    good_quota, connections = ("producer_byte_rate", 1.0), ("connection_creation_rate", 1.0)
    _alter(player, "of nobody", [], good_quota)
    _alter(player, "of an unknown kind", [("group", name)], good_quota)
    _alter(player, "of an empty kind", [("", name)], good_quota)
    _alter(player, "of an empty name", [("user", "")], good_quota)
    _alter(player, "of one kind twice", [user, ("user", "v")], good_quota)
    _alter(player, "of user and address", [user, address], good_quota)
    _alter(player, "of no address", [("ip", "not an address!")], connections)
    _alter(player, "an unknown key", [user], ("no_such_rate", 1.0))
    _alter(player, "a key of addresses", [user], connections)
    _alter(player, "a key of users", [address], good_quota)
    _alter(player, "below zero", [user], ("producer_byte_rate", -1.0))
    _alter(player, "zero", [user], ("producer_byte_rate", 0.0))
    _alter(player, "half a byte", [user], ("producer_byte_rate", 1.5))
    _alter(player, "too much", [user], ("producer_byte_rate", 1e30))
    _alter(player, "too many", [address], ("connection_creation_rate", 1e10))
    _alter(player, "not a number", [user], ("producer_byte_rate", float("nan")))
    _alter(player, "without end", [user], ("request_percentage", float("inf")))
    _alter(player, "one key twice", [user], good_quota, ("producer_byte_rate", 2.0))
    _alter(player, "removing an unknown key", [user], ("no_such_rate", None))
    _alter(player, "nothing", [user])
    player.ask(
        "AlterClientQuotas",
        1,
        "one entity twice",
        entries=[_entry([("user", "twice")], ("producer_byte_rate", rate)) for rate in (1.0, 2.0)],
    )
    player.ask("AlterClientQuotas", 1, "no entries", entries=[])
    # Other stories find a cluster without quotas.
    none = (("producer_byte_rate", None), ("request_percentage", None))
    for entity in (user, ("user", "v"), ("user", "twice")):
        player.ask_unrecorded("AlterClientQuotas", 1, entries=[_entry([entity], *none)])
        _until_told(player, entity, is_set=False)


def _entry(entity: list[tuple[str, str | None]], *ops: tuple[str, float | None]) -> Any:
    return {
        "entity": [
            {"entity_type": entity_type, "entity_name": entity_name}
            for entity_type, entity_name in entity
        ],
        "ops": [
            {"key": key, "value": 0.0 if value is None else value, "remove": value is None}
            for key, value in ops
        ],
    }


def _alter(
    player: FramePlayer,
    note: str,
    entity: list[tuple[str, str | None]],
    *ops: tuple[str, float | None],
    version: int = 1,
    validate_only: bool = False,
) -> None:
    entries = [_entry(entity, *ops)]
    player.ask("AlterClientQuotas", version, note, entries=entries, validate_only=validate_only)


def _filter(components: list[tuple[str, str | None, int]]) -> Any:
    return [
        {"entity_type": entity_type, "match_type": match_type, "match": entity_name}
        for entity_type, entity_name, match_type in components
    ]


def _describe(
    player: FramePlayer,
    note: str,
    components: list[tuple[str, str | None, int]],
    *,
    is_strict: bool = False,
    version: int = 1,
) -> None:
    answer = player.ask_unrecorded(
        "DescribeClientQuotas", version, strict=is_strict, components=_filter(components)
    )
    entries = [
        (
            sorted(
                (component.entity_type, component.entity_name or "") for component in entry.entity
            ),
            sorted((value.key, value.value) for value in entry.values),
        )
        for entry in answer.entries or ()
    ]
    player.note(f"DescribeClientQuotas v{version} {note}", (answer.error_code, sorted(entries)))


def _until_told(player: FramePlayer, entity: tuple[str, str], *, is_set: bool) -> None:
    """Wait until the broker has heard of a quota, which takes a moment after the change."""
    player.ask_until(
        lambda answer: bool(answer.entries) == is_set,
        "DescribeClientQuotas",
        1,
        strict=False,
        components=_filter([(*entity, 0)]),
    )


def at_once(player: FramePlayer) -> None:
    """Requests with a time-out of 0, in which nothing can be done."""
    topic, _ = player.create_topic(partitions=1)
    for version in (0, 2):
        player.ask(
            "CreatePartitions",
            version,
            "at once",
            timeout=0,
            validate_only=False,
            topics=[{"name": topic, "count": 2, "assignments": None}],
        )
        player.ask(
            "ElectLeaders",
            version,
            "at once",
            timeout=0,
            election_type=0,
            topic_partitions=[{"topic": topic, "partitions": [0]}],
        )
    player.ask(
        "CreateTopics",
        7,
        "at once",
        timeout=0,
        validate_only=False,
        topics=[{"name": player.full_name("u"), "num_partitions": 1, "replication_factor": 1}],
    )
    player.ask("DeleteTopics", 6, "at once", timeout=0, topics=[{"name": topic}])
    player.ask("DeleteTopics", 3, "at once", timeout=-1, topic_names=[topic, player.full_name("u")])
    player.ask("ElectLeaders", 2, "nothing at once", timeout=0, topic_partitions=[])
    player.ask("ElectLeaders", 2, "all at once", timeout=0, topic_partitions=None)


STORIES: Final[tuple[Story, ...]] = (
    describe_quorum,
    unregister_broker,
    move_log_dirs,
    delegation_tokens,
    client_quotas,
    bad_quotas,
    at_once,
)
