"""Meters the requests of one broker's clients: count, duration, size and errors of each API.

Every request is metered, so each costs only a handful of additions: a duration is counted in the
bucket of its number of bits. Distributions and means are computed when metrics are scraped.
Durations are nanoseconds that the caller has measured; nothing here reads a clock. Kafka's
counterpart: RequestMetrics.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec

from txnsim.wire import codec
from txnsim.wire.error_codes import errors_of, position_of_error

BITS_MAX: Final = 64
"""Most bits of a duration in nanoseconds: enough for centuries."""


class ApiMeter:
    """Counts of the requests of one API in one version."""

    __slots__ = (
        "error_at",
        "errors",
        "remote_counts",
        "remote_ns",
        "request_bytes",
        "response_bytes",
        "total_counts",
        "total_ns",
    )

    def __init__(self, error_position: int | None) -> None:
        """Starts at zero.

        Args:
            error_position: Position of the error code in an encoded response; None if the response
                has no error at a fixed position (``api.request``).
        """
        self.error_at = error_position
        self.total_ns = 0
        self.total_counts = [0] * (BITS_MAX + 1)
        """Number of requests by the bits of their duration."""
        self.remote_ns = 0
        self.remote_counts = [0] * (BITS_MAX + 1)
        """Number of requests that waited, by the bits of their wait."""
        self.request_bytes = 0
        self.response_bytes = 0
        self.errors: dict[int, int] = {}

    def observe(
        self, total_ns: int, request_bytes: int, response_bytes: int, waited_ns: int = -1
    ) -> None:
        """Count an answered request. ``waited_ns`` is the time from the end of its handler's first
        step to the answer; -1 if the handler did not wait.
        """
        self.total_ns += total_ns
        self.total_counts[total_ns.bit_length()] += 1
        self.request_bytes += request_bytes
        self.response_bytes += response_bytes
        if waited_ns >= 0:
            self.remote_ns += waited_ns
            self.remote_counts[waited_ns.bit_length()] += 1

    def tell_error(self, error: int) -> None:
        """Count an error code of a response, or of an element of it."""
        error = int(error)
        self.errors[error] = self.errors.get(error, 0) + 1

    def tell_error_in(self, body: bytes) -> None:
        """Count the error code of an encoded response, read at ``error_at``."""
        error_index = self.error_at
        assert error_index is not None
        self.tell_error(int.from_bytes(body[error_index : error_index + 2], "big", signed=True))

    def tell_errors_of(self, message: Any) -> None:
        """Count the error codes of a response, if it has any."""
        read_errors = errors_of(message.__class__)
        if read_errors is None:
            return
        error_codes: list[int] = []
        read_errors(message, error_codes.append)
        if error_codes:
            for error, error_count in Counter(map(int, error_codes)).items():
                self.errors[error] = self.errors.get(error, 0) + error_count


NO_METER: Final = ApiMeter(None)
"""Stands for the meter of a connection that has sent no request."""


class ApiTotals(msgspec.Struct, frozen=True, kw_only=True):
    """Counts of one API, summed over its versions, for a scrape of the metrics."""

    api_key: int
    requests: dict[int, int]
    """Version -> number of requests."""
    errors: dict[int, int]
    """Error code -> number of times, without NONE."""
    total_counts: tuple[int, ...]
    """Number of requests by the bits of their duration in nanoseconds: 0, 1, 2 and so on."""
    total_ns: int
    remote_counts: tuple[int, ...]
    """Number of requests by the bits of their wait; one that did not wait counts with 0 bits."""
    remote_ns: int
    request_bytes: int
    response_bytes: int

    @property
    def local_ns(self) -> int:
        """Time outside of waits: the total time minus the remote time."""
        return self.total_ns - self.remote_ns


class RequestMeters(dict[tuple[int, int], ApiMeter]):
    """The meters of one broker since its start: (API key, version) -> meter, created at its first
    use.
    """

    def __missing__(self, api_and_version: tuple[int, int]) -> ApiMeter:
        meter = self[api_and_version] = ApiMeter(
            position_of_error(codec.response_class(*api_and_version))
        )
        return meter

    def totals(self) -> Iterator[ApiTotals]:
        """Yield the counts of each API that has had requests, by API key."""
        meters_by_key: dict[int, dict[int, ApiMeter]] = {}
        for (api_key, version), meter in sorted(self.items()):
            meters_by_key.setdefault(api_key, {})[version] = meter
        for api_key, meters_by_version in meters_by_key.items():
            totals = _totals_of(api_key, meters_by_version)
            if totals.requests:
                yield totals


def _totals_of(api_key: int, meters_by_version: dict[int, ApiMeter]) -> ApiTotals:
    request_counts = {
        version: sum(meter.total_counts) for version, meter in meters_by_version.items()
    }
    meters = list(meters_by_version.values())
    count_by_error: dict[int, int] = {}
    for meter in meters:
        for error, request_or_error_count in meter.errors.items():
            count_by_error[error] = count_by_error.get(error, 0) + request_or_error_count
    remote_counts = _column_sums(meter.remote_counts for meter in meters)
    # Requests without a wait are not counted one by one.
    remote_counts[0] += sum(request_counts.values()) - sum(remote_counts)
    return ApiTotals(
        api_key=api_key,
        requests={
            version: request_or_error_count
            for version, request_or_error_count in request_counts.items()
            if request_or_error_count
        },
        errors=count_by_error,
        total_counts=tuple(_column_sums(meter.total_counts for meter in meters)),
        total_ns=sum(meter.total_ns for meter in meters),
        remote_counts=tuple(remote_counts),
        remote_ns=sum(meter.remote_ns for meter in meters),
        request_bytes=sum(meter.request_bytes for meter in meters),
        response_bytes=sum(meter.response_bytes for meter in meters),
    )


def _column_sums(rows: Iterable[list[int]]) -> list[int]:
    """Adds up rows of the same length, column by column."""
    return [sum(column) for column in zip(*rows, strict=True)]
