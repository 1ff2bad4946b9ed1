"""Kafka Streams, ``exactly_once_v2``, with a standby: counts are exact whatever happens.

Two instances count words on three simulated brokers, through a repartition topic and a changelog.
In each run one instance is killed in the middle of a transaction, coordinators and leaders move, a
marker is late while they do, and a transaction times out at its coordinator. A reader of committed
records must see 1, 2, 3 … of each word::

    python -m tests.clients.streams.exactly_once --times 10 --protocol both

With ``--stores`` state stores are transactional (KIP-892). Exit status 1 where a count is wrong.
"""

from __future__ import annotations

import argparse
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final

from tests.clients.streams.application import ApplicationError
from tests.clients.streams.clusters import BROKERS
from tests.clients.streams.control import ControlError
from tests.clients.streams.lab import (
    APPLICATION_ID,
    OUTPUT,
    POSITIONS,
    ROUNDS,
    TRANSACTIONS,
    Lab,
    LabError,
)
from tests.support.console import say
from tests.support.foreign_clients import ForeignClientError
from tests.support.txnsim_server import TxnsimServerError

_PROTOCOLS: Final = {
    "both": ("classic", "streams"),
    "classic": ("classic",),
    "streams": ("streams",),
}
_STORES: Final[Mapping[str, str]] = {"enable.transactional.statestores": "true"}
_HELD: Final = "held"
_STRIKES_WITHIN_MS: Final = 60_000
_TIMEOUT_MS: Final = 15_000
"""Of a transaction (``lab``)."""
_AGAIN_S: Final = 0.05
_PATIENCE_S: Final = 60.0
_FAILURES: Final = (
    ApplicationError,
    ControlError,
    ForeignClientError,
    LabError,
    TxnsimServerError,
)


class TroubledApplication:
    """Plays troubles against an application that counts words."""

    def __init__(self, lab: Lab) -> None:
        self._lab = lab
        self._control = lab.control

    def play_all(self) -> None:
        """Play all troubles; after each one every input must have exactly one output."""
        steps: Sequence[Callable[[], None]] = (
            self.an_instance_dies,
            self.leaders_move_while_a_marker_is_late,
            self.a_transaction_times_out,
        )
        for step in steps:
            step()
            self._lab.settle()

    def an_instance_dies(self) -> None:
        """Kill an instance that has written uncommitted words; its standby takes over."""
        dying_application = self._lab.applications["a"]
        with (
            self._lab.feeding(),
            self._hold_request("EndTxn", client_id=dying_application.producer_client_id),
        ):
            dying_application.kill()
        self._lab.feed(ROUNDS)
        dying_application.start()

    def leaders_move_while_a_marker_is_late(self) -> None:
        """Both coordinators and the leaders of all that the application writes go elsewhere while
        the markers of a commit are on their way.
        """
        application = self._lab.applications["b"]
        producer = int(self._lab.describe(application.transactional_id)["producer_id"])
        with (
            self._lab.feeding(),
            self._hold_request("WriteTxnMarkers", point_name="peer.request", producer_id=producer),
        ):
            for partition in self._control.partitions():
                if partition.topic in _MOVED_TOPICS:
                    target_broker_id = next(
                        broker for broker in BROKERS if broker != partition.leader
                    )
                    self._control.move_leader(
                        partition.topic, partition.partition, target_broker_id
                    )
        self._lab.settle()
        self._lab.lead_as_preferred()

    def a_transaction_times_out(self) -> None:
        """The end of a transaction arrives after its timeout: it has been aborted by then. A real
        broker answers INVALID_TXN_STATE then, and the thread ends; another one goes on.
        """
        application = self._lab.applications["b"]
        transactional_id = application.transactional_id
        epoch = self._lab.describe(transactional_id)["producer_epoch"]
        with (
            self._lab.feeding(),
            self._hold_request("EndTxn", client_id=application.producer_client_id),
        ):
            self._control.advance(_TIMEOUT_MS + 1_000)
            self._await(
                "the transaction has timed out",
                lambda: self._lab.describe(transactional_id)["producer_epoch"] != epoch,
            )

    @contextmanager
    def _hold_request(
        self, api: str, *, point_name: str = "client.request", **filters: object
    ) -> Iterator[None]:
        """Hold a request, and go on when one is held."""
        rule = {"id": _HELD, "point": point_name, "api": api, "action": {"do": "hold"}, **filters}
        self._control.arm(rule)
        if not self._control.has_struck(_HELD, timeout_ms=_STRIKES_WITHIN_MS):
            raise LabError(f"no {api} to be held: {self._lab.transactions()}")
        yield
        self._control.disarm(_HELD)

    def _await(self, condition_text: str, is_met: Callable[[], bool]) -> None:
        deadline_s = time.monotonic() + _PATIENCE_S
        while not is_met():
            if time.monotonic() > deadline_s:
                raise LabError(f"not so after {_PATIENCE_S:.0f} s: {condition_text}")
            time.sleep(_AGAIN_S)


_MOVED_TOPICS: Final = frozenset(
    {
        TRANSACTIONS,
        POSITIONS,
        OUTPUT,
        f"{APPLICATION_ID}-by-word-repartition",
        f"{APPLICATION_ID}-counts-changelog",
    }
)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.clients.streams.exactly_once",
        description="Kafka Streams with a standby, through all that may happen.",
    )
    parser.add_argument("--protocol", choices=tuple(_PROTOCOLS), default="both")
    parser.add_argument("--times", type=int, default=1)
    parser.add_argument("--stores", action="store_true", help="state stores are transactional")
    options = parser.parse_args(argv)
    signal.signal(signal.SIGTERM, lambda _signal, _frame: sys.exit(128 + signal.SIGTERM))
    passed_count = failed_count = 0
    for time_number in range(1, options.times + 1):
        for protocol in _PROTOCOLS[options.protocol]:
            begun_s = time.monotonic()
            problems = _run(protocol, seed=time_number, with_stores=options.stores)
            passed_count, failed_count = (
                passed_count + (not problems),
                failed_count + bool(problems),
            )
            duration = f"{time.monotonic() - begun_s:.0f} s"
            say(f"{'FAIL' if problems else 'PASS'} {protocol}, time {time_number} ({duration})")
            for problem_text in problems:
                say("  " + " ⏎ ".join(problem_text.splitlines()))
    say(f"{passed_count} passed, {failed_count} failed")
    return 1 if failed_count else 0


def _run(protocol: str, *, seed: int, with_stores: bool) -> list[str]:
    """Run all troubles once; return the complaints."""
    settings = _STORES if with_stores else {}
    try:
        with Lab(
            transaction_version=2,
            seed=seed,
            protocol=protocol,
            standby_count=1,
            settings=settings,
            replaces_threads=True,
        ) as lab:
            TroubledApplication(lab).play_all()
            return lab.judge()
    except _FAILURES as failure:
        return [f"{type(failure).__name__}: {failure}"]


if __name__ == "__main__":
    sys.exit(main())
