"""A declared fault rule; rules that could never strike, or never do what they say, are refused.
``plan`` applies a rule to a crossing.

A fault that silently does nothing makes a test that tests nothing, so a rule is validated when it
is created, wherever it comes from.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

import msgspec

from txnsim.faults.actions import Corrupt, CrossingAction, Fail, Rewrite
from txnsim.faults.cluster_actions import ClusterAction, Crash, FillDisk
from txnsim.faults.interception import DamagedPart, RewriteHow
from txnsim.faults.meanings import FROM_CLIENTS, KINDS, ROLES, WITH_API, refusal
from txnsim.faults.points import FaultPoint
from txnsim.text import unknown_word_message
from txnsim.types import uuid_from, uuid_text
from txnsim.wire.apis import APIS, api_name
from txnsim.wire.rewriting import LIST_FIELD, NUMBER_FIELD, element_misfit, response_field_kinds

OCCURRENCES_MAX: Final = 1_000
"""Greatest number of ``occurrences``, because every crossing searches them."""
_PRODUCER_APIS: Final = (
    "Produce", "InitProducerId", "AddPartitionsToTxn", "AddOffsetsToTxn", "EndTxn",
    "TxnOffsetCommit",
)  # fmt: skip
_CARRIERS: Final[Mapping[str, tuple[str, ...]]] = {
    "transactional_id": (*_PRODUCER_APIS, "FindCoordinator", "DescribeTransactions"),
    "producer_id": (*_PRODUCER_APIS, "WriteTxnMarkers"),
    "committed": ("EndTxn", "WriteTxnMarkers"),
}
"""Criterion -> the only APIs that carry it: on any other the rule would never strike."""

API_KEYS: Final[Mapping[str, int]] = {name: key for key, (name, _) in APIS.items()}
"""Kafka's name of an API -> its key."""

_APIS_WITH_BATCHES: Final = {
    FaultPoint.CLIENT_REQUEST: ("Produce", 0),
    FaultPoint.CLIENT_RESPONSE: ("Fetch", 1),
}
"""The API that carries record batches at a point: name and key."""

_CROSSING_FIELDS: Final = (
    "api", "broker", "source", "client_id", "client_instance_id", "role", "kind",
    "transactional_id", "producer_id", "topic", "partition", "committed", "limit",
    "occurrences", "after", "until", "then",
)  # fmt: skip
"""Fields of a rule that are criteria on a crossing."""


Action = CrossingAction | ClusterAction


