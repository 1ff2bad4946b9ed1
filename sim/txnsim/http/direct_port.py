"""Operations answered without a server and a router, for callers in the same process."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from txnsim.http.messages import Problem
from txnsim.http.operation import PREFIX, Noun, Responder
from txnsim.http.replies import RefusedError, as_json, refusal_response

_PARAMETER: Final = re.compile(r"\\{(\w+)\\}")


class DirectPort:
    """The operations of some nouns."""

    def __init__(self, nouns: Iterable[Noun], *, unknown_path_text: str) -> None:
        """Args: nouns: The nouns whose operations are available. unknown: The text after the path
        in the error for an unknown path.
        """
        self._unknown_path_text = unknown_path_text
        self._responders = [
            (operation.method.upper(), _pattern(operation.path), respond)
            for noun in nouns
            for operation, respond in noun.responders()
        ]

    async def answer(
        self, method: str, path: str, query: str = "", body: str = ""
    ) -> tuple[int, str, bytes]:
        """Answer a request; its path is below ``PREFIX``.

        Returns:
            Status, media type, and body.
        """
        responder_and_parameters = self._find_responder(method, PREFIX + path)
        if responder_and_parameters is None:
            answer = as_json(Problem(error=f"{path} {self._unknown_path_text}"), status=404)
        else:
            respond, parameters = responder_and_parameters
            answer = await _response_of(respond, _request(method, path, query, body, parameters))
        return answer.status_code, str(answer.media_type), bytes(answer.body)

    def _find_responder(self, method: str, path: str) -> tuple[Responder, Mapping[str, str]] | None:
        for responder_method, pattern, respond in self._responders:
            path_match = pattern.fullmatch(path)
            if responder_method == method and path_match is not None:
                return respond, path_match.groupdict()
        return None


async def _response_of(respond: Responder, request: Request) -> Response:
    try:
        return await respond(request)
    except RefusedError as error:
        return await refusal_response(request, error)
    except Exception as error:  # noqa: BLE001 - a bug is the answer to the one who asked
        return as_json(Problem(error=f"{type(error).__name__}: {error}"), status=500)


def _pattern(path: str) -> re.Pattern[str]:
    return re.compile(_PARAMETER.sub(r"(?P<\1>[^/]+)", re.escape(path)))


def _request(
    method: str, path: str, query: str, body: str, parameters: Mapping[str, str]
) -> Request:
    encoded_body = body.encode()

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": encoded_body, "more_body": False}

    length_header = (b"content-length", str(len(encoded_body)).encode())
    scope = {
        "type": "http",
        "method": method,
        "path": path,
        "query_string": query.encode(),
        "headers": [length_header],
        "path_params": dict(parameters),
    }
    return Request(scope, receive)
