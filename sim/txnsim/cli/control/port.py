"""The client of the control port: finds its address and token, sends requests, reads answers.

The address is that of ``--http``, else of ``--ready-file``, else of ``TXNSIM_HTTP``, else of
``TXNSIM_READY_FILE``, else the default port of ``txnsim serve --http``. Requests use the standard
library, so that a command needs no extra.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from typing import Any, Final
from urllib.error import HTTPError, URLError
from urllib.parse import quote, urlencode, urlsplit
from urllib.request import ProxyHandler, Request, build_opener

import msgspec

from txnsim.cli._control_token import VARIABLE as TOKEN_VARIABLE
from txnsim.cli._control_token import token_from
from txnsim.errors import ConfigError, TxnsimError
from txnsim.files import problem_of, read_given
from txnsim.text import is_host

HTTP_VARIABLE: Final = "TXNSIM_HTTP"
READY_FILE_VARIABLE: Final = "TXNSIM_READY_FILE"
URL_DEFAULT: Final = "http://127.0.0.1:9080"
PATIENCE_SECONDS: Final = 40.0
"""Longer than the default limit of the control port, 30 s."""
_ANSWER_BYTES_MAX: Final = 128 << 20
"""Largest answer that is read, in bytes; a control port sends half as much at most."""

_IN_COMMANDS: Final = {
    "GET /api/v1/faults": "`txnsim faults list`",
    "GET /api/v1/topics": "`txnsim topics list`",
    "DELETE /api/v1/faults/": "`txnsim faults disarm` ",
}
"""Request that the port's advice names -> the command that does the same."""

Json = Any
"""A JSON value as Python objects."""


class ControlPortError(TxnsimError):
    """The control port can't be reached, or refused; the message says what to do next."""