class FaultRule(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
    """One declared fault."""

    id: str
    """Name of the rule, unique among the armed ones."""
    point: FaultPoint
    action: Action
    then: CrossingAction | None = None
    """What happens to the struck crossing after an action on the cluster; None lets it pass."""

    # Whose request
    api: str | int | None = None
    """Kafka's name of the API or its key."""
    broker: int | None = None
    """The request's target, also at response points; at a point inside a broker that broker."""
    source: str | None = None
    """``client/<client id>`` or ``broker/<id>``."""
    client_id: str | None = None
    """Short for ``source: client/<client id>``."""
    client_instance_id: str | None = None
    """Client instance id, as Kafka writes it, of the requests on connections that have one: from
    their first request with header v3 on (KIP-1313, Apache Kafka 4.5).
    """
    role: str | None = None
    """``leader`` or ``follower``, at ``log.append``."""
    kind: str | None = None
    """What is appended, indexed or scanned, at points that know kinds (``meanings``)."""

    # About whom
    transactional_id: str | None = None
    producer_id: int | None = None
    topic: str | None = None
    partition: int | None = None
    committed: bool | None = None
    """Result carried by EndTxn or by a marker."""

    # Which of the crossings that match, counted from 1 since the rule was armed
    nth: int = 1
    """Number of the first match that the rule strikes, from 1."""
    limit: int | None = None
    """Number of strikes from ``nth`` on; None for all."""
    occurrences: tuple[int, ...] = ()
    """If given, exactly these matches are struck; ``nth`` and ``limit`` must not be set."""
    probability: float = 1.0
    """The probability that each of those is struck, by the run's seed (stream ``fault.<id>``)."""
    after: str | None = None
    """Id of a rule: this one matches only after that one has struck."""
    until: str | None = None
    """Id of a rule: this one no longer matches once that one has struck."""

    def __post_init__(self) -> None:
        """Refuse a rule that could never strike.

        Raises:
            ValueError: The rule is invalid; the message names the field.
        """
        for reason in (
            *_about_action(self),
            *_about_rewriting(self),
            *_about_criteria(self),
            *_about_when(self),
        ):
            raise ValueError(reason)

    @property
    def is_on_cluster(self) -> bool:
        """Whether the rule's action is an action on the cluster, not on a message."""
        return isinstance(self.action, ClusterAction)

    @property
    def answers_with_error(self) -> bool:
        """Whether the rule's action answers a request with an error."""
        return isinstance(self.action, Fail)

    @property
    def api_key(self) -> int | None:
        """API key of ``api``; None for an unknown API, or if the rule matches any."""
        return self.api if self.api is None or isinstance(self.api, int) else API_KEYS.get(self.api)


# msgspec (0.22) learns a struct at its first use, and the process crashes where two threads do so
# at once: stories are read in one, rules are armed in another.
msgspec.json.Decoder(FaultRule)


def _about_action(rule: FaultRule) -> Iterator[str]:
    if not rule.id:
        yield "id is empty"
    if "/" in rule.id:
        yield f"id {rule.id!r}: leave out the slash, as ids are parts of addresses: /faults/ID"
    action, fault_point = rule.action, rule.point
    refusal_reason = refusal(fault_point, action)
    if refusal_reason is not None:
        yield refusal_reason
    if rule.then is not None:
        if not isinstance(action, ClusterAction):
            yield "then needs an action on the cluster: any other already says what happens"
        refusal_reason = refusal(fault_point, rule.then)
        if refusal_reason is not None:
            yield f"then: {refusal_reason}"
    if (
        fault_point is FaultPoint.NOW
        and isinstance(action, Crash | FillDisk)
        and action.broker is None
    ):
        yield "broker is missing from the action: nothing is struck at now that could tell it"
    if (
        isinstance(action, Corrupt)
        and action.what is DamagedPart.CRC
        and fault_point in _APIS_WITH_BATCHES
    ):
        batch_api_name, batch_api_key = _APIS_WITH_BATCHES[fault_point]
        if rule.api not in (batch_api_name, batch_api_key):
            yield (
                f"corrupt crc at {fault_point} needs api {batch_api_name}: nothing else there has "
                "record batches"
            )


def _about_rewriting(rule: FaultRule) -> Iterator[str]:
    """Reject fields that the answer lacks or that cannot be changed in this way."""
    action = rule.action
    if not isinstance(action, Rewrite):
        return
    if rule.api is None:
        yield "rewrite needs api: which fields there are depends on it"
        return
    api_key = rule.api_key
    if api_key is None:
        return  # reported elsewhere
    kinds_by_field = response_field_kinds(api_key)
    field_kind = kinds_by_field.get(action.field)
    if field_kind is None:
        unknown_field_text = unknown_word_message(
            "field of that answer", action.field, sorted(kinds_by_field)
        )
        yield f"rewrite of {api_name(api_key)}: {unknown_field_text}"
    elif action.field == "error_code":
        yield "rewrite of error_code: the action error does that"
    else:
        needed_kind = NUMBER_FIELD if action.how in (RewriteHow.SET, RewriteHow.ADD) else LIST_FIELD
        if field_kind != needed_kind:
            yield (
                f"{action.how} needs a {needed_kind}, and {action.field} of {api_name(api_key)} is "
                "none"
            )
        elif action.entry is not None:
            problem = element_misfit(api_key, action.field, action.entry)
            if problem is not None:
                yield f"entry of {action.field} of {api_name(api_key)}: {problem}"


def _about_criteria(rule: FaultRule) -> Iterator[str]:
    fault_point = rule.point
    if isinstance(rule.api, str) and rule.api not in API_KEYS:
        unknown_api_text = unknown_word_message("such name", rule.api, sorted(API_KEYS))
        yield f"api {rule.api!r} is no API of Kafka's: {unknown_api_text}"
    if rule.api is not None and fault_point not in WITH_API:
        yield f"api can't be matched at {fault_point}: no request crosses it"
    if rule.client_id is not None and fault_point not in FROM_CLIENTS:
        yield f"client_id can't be matched at {fault_point}: no client's request crosses it"
    if rule.client_instance_id is not None:
        if fault_point not in FROM_CLIENTS:
            yield (
                f"client_instance_id can't be matched at {fault_point}: no client's request"
                " crosses it"
            )
        elif not _is_uuid(rule.client_instance_id):
            yield f"client_instance_id {rule.client_instance_id!r}: expected 22 letters of base64"
    for field, carriers in _CARRIERS.items():
        if rule.api is None or getattr(rule, field) is None:
            continue
        requested_api = api_name(rule.api) if isinstance(rule.api, int) else rule.api
        if requested_api not in carriers:
            yield (
                f"{field} can't be matched on {requested_api}, which does not carry it; only "
                f"{', '.join(carriers)} do"
            )
    if rule.partition is not None and rule.topic is None:
        yield f"partition {rule.partition} needs a topic"
    crossing_kinds = KINDS.get(fault_point, ())
    if rule.kind is not None and rule.kind not in crossing_kinds:
        known_kinds = (
            f"it knows {', '.join(crossing_kinds)}" if crossing_kinds else "it knows no kinds"
        )
        yield f"kind {rule.kind!r} can't be matched at {fault_point}: {known_kinds}"
    if rule.role is not None and (
        rule.role not in ROLES or fault_point is not FaultPoint.LOG_APPEND
    ):
        yield f"role {rule.role!r} at {fault_point}: only log.append knows leader and follower"
    if fault_point is FaultPoint.NOW:
        for field in _CROSSING_FIELDS:
            if getattr(rule, field) not in (None, ()):
                yield f"{field} can't be asked for at now: nothing crosses it"


def _is_uuid(text: str) -> bool:
    """Whether a text is an id as Kafka writes it."""
    try:
        return uuid_text(uuid_from(text)) == text
    except ValueError:
        return False


def _about_when(rule: FaultRule) -> Iterator[str]:
    if rule.nth < 1 or (rule.limit is not None and rule.limit < 1):
        yield f"nth {rule.nth} and limit {rule.limit} count from 1"
    if len(rule.occurrences) > OCCURRENCES_MAX:
        yield f"{len(rule.occurrences)} occurrences, expected at most {OCCURRENCES_MAX}"
    elif any(occurrence < 1 for occurrence in rule.occurrences):
        yield f"occurrences {rule.occurrences} count from 1"
    if rule.occurrences and (rule.nth != 1 or rule.limit is not None):
        yield "occurrences excludes nth and limit"
    if not 0 < rule.probability <= 1:
        yield f"probability is {rule.probability}, expected more than 0 and at most 1"
    for field, other_rule in (("after", rule.after), ("until", rule.until)):
        if other_rule == rule.id:
            yield f"{field} names the rule itself"
