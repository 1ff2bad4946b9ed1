"""Sends the requests of one call to a broker, and retries as every client would."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final

import msgspec

from txnsim.client.cluster import Cluster
from txnsim.client.errors import ConnectionLostError, RequestTimeoutError, code_name
from txnsim.client.reactions import UNSAID
from txnsim.client.versions import VersionedRequest
from txnsim.errors import ClientError, ErrorCode
from txnsim.types import TopicPartition
from txnsim_lab.scenario.call_results import ANY, CallResult, failure, read_answer
from txnsim_lab.scenario.steps_model import Call

PATIENCE_MS: Final = 60_000
"""Limit for retries and for the wait for an answer."""
BACKGROUND_PATIENCE_MS: Final = 3_600_000
"""Limit for calls in the background: long, because a story may hold them for a long time."""
MAIN_CONNECTION: Final = "main"
"""Name of the connection that a call uses unless it names another."""
RETRIED_ERRORS: Final = frozenset(
    code_name(error)
    for error in (
        ErrorCode.concurrent_transactions,
        ErrorCode.coordinator_load_in_progress,
        ErrorCode.coordinator_not_available,
        ErrorCode.leader_not_available,
        ErrorCode.not_coordinator,
        ErrorCode.not_leader_or_follower,
        ErrorCode.fenced_leader_epoch,
        ErrorCode.unknown_leader_epoch,
        ErrorCode.unknown_topic_or_partition,
    )
)
"""Errors after which every client retries."""
_UNSAID: Final = frozenset(map(code_name, UNSAID))


class BrokerCalls:
    """Sends the request of one call, and retries."""

    def __init__(
        self, cluster: Cluster, call: Call, *, expected_code: str, on_sent: Callable[[], object]
    ) -> None:
        self.message: Any = None
        """The last answer."""
        self._cluster = cluster
        self._call = call
        self._expected_code = expected_code
        self._sent = on_sent
        self._is_unsaid = False
        """Whether an attempt may have taken effect without saying so."""

    async def coordinator(self, transactional_id: str, request: VersionedRequest) -> CallResult:
        """Send a request to the transaction coordinator of the id."""
        cluster = self._cluster
        return await self._ask_until_decided(
            request,
            lambda: cluster.coordinator(transactional_id),
            lambda: cluster.forget_coordinator(transactional_id),
        )

    async def leader(
        self, partition: TopicPartition, request: VersionedRequest, *, without_retries: bool = False
    ) -> CallResult:
        """Send a request to the leader of a partition; ``without_retries``: once only."""
        cluster = self._cluster

        async def find() -> int:
            return (await cluster.leader(partition)).leader_id

        return await self._ask_until_decided(
            request,
            find,
            lambda: cluster.forget_leader(partition.topic),
            without_retries=without_retries,
        )

    async def group_coordinator(self, group: str, request: VersionedRequest) -> CallResult:
        """Send a request to the coordinator of a group."""
        cluster = self._cluster
        return await self._ask_until_decided(
            request, lambda: cluster.group_coordinator(group, cluster.deadline()), _do_nothing
        )

    async def _ask_until_decided(
        self,
        request: VersionedRequest,
        find_broker: Callable[[], Awaitable[int]],
        forget_broker: Callable[[], object],
        *,
        without_retries: bool = False,
    ) -> CallResult:
        named_broker = self._call.broker
        deadline = self._cluster.deadline(PATIENCE_MS)
        backoff = self._cluster.backoff()
        while True:
            try:
                answer = await self._ask_once(
                    request, await find_broker() if named_broker is None else named_broker
                )
            except (ConnectionLostError, RequestTimeoutError) as error:
                return failure(error)  # who asks by hand decides by hand what follows from that
            except ClientError as error:
                answer = failure(error)
            is_final = (
                without_retries or self._call.once or self._expected_code in (answer.error, ANY)
            )
            if is_final or answer.error not in RETRIED_ERRORS or deadline.has_passed:
                return msgspec.structs.replace(answer, is_in_doubt=self._is_unsaid)
            forget_broker()
            await backoff.wait(deadline)

    async def _ask_once(self, request: VersionedRequest, broker_id: int) -> CallResult:
        connection = await self._cluster.connection(
            broker_id, lane=self._call.connection or MAIN_CONNECTION
        )
        patience_ms = PATIENCE_MS if self._call.background is None else BACKGROUND_PATIENCE_MS
        response = connection.send(msgspec.structs.replace(request, timeout_ms=patience_ms))
        self._sent()
        self.message = await response
        answer = read_answer(self.message)
        self._is_unsaid |= answer.error in _UNSAID
        return answer


def _do_nothing() -> None:
    """For a group's coordinator, which is looked up each time: there is nothing to forget."""
