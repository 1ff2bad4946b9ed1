"""The page at ``/``: static files, read once, with a policy that allows no other files.

The files hold no data of a cluster, so they need no token. What the page shows comes from the
operations, which need one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from txnsim.http.replies import RefusedError
from txnsim_lab.http.page._files import MEDIA_TYPES, served_files, version

FOLDER: Final = "/ui"
POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; font-src 'self';"
    " connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""The Content-Security-Policy: only files of the page are allowed."""


class StaticRoutes:
    """The routes of the page's files."""

    def __init__(self, warm_up: Callable[[], object] = lambda: None) -> None:
        """Args:
        warm_up: Has what driven runs need made ready: who opens the page may play one.
        """
        self._warm_up = warm_up

    def routes(self) -> list[Route]:
        """The routes of the page and of the files that it loads."""
        return [Route("/", self.index), Route(f"{FOLDER}/{{path:path}}", self.file)]

    async def index(self, _request: Request) -> Response:
        """The page."""
        self._warm_up()
        return _file_response("index.html", served_files()["index.html"], may_be_cached=False)

    async def file(self, request: Request) -> Response:
        """A file of the page."""
        file_path = str(request.path_params["path"])
        file_content = served_files().get(file_path)
        if file_content is None:
            raise RefusedError(404, f"the page has no file {file_path!r}")
        return _file_response(
            file_path,
            file_content,
            may_be_cached=request.query_params.get("v") == version(file_content),
        )


def _file_response(file_path: str, file_content: bytes, *, may_be_cached: bool) -> Response:
    return Response(
        file_content,
        media_type=MEDIA_TYPES[file_path.rpartition(".")[2]],
        headers={
            "Content-Security-Policy": POLICY,
            "X-Content-Type-Options": "nosniff",
            "Referrer-Policy": "no-referrer",
            "Cache-Control": "max-age=31536000, immutable" if may_be_cached else "no-cache",
        },
    )
