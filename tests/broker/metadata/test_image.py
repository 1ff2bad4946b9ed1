"""The image of metadata: partitions that change, and configs of groups."""

from __future__ import annotations

import uuid

import msgspec
import pytest

from tests.support.images import B1, B2, TOPIC_ID, broker, cluster, partition, topic
from txnsim.errors import ErrorCode, Rejection
from txnsim.metadata.config_keys import ConfigSource
from txnsim.metadata.group_configs import (
    GROUP_CONFIGS,
    GroupIntervals,
    StreamsConfigs,
    group_intervals,
    group_refusal,
    group_values,
    share_intervals,
    streams_configs,
)
from txnsim.metadata.image import (
    CLIENT_LISTENER,
    BrokerImage,
    ClusterImage,
    PartitionImage,
    TopicImage,
)
from txnsim.metadata.partition_changes import (
    Election,
    PartitionChange,
    Placement,
    changed_partition,
)
from txnsim.releases import RELEASES, Rules
from txnsim.settings import DEFAULTS, Settings
from txnsim.types import BrokerId, TopicPartition

# One partition's ISR, leader, ELR and epochs after a change, in the cases of Kafka's
# PartitionChangeBuilderTest.


ONLINE, UNCLEAN, PREFERRED = Election.ONLINE, Election.UNCLEAN, Election.PREFERRED


def partition_after(
    partition_image: PartitionImage,
    isr: tuple[int, ...],
    *,
    down: tuple[int, ...] = (),
    min_isr: int = 1,
    has_elr: bool = True,
    election: Election = ONLINE,
    unclean_shutdown: int | None = None,
    has_recovered: bool = False,
) -> PartitionImage | None:
    return changed_partition(
        partition_image,
        PartitionChange(
            target_isr=tuple(map(BrokerId, isr)),
            is_acceptable=lambda replica: replica not in down,
            min_isr=min_isr,
            has_elr=has_elr,
            election=election,
            unclean_shutdown=None if unclean_shutdown is None else BrokerId(unclean_shutdown),
            has_recovered=has_recovered,
        ),
    )


def leadership_of(changed_partition: PartitionImage | None) -> tuple[object, ...]:
    assert changed_partition is not None
    return (
        changed_partition.leader,
        changed_partition.isr,
        changed_partition.elr,
        changed_partition.last_known_elr,
    )


def test_nothing_changes_where_nothing_is_different() -> None:
    assert partition_after(partition(1), (1, 2, 3)) is None
    assert partition_after(partition(2), (1, 2, 3)) is None, "a leader that may lead stays"


def test_a_smaller_isr_raises_the_partition_epoch_alone() -> None:
    changed_partition = partition_after(partition(1, epoch=4), (1, 2))
    assert leadership_of(changed_partition) == (1, (1, 2), (), ())
    assert changed_partition is not None
    assert (changed_partition.leader_epoch, changed_partition.partition_epoch) == (4, 5)


def test_a_new_leader_raises_both_epochs() -> None:
    changed_partition = partition_after(partition(1, epoch=4), (2, 3), down=(1,))
    assert leadership_of(changed_partition) == (2, (2, 3), (), ())
    assert changed_partition is not None
    assert (changed_partition.leader_epoch, changed_partition.partition_epoch) == (5, 5)


def test_leaders_are_looked_for_in_the_order_of_the_replicas() -> None:
    image_before = partition(1, replicas=(3, 1, 2), isr=(2, 1, 3))
    assert leadership_of(partition_after(image_before, (2, 3), down=(1,)))[0] == 3


@pytest.mark.parametrize(
    ("partition_image", "isr", "min_isr", "expected"),
    [
        # below the minimum, who leaves is eligible still
        (partition(1), (1,), 2, (1, (1,), (2, 3), ())),
        (partition(1, isr=(1, 2)), (1,), 2, (1, (1,), (2,), ())),
        (partition(1, isr=(1,), elr=(2,)), (), 2, (-1, (), (1, 2), (1,))),
        # at the minimum nobody needs to be
        (partition(1, isr=(1,), elr=(2, 3)), (1, 2), 2, (1, (1, 2), (), ())),
        (partition(1, isr=(1,), elr=(3,)), (1, 2), 3, (1, (1, 2), (3,), ())),
    ],
)
def test_the_elr_follows_the_isr(
    partition_image: PartitionImage,
    isr: tuple[int, ...],
    min_isr: int,
    expected: tuple[object, ...],
) -> None:
    down = () if isr else (1, 2, 3)
    assert (
        leadership_of(partition_after(partition_image, isr, min_isr=min_isr, down=down)) == expected
    )


