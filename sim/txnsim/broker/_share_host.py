"""The share coordinator on its broker: the log it writes, its periodic jobs, deleted topics.

Kafka's counterparts: CoordinatorPartitionWriter, the timer tasks of ShareCoordinatorService, and
the calls of BrokerMetadataPublisher.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from txnsim.broker.coordinator_host import CoordinatorHost
from txnsim.errors import ErrorCode, Rejection
from txnsim.metadata.image import SHARE_VERSION, ClusterImage
from txnsim.node.broker_fault_points import BrokerFaultPoints, timer_gate
from txnsim.node.coordinator_loading import CoordinatorLoading
from txnsim.releases.rules import Rules
from txnsim.replica.replicas import LeadershipChanges, Replicas
from txnsim.replication.deletions import Deletions
from txnsim.replication.leader_appends import Commits, LeaderAppends
from txnsim.runtime.environment import Environment, TimerHandle
from txnsim.settings import Settings
from txnsim.types import SHARE_STATE_TOPIC, BrokerId, TopicPartition, uuid_text

if TYPE_CHECKING:
    from txnsim.coordinators.share.service import ShareCoordinator

PRUNING_TIMEOUT_MS: Final = 30_000
"""How long followers may take to delete the same records (CoordinatorPartitionWriter)."""


class ShareHost(CoordinatorHost):
    """Connects a share coordinator with its broker."""

    coordinator: ShareCoordinator

    def __init__(
        self,
        *,
        broker_id: BrokerId,
        environment: Environment,
        settings: Settings,
        release_rules: Rules,
        replicas: Replicas,
        appends: LeaderAppends,
        commits: Commits,
        deletions: Deletions,
        loading: CoordinatorLoading,
        fault_points: BrokerFaultPoints,
        partition_count: int | None = None,
    ) -> None:
        super().__init__(
            topic=SHARE_STATE_TOPIC,
            make_coordinator=self._make_coordinator,
            replicas=replicas,
            appends=appends,
            commits=commits,
            loading=loading,
        )
        self._broker_id = broker_id
        self._environment = environment
        self._settings = settings
        self._rules = release_rules
        self._deletions = deletions
        self._partitions = partition_count
        self._timers = timer_gate(fault_points)
        self._job_timers: dict[str, TimerHandle] = {}
        self._started_ms: int | None = None
        """When the broker started; None while it does not run."""
        self._made_coordinator: ShareCoordinator | None = None
        self._image = replicas.image

    def _make_coordinator(self) -> ShareCoordinator:
        """Make the coordinator when a request first needs it: most clusters have no share
        groups.
        """
        from txnsim.coordinators.share.service import ShareCoordinator

        environment = self._environment
        self._made_coordinator = ShareCoordinator(
            broker_id=self._broker_id,
            clock=environment.clock,
            settings=self._settings,
            release_rules=self._rules,
            tasks=environment.tasks,
            log=self,
            read_image=lambda: self._replicas.image,
            delete_records=self._delete_records,
            partition_count=self._partitions,
        )
        self._start_jobs()
        return self._made_coordinator

    # Life

    def start(self) -> None:
        """Accept requests about share partitions from now on."""
        self._started_ms = self._environment.clock.now_ms()
        self._start_jobs()

    def stop(self) -> None:
        """Release all states, stop the jobs."""
        self._started_ms = None
        for job_timer in self._job_timers.values():
            job_timer.cancel()
        if self._made_coordinator is not None:
            self._made_coordinator.stop()

    def _start_jobs(self) -> None:
        if self._made_coordinator is None or self._started_ms is None:
            return
        coordinator, settings = self._made_coordinator, self._settings
        coordinator.is_running = True
        self._arm_job(
            "share-state-pruning",
            settings.share_coordinator_state_topic_prune_interval_ms,
            coordinator.prune,
        )
        self._arm_job(
            "share-state-snapshots",
            settings.share_coordinator_cold_partition_snapshot_interval_ms,
            coordinator.snapshot_cold,
        )

    def _arm_job(self, timer_kind: str, interval_ms: int, run_job: Callable[[], None]) -> None:
        """Run a job at the next multiple of its interval since the broker's start, and again."""
        if self._started_ms is None:
            return
        clock = self._environment.clock
        next_interval_number = (clock.now_ms() - self._started_ms) // interval_ms + 1

        def run_again() -> None:
            self._arm_job(timer_kind, interval_ms, run_job)

        def run() -> None:
            run_again()
            if self._replicas.image.features.get(SHARE_VERSION, 0):
                run_job()

        self._job_timers[timer_kind] = clock.call_at(
            self._started_ms + next_interval_number * interval_ms,
            lambda: self._timers(timer_kind, run, run_again),
        )

    # Leadership

    def apply(self, leadership_changes: LeadershipChanges, image: ClusterImage) -> None:
        """Like ``CoordinatorHost.apply``; also drop the states of deleted topics."""
        super().apply(leadership_changes, image)
        old_image, self._image = self._image, image
        if self._made_coordinator is not None:
            deleted_topics = image.deleted_topics(old_image)
            if deleted_topics:
                self._made_coordinator.topics_deleted(
                    {uuid_text(topic.topic_id) for topic in deleted_topics}
                )

    # Log

    async def _delete_records(self, partition_index: int, offset: int) -> Rejection | None:
        """Delete the records below an offset, on all replicas."""
        log = self._led_logs.get(partition_index)
        if log is None:
            return Rejection(
                error=ErrorCode.not_leader_or_follower,
                reason=f"broker {self._broker_id} does not lead it",
            )
        log_start = self._deletions.delete(log, offset)
        if isinstance(log_start, Rejection):
            return log_start
        topic_partition = TopicPartition(SHARE_STATE_TOPIC, partition_index)
        outcome_by_partition = await self._deletions.wait(
            {topic_partition: log_start}, timeout_ms=PRUNING_TIMEOUT_MS
        )
        if isinstance(outcome_by_partition[topic_partition], int):
            return None
        return Rejection(
            error=ErrorCode.request_timed_out, reason="replicas did not follow in time"
        )
