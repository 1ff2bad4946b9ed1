"""Operations that are answered without a server: by path and method, refused in the same words."""

from __future__ import annotations

import msgspec
import pytest
from starlette.requests import Request

from txnsim.http.direct_port import DirectPort
from txnsim.http.operation import PREFIX, Noun, Operation
from txnsim.http.replies import Body, RefusedError


class Sum(msgspec.Struct):
    terms: list[int]


class Sums(Noun):
    @Operation("get", f"{PREFIX}/sums/{{name}}")
    async def named(self, request: Request) -> dict[str, str]:
        """Return the name in the path and a parameter of the query."""
        return {"name": str(request.path_params["name"]), "of": request.query_params["of"]}

    @Operation("post", f"{PREFIX}/sums")
    async def add(self, _request: Request, body: Body[Sum]) -> int:
        """Return the sum of the body's terms, divided by the least of them."""
        terms = (await body.read()).terms
        if not terms:
            raise RefusedError(422, "nothing to add")
        return sum(terms) // min(terms)


@pytest.mark.parametrize(
    ("method", "path", "query", "body", "status", "answer"),
    [
        ("GET", "/sums/a", "of=b", "", 200, {"name": "a", "of": "b"}),
        ("POST", "/sums", "", '{"terms": [2, 4]}', 200, 3),
        ("POST", "/sums", "", '{"terms": []}', 422, {"error": "nothing to add"}),
        ("POST", "/sums", "", '{"terms": [0]}', 500, None),
        ("DELETE", "/sums", "", "", 404, {"error": "/sums is unknown"}),
        ("GET", "/other", "", "", 404, {"error": "/other is unknown"}),
    ],
)
async def test_it_answers_as_over_http(
    method: str, path: str, query: str, body: str, status: int, answer: object
) -> None:
    port = DirectPort([Sums()], unknown_path_text="is unknown")
    answer_status, media_type, content = await port.answer(method, path, query, body)
    assert (answer_status, media_type) == (status, "application/json")
    assert answer is None or msgspec.json.decode(content) == answer