def test_an_eligible_replica_leads_alone_when_the_isr_is_empty() -> None:
    image_before = partition(-1, isr=(), elr=(1, 2), last_known=(1,), epoch=4)
    changed_partition = partition_after(image_before, (), down=(1, 3), min_isr=2)
    assert leadership_of(changed_partition) == (2, (2,), (1,), ())
    assert changed_partition is not None
    assert not changed_partition.is_recovering, "it has everything that was committed"


def test_eligible_replicas_do_not_lead_while_another_is_in_sync() -> None:
    image_before = partition(1, isr=(1,), elr=(2,), epoch=4)
    assert leadership_of(partition_after(image_before, (1,), down=(1,), min_isr=2)) == (
        -1,
        (1,),
        (2,),
        (1,),
    )


def test_the_last_leader_is_elected_again_when_no_other_is_left() -> None:
    image_before = partition(-1, isr=(), last_known=(1,), epoch=4)
    assert partition_after(image_before, (), down=(1,), min_isr=2) is None
    changed_partition = partition_after(image_before, (), down=(3,), min_isr=2)
    assert leadership_of(changed_partition) == (1, (1,), (), ())
    assert changed_partition is not None
    assert changed_partition.is_recovering


def test_brokers_that_a_reassignment_leaves_out_stay_eligible_and_keep_it_without_a_leader() -> (
    None
):
    """As the classes of a real 4.4.0 do, of partition 0 too: its minimum is that of before."""
    reassigned_image = msgspec.structs.replace(
        partition(1, isr=(1, 2)), replicas=(BrokerId(3), BrokerId(1), BrokerId(2))
    )
    reassigned_image = msgspec.structs.replace(
        reassigned_image, removing=(BrokerId(1), BrokerId(2))
    )
    changed_partition = partition_after(reassigned_image, (1, 2, 3), min_isr=2)
    assert leadership_of(changed_partition) == (3, (3,), (1, 2), ())
    assert changed_partition is not None
    leaderless_partition = partition_after(changed_partition, (), down=(3,))
    assert leadership_of(leaderless_partition) == (-1, (), (1, 2, 3), (3,))
    assert leaderless_partition is not None
    unclean_image = partition_after(leaderless_partition, (), down=(3,), unclean_shutdown=3)
    assert leadership_of(unclean_image) == (-1, (), (1, 2), (3,))
    assert unclean_image is not None
    assert partition_after(unclean_image, ()) is None, "3 is back, and nobody leads"


def test_without_elr_no_replica_is_eligible_and_an_isr_does_not_get_empty() -> None:
    image_before = partition(1, isr=(1,), elr=(2,), last_known=(3,))
    changed_partition = partition_after(image_before, (), down=(1, 2), has_elr=False, min_isr=2)
    assert leadership_of(changed_partition) == (-1, (1,), (), (3,))


def test_after_an_unclean_shutdown_a_replica_is_not_eligible() -> None:
    image_before = partition(-1, isr=(), elr=(1, 2), last_known=(1,))
    changed_partition = partition_after(
        image_before, (), down=(1, 2, 3), min_isr=2, unclean_shutdown=1
    )
    assert leadership_of(changed_partition) == (-1, (), (2,), (1,))


def test_an_unclean_election_takes_any_live_replica_and_it_is_alone() -> None:
    image_before = partition(-1, isr=(1,), elr=(2,), last_known=(1,), epoch=4)
    changed_partition = partition_after(
        image_before, (1,), down=(1, 2), min_isr=3, election=UNCLEAN
    )
    assert leadership_of(changed_partition) == (3, (3,), (), ())
    assert changed_partition is not None
    assert (changed_partition.is_recovering, changed_partition.leader_epoch) == (True, 5)
    assert partition_after(image_before, (1,), down=(1, 2, 3), min_isr=3, election=UNCLEAN) is None


def test_an_unclean_election_prefers_a_replica_in_sync() -> None:
    changed_partition = partition_after(partition(-1, isr=(3,)), (3,), down=(2,), election=UNCLEAN)
    assert leadership_of(changed_partition) == (3, (3,), (), ())


@pytest.mark.parametrize(
    ("leader", "isr", "down", "expected_number"),
    [
        (2, (1, 2, 3), (), 1),
        (2, (2, 3), (), None),
        (2, (1, 2, 3), (1,), None),
        (-1, (2, 3), (1,), 2),
        (-1, (), (1, 2, 3), None),
    ],
)
def test_a_preferred_election_wants_the_first_replica_and_takes_another_over_none(
    leader: int, isr: tuple[int, ...], down: tuple[int, ...], expected_number: int | None
) -> None:
    changed_partition = partition_after(
        partition(leader, isr=isr), isr, down=down, election=PREFERRED
    )
    assert (None if changed_partition is None else changed_partition.leader) == expected_number