class ControlPort:
    """The control port of one simulator."""

    def __init__(self, url: str, *, token: str | None = None) -> None:
        self.url = url
        self._token = token
        # No proxy: what is asked is a simulator of this machine or of a network beside it.
        self._opener = build_opener(ProxyHandler({}))

    def get(
        self,
        *path_parts: str | int,
        form: object = Any,
        patience_s: float = PATIENCE_SECONDS,
        **parameters: object,
    ) -> Json:
        """Send a GET request without the query parameters that are None.

        Args:
            path_parts: The path below ``/api/v1``.
            form: The type that the answer must have (``_answers``).
            patience_s: How many seconds the answer may take.
            parameters: The query.

        Raises:
            ControlPortError: It refuses, it does not answer, or its answer has another form.
        """
        return self._send_request("GET", path_parts, parameters, None, patience_s, form)

    def post(
        self,
        *path_parts: str | int,
        body: object = None,
        form: object = Any,
        patience_s: float = PATIENCE_SECONDS,
        **parameters: object,
    ) -> Json:
        """Send a POST request."""
        return self._send_request("POST", path_parts, parameters, body, patience_s, form)

    def delete(self, *path_parts: str | int, form: object = Any) -> Json:
        """Send a DELETE request."""
        return self._send_request("DELETE", path_parts, {}, None, PATIENCE_SECONDS, form)

    @contextmanager
    def stream(
        self, *path_parts: str | int, patience_s: float = PATIENCE_SECONDS, **parameters: object
    ) -> Iterator[AnswerStream]:
        """Send a GET request whose answer is read as it comes. It may have any size.

        Raises:
            ControlPortError: It refuses, or it does not answer; also while the answer is read.
        """
        with self._open_answer("GET", path_parts, parameters, None, patience_s) as answer:
            yield answer

    def _send_request(
        self,
        method: str,
        path_parts: tuple[str | int, ...],
        query: Mapping[str, object],
        body: object,
        patience_s: float,
        form: object,
    ) -> Json:
        with self._open_answer(method, path_parts, query, body, patience_s) as answer:
            answer_bytes = answer.read(_ANSWER_BYTES_MAX + 1)
        if len(answer_bytes) > _ANSWER_BYTES_MAX:
            raise self._absent_error(f"more than {_ANSWER_BYTES_MAX} bytes")
        try:
            answer_value = json.loads(answer_bytes)
            msgspec.convert(answer_value, form)
        except (ValueError, msgspec.ValidationError, RecursionError) as error:
            raise ControlPortError(
                f"{self.url} answers {method} /api/v1/{_quoted(path_parts)} with something else:"
                f" {error}; is it a control port of txnsim?"
            ) from None
        return answer_value

    @contextmanager
    def _open_answer(
        self,
        method: str,
        path_parts: tuple[str | int, ...],
        query: Mapping[str, object],
        body: object,
        patience_s: float,
    ) -> Iterator[AnswerStream]:
        parameters = {name: value for name, value in query.items() if value is not None}
        query_text = urlencode(parameters, doseq=True)
        address = f"{self.url}/api/v1/{_quoted(path_parts)}{'?' if parameters else ''}{query_text}"
        body_bytes = None if body is None else json.dumps(body).encode()
        request = Request(address, data=body_bytes, method=method)
        if self._token is not None:
            request.add_header("Authorization", f"Bearer {self._token}")
        with self._as_control_port_error(patience_s):
            response = self._opener.open(request, timeout=patience_s)
        assert isinstance(response, HTTPResponse)  # what an address of HTTP is answered with
        with response:
            yield AnswerStream(self, response, patience_s)

    @contextmanager
    def _as_control_port_error(self, patience_s: float) -> Iterator[None]:
        """Raise a ControlPortError for all that goes wrong between us and the control port."""
        try:
            yield
        except HTTPError as error:
            raise self._refusal_of(error) from None
        except URLError as error:
            raise self._absent_error(error.reason) from None
        except TimeoutError:
            raise ControlPortError(
                f"{self.url}: no answer within {patience_s:g} s; it may still be at work: ask again"
            ) from None
        except (OSError, HTTPException) as error:
            raise self._absent_error(error) from None

    def _refusal_of(self, error: HTTPError) -> ControlPortError:
        if error.code == 401:
            token_complaint = "wants another token" if self._token else "wants a token"
            return ControlPortError(
                f"{self.url} {token_complaint}: set {TOKEN_VARIABLE} or --token to what"
                f" `txnsim serve` has "
                "printed, or name its ready file with --ready-file"
            )
        try:
            reason = str(json.loads(_read_refusal(error))["error"])
        except (ValueError, KeyError, TypeError, RecursionError):
            return ControlPortError(
                f"{self.url} answers {error.code} {error.reason}: is it a control port of txnsim?"
            )
        for their_word, command_word in _IN_COMMANDS.items():
            reason = reason.replace(their_word, command_word)
        return ControlPortError(reason)

    def _absent_error(self, reason: object) -> ControlPortError:
        cause_text = problem_of(reason) if isinstance(reason, Exception) else reason
        return ControlPortError(
            f"no control port answers at {self.url} ({cause_text}): start one with `txnsim serve "
            f"--http`, or say where it is with --http, {HTTP_VARIABLE} or --ready-file"
        )


class AnswerStream:
    """The bytes of an answer, read as they come."""

    def __init__(
        self, control_port: ControlPort, response: HTTPResponse, patience_s: float
    ) -> None:
        self._port = control_port
        self._response = response
        self._patience_s = patience_s

    def read(self, size: int) -> bytes:
        """Read at most so many bytes; none at the end.

        Raises:
            ControlPortError: The answer does not go on.
        """
        with self._port._as_control_port_error(self._patience_s):
            return self._response.read(size)


def _quoted(path_parts: tuple[str | int, ...]) -> str:
    return "/".join(quote(str(path_part), safe="") for path_part in path_parts)


