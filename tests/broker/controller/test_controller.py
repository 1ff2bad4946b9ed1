"""The controller's decisions, one table per kind: topics, leaders, configs, features."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from functools import partial

import pytest

from tests.support.images import B1, B2, B3, TOPIC_ID, broker, cluster, error_of, partition, topic
from txnsim.controller.controller import (
    INT_MAX,
    ConfigEntryChange,
    ConfigOperation,
    TopicToCreate,
    altered_broker_configs,
    altered_topic_configs,
    create_topics,
    internal_topic,
    is_decision_valid,
    move_leader,
    name_complaint,
)
from txnsim.errors import ErrorCode, Rejection
from txnsim.metadata import configs
from txnsim.metadata.config_keys import TOPIC_CONFIGS
from txnsim.metadata.image import ClusterImage, TopicImage
from txnsim.releases import LATEST_RULES
from txnsim.settings import DEFAULTS, Settings
from txnsim.types import (
    CONSUMER_OFFSETS_TOPIC,
    SHARE_STATE_TOPIC,
    TRANSACTION_STATE_TOPIC,
    BrokerId,
    TopicPartition,
)

SET, DELETE, APPEND, SUBTRACT = ConfigOperation

BROKER_CONFIGS = configs.broker_configs(LATEST_RULES)


def create(
    new_topic: TopicToCreate, *, image: ClusterImage | None = None, settings: Settings = DEFAULTS
) -> TopicImage | Rejection:
    return create_topics(
        image or cluster(), (new_topic,), settings=settings, new_topic_id=lambda: TOPIC_ID
    )[0]


# Topics


@pytest.mark.parametrize("topic_name", ["orders", "a", "A.b_c-9", "x" * 249, "__mine", "..."])
def test_good_names(topic_name: str) -> None:
    assert name_complaint(topic_name) is None


@pytest.mark.parametrize(
    ("topic_name", "reason"),
    [
        ("", "empty"),
        (".", "'.' is not allowed"),
        ("..", "'..' is not allowed"),
        ("x" * 250, "longer than"),
        ("a b", "ASCII alphanumerics"),
        ("ü", "ASCII alphanumerics"),
    ],
)
def test_bad_names_are_refused_with_a_reason(topic_name: str, reason: str) -> None:
    assert reason in (name_complaint(topic_name) or "")
    assert error_of(create(TopicToCreate(name=topic_name))) is ErrorCode.invalid_topic_exception


def test_leaders_go_round_the_brokers_and_each_topic_starts_one_further() -> None:
    image = cluster()
    first_topic = create(
        TopicToCreate(name="a", partition_count=4, replication_factor=2), image=image
    )
    assert isinstance(first_topic, TopicImage)
    assert [partition.replicas for partition in first_topic.partitions] == [
        (1, 2),
        (2, 3),
        (3, 1),
        (1, 2),
    ]
    assert [partition.leader for partition in first_topic.partitions] == [1, 2, 3, 1]
    second_topic = create(
        TopicToCreate(name="b", partition_count=1), image=image.with_topic(first_topic)
    )
    assert isinstance(second_topic, TopicImage)
    assert second_topic.partitions[0].leader == 2


def test_defaults_are_those_of_the_settings() -> None:
    created_topic = create(
        TopicToCreate(name="a", configs={"retention.ms": "5"}),
        settings=Settings(num_partitions=5, default_replication_factor=3),
    )
    assert isinstance(created_topic, TopicImage)
    assert len(created_topic.partitions) == 5
    assert len(created_topic.partitions[0].replicas) == 3
    assert created_topic.configs == {"retention.ms": "5"}
    assert not created_topic.is_internal
    assert created_topic.topic_id == TOPIC_ID


@pytest.mark.parametrize(
    ("new_topic", "error"),
    [
        (TopicToCreate(name="orders"), ErrorCode.topic_already_exists),
        (TopicToCreate(name="or_ders.x"), ErrorCode.invalid_topic_exception),
        (TopicToCreate(name="__cluster_metadata"), ErrorCode.invalid_request),
        (TopicToCreate(name="a", partition_count=0), ErrorCode.invalid_partitions),
        (TopicToCreate(name="a", partition_count=-2), ErrorCode.invalid_partitions),
        (TopicToCreate(name="a", replication_factor=0), ErrorCode.invalid_replication_factor),
        (TopicToCreate(name="a", replication_factor=4), ErrorCode.invalid_replication_factor),
        (TopicToCreate(name="a", configs={"no.such": "1"}), ErrorCode.invalid_config),
        (TopicToCreate(name="a", configs={"retention.ms": None}), ErrorCode.invalid_config),
        (TopicToCreate(name="a", configs={"retention.ms": "x"}), ErrorCode.invalid_config),
        (TopicToCreate(name="a", configs={"retention.ms": "1" * 32_768}), ErrorCode.invalid_config),
    ],
)
def test_what_can_not_be_created_says_why(new_topic: TopicToCreate, error: ErrorCode) -> None:
    image = cluster().with_topic(topic()).with_topic(topic("or.ders_x", topic_id=uuid.UUID(int=9)))
    assert error_of(create(new_topic, image=image)) is error


def test_decisions_hold_until_brokers_change_or_a_name_is_taken() -> None:
    image = cluster()
    created_topic = create(TopicToCreate(name="or_ders"), image=image)
    rejection = Rejection(error=ErrorCode.invalid_topic_exception, reason="no name")
    image_with_other_topic, colliding_image = (
        image.with_topic(topic("a")),
        image.with_topic(topic("or.ders")),
    )
    for later_image, is_held in (
        (image, True),
        (image_with_other_topic, True),
        (colliding_image, False),
    ):
        assert is_decision_valid([created_topic, rejection], image, later_image) is is_held
    assert is_decision_valid([rejection], image, colliding_image)
    assert not is_decision_valid([created_topic], image, cluster(broker(1), broker(2)))


def test_fenced_brokers_get_replicas_only_where_there_are_too_few_others() -> None:
    image = cluster(broker(1), broker(2, is_alive=False), broker(3))
    created_topic = create(
        TopicToCreate(name="a", partition_count=3, replication_factor=1), image=image
    )
    assert isinstance(created_topic, TopicImage)
    assert [partition.leader for partition in created_topic.partitions] == [1, 3, 1]
    wide_topic = create(
        TopicToCreate(name="a", partition_count=2, replication_factor=3), image=image
    )
    assert isinstance(wide_topic, TopicImage)
    assert [partition.replicas for partition in wide_topic.partitions] == [(1, 3, 2), (3, 1, 2)]
    assert [partition.isr for partition in wide_topic.partitions] == [(1, 3), (3, 1)]


def test_a_broker_on_its_way_out_gets_no_replicas() -> None:
    image = cluster(broker(1), broker(2, is_leaving=True), broker(3))
    created_topic = create(
        TopicToCreate(name="a", partition_count=3, replication_factor=2), image=image
    )
    assert isinstance(created_topic, TopicImage)
    assert [partition.replicas for partition in created_topic.partitions] == [
        (1, 3),
        (3, 1),
        (1, 3),
    ]
    rejection = create(TopicToCreate(name="a", replication_factor=3), image=image)
    assert isinstance(rejection, Rejection)
    assert "because only 2 broker(s) are registered" in rejection.reason


def test_without_an_active_broker_there_are_no_topics() -> None:
    image = cluster(broker(1, is_alive=False), broker(2, is_leaving=True))
    rejection = create(TopicToCreate(name="a"), image=image)
    assert isinstance(rejection, Rejection)
    assert rejection.error is ErrorCode.invalid_replication_factor
    assert "All brokers are currently fenced" in rejection.reason
    by_hand = create(TopicToCreate(name="a", assignments=((0, (B1, B2)),)), image=image)
    assert isinstance(by_hand, Rejection)
    assert by_hand.error is ErrorCode.invalid_replica_assignment
    assert "for partition 0 are fenced or in controlled shutdown" in by_hand.reason


def test_an_assignment_by_hand_is_obeyed() -> None:
    created_topic = create(TopicToCreate(name="a", assignments=((0, (B3, B1)), (1, (B2, B3)))))
    assert isinstance(created_topic, TopicImage)
    assert [partition.replicas for partition in created_topic.partitions] == [(3, 1), (2, 3)]
    assert [partition.leader for partition in created_topic.partitions] == [3, 2]


@pytest.mark.parametrize(
    ("assignments", "options", "error"),
    [
        (((0, (B1,)),), {"partitions": 1}, ErrorCode.invalid_request),
        (((0, (B1,)),), {"replication_factor": 1}, ErrorCode.invalid_request),
        (((1, (B1,)),), {}, ErrorCode.invalid_replica_assignment),
        (((0, ()),), {}, ErrorCode.invalid_replica_assignment),
        (((0, (B1, B1)),), {}, ErrorCode.invalid_replica_assignment),
        (((0, (B1, B2)), (1, (B1,))), {}, ErrorCode.invalid_replica_assignment),
        (((0, (BrokerId(9),)),), {}, ErrorCode.invalid_replica_assignment),
        (((0, (B1,)), (0, (B1,))), {}, ErrorCode.invalid_replica_assignment),
    ],
)
def test_a_bad_assignment_is_refused(
    assignments: tuple[tuple[int, tuple[BrokerId, ...]], ...],
    options: dict[str, int],
    error: ErrorCode,
) -> None:
    new_topic = TopicToCreate(
        name="a",
        assignments=assignments,
        partition_count=options.get("partitions", -1),
        replication_factor=options.get("replication_factor", -1),
    )
    assert error_of(create(new_topic)) is error


def test_the_transaction_log_is_made_from_its_own_settings_capped_by_the_brokers() -> None:
    topic_of_three = internal_topic(TRANSACTION_STATE_TOPIC, image=cluster(), settings=DEFAULTS)
    assert (topic_of_three.partition_count, topic_of_three.replication_factor) == (50, 3)
    assert topic_of_three.configs["min.insync.replicas"] == "2"
    assert topic_of_three.configs["cleanup.policy"] == "compact"
    topic_of_one_broker = internal_topic(
        TRANSACTION_STATE_TOPIC, image=cluster(broker(1)), settings=DEFAULTS
    )
    assert (
        topic_of_one_broker.replication_factor,
        topic_of_one_broker.configs["min.insync.replicas"],
    ) == (1, "1")
    created_topic = create(topic_of_three)
    assert isinstance(created_topic, TopicImage)
    assert created_topic.is_internal


def test_what_is_set_is_waited_for_also_where_it_is_kafkas_default() -> None:
    """A real 4.4.0 of one broker answers INVALID_REPLICATION_FACTOR and has no coordinator."""
    image = cluster(broker(1))
    settings = Settings(
        transaction_state_log_replication_factor=3,
        transaction_state_log_min_isr=2,
        offsets_topic_replication_factor=3,
        default_replication_factor=3,
    )
    for topic_name in (TRANSACTION_STATE_TOPIC, CONSUMER_OFFSETS_TOPIC, "orders"):
        new_topic = internal_topic(topic_name, image=image, settings=settings)
        assert error_of(create(new_topic, image=image, settings=settings)) is (
            ErrorCode.invalid_replication_factor
        ), topic_name
    log = internal_topic(TRANSACTION_STATE_TOPIC, image=image, settings=settings)
    assert log.configs["min.insync.replicas"] == "2"
    fewer_settings = Settings(transaction_state_log_replication_factor=1)
    log = internal_topic(TRANSACTION_STATE_TOPIC, image=cluster(), settings=fewer_settings)
    assert (log.replication_factor, log.configs["min.insync.replicas"]) == (1, "2")


def test_the_topics_of_other_coordinators_have_settings_of_their_own() -> None:
    offsets = internal_topic(CONSUMER_OFFSETS_TOPIC, image=cluster(), settings=DEFAULTS)
    assert (offsets.partition_count, offsets.replication_factor) == (50, 3)
    assert offsets.configs["cleanup.policy"] == "compact"
    states_topic = internal_topic(SHARE_STATE_TOPIC, image=cluster(), settings=DEFAULTS)
    assert (states_topic.partition_count, states_topic.replication_factor) == (50, 3)
    assert states_topic.configs == {
        "cleanup.policy": "delete",
        "compression.type": "producer",
        "min.insync.replicas": "2",
        "retention.ms": "-1",
        "segment.bytes": "104857600",
    }
    assert internal_topic("orders", image=cluster(), settings=DEFAULTS) == TopicToCreate(
        name="orders"
    )


# Leaders


def test_a_new_leader_has_the_next_epoch() -> None:
    image = cluster().with_topic(topic("orders", partition(1, epoch=4), partition(2)))
    move_result = move_leader(image, TopicPartition("orders", 0), B3)
    assert not isinstance(move_result, Rejection)
    assert move_result[1] == B3
    partitions_after = move_result[0].topics["orders"].partitions
    assert (
        partitions_after[0].leader,
        partitions_after[0].leader_epoch,
        partitions_after[0].partition_epoch,
    ) == (3, 5, 5)
    assert partitions_after[0].replicas == (1, 2, 3)
    assert partitions_after[1].leader == 2


@pytest.mark.parametrize(
    ("name", "leader", "error"),
    [
        ("orders", 2, ErrorCode.eligible_leaders_not_available),  # fenced
        ("orders", 3, ErrorCode.eligible_leaders_not_available),  # not in sync
        ("orders", 9, ErrorCode.eligible_leaders_not_available),
        ("orders", None, ErrorCode.eligible_leaders_not_available),  # nobody else
        ("other", 1, ErrorCode.unknown_topic_or_partition),
    ],
)
def test_only_a_live_replica_in_sync_can_lead(
    name: str, leader: int | None, error: ErrorCode
) -> None:
    image = cluster(broker(1), broker(2, is_alive=False), broker(3))
    image = image.with_topic(topic("orders", partition(1, isr=(1, 2))))
    new_leader = None if leader is None else BrokerId(leader)
    assert error_of(move_leader(image, TopicPartition(name, 0), new_leader)) is error


def test_the_next_leader_is_the_first_other_replica_that_can() -> None:
    image = cluster(broker(1), broker(2, is_alive=False), broker(3))
    image = image.with_topic(topic("orders", partition(1)))
    move_result = move_leader(image, TopicPartition("orders", 0), None)
    assert not isinstance(move_result, Rejection)
    assert move_result[1] == B3


# Configs


def change(
    name: str, operation: ConfigOperation, config_value: str | None = None
) -> ConfigEntryChange:
    return ConfigEntryChange(name=name, operation=operation, value=config_value)


@pytest.mark.parametrize(
    ("configs_before", "changes", "configs_after"),
    [
        ({}, [change("retention.ms", SET, "5")], {"retention.ms": "5"}),
        ({"retention.ms": "5"}, [change("retention.ms", DELETE)], {}),
        ({}, [change("retention.ms", DELETE)], {}),
        ({}, [change("cleanup.policy", APPEND, "compact")], {"cleanup.policy": "delete,compact"}),
        (
            {"cleanup.policy": "delete,compact"},
            [change("cleanup.policy", SUBTRACT, "delete")],
            {"cleanup.policy": "compact"},
        ),
        (
            {"cleanup.policy": "compact"},
            [change("cleanup.policy", APPEND, "compact")],
            {"cleanup.policy": "compact"},
        ),
    ],
)
def test_operations_on_configs(
    configs_before: dict[str, str], changes: list[ConfigEntryChange], configs_after: dict[str, str]
) -> None:
    copy_of_configs = dict(configs_before)
    assert altered_topic_configs(configs_before, tuple(changes), TOPIC_CONFIGS) == configs_after
    assert configs_before == copy_of_configs


@pytest.mark.parametrize(
    ("operation", "config_value", "complaint"),
    [
        (APPEND, "compact", ""),
        (APPEND, "compact,delete", ""),
        (APPEND, "compact,compact", "must not be duplicated"),
        (APPEND, "", "must not be empty"),
        (SET, "delete,delete", "must not be duplicated"),
        (SET, "x,delete,", "Invalid value x"),
        (SUBTRACT, "x,delete,", ""),
    ],
)
def test_a_broker_judges_its_lists_before_the_controller_changes_them(
    operation: ConfigOperation, config_value: str, complaint: str
) -> None:
    """The complaints are those of a real 4.4.0 (case leader/configs/alter-lists)."""
    changes = (change("log.cleanup.policy", operation, config_value),)
    answer = altered_broker_configs({}, changes, BROKER_CONFIGS, is_for_all=False)
    assert isinstance(answer, Rejection) is bool(complaint)
    if isinstance(answer, Rejection):
        assert answer.error is ErrorCode.invalid_request
        assert complaint in answer.reason


@pytest.mark.parametrize("config_value", ["x" * 32_768, "\N{GRINNING FACE}" * 16_384])
@pytest.mark.parametrize(
    "alter", [altered_topic_configs, partial(altered_broker_configs, is_for_all=True)]
)
def test_a_value_longer_than_a_record_of_the_metadata_holds_is_refused(
    alter: Callable[..., dict[str, str] | Rejection], config_value: str
) -> None:
    """Kafka 4.3 answers DISALLOWED_CONFIG_VALUE_SIZE_ERROR before it checks any other rule."""
    config_change = change("no.such", SET, config_value)
    refusal = alter({}, (config_change,), {})
    assert isinstance(refusal, Rejection)
    assert refusal.error is ErrorCode.invalid_config
    assert "maximum value size of 32767 bytes" in refusal.reason


def test_appends_do_not_grow_a_value_beyond_that() -> None:
    name = "leader.replication.throttled.replicas"
    configs_before = {name: ",".join(f"{n}:1" for n in range(4_000))}
    appended_value = ",".join(f"{n}:1" for n in range(4_000, 6_000))
    config_change = change(name, APPEND, appended_value)
    refusal = altered_topic_configs(configs_before, (config_change,), TOPIC_CONFIGS)
    assert isinstance(refusal, Rejection)
    assert refusal.error is ErrorCode.invalid_config


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ([change("retention.ms", SET, "x")], ErrorCode.invalid_config),
        ([change("retention.ms", SET, None)], ErrorCode.invalid_request),
        ([change("retention.ms", APPEND, "1")], ErrorCode.invalid_config),
        ([change("no.such", SUBTRACT, "1")], ErrorCode.invalid_config),
        ([change("no.such", SET, "1")], ErrorCode.invalid_config),
        ([change("retention.ms", SET, "1")] * 2, ErrorCode.invalid_request),
    ],
)
def test_wrong_operations_change_nothing(
    changes: list[ConfigEntryChange], error: ErrorCode
) -> None:
    assert error_of(altered_topic_configs({}, tuple(changes), TOPIC_CONFIGS)) is error


def test_a_bad_value_of_a_broker_is_a_bad_request() -> None:
    changes = (change("message.max.bytes", SET, "x"),)
    refusal = altered_broker_configs({}, changes, BROKER_CONFIGS, is_for_all=False)
    assert error_of(refusal) is ErrorCode.invalid_request
    unknown_change = (change("no.such", SET, "x"),)
    assert altered_broker_configs({}, unknown_change, BROKER_CONFIGS, is_for_all=True) == {
        "no.such": "x"
    }


# How much one request may ask for


def create_all(*new_topics: TopicToCreate) -> list[TopicImage | Rejection]:
    return create_topics(
        cluster(),
        new_topics,
        settings=DEFAULTS,
        new_topic_id=lambda: uuid.UUID(int=len(new_topics)),
    )


EXCESSIVE = "Excessively large number of partitions per request."
UNABLE = "Unable to perform excessively large batch operation."


@pytest.mark.parametrize(
    ("counts", "error", "reason"),
    [
        ((10_001,), ErrorCode.policy_violation, EXCESSIVE),
        ((5_000, 5_001), ErrorCode.policy_violation, EXCESSIVE),
        ((-5, 10_001), ErrorCode.policy_violation, EXCESSIVE),
        ((INT_MAX,), ErrorCode.policy_violation, EXCESSIVE),
        ((INT_MAX, 1), ErrorCode.unknown_server_error, ""),
        ((10_000,), ErrorCode.policy_violation, UNABLE),
        ((5_000, 4_999), ErrorCode.policy_violation, UNABLE),
        ((1,) * 5_001, ErrorCode.policy_violation, UNABLE),
        ((-1,) * 10_001, ErrorCode.policy_violation, EXCESSIVE),
    ],
)
def test_too_much_at_once_is_refused_altogether(
    counts: tuple[int, ...], error: ErrorCode, reason: str
) -> None:
    topics_or_rejections = create_all(
        *(TopicToCreate(name=f"t{n}", partition_count=p) for n, p in enumerate(counts))
    )
    assert topics_or_rejections == [Rejection(error=error, reason=reason)] * len(counts)


def test_the_most_that_one_request_may_ask_for() -> None:
    assert all(
        isinstance(topic_or_rejection, TopicImage)
        for topic_or_rejection in create_all(
            TopicToCreate(name="a", partition_count=5_000),
            TopicToCreate(name="b", partition_count=4_998),
        )
    )
    config = TopicToCreate(name="a", partition_count=9_998, configs={"retention.ms": "5"})
    assert isinstance(create_all(config)[0], TopicImage)
    config = TopicToCreate(name="a", partition_count=9_999, configs={"retention.ms": "5"})
    assert create_all(config) == [Rejection(error=ErrorCode.policy_violation, reason=UNABLE)]


def test_assignments_count_as_partitions_and_names_are_judged_later() -> None:
    topic_by_hand = TopicToCreate(name="!", assignments=tuple((n, (B1,)) for n in range(10_001)))
    assert error_of(create_all(topic_by_hand)[0]) is ErrorCode.policy_violation


@pytest.mark.parametrize("tail", ["", ".c_d.e_f.g_h.i"])
def test_topics_of_one_request_know_each_other(tail: str) -> None:
    first_topic, second_topic, third_topic = create_all(
        TopicToCreate(name=f"a.b{tail}"),
        TopicToCreate(name=f"a_b{tail}"),
        TopicToCreate(name=f"c{tail}"),
    )
    assert isinstance(first_topic, TopicImage)
    assert isinstance(second_topic, Rejection)
    assert second_topic.reason == f"Topic 'a_b{tail}' collides with existing topic: a.b{tail}"
    assert isinstance(third_topic, TopicImage)


@pytest.mark.parametrize(
    ("config_name", "is_for_all", "problem_text"),
    [
        ("num.partitions", False, "Cannot update these configs dynamically"),
        (
            "ssl.keystore.location",
            False,
            "These security configs can be dynamically updated only per-listener using the "
            "listener prefix",
        ),
        (
            "ssl.client.auth",
            True,
            "Cannot update these configs at default cluster level, broker id must be specified",
        ),
        ("ssl.client.auth", False, None),
        ("num.io.threads", True, None),
        ("no.such", True, None),
    ],
)
def test_a_broker_config_is_updated_as_its_row_allows(
    config_name: str, is_for_all: bool, problem_text: str | None
) -> None:
    changes = (change(config_name, SET, "none" if config_name == "ssl.client.auth" else "5"),)
    outcome = altered_broker_configs({}, changes, BROKER_CONFIGS, is_for_all=is_for_all)
    if problem_text is None:
        assert outcome == {config_name: changes[0].value}
    else:
        assert outcome == Rejection(
            error=ErrorCode.invalid_request, reason=f"{problem_text}: [{config_name}]"
        )
    deletion = (change(config_name, DELETE),)
    assert altered_broker_configs({}, deletion, BROKER_CONFIGS, is_for_all=is_for_all) == {}