def test_a_leader_that_is_up_has_recovered() -> None:
    image_before = partition(3, isr=(3,), is_recovering=True)
    changed_partition = partition_after(image_before, (2, 3), has_recovered=True)
    assert changed_partition is not None
    assert not changed_partition.is_recovering
    later_partition = partition_after(image_before, (2, 3))
    assert later_partition is not None
    assert later_partition.is_recovering


# Reassignments


def reassigned_partition(
    partition_image: PartitionImage,
    isr: tuple[int, ...],
    replicas: tuple[int, ...],
    *,
    removing: tuple[int, ...] = (),
    adding: tuple[int, ...] = (),
    down: tuple[int, ...] = (),
) -> PartitionImage | None:
    return changed_partition(
        partition_image,
        PartitionChange(
            target_isr=tuple(map(BrokerId, isr)),
            is_acceptable=lambda replica: replica not in down,
            min_isr=1,
            has_elr=True,
            placement=Placement(
                replicas=tuple(map(BrokerId, replicas)),
                removing=tuple(map(BrokerId, removing)),
                adding=tuple(map(BrokerId, adding)),
            ),
        ),
    )


@pytest.mark.parametrize(
    ("isr", "replicas", "removing", "adding", "expected"),
    [
        # PartitionReassignmentReplicasTest: every new replica has to be in sync
        ((1, 2), (1, 3, 2), (2,), (3,), None),
        ((1, 2, 3), (1, 3, 2), (2,), (3,), ((1, 3), (1, 3))),
        ((1, 2, 3), (1, 2, 3, 4), (), (3, 4), None),
        ((1, 2, 3, 4), (1, 2, 3, 4), (), (3, 4), ((1, 2, 3, 4), (1, 2, 3, 4))),
        # somebody in sync must be left
        ((2,), (1, 2), (2,), (), None),
        ((1,), (1, 2), (2,), (), ((1,), (1,))),
        ((1, 2), (1, 2), (1, 2), (), None),
        # fewer replicas than before: all that are left have to be in sync
        ((1, 3), (2, 3, 1), (1,), (), None),
        ((1, 2, 3), (2, 3, 1), (1,), (), ((2, 3), (2, 3))),
        ((1, 4), (2, 4, 1, 3), (1, 3), (4,), None),
        ((2, 4), (2, 4, 1, 3), (1, 3), (4,), ((2, 4), (2, 4))),
        # as many as before: those that stay may be late
        ((1, 4), (2, 4, 1), (1,), (4,), ((2, 4), (4,))),
    ],
)
def test_a_reassignment_is_over_when_its_replicas_are_in_sync(
    isr: tuple[int, ...],
    replicas: tuple[int, ...],
    removing: tuple[int, ...],
    adding: tuple[int, ...],
    expected: tuple[tuple[int, ...], tuple[int, ...]] | None,
) -> None:
    image_before = partition(isr[0], replicas=replicas, isr=isr[:1], epoch=4)
    changed_partition = reassigned_partition(
        image_before, isr, replicas, removing=removing, adding=adding
    )
    assert changed_partition is not None
    if expected is None:
        assert (changed_partition.removing, changed_partition.adding) == (removing, adding)
        assert (changed_partition.replicas, changed_partition.isr) == (replicas, isr)
        assert changed_partition.leader_epoch == 4
    else:
        assert not changed_partition.is_reassigning
        assert (changed_partition.replicas, changed_partition.isr) == expected
        # Who is gone has to hear of it by a new epoch, even if the leader stays.
        assert changed_partition.leader_epoch == (5 if removing else 4)
    assert changed_partition.partition_epoch == 5


def test_a_leader_that_goes_is_followed_by_a_replica_that_stays() -> None:
    image_before = partition(1, replicas=(2, 3, 1), isr=(1, 2), epoch=4)
    changed_partition = reassigned_partition(
        image_before, (1, 2, 3), (2, 3, 1), removing=(1,), adding=(3,)
    )
    assert leadership_of(changed_partition) == (2, (2, 3), (), ())
    image_before = partition(1, replicas=(2, 3, 1), isr=(1, 2), epoch=4)
    changed_partition = reassigned_partition(
        image_before, (1, 2, 3), (2, 3, 1), removing=(1,), adding=(3,), down=(2,)
    )
    assert leadership_of(changed_partition)[0] == 3


