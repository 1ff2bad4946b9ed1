"""Members of a share group in a situation (KIP-932): the group's configs, the records that members
get, their acknowledgements, and the library's answers to these.

Three laws hold in each of these situations. A record is never delivered again after the library has
confirmed its acceptance or rejection. A group with read_committed never gets a record of an aborted
transaction. In the end each committed record that was not rejected has been accepted.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final, Literal

from txnsim.errors import ClientError
from txnsim_lab.exam._application import (
    CLIENT_ID,
    PATIENCE_MS,
    POLL_MS,
    REQUEST_TIMEOUT_MS,
    Application,
)
from txnsim_lab.exam.results import MissError, NotAskedError
from txnsim_lab.exam.targets import create_topic

AcknowledgeWord = Literal["accept", "release", "reject", "renew"]
GROUP: Final = "sharers"
JOBS_TOPIC: Final = "jobs"
"""A topic with one partition, which all members read."""
OTHER_CLIENT_ID: Final = f"{CLIENT_ID}-2"
"""Client id of the member that no fault strikes."""
READ_COMMITTED: Final = "read_committed"
POLLS_MAX: Final = 25
"""Limit of polls for one record; each takes POLL_MS."""
EMPTY_POLLS: Final = 3
"""Number of empty polls in a row after which a partition counts as read."""
SHORT_LOCK_MS: Final = 2_000
"""Record lock duration of a group whose locks are to expire."""


class Sharers:
    """A share group and its members, by name."""

    def __init__(self, app: Application, *, isolation: str, configs: Mapping[str, str]) -> None:
        self._app = app
        self._configs = {
            "share.auto.offset.reset": "earliest",
            "share.isolation.level": isolation,
            **configs,
        }
        self._held_records_by_member: dict[str, list[tuple[int, str]]] = {}
        """Member -> partition and value of the records of its last poll."""
        self.accepted_values: set[str] = set()
        """Values whose acceptance the library has confirmed."""
        self.rejected_values: set[str] = set()

    async def begin(self) -> None:
        """Create the topic, and set the configs of the group.

        Raises:
            NotAskedError: The cluster refuses the configs.
        """
        self._app.topic, self._app.partitions = JOBS_TOPIC, 1
        await create_topic(self._app.target, self._app.name(JOBS_TOPIC))
        admin = await self._app.target.admin()
        try:
            for config_name, config_value in self._configs.items():
                await admin.set_group_config(self._app.name(GROUP), config_name, config_value)
        except ClientError as refused:
            raise NotAskedError(f"the cluster: {refused}") from None

    async def join(self, member_name: str = "m", *, client_id: str = CLIENT_ID) -> None:
        """Subscribe a member with explicit acknowledgement."""
        self._app.dead_names.discard(member_name)
        self._app.opened_names.add(member_name)
        self._held_records_by_member[member_name] = []
        await self._app.must(
            "share-subscribe",
            consumer=member_name,
            bootstrap=self._app.target.bootstrap,
            client_id=client_id,
            group=self._app.name(GROUP),
            topic=self._app.name(JOBS_TOPIC),
            request_timeout_ms=REQUEST_TIMEOUT_MS,
        )

    async def poll(self, member_name: str = "m") -> list[str]:
        """Poll once; if the library reports an error, return no values.

        Raises:
            MissError: A record is delivered again that must not be.
        """
        answer = await self._app.do("share-poll", consumer=member_name, timeout_ms=POLL_MS)
        self._held_records_by_member[member_name] = [
            (partition, value) for partition, _, value in answer.records
        ]
        values = [value for _, value in self._held_records_by_member[member_name]]
        for value in values:
            if value in self.accepted_values:
                raise MissError(f"the library called {value} accepted, and gives it again")
            if value in self.rejected_values:
                raise MissError(f"the library called {value} rejected, and gives it again")
        return values

    async def get(self, member_name: str = "m") -> list[str]:
        """Poll until records come.

        Raises:
            MissError: No record comes.
        """
        for _ in range(POLLS_MAX):
            if values := await self.poll(member_name):
                return values
        raise MissError(f"{member_name} gets nothing{self._app.after_errors}")

    async def gets_nothing(
        self, member_name: str = "m", *, subject: str = "the member gets"
    ) -> None:
        """Poll a few times; no record may come.

        Raises:
            MissError: A record comes.
        """
        for _ in range(EMPTY_POLLS):
            self._app.expect(await self.poll(member_name), [], subject)

    async def acknowledge(self, acknowledge_type: AcknowledgeWord, member_name: str = "m") -> bool:
        """Acknowledge every record of the last poll, and commit the acknowledgements.

        Returns:
            Whether the library reports no failure.
        """
        records, failed_partitions = self._held_records_by_member[member_name], set[int]()
        if acknowledge_type != "renew":
            self._held_records_by_member[member_name] = []
        answer = await self._app.do("acknowledge", consumer=member_name, how=acknowledge_type)
        if answer.error is None:
            answer = await self._app.do(
                "share-commit", consumer=member_name, patience_ms=PATIENCE_MS
            )
            failed_partitions = {int(partition) for partition in answer.failed}
        values = [value for partition, value in records if partition not in failed_partitions]
        if answer.error is not None:
            return False
        if acknowledge_type == "accept":
            self.accepted_values.update(values)
        elif acknowledge_type == "reject":
            self.rejected_values.update(values)
        return not failed_partitions

    async def must_acknowledge(
        self, acknowledge_type: AcknowledgeWord, member_name: str = "m"
    ) -> None:
        """Acknowledge every record of the last poll, which must succeed.

        Raises:
            MissError: The library reports a failure.
        """
        if not await self.acknowledge(acknowledge_type, member_name):
            raise MissError(f"{acknowledge_type} failed{self._app.after_errors}")

    async def work(self, *member_names: str, wanted_values: Collection[str]) -> None:
        """Let members poll and accept until the wanted values are accepted and polls are empty.

        Raises:
            MissError: A value is missing, or there is an additional one.
        """
        empty_poll_count = 0
        for _ in range(POLLS_MAX):
            for member_name in member_names or ("m",):
                values = await self.poll(member_name)
                empty_poll_count = 0 if values else empty_poll_count + 1
                if values:
                    await self.acknowledge("accept", member_name)
            if empty_poll_count >= EMPTY_POLLS and self.accepted_values >= set(wanted_values):
                break
        missing_values = sorted(set(wanted_values) - self.accepted_values)
        if missing_values:
            raise MissError(
                f"{', '.join(missing_values)} never came, or was never accepted"
                f"{self._app.after_errors}"
            )
        if unwanted_values := sorted(self.accepted_values - set(wanted_values)):
            raise MissError(
                f"{', '.join(unwanted_values)} was given, though it was never committed"
            )

    async def forget(self) -> None:
        """Remove the configs of the group."""
        admin = await self._app.target.admin()
        for config_name in self._configs:
            await admin.set_group_config(self._app.name(GROUP), config_name, None)
