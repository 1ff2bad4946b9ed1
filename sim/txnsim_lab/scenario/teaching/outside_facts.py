"""Facts for lessons on the learner's own cluster: from the history of the learner's client, and
from what an observer reads afterwards. The judges are those of ``txnsim check``; this module knows
no broker.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Final

from txnsim.on_demand_imports import OnDemand
from txnsim.types import TopicPartition
from txnsim_lab.check.history import History

if TYPE_CHECKING:
    from txnsim_lab.check import judge as judges
else:
    judges = OnDemand("txnsim_lab.check.judge")

NOTHING_TEXT: Final = "nothing"


def is_outside_fact(fact_words: str) -> bool:
    """Whether there is a fact of that name, and the words name its partition."""
    fact_name, _, subject = fact_words.partition(" ")
    return fact_name in OUTSIDE_FACTS and subject.rpartition("-")[2].isdecimal()


def seen_fact(history: History, fact_words: str) -> str:
    """The value of a fact in a history, such as ``verdict orders-0``."""
    fact_name, _, subject = fact_words.partition(" ")
    return OUTSIDE_FACTS[fact_name][1](history, partition_named(subject))


def partition_named(subject: str) -> TopicPartition:
    """Parse a partition such as ``orders-0``."""
    topic, _, partition = subject.rpartition("-")
    return TopicPartition(topic, int(partition))


def places_of_facts(fact_texts: Iterable[str]) -> list[TopicPartition]:
    """The partitions that the given facts are about."""
    return sorted(
        {
            partition_named(fact_words.partition(" ")[2])
            for fact_words in fact_texts
            if is_outside_fact(fact_words)
        }
    )


def judge_topic(history: History, topic: str) -> judges.Verdict:
    """The verdict on one topic: each try of a lesson has a topic of its own."""
    return judges.judge(
        History(
            observation for observation in history if getattr(observation, "topic", topic) == topic
        )
    )


def _verdict_text(history: History, partition: TopicPartition) -> str:
    return str(judge_topic(history, partition.topic))


def _reads(history: History, partition: TopicPartition) -> str:
    """The items that the last read_committed reader got from the start, in order."""
    item_by_value = {(write.place, write.value): write.item for _, write in history.writes()}
    values_read: list[str] = []
    for _, read in history.committed_reads(partition):
        values_read = [] if read.asked == 0 else values_read
        values_read += [
            str(item_by_value.get((partition, read_record.value)) or read_record.value)
            for read_record in read.records
        ]
    return ", ".join(values_read) or NOTHING_TEXT


def _unanswered_transactions(history: History, partition: TopicPartition) -> str:
    """Number of transactions that wrote to the partition and whose end was never answered."""
    ended_labels = {
        label for label, transaction in history.transactions().items() if transaction.ends
    }
    writing_labels = {
        write.transaction for _, write in history.writes() if write.place == partition
    }
    return str(len(writing_labels - ended_labels - {None}))


OUTSIDE_FACTS: Final[Mapping[str, tuple[str, Callable[[History, TopicPartition], str]]]] = {
    "verdict": ("what txnsim check says of", _verdict_text),
    "reads": ("what a consumer reads of", _reads),
    "unanswered": ("transactions without an answer to their end on", _unanswered_transactions),
}
"""Fact -> its description, and the function that reads it from a history."""