def test_an_isr_that_changes_by_itself_ends_what_it_can() -> None:
    image_before = partition(1, replicas=(1, 3, 2), isr=(1, 2), epoch=4, removing=(2,), adding=(3,))
    assert partition_after(image_before, (1, 2)) is None
    changed_partition = partition_after(image_before, (1, 2, 3))
    assert changed_partition is not None
    assert (
        changed_partition.replicas,
        changed_partition.isr,
        changed_partition.is_reassigning,
    ) == ((1, 3), (1, 3), False)


# Configs of groups: what they may be, and what they come to.


BEFORE_4_4 = Rules(group_configs_tell_bounds=False)
SESSION, HEARTBEAT = "consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"
INVALID_CONFIG, INVALID_REQUEST = ErrorCode.invalid_config, ErrorCode.invalid_request


def refusal(rejection: Rejection | None) -> tuple[ErrorCode, str] | None:
    return None if rejection is None else (rejection.error, rejection.reason)


@pytest.mark.parametrize(
    ("configs", "reason"),
    [
        ({SESSION: "45000"}, None),
        ({SESSION: "60000", HEARTBEAT: "15000"}, None),
        ({"nonsense": "1"}, "Unknown group config name: nonsense"),
        (
            {SESSION: "x"},
            "Invalid value x for configuration consumer.session.timeout.ms: Not a number of type "
            "INT",
        ),
        (
            {SESSION: "44999"},
            f"{SESSION} must be greater than or equal to group.consumer.min.session.timeout.ms",
        ),
        (
            {SESSION: "60001"},
            f"{SESSION} must be less than or equal to group.consumer.max.session.timeout.ms",
        ),
        (
            {"share.delivery.count.limit": "11"},
            "share.delivery.count.limit must be less than or equal to "
            "group.share.max.delivery.count.limit",
        ),
        ({"streams.num.standby.replicas": "2"}, None),
        (
            {"streams.num.standby.replicas": "3"},
            "streams.num.standby.replicas must be less than or equal to "
            "group.streams.max.standby.replicas",
        ),
        ({"share.isolation.level": "read_committed"}, None),
        ({"share.auto.offset.reset": "earliest"}, None),
    ],
)
def test_a_group_is_configured_within_the_bounds_of_its_broker(
    configs: dict[str, str], reason: str | None
) -> None:
    expected = None if reason is None else (INVALID_CONFIG, reason)
    assert refusal(group_refusal("g", configs, DEFAULTS, BEFORE_4_4)) == expected


@pytest.mark.parametrize(
    "name",
    [
        "consumer.assignment.interval.ms",
        "share.delivery.count.limit",
        "share.partition.max.record.locks",
        "share.renew.acknowledge.enable",
    ],
)
def test_before_4_3_groups_have_no_limits_of_their_own(name: str) -> None:
    older_rules = Rules(group_configs_tell_bounds=False, groups_have_limits=False)
    reason = f"Unknown group config name: {name}"
    assert refusal(group_refusal("g", {name: "200"}, DEFAULTS, older_rules)) == (
        INVALID_CONFIG,
        reason,
    )
    assert refusal(group_refusal("g", {name: "x"}, DEFAULTS, BEFORE_4_4)) != (
        INVALID_CONFIG,
        reason,
    )


@pytest.mark.parametrize(
    ("configs", "reason"),
    [
        ({SESSION: "44999"}, f"{SESSION} must be in the range 45000 to 60000 inclusive."),
        ({SESSION: "60001"}, f"{SESSION} must be in the range 45000 to 60000 inclusive."),
        (
            {"streams.num.standby.replicas": "3"},
            "streams.num.standby.replicas must be less than or equal to 2",
        ),
        ({"consumer.assignor.offload.enable": "true"}, None),
        ({"errors.deadletterqueue.topic.name": "dlq."}, None),
        ({"streams.num.warmup.replicas": "20"}, None),
        (
            {"streams.num.warmup.replicas": "21"},
            "streams.num.warmup.replicas must be less than or equal to 20",
        ),
        ({"streams.task.offset.interval.ms": "15000"}, None),
        (
            {"streams.task.offset.interval.ms": "14999"},
            "streams.task.offset.interval.ms must be greater than or equal to 15000",
        ),
        ({"streams.assignor.name": "sticky"}, None),
        (
            {"streams.assignor.name": "range"},
            "streams.assignor.name 'range' is not a registered task assignor. Registered assignors "
            "are: [sticky].",
        ),
        ({"streams.rack.aware.assignment.tags": "a,b"}, None),
        (
            {"streams.rack.aware.assignment.tags": "a,a"},
            "streams.rack.aware.assignment.tags must not contain duplicate tag keys.",
        ),
        (
            {"errors.deadletterqueue.topic.name": "__x"},
            "errors.deadletterqueue.topic.name: DLQ topic name must not start with '__'",
        ),
    ],
)
def test_a_refusal_tells_the_bounds(configs: dict[str, str], reason: str | None) -> None:
    expected = None if reason is None else (INVALID_CONFIG, reason)
    assert refusal(group_refusal("g", configs, DEFAULTS)) == expected


