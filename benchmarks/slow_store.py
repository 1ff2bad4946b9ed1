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
_MODIFIED_AT: Final = "2023-11-14T22:13:20.000Z"


class SlowBucket:
    """The files below a directory, as they were when it was made."""

    def __init__(self, directory: Path, delay_s: float) -> None:
        self._directory, self._delay_s = directory, delay_s
        file_paths = (path for path in directory.rglob("*") if path.is_file())
        self._size_by_key = {
            str(path.relative_to(directory)): path.stat().st_size for path in file_paths
        }
        self._keys = sorted(self._size_by_key)

    async def list_objects(self, request: Request) -> Response:
        """ListObjectsV2; folders as common prefixes where a delimiter is asked for."""
        await asyncio.sleep(self._delay_s)
        query_params = request.query_params
        prefix, delimiter = query_params.get("prefix", ""), query_params.get("delimiter", "")
        start_after = (
            query_params.get("continuation-token") or query_params.get("start-after") or ""
        )
        is_folder_by_entry: dict[str, bool] = {}
        last_entry_name = ""
        for key in self._keys[bisect_left(self._keys, max(prefix, start_after)) :]:
            if not key.startswith(prefix):
                break
            if key == start_after or (start_after.endswith("/") and key.startswith(start_after)):
                continue  # told by the answer before
            if len(is_folder_by_entry) == KEYS_MAX:
                return _listing_response(
                    prefix, is_folder_by_entry, self._size_by_key, next_token=last_entry_name
                )
            key_suffix = key[len(prefix) :]
            is_in_folder = bool(delimiter) and delimiter in key_suffix
            last_entry_name = (
                prefix + key_suffix.split(delimiter)[0] + delimiter if is_in_folder else key
            )
            is_folder_by_entry[last_entry_name] = is_in_folder
        return _listing_response(prefix, is_folder_by_entry, self._size_by_key, next_token="")

    async def get_object(self, request: Request) -> Response:
        """Answer GetObject, with or without a range, and HeadObject."""
        await asyncio.sleep(self._delay_s)
        key = request.path_params["key"]
        if key not in self._size_by_key:
            return Response("<Error><Code>NoSuchKey</Code></Error>", 404)
        object_size = self._size_by_key[key]
        headers = {
            "ETag": f'"{object_size}"',
            "Last-Modified": formatdate(_MODIFIED_S, usegmt=True),
            "Accept-Ranges": "bytes",
        }
        if request.method == "HEAD":
            return Response(headers=headers | {"Content-Length": str(object_size)})
        object_content = (self._directory / key).read_bytes()
        range_header = request.headers.get("range")
        if range_header is None:
            return Response(object_content, headers=headers)
        first_byte, _, last_byte = range_header.removeprefix("bytes=").partition("-")
        start_position = int(first_byte) if first_byte else max(object_size - int(last_byte), 0)
        range_content = object_content[
            start_position : int(last_byte) + 1 if first_byte and last_byte else object_size
        ]
        headers["Content-Range"] = (
            f"bytes {start_position}-{start_position + len(range_content) - 1}/{object_size}"
        )
        return Response(range_content, 206, headers=headers)


def _listing_response(
    prefix: str,
    is_folder_by_entry: dict[str, bool],
    size_by_key: dict[str, int],
    *,
    next_token: str,
) -> Response:
    entry_elements = [
        f"<CommonPrefixes><Prefix>{escape(entry_name)}</Prefix></CommonPrefixes>"
        if is_folder
        else f"<Contents><Key>{escape(entry_name)}</Key><LastModified>{_MODIFIED_AT}</LastModified>"
        f'<ETag>"{size_by_key[entry_name]}"</ETag><Size>{size_by_key[entry_name]}</Size></Contents>'
        for entry_name, is_folder in is_folder_by_entry.items()
    ]
    token_element = (
        f"<NextContinuationToken>{escape(next_token)}</NextContinuationToken>" if next_token else ""
    )
    listing_xml = (
        f"<ListBucketResult><Name>{BUCKET}</Name><Prefix>{escape(prefix)}</Prefix>"
        f"<KeyCount>{len(is_folder_by_entry)}</KeyCount><MaxKeys>{KEYS_MAX}</MaxKeys>"
        f"<IsTruncated>{'true' if next_token else 'false'}</IsTruncated>{token_element}"
        f"{''.join(entry_elements)}</ListBucketResult>"
    )
    return Response(listing_xml, media_type="application/xml")


def _serve(directory: str, port: str, delay_s: str) -> None:
    bucket = SlowBucket(Path(directory), float(delay_s))
    routes = [
        Route(f"/{BUCKET}", bucket.list_objects),
        Route(f"/{BUCKET}/{{key:path}}", bucket.get_object),
    ]
    uvicorn.run(Starlette(routes=routes), host=HOST, port=int(port), log_level="warning")


if __name__ == "__main__":
    _serve(*sys.argv[1:])