def _read_refusal(error: HTTPError) -> str:
    """Read the text of a refusal, as far as it comes. The status has been answered by then: what
    goes wrong now leaves the refusal what it is. (A program that closes its socket before it has
    read the whole request resets the connection, and the rest of its answer is lost.)
    """
    assert isinstance(error.fp, HTTPResponse)  # what an address of HTTP is answered with
    refusal_bytes = bytearray()
    with suppress(OSError, HTTPException):  # what has come by then is the text
        while len(refusal_bytes) < _ANSWER_BYTES_MAX and (piece := error.fp.read1(1 << 16)):
            refusal_bytes += piece
    return refusal_bytes.decode(errors="replace")


# Where it is


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options that locate the control port, and ``--json``."""
    group = parser.add_argument_group("the control port")
    group.add_argument(
        "--http",
        metavar="URL",
        help=f"where it is: http://HOST:PORT, HOST:PORT or PORT (default: {HTTP_VARIABLE}, else "
        f"the ready file, else {URL_DEFAULT})",
    )
    group.add_argument(
        "--ready-file",
        type=Path,
        metavar="FILE",
        help=f"the ready file of `txnsim serve`, which has address and token (default: "
        f"{READY_FILE_VARIABLE})",
    )
    group.add_argument(
        "--token",
        help=f"the token that it wants; {TOKEN_VARIABLE} keeps it out of the list of processes",
    )
    parser.add_argument("--json", action="store_true", help="the answer as JSON")


def port_of(
    args: argparse.Namespace, process_variables: Mapping[str, str] | None = None
) -> ControlPort:
    """The control port that the arguments name, or else the environment.

    Raises:
        ConfigError: An address, a token or a ready file is wrong.
        ControlPortError: The ready file does not exist, or its process has no control port.
    """
    process_variables = os.environ if process_variables is None else process_variables
    token = args.token or token_from(process_variables)
    url = process_variables.get(HTTP_VARIABLE)
    ready_path = args.ready_file or _path(process_variables.get(READY_FILE_VARIABLE))
    if args.http is not None:
        return ControlPort(_checked_url("--http", args.http), token=token)
    if url and args.ready_file is None:
        return ControlPort(_checked_url(HTTP_VARIABLE, url), token=token)
    if ready_path is not None:
        ready_facts = _read_ready_file(ready_path)
        return ControlPort(
            str(ready_facts["http"]).rstrip("/"), token=token or ready_facts.get("token")
        )
    return ControlPort(URL_DEFAULT, token=token)


def _path(path_text: str | None) -> Path | None:
    return Path(path_text) if path_text else None


def _checked_url(source_name: str, url_text: str) -> str:
    """Complete an address to a URL."""
    url = url_text
    if url_text.isdigit():
        url = f"http://127.0.0.1:{url_text}"
    elif "://" not in url_text:
        url = f"http://{url_text}"
    try:
        url_parts = urlsplit(url)
        is_valid = (
            url_parts.scheme in ("http", "https")
            and is_host(url_parts.hostname or "")
            and url_parts.port != 0
        )
    except ValueError:  # a port that is no number, or no port's number
        is_valid = False
    if not is_valid or url_parts.path.strip("/") or url_parts.query:
        raise ConfigError(
            f"{source_name} {url_text}: expected http://HOST:PORT, HOST:PORT or PORT, as in"
            f" {URL_DEFAULT}"
        )
    return url.rstrip("/")


def _read_ready_file(ready_path: Path) -> dict[str, Any]:
    try:
        file_facts = json.loads(read_given(ready_path))
    except FileNotFoundError:
        raise ControlPortError(
            f"{ready_path}: there is no such file: `txnsim serve --http --ready-file"
            f" {ready_path}` writes it "
            "once it is up"
        ) from None
    except OSError as error:
        raise ConfigError(f"{ready_path}: {problem_of(error)}") from None
    except (ValueError, RecursionError):
        file_facts = None
    if not isinstance(file_facts, dict) or "bootstrap" not in file_facts:
        raise ConfigError(f"{ready_path}: it is no ready file of `txnsim serve`")
    if file_facts.get("http") is None:
        raise ControlPortError(
            f"{ready_path}: that cluster has no control port: start it with `txnsim serve --http`"
        )
    return file_facts