@pytest.mark.parametrize(
    ("configs", "reason"),
    [
        ({"share.heartbeat.interval.ms": "20000"}, None),
        ({"share.session.timeout.ms": "15000"}, None),
        ({"share.record.lock.duration.ms": "90000"}, None),
        ({"share.delivery.count.limit": "25"}, None),
        ({"share.delivery.count.limit": "2"}, "must be in the range 3 to 25 inclusive."),
        ({"share.partition.max.record.locks": "100"}, "must be in the range 200 to 10000 inclus"),
        ({"streams.num.standby.replicas": "5"}, None),
        ({"streams.num.standby.replicas": "6"}, "must be less than or equal to 5"),
        ({"streams.num.warmup.replicas": "11"}, "must be less than or equal to 10"),
        ({"streams.assignment.interval.ms": "0"}, "must be in the range 500 to 15000 inclusive."),
        (
            {"share.session.timeout.ms": "15000", "share.heartbeat.interval.ms": "15000"},
            "share.session.timeout.ms must be greater than share.heartbeat.interval.ms",
        ),
    ],
)
def test_the_bounds_are_those_of_the_brokers_settings(
    configs: dict[str, str], reason: str | None
) -> None:
    """The reasons are those of a real 4.4.0 with the same settings in its file."""
    settings = Settings(
        group_share_max_heartbeat_interval_ms=20_000,
        group_share_min_session_timeout_ms=15_000,
        group_share_max_record_lock_duration_ms=90_000,
        group_share_min_delivery_count_limit=3,
        group_share_max_delivery_count_limit=25,
        group_share_min_partition_max_record_locks=200,
        group_share_max_partition_max_record_locks=10_000,
        group_streams_max_standby_replicas=5,
        group_streams_max_warmup_replicas=10,
        group_streams_min_assignment_interval_ms=500,
    )
    rejection = group_refusal("g", configs, settings)
    if reason is None:
        assert rejection is None
    else:
        assert rejection is not None
        assert reason in rejection.reason


def test_a_group_is_told_what_its_brokers_file_says() -> None:
    settings = Settings(group_share_delivery_count_limit=7, group_streams_acceptable_recovery_lag=5)
    config_values = group_values({}, image=cluster(), settings=settings, broker_id=B1)
    value_by_name = {
        config_value.name: (config_value.value, config_value.source)
        for config_value in config_values
    }
    assert value_by_name["share.delivery.count.limit"] == ("7", ConfigSource.STATIC_BROKER)
    assert value_by_name["streams.acceptable.recovery.lag"] == ("5", ConfigSource.STATIC_BROKER)
    assert "streams.num.warmup.replicas" not in value_by_name, "internal, and not set"


def test_dead_letters_of_groups_came_with_4_4() -> None:
    name = "errors.deadletterqueue.topic.name"
    expected = (INVALID_CONFIG, f"Unknown group config name: {name}")
    assert refusal(group_refusal("g", {name: "dlq."}, DEFAULTS, BEFORE_4_4)) == expected


def test_internal_configs_are_told_where_they_are_set() -> None:
    own_configs = {"streams.num.warmup.replicas": "3"}
    for configs, is_told in ((own_configs, True), ({}, False)):
        config_values = group_values(configs, image=cluster(), settings=DEFAULTS, broker_id=B1)
        assert (
            "streams.num.warmup.replicas" in {config_value.name for config_value in config_values}
        ) is is_told


def test_a_group_needs_a_name() -> None:
    expected = (INVALID_REQUEST, "Default group resources are not allowed.")
    assert refusal(group_refusal("", {}, DEFAULTS)) == expected


def test_a_session_is_longer_than_the_pause_between_heartbeats() -> None:
    settings = Settings(
        group_consumer_min_session_timeout_ms=1_000,
        group_consumer_max_heartbeat_interval_ms=50_000,
    )
    reason = f"{SESSION} must be greater than {HEARTBEAT}"
    for configs in ({SESSION: "5000"}, {HEARTBEAT: "45000"}, {SESSION: "9000", HEARTBEAT: "9000"}):
        assert refusal(group_refusal("g", configs, settings)) == (INVALID_CONFIG, reason)
    assert group_refusal("g", {SESSION: "9000", HEARTBEAT: "8000"}, settings) is None


