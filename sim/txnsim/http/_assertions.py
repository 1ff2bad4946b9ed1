"""The assertions of the Python API over the control port, for tests in other languages: which
values were committed, whether everything was written exactly once, whether a transaction hangs.

Each is one call, whose answer has the failure message of a Python test. A client reads the cluster
over the wire, so they work for a simulated cluster and for one behind a proxy.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final, Literal, TypeVar

import msgspec
from starlette.requests import Request

from txnsim.client.admin import Admin
from txnsim.client.connection import ClientSettings
from txnsim.client.errors import ClientError
from txnsim.client.inspection.survey import hanging_ones
from txnsim.client.inspection.topic_reading import SETTLE_MS, TopicReader, committed_records
from txnsim.errors import AnswerTooLargeError
from txnsim.http.operation import PREFIX, Operation, Query
from txnsim.http.replies import Body, Listing, RefusedError, WithStatus, number_of, word_of
from txnsim.http.wire_noun import WireNoun
from txnsim.on_demand_imports import OnDemand
from txnsim.runtime.loop_turns import Pace

if TYPE_CHECKING:
    from txnsim.client.inspection import complaints
    from txnsim.client.inspection.exactly_once import Value
else:
    complaints = OnDemand("txnsim.client.inspection.complaints")

SETTLE_MS_MAX: Final = 300_000
_CLIENT_ID: Final = "txnsim-assertions"
_ENCODINGS: Final = ("text", "base64")

T = TypeVar("T")


class ExactlyOnce(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Asserts that every input record is in the output exactly once, and nothing else."""

    input: str | list[str | None]
    """A topic, of which committed records count; or the expected values."""
    output: str | list[str | None]
    """A topic, as a ``read_committed`` reader sees it; or the values that were read."""
    encoding: Literal["text", "base64"] = "text"
    """Encoding of the values in the request."""
    settle_ms: int = SETTLE_MS
    """How long to wait for open transactions to end."""


class Assertion(msgspec.Struct, frozen=True, kw_only=True):
    """The result of an assertion."""

    error: str | None
    """What is wrong, for people; null if the assertion holds."""


class AssertionRoutes(WireNoun):
    """Routes that check assertions about one cluster."""

    @Operation(
        "get",
        f"{PREFIX}/topics/{{topic}}/committed",
        query=(
            Query("encoding", "Of the values: text, which is UTF-8 (the default), or base64",
                  "string"),
            Query("settle_ms", f"Wait so long for open transactions; {SETTLE_MS} unless given"),
        ),
        refusals=("404", "422", "503"),
    )  # fmt: skip
    async def committed(self, request: Request) -> Listing[str | None]:
        """The values that a ``read_committed`` reader of a topic gets, sorted by partition and
        offset.
        """
        topic = self._place_of(str(request.path_params["topic"]), 0).topic
        encoding = word_of(request, "encoding", _ENCODINGS) or _ENCODINGS[0]
        settle_ms = number_of(
            request, "settle_ms", default=SETTLE_MS, minimum=0, maximum=SETTLE_MS_MAX
        )
        pace = Pace(self._environment.tasks.turns, self._environment.clock.stopwatch_ns)
        committed_values = self._committed_values(topic, encoding, settle_ms)
        return Listing(committed_values, pace, bytes_max=self._answer_max_bytes)

    async def _committed_values(
        self, topic: str, encoding: str, settle_ms: int
    ) -> AsyncGenerator[Iterable[str | None]]:
        reader = TopicReader(run_beside_loop=self._run_beside)
        async with self._connected_admin() as admin:
            async for records in committed_records(
                admin, topic, settle_ms=settle_ms, reader=reader
            ):
                yield (
                    _encode_value(
                        record.value,
                        encoding,
                        record_place=f"{record.partition} at offset {record.offset}",
                    )
                    for record in records
                )

    @Operation(
        "post", f"{PREFIX}/assertions/exactly-once", also=("409",), refusals=("404", "422", "503")
    )
    async def exactly_once(
        self, _request: Request, body: Body[ExactlyOnce]
    ) -> WithStatus[Assertion]:
        """Whether every value of the input is in the output once, and nothing else; 409 names
        missing values, duplicates, and values of aborted input.
        """
        comparison = await body.read()
        if not 0 <= comparison.settle_ms <= SETTLE_MS_MAX:
            raise RefusedError(
                422, f"settle_ms is {comparison.settle_ms}, expected 0 to {SETTLE_MS_MAX}"
            )
        for topic in (comparison.input, comparison.output):
            if isinstance(topic, str):
                self._place_of(topic, 0)
        input_records, output_records = (
            _read_values(records_or_topic, comparison.encoding)
            for records_or_topic in (comparison.input, comparison.output)
        )
        reader = TopicReader(bytes_max=self._answer_max_bytes, run_beside_loop=self._run_beside)
        async with self._connected_admin() as admin:
            try:
                complaint = await complaints.about_exactly_once(
                    admin,
                    input_records,
                    output_records,
                    settle_ms=comparison.settle_ms,
                    reader=reader,
                )
            except AnswerTooLargeError as error:
                raise RefusedError(422, f"{error} (answer_max_bytes)") from error
        return _assertion_answer(complaint)

    @Operation(
        "get", f"{PREFIX}/assertions/no-hanging-transactions", also=("409",), refusals=("503",)
    )
    async def no_hanging_transactions(self, _request: Request) -> WithStatus[Assertion]:
        """Whether all open transactions will get a marker; 409 lists those that will not."""
        now_ms = self._environment.clock.now_ms()
        async with self._connected_admin() as admin:
            hanging_transactions = await hanging_ones(admin, now_ms=now_ms)
        return _assertion_answer(
            complaints.about_hanging(hanging_transactions, bootstrap=self._bootstrap())
        )

    async def _run_beside(self, work: Callable[[], T], /) -> T:
        """Run work on many records in a thread beside the loop, for one caller at a time."""
        unpacker = self._environment.tasks.unpacker
        await unpacker.enter()
        try:
            return await unpacker.do(work)
        finally:
            unpacker.leave()

    @asynccontextmanager
    async def _connected_admin(self) -> AsyncIterator[Admin]:
        try:
            async with self._outside(ClientSettings(client_id=_CLIENT_ID)) as client:
                yield Admin(client)
        except ClientError as error:
            raise RefusedError(
                503,
                f"the cluster did not answer: {error}; see GET {PREFIX}/brokers, and whether a "
                "fault without client_id strikes the asking",
            ) from error


def _assertion_answer(error: str | None) -> WithStatus[Assertion]:
    return WithStatus(Assertion(error=error), status=200 if error is None else 409)


def _encode_value(value: Value, encoding: str, *, record_place: str) -> str | None:
    if value is None:
        return None
    if encoding == "base64":
        return b64encode(value).decode()
    try:
        return value.decode()
    except UnicodeDecodeError as error:
        raise RefusedError(
            422, f"the value of {record_place} is no UTF-8: ask with ?encoding=base64"
        ) from error


def _read_values(records_or_topic: str | list[str | None], encoding: str) -> str | list[Value]:
    """The name of a topic, or values as bytes."""
    if isinstance(records_or_topic, str):
        return records_or_topic
    if encoding == "text":
        return [None if value is None else value.encode() for value in records_or_topic]
    try:
        return [
            None if value is None else b64decode(value, validate=True) for value in records_or_topic
        ]
    except ValueError as error:
        raise RefusedError(422, f"a value is no base64: {error}") from error
