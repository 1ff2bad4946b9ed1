"""How the control port reads requests and answers or refuses them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Iterator, Sequence
from contextlib import aclosing
from typing import Any, ClassVar, Final, Generic, TypeGuard, TypeVar

import msgspec
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from txnsim.http.messages import Problem
from txnsim.on_demand_imports import OnDemand
from txnsim.runtime.loop_turns import Pace
from txnsim.value_errors import WrongValueError, convert_value

responses: Final[Any] = OnDemand("starlette.responses")

BODY_BYTES_MAX: Final = 1_000_000
"""Limit on a request's body. A rule has a few hundred bytes; more is a mistake."""

DIGITS_MAX: Final = 18
"""Limit of digits of a number in a path, a query or a header; Python refuses thousands of digits
with an error of its own.
"""
PIECE_BYTES: Final = 262_144
"""Bytes of a long answer per piece."""
ELEMENT_BYTES: Final = 128
"""An element of this size takes some microseconds to build and encode."""
NESTED_MAX: Final = 100
"""Elements of a list within an element that are encoded in one step."""
CURSOR_MAX: Final = 2**63 - 1
"""No event has a greater position."""

_TOO_DEEP: Final = "the body is nested too deep: at most some hundred levels"

T = TypeVar("T")
S = TypeVar("S", bound=msgspec.Struct)


