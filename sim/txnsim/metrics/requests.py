"""What the clients of one broker ask: how often, how long it takes, how large it is, what fails.

Every request passes here, so each costs only a handful of additions: a time falls into the
bucket of its number of bits, and only who scrapes makes distributions of them, and means of sums.
Times are nanoseconds of one stopwatch that the caller has read; nothing here has a clock. Kafka's
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
"""Bits of a time: nanoseconds of centuries."""


class ApiMeter:
    """One API in one version."""

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

    def __init__(self, error_at: int | None) -> None:
        """A meter that has seen nothing.

        Args:
            error_at: Where an answer that was encoded before has its error. Those that have it
                elsewhere tell of none (``api.request``).
        """
        self.error_at = error_at
        self.total_ns = 0
        self.total_counts = [0] * (BITS_MAX + 1)
        """How many requests took a time of so many bits."""
        self.remote_ns = 0
        self.remote_counts = [0] * (BITS_MAX + 1)
        """Histogram of remote times, of the requests that waited."""
        self.request_bytes = 0
        self.response_bytes = 0
        self.errors: dict[int, int] = {}

    def observe(
        self, total_ns: int, request_bytes: int, response_bytes: int, waited_ns: int = -1
    ) -> None:
        """A request has been answered; ``waited_ns`` is how long it waited for something after its
        handler's first step, if it did.
        """
        self.total_ns += total_ns
        self.total_counts[total_ns.bit_length()] += 1
        self.request_bytes += request_bytes
        self.response_bytes += response_bytes
        if waited_ns >= 0:
            self.remote_ns += waited_ns
            self.remote_counts[waited_ns.bit_length()] += 1

    def tell_error(self, error: int) -> None:
        """Count this error of an answer, or of an element of it."""
        error = int(error)
        self.errors[error] = self.errors.get(error, 0) + 1

    def tell_error_in(self, body: bytes) -> None:
        """Count the error of an answer that was encoded before."""
        error_index = self.error_at
        assert error_index is not None
        self.tell_error(int.from_bytes(body[error_index : error_index + 2], "big", signed=True))

    def tell_errors_of(self, message: Any) -> None:
        """Count the errors of an answer, if any."""
        tell = errors_of(message.__class__)
        if tell is None:
            return
        error_codes: list[int] = []
        tell(message, error_codes.append)
        if error_codes:
            for error, count in Counter(map(int, error_codes)).items():
                self.errors[error] = self.errors.get(error, 0) + count


NO_METER: Final = ApiMeter(None)
"""The meter of a connection without requests."""


class ApiTotals(msgspec.Struct, frozen=True, kw_only=True):
    """One API over its versions, for who scrapes."""

    api_key: int
    requests: dict[int, int]
    """By version."""
    errors: dict[int, int]
    """By error code, NONE left out."""
    total_counts: tuple[int, ...]
    """How many requests took a time of 0, 1, 2 … bits of nanoseconds."""
    total_ns: int
    remote_counts: tuple[int, ...]
    """Requests that did not wait are among them, with 0."""
    remote_ns: int
    request_bytes: int
    response_bytes: int

    @property
    def local_ns(self) -> int:
        """The rest of the whole time: handlers' first steps."""
        return self.total_ns - self.remote_ns


class RequestMeters(dict[tuple[int, int], ApiMeter]):
    """All APIs of one broker, in one life of it: a meter by API key and version, made when it is
    asked for.
    """

    def __missing__(self, api: tuple[int, int]) -> ApiMeter:
        meter = self[api] = ApiMeter(position_of_error(codec.response_class(*api)))
        return meter

    def totals(self) -> Iterator[ApiTotals]:
        """The counts of each API, by its key."""
        by_key: dict[int, dict[int, ApiMeter]] = {}
        for (api_key, version), meter in sorted(self.items()):
            by_key.setdefault(api_key, {})[version] = meter
        for api_key, versions in by_key.items():
            totals = _totals_of(api_key, versions)
            if totals.requests:
                yield totals


def _totals_of(api_key: int, versions: dict[int, ApiMeter]) -> ApiTotals:
    requests = {version: sum(meter.total_counts) for version, meter in versions.items()}
    meters = list(versions.values())
    errors: dict[int, int] = {}
    for meter in meters:
        for error, count in meter.errors.items():
            errors[error] = errors.get(error, 0) + count
    remote = _columns(meter.remote_counts for meter in meters)
    # Requests without a wait are not counted one by one.
    remote[0] += sum(requests.values()) - sum(remote)
    return ApiTotals(
        api_key=api_key,
        requests={version: count for version, count in requests.items() if count},
        errors=errors,
        total_counts=tuple(_columns(meter.total_counts for meter in meters)),
        total_ns=sum(meter.total_ns for meter in meters),
        remote_counts=tuple(remote),
        remote_ns=sum(meter.remote_ns for meter in meters),
        request_bytes=sum(meter.request_bytes for meter in meters),
        response_bytes=sum(meter.response_bytes for meter in meters),
    )


def _columns(rows: Iterable[list[int]]) -> list[int]:
    """Sums over rows of the same length."""
    return [sum(column) for column in zip(*rows, strict=True)]