@pytest.mark.parametrize(
    ("duration", "is_one"),
    [
        ("PT1H", True),
        ("P1DT2H3M4.5S", True),
        ("PT-1H", False),
        ("-PT1H", False),
        ("-PT-1H", True),
        ("P", False),
        ("PT", False),
        ("P1DT", False),
        ("soon", False),
    ],
)
def test_share_groups_may_begin_some_time_ago(duration: str, *, is_one: bool) -> None:
    rejection = group_refusal("g", {"share.auto.offset.reset": f"by_duration:{duration}"}, DEFAULTS)
    assert (rejection is None) is is_one
    if rejection is not None:
        assert rejection.reason.endswith("of the format 'by_duration:<PnDTnHnMn.nS>'.")


def test_share_groups_begin_at_an_end_or_some_time_ago() -> None:
    assert group_refusal("g", {"share.auto.offset.reset": "none"}, DEFAULTS) is not None


def test_before_4_3_a_groups_default_is_told_as_its_own() -> None:
    """The values are those of a real 4.2.2 that has 50000 in its file."""
    (heartbeat_value, session) = (
        group_value
        for group_value in group_values(
            {HEARTBEAT: "6000"},
            image=cluster(),
            settings=Settings(group_consumer_session_timeout_ms=50_000),
            broker_id=B1,
            release_rules=RELEASES["4.2"].rules,
        )
        if group_value.name in (HEARTBEAT, SESSION)
    )
    assert heartbeat_value.synonyms == ((HEARTBEAT, "6000", ConfigSource.GROUP),)
    assert session.synonyms == ((SESSION, "50000", ConfigSource.DEFAULT),)
    assert (session.value, session.source) == ("50000", ConfigSource.DEFAULT)


def test_a_groups_own_value_goes_before_the_brokers() -> None:
    settings = Settings(group_consumer_session_timeout_ms=50_000)
    image = cluster().with_broker_configs("", {"group.consumer.assignment.interval.ms": "7"})
    value_by_name = {
        group_value.name: group_value
        for group_value in group_values(
            {HEARTBEAT: " 6000 ", "share.renew.acknowledge.enable": "FALSE"},
            image=image,
            settings=settings,
            broker_id=B1,
        )
    }
    assert set(value_by_name) < set(GROUP_CONFIGS)
    assert list(value_by_name) == sorted(value_by_name)
    assert (value_by_name[HEARTBEAT].value, value_by_name[HEARTBEAT].source) == (
        "6000",
        ConfigSource.GROUP,
    )
    assert value_by_name[HEARTBEAT].synonyms == (
        (HEARTBEAT, "6000", ConfigSource.GROUP),
        (f"group.{HEARTBEAT}", "5000", ConfigSource.DEFAULT),
    )
    assert (value_by_name[SESSION].value, value_by_name[SESSION].source) == (
        "50000",
        ConfigSource.STATIC_BROKER,
    )
    pause_value = value_by_name["consumer.assignment.interval.ms"]
    assert (pause_value.value, pause_value.source) == ("7", ConfigSource.DYNAMIC_DEFAULT_BROKER)
    assert value_by_name["share.renew.acknowledge.enable"].value == "false"
    level_value = value_by_name["share.isolation.level"]
    assert level_value.synonyms == (
        ("share.isolation.level", "read_uncommitted", ConfigSource.DEFAULT),
    )


def test_members_are_held_to_what_their_group_says() -> None:
    assert group_intervals(None, DEFAULTS) == GroupIntervals(45_000, 5_000, 1_000)
    own_configs = {SESSION: "50000", "consumer.assignment.interval.ms": "0"}
    assert group_intervals(own_configs, DEFAULTS) == GroupIntervals(50_000, 5_000, 0)


def test_members_of_a_share_group_are_held_to_its_own_configs() -> None:
    assert share_intervals(None, DEFAULTS) == GroupIntervals(45_000, 5_000, 1_000)
    own_configs = {"share.session.timeout.ms": "50000", "share.heartbeat.interval.ms": "6000"}
    assert share_intervals(own_configs, DEFAULTS) == GroupIntervals(50_000, 6_000, 1_000)


