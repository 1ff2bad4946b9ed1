"""Declared faults: which crossing is struck, and what happens to it.

A rule is a value: where (a point and criteria), when, and what is done. The injector counts; this
module only has the pure functions that say whether a rule matches a crossing, and whether it
strikes it. Rules are read from YAML or JSON with ``msgspec.convert`` and written with
``msgspec.to_builtins``::

    id: late
    point: client.request
    api: Produce
    transactional_id: app
    action: {do: hold}

Criteria that are left out match everything. All criteria on the subject must match the same
transaction or marker of a batched request.
"""

from __future__ import annotations

from enum import IntEnum

from txnsim.faults.actions import Corrupt, Duplicate, Fail
from txnsim.faults.interception import Crossing, DamagedPart
from txnsim.faults.points import FaultPoint
from txnsim.faults.rule import Action as Action
from txnsim.faults.rule import FaultRule as FaultRule
from txnsim.faults.subjects import Subject
from txnsim.wire.apis import api_name


class MessagePart(IntEnum):
    """How much of a message a rule needs to know."""

    NOTHING = 0
    """The rule can't match it."""
    HEADER = 1
    """Its API and its sender."""
    BODY = 2
    """Its subject, its record batches, or its answer."""


def needed_part(rule: FaultRule, fault_point: FaultPoint, api_key: int) -> MessagePart:
    """How much of a message of that API the rule needs to know before the message crosses the
    point.
    """
    if rule.point is not fault_point or rule.api not in (None, api_key, api_name(api_key)):
        return MessagePart.NOTHING
    subject_criteria = (rule.transactional_id, rule.producer_id, rule.topic, rule.committed)
    is_batch = isinstance(rule.action, Corrupt) and rule.action.what is DamagedPart.CRC
    if (
        is_batch
        or isinstance(rule.action, Fail)
        or any(subject_field is not None for subject_field in subject_criteria)
    ):
        return MessagePart.BODY
    return MessagePart.HEADER


def matches(rule: FaultRule, crossing: Crossing) -> bool:
    """Whether a rule matches a crossing, however often it has struck."""
    return (
        rule.point == crossing.point
        and (rule.api is None or rule.api in (crossing.api_key, api_name(crossing.api_key)))
        and (rule.broker is None or crossing.target == f"broker/{rule.broker}")
        and (rule.source is None or crossing.source == rule.source)
        and (rule.client_id is None or crossing.source == f"client/{rule.client_id}")
        and rule.client_instance_id in (None, crossing.client_instance_id)
        and rule.role in (None, crossing.role)
        and rule.kind in (None, crossing.kind)
        and _can_happen_to(rule.action, crossing)
        and _matches_subjects(rule, crossing.subject)
    )


def strikes(rule: FaultRule, occurrence: int, struck_count: int) -> bool:
    """Whether a rule strikes the ``occurrence``-th crossing that matches it (counted from 1), apart
    from ``probability``.

    Args:
        rule: The rule.
        occurrence: The number of matches, including this one.
        struck_count: Returns how many it has struck; called only if ``probability`` decides which
            ones.
    """
    if rule.occurrences:
        return occurrence in rule.occurrences
    if occurrence < rule.nth:
        return False
    return rule.limit is None or _used_limit(rule, occurrence - 1, struck_count) < rule.limit


def spent(rule: FaultRule, occurrence: int, struck_count: int) -> bool:
    """Whether a rule can't strike any crossing after the ``occurrence``-th match."""
    if rule.occurrences:
        return occurrence >= max(rule.occurrences)
    return rule.limit is not None and _used_limit(rule, occurrence, struck_count) >= rule.limit


def _used_limit(rule: FaultRule, occurrence: int, struck_count: int) -> int:
    """How much of the limit is used after the ``occurrence``-th match."""
    return struck_count if rule.probability < 1 else occurrence - rule.nth + 1


def _can_happen_to(action: Action, crossing: Crossing) -> bool:
    match action:
        case Corrupt(what=DamagedPart.CRC):
            return crossing.carries_batches
        case Duplicate():
            return not crossing.is_copy
        case _:
            return True


def _matches_subjects(rule: FaultRule, subject: Subject) -> bool:
    return _matches_subject(rule, subject) or any(
        _matches_subject(rule, other_subject) for other_subject in subject.other_subjects
    )


def _matches_subject(rule: FaultRule, subject: Subject) -> bool:
    return (
        (rule.transactional_id is None or subject.transactional_id == rule.transactional_id)
        and (rule.producer_id is None or subject.producer_id == rule.producer_id)
        and (rule.committed is None or subject.committed == rule.committed)
        and (
            rule.topic is None
            or any(
                topic_partition.topic == rule.topic
                and rule.partition in (None, topic_partition.partition)
                for topic_partition in subject.partitions
            )
        )
    )
