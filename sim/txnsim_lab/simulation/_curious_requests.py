"""Draws the requests of the curious client from the schemas of Kafka's messages. Each field has
sensible values, and odd ones: a topic that is missing, an epoch from the future, an entry that is
repeated. The client changes only its own topics, groups and ids, which no other actor uses. It may
read those of all actors.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from datetime import timedelta
from functools import cache
from types import NoneType
from typing import Any, Final, NotRequired, TypedDict, get_args, get_origin, get_type_hints

import msgspec

from txnsim.api.registry import shipped_apis
from txnsim.metadata.config_keys import TOPIC_CONFIGS, config_keys
from txnsim.metadata.group_configs import GROUP_CONFIGS
from txnsim.releases import LATEST_RULES, REFERENCE, release_named
from txnsim.types import PRODUCER_EPOCH_MAX
from txnsim.wire.apis import APIS, api_name
from txnsim.wire.codec import request_class
from txnsim_lab.simulation import _defaults as defaults
from txnsim_lab.simulation._dice import Dice
from txnsim_lab.simulation.plan import Act, Plan, StepBody, Track, World

CURIOUS_FEATURE: Final = "curious"
"""Name of the feature, of its random stream and of the actor."""
OWN_TOPICS: Final = ("own", "own-compacted")
OWN_GROUPS: Final = ("own-group", "own-group-2")
OWN_TRANSACTIONAL_IDS: Final = ("own-id", "own-id-2")
MISSING_NAMES: Final = ("missing", "missing-2", "missing-3")
API_KEYS: Final = {name: key for key, (name, _) in APIS.items()}

INTEREST_WORDS: Final = (
    ("records",),
    ("records", "transactions"),
    ("groups",),
    ("groups", "transactions"),
    ("configs",),
    ("partitions", "nodes"),
)
"""Kinds of APIs that a curious client uses together."""


class RememberedField(TypedDict):
    """A value that the client takes from an earlier answer. The keys are words of plan files."""

    told: str
    """Name of the field in that answer."""
    of: str
    """The subject of that answer: a transactional id, a group, or a group and its member."""
    plus: NotRequired[int]
    """A number that the client adds to the value."""


DrawnBatch = TypedDict(
    "DrawnBatch",
    {"batch": list[str], "of": str, "epoch-plus": int, "sequence-plus": int, "ahead-ms": int},
)
"""A batch: keys of its records in hexadecimal, the id whose producer identity it has, and the
offsets of epoch, sequence and time from the right ones.
"""


class CuriousRequest(TypedDict):
    """A drawn request: its API, its version, its target and its fields."""

    api: str
    version: int
    to: StepBody
    fields: StepBody


_READING_API_PREFIXES: Final = (
    "Describe",
    "List",
    "Fetch",
    "Find",
    "Metadata",
    "OffsetF",
    "ConsumerGroupD",
)
"""Beginnings of the names of APIs that change nothing."""
_HARMFUL_APIS: Final = (
    "UnregisterBroker",
    "UpdateFeatures",
    "AlterReplicaLogDirs",
    "PushTelemetry",
)
"""APIs that concern the whole cluster."""
_LEADER_APIS: Final = (
    *("Produce", "Fetch", "ListOffsets", "DeleteRecords", "OffsetForLeaderEpoch"),
    *("DescribeProducers", "WriteTxnMarkers"),
)
_SELDOM_FILLED_FIELDS: Final = (
    "broker_ids",
    "assignments",
    "topic_partitions",
    "forgotten_topics_data",
)
"""List fields that are mostly left empty."""
_PARTITION_FIELDS: Final = (
    "partition",
    "partition_index",
    "index",
    "partitions",
    "partition_indexes",
)
_TOPIC_RESOURCE, _BROKER_RESOURCE, _LOGGER_RESOURCE, _METRICS_RESOURCE, _GROUP_RESOURCE = (
    2,
    4,
    8,
    16,
    32,
)
_MANY_ELEMENTS: Final = 300
_LARGE_TEXT: Final = "x" * 4_096
"""A text as long as ``offset.metadata.max.bytes`` allows."""
_SUBSCRIPTION_HEX: Final = (
    "000000000001" + f"{len(OWN_TOPICS[0]):04x}" + OWN_TOPICS[0].encode().hex() + "f" * 8
)

SensibleAndOddValues = tuple[Sequence[Any], Sequence[Any]]
"""Sensible values, and odd values."""
_OFFSET_VALUES: Final[SensibleAndOddValues] = ((0, 1, 2), (-1, 1 << 40))
_VALUES_BY_FIELD: Final[Mapping[str, SensibleAndOddValues]] = {
    "acks": ((-1,), (1, 2)),
    "committed_metadata": (("", "note", _LARGE_TEXT), (None, f"{_LARGE_TEXT}x")),
    "committed_offset": _OFFSET_VALUES,
    "config_operation": ((0, 0, 1, 2, 3), (4, 9)),
    "coordinator_epoch": ((0,), (-1,)),
    "count": ((2, 3), (0, -1, 1)),
    "current_leader_epoch": ((-1,), (0, 1, 99)),
    "endpoint_type": ((1,), (2, 9)),
    "entity_name": ((CURIOUS_FEATURE,), ("nobody",)),
    "entity_type": (("client-id", "user"), ("odd",)),
    "fetch_offset": _OFFSET_VALUES,
    "group_instance_id": ((None,), ("i1", "i2")),
    "instance_id": ((None, "i1", "i2"), ("",)),
    "isolation_level": ((0, 1), (9,)),
    "key": (("consumer_byte_rate", "request_percentage"), ("odd",)),
    "key_type": ((0, 1), (9,)),
    "max_bytes": ((1 << 20,), (0, 1)),
    "metadata": ((_SUBSCRIPTION_HEX,), ("", "00", "0001ff")),
    "num_partitions": ((1, 2), (0, -1, 99)),
    "offset": _OFFSET_VALUES,
    "partition_max_bytes": ((1 << 20,), (0, 1)),
    "protocol_name": (("range",), (None, "odd")),
    "protocol_type": (("consumer",), ("", "odd")),
    "replica_id": ((-1,), ()),
    "replica_epoch": ((-1,), ()),
    "replication_factor": ((1,), (-1, 0, 99)),
    "resource_types": (
        (_TOPIC_RESOURCE, _GROUP_RESOURCE),
        (_BROKER_RESOURCE, _METRICS_RESOURCE, 99),
    ),
    "server_assignor": ((None, "uniform", "range"), ("odd",)),
    "session_epoch": ((-1,), (0, 1)),
    "timestamp": ((-1, -2), (0, -3, 1 << 41)),
    "transaction_version": ((0, 2), (1, 9)),
}
_VALUES_BY_TYPE: Final[Mapping[str, SensibleAndOddValues]] = {
    "bool": ((True, False), ()),
    "bytes": (("",), ("00",)),
    "f64": ((1_000.0,), (0.0, -1.0, "inf", "nan")),
    "str": (("odd",), ("",)),
}
_RESOURCE_NAMES: Final[Mapping[int, SensibleAndOddValues]] = {
    _TOPIC_RESOURCE: (OWN_TOPICS, MISSING_NAMES),
    _GROUP_RESOURCE: (OWN_GROUPS, (*MISSING_NAMES, "")),
    _METRICS_RESOURCE: (("own-metrics",), ("",)),
    _BROKER_RESOURCE: (("1", "2"), ("", "99")),
    _LOGGER_RESOURCE: (("1", "2"), ("", "99")),
}
_CONFIG_NAMES: Final[Mapping[int, Sequence[str]]] = {
    # Without the config that can make the topic refuse every record, and so the markers, too.
    _TOPIC_RESOURCE: sorted({*TOPIC_CONFIGS} - {"min.insync.replicas"}),
    _GROUP_RESOURCE: sorted(GROUP_CONFIGS),
    _METRICS_RESOURCE: ("metrics", "interval.ms", "match"),
    _LOGGER_RESOURCE: ("kafka", "kafka.server"),
}


class _Hint(msgspec.Struct, frozen=True):
    """A field of a message, with its type."""

    name: str
    kind: Any
    is_list: bool
    may_be_null: bool


@cache
def hints_of(message_class: Any) -> tuple[_Hint, ...]:
    hints, field_hints = get_type_hints(message_class), []
    for field in fields(message_class):
        field_type, may_be_null = _without_null(hints[field.name])
        is_list = get_origin(field_type) is tuple
        field_type = _without_null(get_args(field_type)[0])[0] if is_list else field_type
        field_hints.append(_Hint(field.name, field_type, is_list, may_be_null))
    return tuple(field_hints)


def _without_null(type_hint: Any) -> tuple[Any, bool]:
    may_be_null = NoneType in get_args(type_hint)
    return next(
        member_type for member_type in get_args(type_hint) if member_type is not NoneType
    ) if may_be_null else type_hint, may_be_null


class _Drawing:
    """Draws one request."""

    def __init__(
        self,
        dice: Dice,
        plan: Plan,
        api: str,
        *,
        odd_share: float,
        configs: Mapping[int, Sequence[str]],
    ) -> None:
        self._dice = dice
        self._plan = plan
        self._api_name = api
        self._odd_share = odd_share
        self._known_configs = configs
        self._is_reading = api.startswith(_READING_API_PREFIXES)
        self._is_member = dice.happens(0.5)
        self._resource_number, self._config = 0, ""
        self._topic, self._id, self._group = (
            dice.pick(own_names) for own_names in (OWN_TOPICS, OWN_TRANSACTIONAL_IDS, OWN_GROUPS)
        )
        self._partition_name = f"{self._topic}-0"
        self._addressee: StepBody = {}
        self._member = dice.pick(("m1", "m2", "m3", "m4"))

    def message(self, message_class: Any) -> StepBody:
        return {hint.name: self._draw_field(hint) for hint in hints_of(message_class)}

    def to(self) -> StepBody:
        """The broker or coordinator that gets the drawn message; sometimes an arbitrary broker."""
        broker: StepBody = {"broker": self._dice.pick(range(1, self._plan.world.brokers + 1))}
        if self._is_odd():
            return broker
        if self._api_name in _LEADER_APIS:
            is_topic_known = self._topic in (*OWN_TOPICS, *self._plan.world.topics)
            return {"leader": self._partition_name if is_topic_known else f"{OWN_TOPICS[0]}-0"}
        return self._addressee or broker

    def _draw_field(self, hint: _Hint) -> Any:
        if not hint.is_list:
            return self._draw_value(hint)
        if hint.name in _SELDOM_FILLED_FIELDS:
            return None if hint.may_be_null and self._dice.happens(0.4) else []
        if hint.may_be_null and self._dice.happens(0.15):
            return None
        hint = msgspec.structs.replace(hint, may_be_null=False)
        first_value = self._draw_value(hint)
        if not self._is_odd():
            return [first_value]
        longer_lists = (
            [first_value, self._draw_value(hint)],
            [first_value, self._draw_value(hint), self._draw_value(hint)],
        )
        return self._dice.pick(
            (
                [],
                *longer_lists,
                [first_value, first_value],
                {"each": first_value, "times": _MANY_ELEMENTS},
            )
        )

    def _draw_value(self, hint: _Hint) -> Any:
        if is_dataclass(hint.kind):
            return None if hint.may_be_null else self.message(hint.kind)
        match hint.name, hint.kind.__name__:
            case "name" | "resource_name" | "value" | "configuration_keys", "str":
                config_value = self._config_value(hint.name)
                return "" if config_value is None and not hint.may_be_null else config_value
            case "resource_type", _:
                broker_resources = (_BROKER_RESOURCE, 99) if self._is_reading else ()
                self._resource_number = self._dice.pick((*self._known_configs, *broker_resources))
                return self._resource_number
            case "key" | "coordinator_keys", _ if self._api_name == "FindCoordinator":
                return self._pick_value((*OWN_GROUPS, *OWN_TRANSACTIONAL_IDS), MISSING_NAMES)
            case name, _ if "producer_epoch" in name or "producer_id" in name:
                if self._api_name == "InitProducerId" and not self._is_odd():
                    return -1
                field_name = "producer_epoch" if "epoch" in name else "producer_id"
                return RememberedField(
                    told=field_name, of=self._id, plus=self._pick_value((0,), (1, -1, 5))
                )
            case name, _ if name.startswith(("member_", "generation_id")):
                return self._of_member(name)
            case name, "UUID":
                return {"id-of": self._topic} if name == "topic_id" else None
            case _, "Records":
                return self._draw_records()
            case name, "BrokerId" if name not in _VALUES_BY_FIELD:
                return self._pick_value(range(1, self._plan.world.brokers + 1), (-1, 99))
            case _, "TopicName":
                further_topics = (
                    ("__consumer_offsets", *self._plan.world.topics) if self._is_reading else ()
                )
                self._topic = self._pick_value((*OWN_TOPICS, *further_topics), MISSING_NAMES)
                return self._topic
            case _, "GroupId":
                self._group = self._pick_value(
                    (*OWN_GROUPS, *self._names_of_others("group")), MISSING_NAMES
                )
                self._addressee = self._addressee or {"group": self._group}
                if self._api_name == "TxnOffsetCommit":
                    self._addressee = {"group": self._group}
                return self._group
            case _, "TransactionalId":
                self._id = self._pick_value(
                    (*OWN_TRANSACTIONAL_IDS, *self._names_of_others("transactional-id")),
                    MISSING_NAMES,
                )
                self._addressee = {"id": self._id}
                return None if hint.may_be_null and self._is_odd() else self._id
        if hint.name in _PARTITION_FIELDS:
            partition = self._pick_value((0, 0, 1), (-1, 99))
            self._partition_name = f"{self._topic}-{min(1, abs(partition))}"
            return partition
        if hint.name in _VALUES_BY_FIELD:
            return self._pick_value(*_VALUES_BY_FIELD[hint.name])
        if hint.may_be_null and not self._is_odd():
            return None
        if issubclass(hint.kind, timedelta):
            return self._pick_value((10_000, 30_000), (0, -1, (1 << 31) - 1))
        return self._pick_value(*_VALUES_BY_TYPE.get(hint.kind.__name__, ((0,), (-1, 1, 99))))

    def _is_odd(self) -> bool:
        return self._dice.happens(self._odd_share)

    def _pick_value(self, sensible_values: Sequence[Any], odd_values: Sequence[Any]) -> Any:
        return self._dice.pick(odd_values if odd_values and self._is_odd() else sensible_values)

    def _names_of_others(self, field_name: str) -> list[str]:
        """Names of other actors' resources; empty unless the request only reads."""
        actor_fields = [track.actor or {} for track in self._plan.tracks]
        return (
            [
                fields_of_actor[field_name]
                for fields_of_actor in actor_fields
                if field_name in fields_of_actor
            ]
            if self._is_reading
            else []
        )

    def _of_member(self, field_name: str) -> Any:
        """A field of a group member's identity, from an answer, or an odd value."""
        if self._api_name == "ConsumerGroupHeartbeat":
            remembered: RememberedField = {
                "told": field_name,
                "of": f"{self._group} {self._member}",
            }
            if field_name == "member_id":
                return self._member
            return self._pick_value((remembered,), ({**remembered, "plus": -1}, -1, -2, 0, 99))
        if self._api_name not in ("JoinGroup", "SyncGroup", "Heartbeat", "LeaveGroup") and (
            not self._is_member
        ):
            return "" if field_name == "member_id" else self._pick_value((-1,), (0, 1, 5))
        remembered = {"told": field_name, "of": self._group}
        odd_values = (
            ("", "nobody") if field_name == "member_id" else ({**remembered, "plus": 1}, -1)
        )
        return self._pick_value((remembered,), odd_values)

    def _config_value(self, field_name: str) -> Any:
        if self._api_name == "JoinGroup":
            return self._pick_value(("range",), ("odd",))
        if field_name == "resource_name":
            return self._pick_value(*_RESOURCE_NAMES.get(self._resource_number, (("odd",), ())))
        if field_name == "value":
            return self._pick_value(
                _values_of(self._config), (None, "", "odd", "-1", str((1 << 63) - 1))
            )
        resource_number = (
            _TOPIC_RESOURCE if self._api_name == "CreateTopics" else self._resource_number
        )
        self._config = self._pick_value(
            self._known_configs.get(resource_number, ("odd",)), ("odd", "")
        )
        return self._config

    def _draw_records(self) -> DrawnBatch:
        """Draw a batch: its keys are texts, numbers, or missing."""
        numeric_keys = self._dice.pick(("00000000", "00000001"))
        record_keys = [
            self._pick_value(
                (*(f"k{suffix}".encode().hex() for suffix in (0, record_index)), numeric_keys),
                ("",),
            )
            for record_index in range(self._pick_value((1, 3), (2,)))
        ]
        return {
            "batch": record_keys,
            "of": self._id,
            "epoch-plus": self._pick_value((0,), (1, -1)),
            "sequence-plus": self._pick_value((0,), (1, 5, -1)),
            "ahead-ms": self._pick_value((0,), (7_200_000, -86_400_000)),
        }


