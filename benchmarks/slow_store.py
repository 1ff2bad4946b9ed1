"""An S3 server for one directory that takes some time for each request, as a store far away does.
Each file is an object of the bucket ``logs``. It lists objects (ListObjectsV2) and gets ranges of
them; everybody may.
"""

from __future__ import annotations

import asyncio
import sys
from bisect import bisect_left
from email.utils import formatdate
from pathlib import Path
from typing import Final
from xml.sax.saxutils import escape

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

HOST: Final = "127.0.0.1"
BUCKET: Final = "logs"
KEYS_MAX: Final = 1_000
"""Of one answer, as in S3."""
_MODIFIED_S: Final = 1_700_000_000
_SINCE: Final = "2023-11-14T22:13:20.000Z"


class Bucket:
    """The files below a directory, as they were when it was made."""

    def __init__(self, directory: Path, delay_s: float) -> None:
        self._directory, self._delay_s = directory, delay_s
        files = (path for path in directory.rglob("*") if path.is_file())
        self._sizes = {str(path.relative_to(directory)): path.stat().st_size for path in files}
        self._keys = sorted(self._sizes)

    async def listed(self, request: Request) -> Response:
        """ListObjectsV2; folders as common prefixes where a delimiter is asked for."""
        await asyncio.sleep(self._delay_s)
        asked = request.query_params
        prefix, delimiter = asked.get("prefix", ""), asked.get("delimiter", "")
        after = asked.get("continuation-token") or asked.get("start-after") or ""
        found: dict[str, bool] = {}
        last = ""
        for key in self._keys[bisect_left(self._keys, max(prefix, after)) :]:
            if not key.startswith(prefix):
                break
            if key == after or (after.endswith("/") and key.startswith(after)):
                continue  # told by the answer before
            if len(found) == KEYS_MAX:
                return _listing(prefix, found, self._sizes, more=last)
            rest = key[len(prefix) :]
            is_deep = bool(delimiter) and delimiter in rest
            last = prefix + rest.split(delimiter)[0] + delimiter if is_deep else key
            found[last] = is_deep
        return _listing(prefix, found, self._sizes, more="")

    async def got(self, request: Request) -> Response:
        """GetObject, or a range of it; HeadObject."""
        await asyncio.sleep(self._delay_s)
        key = request.path_params["key"]
        if key not in self._sizes:
            return Response("<Error><Code>NoSuchKey</Code></Error>", 404)
        size = self._sizes[key]
        headers = {
            "ETag": f'"{size}"',
            "Last-Modified": formatdate(_MODIFIED_S, usegmt=True),
            "Accept-Ranges": "bytes",
        }
        if request.method == "HEAD":
            return Response(headers=headers | {"Content-Length": str(size)})
        data = (self._directory / key).read_bytes()
        ranged = request.headers.get("range")
        if ranged is None:
            return Response(data, headers=headers)
        first, _, last = ranged.removeprefix("bytes=").partition("-")
        start = int(first) if first else max(size - int(last), 0)
        part = data[start : int(last) + 1 if first and last else size]
        headers["Content-Range"] = f"bytes {start}-{start + len(part) - 1}/{size}"
        return Response(part, 206, headers=headers)


def _listing(prefix: str, found: dict[str, bool], sizes: dict[str, int], *, more: str) -> Response:
    parts = [
        f"<CommonPrefixes><Prefix>{escape(name)}</Prefix></CommonPrefixes>"
        if is_folder
        else f"<Contents><Key>{escape(name)}</Key><LastModified>{_SINCE}</LastModified>"
        f'<ETag>"{sizes[name]}"</ETag><Size>{sizes[name]}</Size></Contents>'
        for name, is_folder in found.items()
    ]
    token = f"<NextContinuationToken>{escape(more)}</NextContinuationToken>" if more else ""
    body = (
        f"<ListBucketResult><Name>{BUCKET}</Name><Prefix>{escape(prefix)}</Prefix>"
        f"<KeyCount>{len(found)}</KeyCount><MaxKeys>{KEYS_MAX}</MaxKeys>"
        f"<IsTruncated>{'true' if more else 'false'}</IsTruncated>{token}{''.join(parts)}"
        "</ListBucketResult>"
    )
    return Response(body, media_type="application/xml")


def _serve(directory: str, port: str, delay_s: str) -> None:
    bucket = Bucket(Path(directory), float(delay_s))
    routes = [
        Route(f"/{BUCKET}", bucket.listed),
        Route(f"/{BUCKET}/{{key:path}}", bucket.got),
    ]
    uvicorn.run(Starlette(routes=routes), host=HOST, port=int(port), log_level="warning")


if __name__ == "__main__":
    _serve(*sys.argv[1:])
