"""The login of the control port's pages in a browser: a page exchanges the token for a cookie.

The URL of a page carries the token behind ``#``, where it reaches no server and no log. The page
sends it once, as any client does, and gets a cookie that no script reads and no other site sends.
"""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from txnsim.http._guard import AccessRules
from txnsim.http.operation import PREFIX, Noun, Operation


class PageLoginRoutes(Noun):
    """The route by which a page logs in at one control port."""

    def __init__(self, access_rules: AccessRules) -> None:
        self._access_rules = access_rules

    @Operation("post", f"{PREFIX}/session", status="204")
    async def session(self, _request: Request) -> Response:
        """Exchange the token for a cookie (SameSite=Strict, HttpOnly), for a page in a browser.

        Without a required token there is no cookie. The guard has already accepted the caller.
        """
        cookie = self._access_rules.cookie
        return Response(
            status_code=204,
            headers={"Cache-Control": "no-store"}
            | ({} if cookie is None else {"Set-Cookie": cookie}),
        )