def test_a_streams_group_has_the_broker_s_configs_or_its_own() -> None:
    broker = streams_configs(None, DEFAULTS)
    assert broker == StreamsConfigs(
        intervals=GroupIntervals(45_000, 5_000, 1_000),
        task_offset_interval_ms=60_000,
        acceptable_recovery_lag=10_000,
        warmup_tasks_max=2,
        initial_delay_ms=3_000,
        assignor=(("num.standby.replicas", "0"),),
    )
    own_configs = {
        "streams.num.standby.replicas": "1",
        "streams.initial.rebalance.delay.ms": "0",
        "streams.rack.aware.assignment.tags": "zone, cluster",
    }
    found_configs = streams_configs(own_configs, DEFAULTS)
    assert found_configs.initial_delay_ms == 0
    assert found_configs.assignor == (
        ("num.standby.replicas", "1"),
        ("rack.aware.assignment.tags", "zone,cluster"),
    )


# Immutable metadata: what a change leaves alone, and what a lookup finds.


@pytest.mark.parametrize(
    ("name", "partition_index", "is_there"),
    [
        ("orders", 0, True),
        ("orders", 1, True),
        ("orders", 2, False),
        ("orders", -1, False),
        ("other", 0, False),
    ],
)
def test_a_partition_is_found_by_topic_and_index(
    name: str, partition_index: int, is_there: bool
) -> None:
    image = cluster().with_topic(topic("orders", partition(1), partition(2)))
    assert (image.partition(TopicPartition(name, partition_index)) is not None) == is_there


def test_a_topic_is_found_by_its_id_until_it_is_deleted() -> None:
    image = cluster().with_topic(topic())
    other_id = uuid.UUID(int=9)
    image = image.with_topic(topic("other", topic_id=other_id))
    assert image.topic_by_id(TOPIC_ID) is image.topics["orders"]
    image_without_orders = image.without_topic("orders")
    assert image_without_orders.topic_by_id(TOPIC_ID) is None
    assert image_without_orders.topic_by_id(other_id) is image.topics["other"]
    assert "orders" not in image_without_orders.topics


def test_brokers_are_listed_by_id_and_only_while_they_live_and_listen() -> None:
    image = cluster(broker(3), broker(1), broker(2, is_alive=False), broker(4, port=-1))
    assert [broker.broker_id for broker in image.alive_brokers()] == [1, 3]
    assert [broker.broker_id for broker in image.fenced_brokers()] == [2]
    assert image.is_alive(B1)
    assert not image.is_alive(B2)
    assert not image.is_alive(BrokerId(9))


def test_every_change_is_a_new_image_one_offset_further() -> None:
    image = cluster().with_topic(topic())
    changes = (
        image.with_topic(topic("more", topic_id=uuid.UUID(int=9))),
        image.without_topic("orders"),
        image.with_partition(TopicPartition("orders", 0), partition(2, epoch=1)),
        image.with_topic_configs("orders", {"retention.ms": "1"}),
        image.with_broker(broker(4)),
        image.with_feature("transaction.version", 1),
        image.with_broker_configs("", {"num.partitions": "3"}),
        image.with_group_configs("g", {"consumer.session.timeout.ms": "1"}),
        image.with_client_metrics("m", {"interval.ms": "1"}),
        image.with_scram(image.scram),
    )
    assert [changed_image.offset - image.offset for changed_image in changes] == [1] * len(changes)
    assert image == cluster().with_topic(topic()), "the old image is as it was"


def test_one_partition_is_replaced_and_the_others_stay() -> None:
    image = cluster().with_topic(topic("orders", partition(1), partition(2)))
    moved_image = image.with_partition(TopicPartition("orders", 1), partition(3, epoch=1))
    assert [partition.leader for partition in moved_image.topics["orders"].partitions] == [1, 3]
    assert moved_image.topics["orders"].partitions[0] is image.topics["orders"].partitions[0]


def test_the_epoch_of_the_features_moves_with_a_feature_only() -> None:
    image = cluster().with_feature("transaction.version", 2)
    assert image.features_epoch == image.offset
    assert image.with_topic(topic()).features_epoch == image.features_epoch
    lowered_image = image.with_feature("transaction.version", 0)
    assert lowered_image.features == {"transaction.version": 0}, "level 0 is kept, not removed"
    assert lowered_image.features_epoch > image.features_epoch


def test_configs_are_replaced_whole() -> None:
    image = cluster().with_topic(topic(configs={"retention.ms": "1"}))
    changed_image = image.with_topic_configs("orders", {"segment.ms": "2"})
    assert changed_image.topics["orders"].configs == {"segment.ms": "2"}
    image = image.with_broker_configs("1", {"a": "1"}).with_broker_configs("", {"b": "2"})
    assert image.with_broker_configs("1", {}).broker_configs == {"1": {}, "": {"b": "2"}}