def _values_of(config: str) -> list[str]:
    """Values to try for a config: its default, its bounds, and one outside each bound."""
    config_key = TOPIC_CONFIGS.get(config) or GROUP_CONFIGS.get(config)
    if config_key is None:
        return ["INFO", "1000"]
    default = config_key.default
    if default is None and config_key.broker_name is not None:
        default = config_keys("broker", LATEST_RULES)[config_key.broker_name].default
    bound_values = [
        int(bound_value)
        for bound_value in (config_key.minimum, config_key.maximum)
        if bound_value is not None
    ]
    return [
        default or "",
        *config_key.choices,
        *(
            str(bound_value + bound_step)
            for bound_value in bound_values
            for bound_step in (-1, 0, 1)
        ),
    ]


def curious(dice: Dice, plan: Plan) -> Track:
    """A track that sends all kinds of requests to brokers."""
    release = REFERENCE if plan.world.as_version is None else release_named(plan.world.as_version)
    spoken_apis = shipped_apis(release)
    interests_drawn = dice.pick_several(
        INTEREST_WORDS, dice.pick_weighted(defaults.INTEREST_COUNTS)
    )
    interest_words = {interest_word for interest in interests_drawn for interest_word in interest}
    apis = [
        api_name(api_key)
        for api_key in spoken_apis.accepted
        if spoken_apis.handlers[api_key].kind in interest_words
        and api_name(api_key) not in _HARMFUL_APIS
    ]
    apis = dice.pick_several(apis, dice.pick_weighted(defaults.CURIOUS_API_COUNTS))
    odd_share = dice.pick_weighted(defaults.ODD_VALUE_PROBABILITIES)
    favourite_apis = dice.pick_several(apis, 2)
    configs = {
        interest_word: dice.pick_several(_CONFIG_NAMES[interest_word], 2)
        for interest_word in dice.pick_several([*_CONFIG_NAMES], 2)
    }
    acts = [*_setup_acts(dice, plan.world, may_be_old="transactions" in interest_words)]
    for request_number in range(2, dice.pick_weighted(defaults.CURIOUS_REQUEST_COUNTS) + 2):
        pause_ms = dice.up_to(defaults.PAUSES_MS)
        if dice.happens(defaults.LOG_CARE_PROBABILITY):
            partition = f"{dice.pick(OWN_TOPICS)}-0"
            for care_word in ("roll", "clean"):
                care_act: StepBody = {"do": care_word, "partition": partition}
                acts.append(Act({"cluster": care_act}, pause_ms, request_number, CURIOUS_FEATURE))
            continue
        api = dice.pick(favourite_apis if dice.happens(defaults.FAVOURITE_PROBABILITY) else apis)
        lowest_version, highest_version = spoken_apis.accepted[API_KEYS[api]]
        version = (
            highest_version
            if dice.happens(0.5)
            else dice.pick(range(lowest_version, highest_version + 1))
        )
        drawing = _Drawing(dice, plan, api, odd_share=odd_share, configs=configs)
        message_fields = drawing.message(request_class(API_KEYS[api], version))
        request: CuriousRequest = {
            "api": api,
            "version": version,
            "to": drawing.to(),
            "fields": message_fields,
        }
        acts.append(Act({"ask": request}, pause_ms, request_number, CURIOUS_FEATURE))
    return Track(CURIOUS_FEATURE, tuple(acts))


