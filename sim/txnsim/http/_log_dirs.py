"""A broker's log directory through the control port."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING, Final

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from txnsim.errors import ConfigError
from txnsim.http._brokers_and_clock import broker_id_of
from txnsim.http.operation import PREFIX, ClusterNoun, Operation, Query
from txnsim.http.replies import RefusedError, numbers_of
from txnsim.on_demand_imports import OnDemand
from txnsim.runtime.loop_turns import rest_where_due
from txnsim.types import BrokerId

if TYPE_CHECKING:
    from txnsim.server import log_dirs
    from txnsim.server.log_dirs import LogDirsCut
    from txnsim.storage import stored_file
    from txnsim.storage.stored_file import StoredFile
else:
    stored_file = OnDemand("txnsim.storage.stored_file")
    log_dirs = OnDemand("txnsim.server.log_dirs")

TAR: Final = "application/x-tar"
TURN_BYTES: Final = 262_144
"""Bytes of the archive that are sent before other tasks get their turn."""


class LogDirArchiveRoutes(ClusterNoun):
    """Routes that hand out log directories of one cluster."""

    @Operation("get", f"{PREFIX}/brokers/{{id}}/log-dir", media_type=TAR, refusals=("404",))
    async def log_dir(self, request: Request) -> Response:
        """A broker's log directory as a tar archive, as a clean shutdown would leave it now.

        Every file shows this moment: batches are referenced, not copied, and sent piece by piece.
        """
        broker_id = broker_id_of(request)
        log_dirs_cut = self._cut_log_dirs([broker_id])
        files = await self._files(log_dirs_cut, broker_id)
        return StreamingResponse(_archive_chunks(files, log_dirs_cut.at_ms), media_type=TAR)

    @Operation(
        "get",
        f"{PREFIX}/log-dirs",
        media_type=TAR,
        query=(Query("broker", "Only of this broker; may be given several times", many=True),),
        refusals=("404", "422"),
    )
    async def log_dirs(self, request: Request) -> Response:
        """The log directories of all brokers in one tar archive, each in a folder ``broker-ID``.

        All files of all brokers show one moment, so a transaction is there as its coordinator's
        log has it.
        """
        broker_ids = [BrokerId(number) for number in numbers_of(request, "broker")]
        log_dirs_cut = self._cut_log_dirs(broker_ids or sorted(self._cluster.members))
        return StreamingResponse(self._archive(log_dirs_cut), media_type=TAR)

    def _cut_log_dirs(self, broker_ids: Sequence[BrokerId]) -> LogDirsCut:
        try:
            return log_dirs.LogDirsCut.of_cluster(self._cluster, broker_ids)
        except ConfigError as error:
            raise RefusedError(404, str(error)) from error

    async def _files(self, log_dirs_cut: LogDirsCut, broker_id: BrokerId) -> list[StoredFile]:
        pace = self._pace()
        steps = log_dirs_cut.files_in_steps(broker_id)
        while True:
            try:
                element_count = next(steps)
            except StopIteration as end:
                files: list[StoredFile] = end.value
                return files
            await rest_where_due(pace, element_count)

    async def _archive(self, log_dirs_cut: LogDirsCut) -> AsyncIterator[bytes]:
        broker_ids = list(log_dirs_cut.replicas)
        for broker_id in broker_ids:
            folder = f"broker-{broker_id}"
            files = [file.in_folder(folder) for file in await self._files(log_dirs_cut, broker_id)]
            is_last = broker_id == broker_ids[-1]
            async for chunk in _archive_chunks(files, log_dirs_cut.at_ms, ends_archive=is_last):
                yield chunk


async def _archive_chunks(
    files: Sequence[StoredFile], now_ms: int, *, ends_archive: bool = True
) -> AsyncIterator[bytes]:
    """The archive in pieces, made in the loop's own thread, with turns for other tasks.

    Small pieces are sent together, a large one in parts. Sending by itself gives other tasks no
    turn.
    """
    gathered_bytes = bytearray()
    for archive_piece in stored_file.tar_of(files, modified_ms=now_ms, ends_archive=ends_archive):
        for slice_start in range(0, len(archive_piece), TURN_BYTES):
            gathered_bytes += archive_piece[slice_start : slice_start + TURN_BYTES]
            if len(gathered_bytes) >= TURN_BYTES:
                yield bytes(gathered_bytes)
                gathered_bytes.clear()
                await asyncio.sleep(0)
    yield bytes(gathered_bytes)
