"""A page trades the token of its URL for a cookie."""

from __future__ import annotations

import httpx

from tests.support.clusters import real_cluster
from txnsim.http.app import ControlApi
from txnsim.http.guard import AccessRules

TOKEN = "a-token-of-enough-letters"
SESSION = "/api/v1/session"


async def test_the_token_is_traded_for_a_cookie_that_opens_the_port() -> None:
    async with real_cluster(brokers=1) as sim:
        app = ControlApi(sim).app(AccessRules(token=TOKEN, is_loopback=False))
        async with httpx.AsyncClient(
            transport=httpx.ASGITransport(app=app), base_url="http://kafka.test:9080"
        ) as page:
            refused = await page.post(SESSION)
            assert refused.status_code == 401
            assert refused.headers["www-authenticate"] == "Bearer"
            assert "set-cookie" not in refused.headers
            answer = await page.post(SESSION, headers={"Authorization": f"Bearer {TOKEN}"})
            assert (answer.status_code, answer.content) == (204, b"")
            assert "SameSite=Strict" in answer.headers["set-cookie"]
            assert answer.headers["cache-control"] == "no-store"
            assert (await page.get("/api/v1/clock")).status_code == 200
            assert (await page.get("/openapi.json")).status_code == 200


async def test_where_no_token_is_wanted_there_is_no_cookie() -> None:
    async with real_cluster(brokers=1) as sim:
        app = ControlApi(sim).app()
        async with httpx.AsyncClient(
            transport=httpx.ASGITransport(app=app), base_url="http://localhost"
        ) as page:
            answer = await page.post(SESSION)
    assert answer.status_code == 204
    assert "set-cookie" not in answer.headers
