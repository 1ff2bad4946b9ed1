"""The rules in force by what they ask of a crossing, so that a crossing asks only those that it may
meet.

A rule is filed under its point and one criterion: the first that it has, in an order in which fewer
crossings meet the earlier ones. Whether a rule matches is decided elsewhere (``faults.plan``); the
index leaves out rules that can't.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from enum import Enum
from itertools import chain
from typing import Final

from txnsim.faults.interception import Crossing
from txnsim.faults.plan import FaultRule
from txnsim.injection.armed_rule import ArmedRule
from txnsim.types import TopicPartition

FEW_VALUES: Final = 16
"""Up to so many values of a criterion its rules are all asked: they are compared faster than a
crossing's partitions are looked up.
"""


class Criterion(Enum):
    """A criterion under which rules are filed."""

    TRANSACTIONAL_ID = 0
    PRODUCER_ID = 1
    PARTITION = 2
    """A partition, or the name of a topic."""
    CLIENT_INSTANCE = 3
    SOURCE = 4
    API = 5
    NONE = 6


_Shelf = dict[Hashable, dict[ArmedRule, int]]
"""Value of a criterion -> its rules with their numbers in the order of arming."""


class RuleIndex:
    """The rules in force, in the order in which they were armed."""

    __slots__ = ("_number", "_shelves")

    def __init__(self) -> None:
        self._number = 0
        self._shelves: dict[str, dict[Criterion, _Shelf]] = {}

    def add(self, armed_rule: ArmedRule) -> None:
        """File a rule behind all others."""
        self._number += 1
        criterion, value = _filed_under(armed_rule.rule)
        shelf = self._shelves.setdefault(armed_rule.rule.point, {}).setdefault(criterion, {})
        shelf.setdefault(value, {})[armed_rule] = self._number

    def remove(self, armed_rule: ArmedRule) -> None:
        """Take out a rule that was added."""
        criterion, value = _filed_under(armed_rule.rule)
        shelves = self._shelves[armed_rule.rule.point]
        shelf = shelves[criterion]
        del shelf[value][armed_rule]
        if not shelf[value]:
            del shelf[value]
        if not shelf:
            del shelves[criterion]

    def candidates(self, crossing: Crossing) -> Iterable[ArmedRule]:
        """The rules that may match a crossing, oldest first: all that match are among them."""
        shelves = self._shelves.get(crossing.point)
        if not shelves:
            return ()
        found_rules = [
            rules
            for criterion, shelf in shelves.items()
            for rules in (
                shelf.values()
                if len(shelf) <= FEW_VALUES
                else filter(None, map(shelf.get, _values_in(crossing, criterion)))
            )
        ]
        if len(found_rules) == 1:
            return found_rules[0]
        number_by_rule = dict(chain.from_iterable(rules.items() for rules in found_rules))
        return sorted(number_by_rule, key=number_by_rule.__getitem__)


def _filed_under(rule: FaultRule) -> tuple[Criterion, Hashable]:
    if rule.transactional_id is not None:
        return Criterion.TRANSACTIONAL_ID, rule.transactional_id
    if rule.producer_id is not None:
        return Criterion.PRODUCER_ID, rule.producer_id
    if rule.topic is not None:
        return Criterion.PARTITION, (
            rule.topic if rule.partition is None else TopicPartition(rule.topic, rule.partition)
        )
    if rule.client_instance_id is not None:
        return Criterion.CLIENT_INSTANCE, rule.client_instance_id
    if rule.source is not None:
        return Criterion.SOURCE, rule.source
    if rule.client_id is not None:
        return Criterion.SOURCE, f"client/{rule.client_id}"
    if rule.api is not None:
        return Criterion.API, rule.api_key
    return Criterion.NONE, None


def _values_in(crossing: Crossing, criterion: Criterion) -> Iterable[Hashable]:
    """The values of a criterion that a crossing meets, each once."""
    subjects = (crossing.subject, *crossing.subject.other_subjects)
    match criterion:
        case Criterion.TRANSACTIONAL_ID:
            return {subject.transactional_id for subject in subjects}
        case Criterion.PRODUCER_ID:
            return {subject.producer_id for subject in subjects}
        case Criterion.PARTITION:
            partitions = {partition for subject in subjects for partition in subject.partitions}
            return (*partitions, *{partition.topic for partition in partitions})
        case Criterion.CLIENT_INSTANCE:
            return (crossing.client_instance_id,)
        case Criterion.SOURCE:
            return (crossing.source,)
        case Criterion.API:
            return (crossing.api_key,)
        case Criterion.NONE:
            return (None,)