def test_groups_and_subscriptions_without_configs_are_gone() -> None:
    image = cluster().with_group_configs("g", {"a": "1"}).with_client_metrics("m", {"b": "2"})
    assert (image.group_configs, image.client_metrics) == ({"g": {"a": "1"}}, {"m": {"b": "2"}})
    assert image.with_group_configs("g", {}, keeps_empty=True).group_configs == {"g": {}}
    assert image.with_group_configs("x", {}, keeps_empty=True) == image.with_group_configs("x", {})
    image = image.with_group_configs("g", {}).with_client_metrics("m", {})
    assert (image.group_configs, image.client_metrics) == ({}, {})


def test_what_changes_nothing_is_the_image_itself() -> None:
    image = cluster()
    assert image.with_topics(()) is image
    assert image.with_acls(image.acls) is image


def test_a_broker_has_an_address_on_each_of_its_listeners() -> None:
    broker = BrokerImage(
        broker_id=BrokerId(1), epoch=1, host="a", port=9092, addresses={"OTHER": ("b", 9192)}
    )
    assert broker.address(CLIENT_LISTENER) == ("a", 9092)
    assert broker.address("OTHER") == ("b", 9192)


def test_a_broker_on_its_way_out_lives_but_is_not_active() -> None:
    image = cluster(broker(1), broker(2, is_leaving=True), broker(3, is_alive=False))
    assert [broker_id for broker_id in image.brokers if image.is_alive(broker_id)] == [1, 2]
    assert [broker_id for broker_id in image.brokers if image.is_active(broker_id)] == [1]
    assert not image.is_active(BrokerId(9))


def test_several_partitions_change_in_one_step() -> None:
    image = cluster().with_topic(topic("orders", partition(1), partition(2)))
    changed_image = image.with_partitions(
        {
            TopicPartition("orders", 1): partition(3, epoch=1),
            TopicPartition("orders", 0): partition(2, epoch=1),
        }
    )
    assert [partition.leader for partition in changed_image.topics["orders"].partitions] == [2, 3]
    assert changed_image.offset == image.offset + 1
    assert image.with_partitions({}) is image


def changes(names: tuple[str, ...]) -> ClusterImage:
    """An image with one topic for each of ``names``."""
    return cluster().with_topics([own_topic(name) for name in names])


def own_topic(name: str, leader: int = 1) -> TopicImage:
    return topic(name, partition(leader), topic_id=uuid.uuid5(uuid.NAMESPACE_DNS, name))


def changed_topics_of(image: ClusterImage, image_before: ClusterImage) -> tuple[str, ...]:
    """The changed topics that the image knows; a comparison must find the same."""
    changed_topics = image.changed_topics(image_before)
    compared = msgspec.structs.replace(image, topics=dict(image.topics)).changed_topics(
        image_before
    )
    assert changed_topics == compared
    return changed_topics


def test_an_image_knows_which_topics_have_changed_since_the_one_before() -> None:
    image = changes(("a", "b", "c"))
    assert changed_topics_of(image, image) == ()
    assert changed_topics_of(image.with_feature("f", 1), image) == ()
    assert changed_topics_of(image.without_topic("b"), image) == ("b",)
    assert changed_topics_of(image.with_topic_configs("c", {"retention.ms": "1"}), image) == ("c",)
    image_with_two_topics = image.with_topics([own_topic("e"), own_topic("d")])
    assert changed_topics_of(image_with_two_topics, image) == ("e", "d")
    both_partition_by_partition = {
        TopicPartition("c", 0): partition(2),
        TopicPartition("a", 0): partition(2),
    }
    assert changed_topics_of(image.with_partitions(both_partition_by_partition), image) == (
        "a",
        "c",
    )


def test_a_reader_that_has_missed_images_compares_them() -> None:
    image = changes(("a", "b"))
    later_image = image.without_topic("a").with_topic(own_topic("c"))
    assert changed_topics_of(later_image, image) == ("a", "c")
    image_with_topic_again = image.without_topic("a").with_topic(own_topic("a", 2))
    assert changed_topics_of(image_with_topic_again, image) == ("a",)
    assert changed_topics_of(image, later_image) == ("c", "a")


def test_a_topic_of_that_name_that_is_there_again_is_not_the_one_that_was_deleted() -> None:
    image = changes(("a", "b", "c"))
    later_image = image.without_topic("a").without_topic("b").with_topic(own_topic("d"))
    later_image = later_image.with_topic(topic("b", partition(1), topic_id=uuid.UUID(int=1)))
    assert [topic.name for topic in later_image.deleted_topics(image)] == ["a", "b"]
    changed_image = image.with_topic_configs("c", {"retention.ms": "1"})
    assert changed_image.deleted_topics(image) == ()