def _setup_acts(dice: Dice, world: World, *, may_be_old: bool) -> Iterator[Act]:
    """Acts that create the client's topics, and an id with an epoch as after many transactions."""
    replicas = min(world.brokers, dice.pick_weighted(defaults.REPLICA_COUNTS))
    for topic, cleanup_policy in zip(OWN_TOPICS, ("delete", "compact"), strict=True):
        new_topic: StepBody = {"topic": topic, "partitions": 2, "replication-factor": replicas}
        new_topic["configs"] = {"cleanup.policy": cleanup_policy, "delete.retention.ms": 100}
        yield Act({"cluster": {"do": "create-topic", **new_topic}}, 0, 1, CURIOUS_FEATURE)
    if may_be_old and dice.happens(0.6):
        epoch = PRODUCER_EPOCH_MAX - dice.up_to(((3, 1),))
        aged_topic: StepBody = {
            "do": "age",
            "transactional-id": dice.pick(OWN_TRANSACTIONAL_IDS),
            "epoch": epoch,
        }
        yield Act({"cluster": aged_topic}, 0, 1, CURIOUS_FEATURE)


def with_small_groups(dice: Dice, world: World) -> World:
    """The world, perhaps with small limits for the members of a group."""
    if dice.happens(0.5):
        return world
    small_settings = dict.fromkeys(("group.max.size", "group.consumer.max.size"), 2)
    return msgspec.structs.replace(world, settings={**world.settings, **small_settings})
