"""A broker's log directory through the control port."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING, Final

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from txnsim.errors import ConfigError
from txnsim.http._brokers_and_clock import broker_id_of
from txnsim.http.operation import PREFIX, ClusterNoun, Operation
from txnsim.http.replies import RefusedError
from txnsim.on_demand_imports import OnDemand

if TYPE_CHECKING:
    from txnsim.server import log_dirs
    from txnsim.storage import stored_file
    from txnsim.storage.stored_file import StoredFile
else:
    stored_file = OnDemand("txnsim.storage.stored_file")
    log_dirs = OnDemand("txnsim.server.log_dirs")

TAR: Final = "application/x-tar"
TURN_BYTES: Final = 262_144
"""Bytes of the archive that are sent before other tasks get their turn."""


class LogDirRoutes(ClusterNoun):
    """Routes that hand out log directories of one cluster."""

    @Operation("get", f"{PREFIX}/brokers/{{id}}/log-dir", media_type=TAR, refusals=("404",))
    async def log_dir(self, request: Request) -> Response:
        """A broker's log directory as a tar archive, as a clean shutdown would leave it now.

        Every file shows this moment: batches are referenced, not copied, and sent piece by piece.
        """
        broker_id = broker_id_of(request)
        now_ms = self._cluster.environment.clock.now_ms()
        steps = log_dirs.log_dir_in_steps(self._cluster, broker_id)
        while True:
            try:
                next(steps)
            except ConfigError as error:
                raise RefusedError(404, str(error)) from error
            except StopIteration as end:
                files: list[StoredFile] = end.value
                break
            await asyncio.sleep(0)
        return StreamingResponse(_archive_chunks(files, now_ms), media_type=TAR)


async def _archive_chunks(files: Sequence[StoredFile], now_ms: int) -> AsyncIterator[bytes]:
    """The archive in pieces, made in the loop's own thread, with turns for other tasks.

    Small pieces are sent together, a large one in parts. Sending by itself gives other tasks no
    turn.
    """
    gathered_bytes = bytearray()
    for archive_piece in stored_file.tar_of(files, modified_ms=now_ms):
        for slice_start in range(0, len(archive_piece), TURN_BYTES):
            gathered_bytes += archive_piece[slice_start : slice_start + TURN_BYTES]
            if len(gathered_bytes) >= TURN_BYTES:
                yield bytes(gathered_bytes)
                gathered_bytes.clear()
                await asyncio.sleep(0)
    yield bytes(gathered_bytes)