class RefusedError(Exception):
    """A request is refused; the reason says what to do instead."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status


def as_json(answer: object, *, status: int = 200) -> Response:
    return Response(msgspec.json.encode(answer), status_code=status, media_type="application/json")


class Listing(Generic[T]):
    """A JSON list of any length: elements are built and encoded one by one, in slices."""

    def __init__(
        self, elements: Iterable[T] | AsyncGenerator[Iterable[T]], pace: Pace, *, bytes_max: int
    ) -> None:
        """Args: elements: The elements, or chunks of them as they become available. pace: The pace
        of the request. bytes_max: Limit on the answer (``answer_max_bytes``).
        """
        self._elements = elements
        self._pace = pace
        self._bytes_max = bytes_max
        self._size = 2

    async def response(self, *, status: int) -> Response:
        """The answer.

        Raises:
            RefusedError: The answer would be too large.
        """
        answer_chunks = [bytearray(b"[")]
        if isinstance(self._elements, AsyncGenerator):
            async with aclosing(self._elements) as element_chunks:
                async for element_chunk in element_chunks:
                    await self._add_elements(element_chunk, answer_chunks)
        else:
            await self._add_elements(self._elements, answer_chunks)
        answer_chunks[-1] += b"]"
        if len(answer_chunks) == 1:
            return Response(
                bytes(answer_chunks[0]), status_code=status, media_type="application/json"
            )
        response: Response = responses.StreamingResponse(
            _release_chunks(answer_chunks), status_code=status, media_type="application/json"
        )
        return response

    async def _add_elements(self, elements: Iterable[T], answer_chunks: list[bytearray]) -> None:
        for element in elements:
            encoded = msgspec.json.encode(element)
            if len(answer_chunks[-1]) > PIECE_BYTES:
                answer_chunks.append(bytearray())
            if self._size > 2:
                answer_chunks[-1] += b","
            answer_chunks[-1] += encoded
            self._size += len(encoded) + 1
            if self._size > self._bytes_max:
                raise _too_large(self._bytes_max)
            if self._pace.has_done(1 + len(encoded) // ELEMENT_BYTES):
                await self._pace.yield_turn()


async def _release_chunks(answer_chunks: list[bytearray]) -> AsyncIterator[bytes]:
    """Send pieces one at a time, release each, and give other tasks a turn in between."""
    answer_chunks.reverse()
    while answer_chunks:
        yield bytes(answer_chunks.pop())
        await asyncio.sleep(0)


class LargeObject(Generic[S]):
    """A JSON object with long lists: it is encoded element by element, in slices, and each element
    is released once it is sent. The text as a whole never exists.
    """

    def __init__(self, value: S, pace: Pace, *, bytes_max: int) -> None:
        """Args: value: The object; the caller must keep no reference to it. pace: The pace of the
        request. bytes_max: Limit on the answer (``answer_max_bytes``).
        """
        self._parts: list[object] = list(_parts_of(value))
        """The text in reverse: bytes as they are, and values to encode."""
        self._parts.reverse()
        self._pace = pace
        self._bytes_max = bytes_max

    async def response(self, *, status: int) -> Response:
        """The answer.

        Raises:
            RefusedError: The answer would be too large.
        """
        size = 0
        for part in self._parts:
            part_size = len(_encode_part(part))
            size += part_size
            if size > self._bytes_max:
                raise _too_large(self._bytes_max)
            if self._pace.has_done(1 + part_size // ELEMENT_BYTES):
                await self._pace.yield_turn()
        if size <= PIECE_BYTES:
            text = b"".join(map(_encode_part, reversed(self._parts)))
            return Response(text, status_code=status, media_type="application/json")
        response: Response = responses.StreamingResponse(
            self._release_parts(), status_code=status, media_type="application/json"
        )
        return response

    async def _release_parts(self) -> AsyncIterator[bytes]:
        """Encode and release the parts, and give other tasks a turn after each piece."""
        piece = bytearray()
        while self._parts:
            encoded = _encode_part(self._parts.pop())
            piece += encoded
            if self._pace.has_done(1 + len(encoded) // ELEMENT_BYTES):
                await self._pace.yield_turn()
            if len(piece) > PIECE_BYTES or not self._parts:
                yield bytes(piece)
                piece.clear()
                await asyncio.sleep(0)


def _parts_of(value: msgspec.Struct, *, is_nested: bool = False) -> Iterator[object]:
    """The object's text in order. An element that has a long list itself is taken apart, too;
    elements of such a list are not.
    """
    separator = b"{"
    for field in msgspec.structs.fields(value):
        yield from (separator, field.encode_name, b":")
        separator = b","
        field_value = getattr(value, field.name)
        if not isinstance(field_value, tuple):
            yield field_value
            continue
        yield b"["
        for index, element in enumerate(field_value):
            if index:
                yield b","
            if not is_nested and _has_long_list(element):
                yield from _parts_of(element, is_nested=True)
            else:
                yield element
        yield b"]"
    yield b"}"


def _has_long_list(element: object) -> TypeGuard[msgspec.Struct]:
    if not isinstance(element, msgspec.Struct) or element.__struct_config__.omit_defaults:
        return False
    return any(
        type(field_value) is tuple and len(field_value) > NESTED_MAX
        for field_value in msgspec.structs.astuple(element)
    )


def _encode_part(part: object) -> bytes:
    return part if isinstance(part, bytes) else msgspec.json.encode(part)


def _too_large(bytes_max: int) -> RefusedError:
    return RefusedError(422, f"the answer has more than {bytes_max:,} bytes (answer_max_bytes)")


async def refusal_response(_request: Request, error: Exception) -> Response:
    """The answer to a request that is refused."""
    assert isinstance(error, RefusedError)
    return as_json(Problem(error=str(error)), status=error.status)


class WithStatus(msgspec.Struct, Generic[T], frozen=True):
    """A JSON answer with a status that depends on the case."""

    value: T
    status: int = 200


class Body(Generic[T]):
    """The body of a request, read on demand."""

    is_optional: ClassVar = False
    """Whether an empty body means all defaults; else it is refused."""

    def __init__(self, request: Request, body_type: Any) -> None:
        """Args: request: The request. kind: The type of its JSON value."""
        self._request = request
        self._kind = body_type

    async def read(self, *, elements_max: int | None = None, noun: str = "values") -> T:
        """Read and decode the body.

        Args:
            elements_max: Most elements of a list; more are refused before one is looked at.
            noun: What they are called.

        Raises:
            RefusedError: The body is too large, or invalid.
        """
        body = await _read_body(self._request)
        value: T
        try:
            if elements_max is not None and (count := _count_elements(body)) > elements_max:
                raise RefusedError(422, f"{count} {noun}, expected at most {elements_max}")
            value = self._kind() if self.is_optional and not body else _decode(body, self._kind)
        except WrongValueError as error:
            raise RefusedError(422, str(error)) from error
        except RecursionError as error:
            raise RefusedError(422, _TOO_DEEP) from error
        except (msgspec.DecodeError, ValueError) as error:
            raise RefusedError(422, f"the body is no JSON: {error}") from error
        return value


class OptionalBody(Body[T]):
    """A body that a request may leave out."""

    is_optional = True


def _count_elements(body: bytearray) -> int:
    """The number of elements if the body is a list; else 0."""
    try:
        return len(msgspec.json.decode(body, type=list[msgspec.Raw]))
    except msgspec.ValidationError:
        return 0


def _decode(body: bytearray, body_type: type[T]) -> T:
    """Decode the body; a wrong value is explained if the whole text is JSON.

    Raises:
        WrongValueError: A value is invalid.
        msgspec.DecodeError: The body is no JSON.
        ValueError: The body is no UTF-8.
    """
    try:
        return msgspec.json.decode(body, type=body_type)
    except msgspec.ValidationError:
        return convert_value(msgspec.json.decode(body), body_type)


async def no_body_of(request: Request) -> None:
    """Check the body of a request that needs none: JSON is ignored, because clients send ``{}``
    everywhere, and anything else is refused.

    Raises:
        RefusedError: The body is too large or no JSON.
    """
    headers = request.headers
    if headers.get("content-length", "0") == "0" and "transfer-encoding" not in headers:
        return
    body = await _read_body(request)
    if not body:
        return
    try:
        msgspec.json.decode(body, type=msgspec.Raw)
    except RecursionError as error:
        raise RefusedError(400, _TOO_DEEP) from error
    except (msgspec.DecodeError, ValueError) as error:
        raise RefusedError(
            400, f"no body is wanted here, and this one is no JSON: {error}"
        ) from error


async def _read_body(request: Request) -> bytearray:
    body = bytearray()
    try:
        async for chunk in request.stream():
            body += chunk
            if len(body) > BODY_BYTES_MAX:
                raise RefusedError(413, f"the body is larger than {BODY_BYTES_MAX} bytes")
    except ClientDisconnect:
        raise RefusedError(400, "the body is cut off") from None  # nobody hears it: no line either
    return body


def number_of(
    request: Request, parameter_name: str, *, default: int, minimum: int, maximum: int = CURSOR_MAX
) -> int:
    """A whole number in the query.

    Raises:
        RefusedError: It is no number, or out of bounds.
    """
    parameter_text = request.query_params.get(parameter_name)
    if parameter_text is None:
        return default
    number = digits_of(parameter_text)
    if number is None or not minimum <= number <= maximum:
        raise RefusedError(
            422,
            f"{parameter_name} is {parameter_text!r}, expected a whole number {minimum} to"
            f" {maximum}",
        )
    return number


def numbers_of(request: Request, parameter_name: str) -> list[int]:
    """All whole numbers of a parameter that may be repeated.

    Raises:
        RefusedError: One is no number.
    """
    parameter_numbers = []
    for parameter_text in request.query_params.getlist(parameter_name):
        number = digits_of(parameter_text)
        if number is None:
            raise RefusedError(
                422, f"{parameter_name} is {parameter_text!r}, expected a whole number"
            )
        parameter_numbers.append(number)
    return parameter_numbers


def digits_of(digits: str) -> int | None:
    """The number of a text that consists of digits; None if it has another character.

    Raises:
        RefusedError: It has more than ``DIGITS_MAX`` digits.
    """
    if not digits.isascii() or not digits.isdigit():
        return None
    if len(digits) > DIGITS_MAX:
        raise RefusedError(400, f"a number of {len(digits)} digits, at most {DIGITS_MAX} are read")
    return int(digits)


def word_of(request: Request, parameter_name: str, allowed_words: Sequence[str]) -> str | None:
    """A query parameter that must be one of some words; None if it is missing.

    Raises:
        RefusedError: It is another word.
    """
    parameter_text = request.query_params.get(parameter_name)
    if parameter_text is not None and parameter_text not in allowed_words:
        raise RefusedError(
            422,
            f"{parameter_name} is {parameter_text!r}, expected one of {', '.join(allowed_words)}",
        )
    return parameter_text
