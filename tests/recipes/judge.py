"""What came of a recipe, seen with eyes that belong neither to a framework nor to the simulator.

What a framework's own tests say of themselves is not taken for granted: topics are read again with
our own client, and ``txnsim txns`` must find every transaction ended.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from typing import Final, TypeVar

from tests.support.txnsim_server import installed_txnsim
from txnsim.client.admin import Admin
from txnsim.client.cluster import Cluster
from txnsim.client.consumer import Consumer
from txnsim.client.errors import ClientError
from txnsim.client.isolation import ConsumedRecord
from txnsim.client.offsets import LATEST_TIMESTAMP, list_offsets
from txnsim.types import IsolationLevel, TopicPartition

T = TypeVar("T")

_OVER: Final = frozenset({"Empty", "CompleteCommit", "CompleteAbort"})
_PATIENCE_S: Final = 30.0
_ANSWER_S: Final = 60.0
_POLL_S: Final = 0.1
_READ_MS: Final = 500
_TOOL_TIMEOUT_S: Final = 60.0
_DIFFERENCES_TOLD: Final = 5


class RecipeError(Exception):
    """A program failed, or what came of it is not exact."""


class Judge:
    """Looks at the transactions of a cluster, and at the topics that are made from now on.

    Args:
        bootstrap: Its brokers.
    """

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._earlier = self._topics()

    def only_topic(self, prefix: str) -> str:
        """The new one that begins so.

        Raises:
            RecipeError: There is none, or more than one.
        """
        new_topics = self._topics() - self._earlier
        topics = sorted(name for name in new_topics if name.startswith(prefix))
        if len(topics) != 1:
            raise RecipeError(f"topics that begin with {prefix!r}: {topics}")
        return topics[0]

    def committed_records(self, topic: str) -> list[ConsumedRecord]:
        """What read_committed shows of a topic.

        Markers may be on their way when a program ends.

        Raises:
            RecipeError: A transaction stays open on it.
        """
        give_up_s = time.monotonic() + _PATIENCE_S
        while True:
            records, end_by_partition = self._read(topic, IsolationLevel.READ_COMMITTED)
            _, last_end_by_partition = self._read(topic, IsolationLevel.READ_UNCOMMITTED)
            if end_by_partition == last_end_by_partition:
                return records
            if time.monotonic() > give_up_s:
                raise RecipeError(
                    f"{topic}: last stable offsets {end_by_partition},"
                    f" high watermarks {last_end_by_partition}"
                )
            time.sleep(_POLL_S)

    def everything(self, topic: str) -> list[ConsumedRecord]:
        """All records of a topic, aborted records included."""
        return self._read(topic, IsolationLevel.READ_UNCOMMITTED)[0]

    def assert_exactly_once(
        self, topic: str, expected: Iterable[str], *, end_count: int = 0
    ) -> None:
        """These values are committed in a topic, each one as often as it is named here.

        Args:
            topic: Of the outputs.
            expected: Values.
            end_count: How many records with the value ``end`` the recipe's tests add for
                themselves.

        Raises:
            RecipeError: One is missing, is there too often, or was not expected.
        """
        counts = Counter((record.value or b"").decode() for record in self.committed_records(topic))
        expected_counts = Counter(expected) + Counter({"end": end_count})
        wrong_counts = [
            f"{receipt!r} is there {counts[receipt]}×, not {expected_counts[receipt]}×"
            for receipt in sorted(counts | expected_counts)
            if counts[receipt] != expected_counts[receipt]
        ]
        if wrong_counts:
            differences = "; ".join(wrong_counts[:_DIFFERENCES_TOLD])
            raise RecipeError(
                f"{topic}: {len(wrong_counts)} values are not there exactly once: {differences}"
            )

    def assert_aborted(self, topic: str) -> int:
        """Something was written and aborted, or else nothing was tried; answers how much.

        Raises:
            RecipeError: All that was written is committed.
        """
        aborted = len(self.everything(topic)) - len(self.committed_records(topic))
        if aborted == 0:
            raise RecipeError(f"{topic}: no record was aborted, so no failure was survived")
        return aborted

    def transactional_ids(self) -> dict[str, str]:
        """The state of each, once all of them are over.

        Markers may be on their way when a program ends.

        Raises:
            RecipeError: A transaction does not end.
        """
        give_up_s = time.monotonic() + _PATIENCE_S
        while True:
            states = self._list_transactions()
            if set(states.values()) <= _OVER:
                return states
            if time.monotonic() > give_up_s:
                hang = {
                    transactional_id: state
                    for transactional_id, state in states.items()
                    if state not in _OVER
                }
                raise RecipeError(f"transactions that don't end: {hang}")
            time.sleep(_POLL_S)

    def _topics(self) -> set[str]:
        async def ask(cluster: Cluster) -> set[str]:
            return {topic.name for topic in await Admin(cluster).describe_topics(None)}

        return self._ask_cluster(ask)

    def _list_transactions(self) -> dict[str, str]:
        command = [str(installed_txnsim()), "txns", "--bootstrap-server", self._bootstrap]
        finished_process = subprocess.run(
            [*command, "list", "--json"],
            capture_output=True,
            text=True,
            timeout=_TOOL_TIMEOUT_S,
            check=False,
        )
        if finished_process.returncode != 0:
            raise RecipeError(f"txnsim txns list:\n{finished_process.stderr}")
        return {
            row["transactional_id"]: row["state"] for row in json.loads(finished_process.stdout)
        }

    def _read(
        self, topic: str, isolation: IsolationLevel
    ) -> tuple[list[ConsumedRecord], dict[TopicPartition, int]]:
        """All records, and the ends of the partitions as this isolation level knows them."""

        async def ask(
            cluster: Cluster,
        ) -> tuple[list[ConsumedRecord], dict[TopicPartition, int]]:
            (topic_metadata,) = await Admin(cluster).describe_topics([topic])
            partitions = [
                TopicPartition(topic, partition.partition)
                for partition in topic_metadata.partitions
            ]
            listed_offset_by_partition = await list_offsets(
                cluster, dict.fromkeys(partitions, LATEST_TIMESTAMP), isolation=isolation
            )
            end_by_partition = {}
            for partition, answer in listed_offset_by_partition.items():
                if isinstance(answer, ClientError):
                    raise RecipeError(f"{partition}: {answer}")
                end_by_partition[partition] = answer.offset
            records = []
            async with Consumer(cluster, isolation=isolation) as consumer:
                await consumer.assign(partitions)
                while any(
                    consumer.positions[partition] < end
                    for partition, end in end_by_partition.items()
                ):
                    records += await consumer.poll(_READ_MS)
            return records, end_by_partition

        return self._ask_cluster(ask)

    def _ask_cluster(self, question: Callable[[Cluster], Awaitable[T]]) -> T:
        async def ask_cluster() -> T:
            async with asyncio.timeout(_ANSWER_S), Cluster(self._bootstrap) as cluster:
                return await question(cluster)

        return asyncio.run(ask_cluster())
