"""The checks of the client matrix through a Python client: ``python -m tests.clients.python``.

``python -m tests.clients.python LIBRARY [CHECK…]`` with LIBRARY ``aiokafka``, ``confluent_kafka``
or ``kafka_python``; where the cluster is, is told by the environment (tests/clients/matrix).
"""

from __future__ import annotations

import importlib
import os
import sys
import traceback
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from tests.clients.python import groups, secured, transactions
from tests.clients.python.lab import Lab, SecuredListeners
from tests.support.console import say

CHECKS: Final[dict[str, Callable[[Lab], None]]] = {
    "produce": transactions.produce,
    "idempotent": transactions.idempotent,
    "commit": transactions.commit,
    "abort": transactions.abort,
    "read-committed": transactions.read_committed,
    "fence": transactions.fence,
    "timeout": transactions.timeout,
    "transform": groups.transform,
    "rebalance": groups.rebalance,
    "sasl": secured.sasl,
    "tls": secured.tls,
}
LIBRARIES: Final = ("aiokafka", "confluent_kafka", "kafka_python")
USAGE: Final = 2


def main(arguments: Sequence[str]) -> int:
    """Run the checks that are asked for."""
    checks = dict(CHECKS)
    library_name, *check_names = arguments or [""]
    if library_name == "kafka_python":
        from tests.clients.python.admin import admin

        checks["admin"] = admin
    unknown_names = sorted(set(check_names) - set(checks))
    if library_name not in LIBRARIES or unknown_names or "TXNSIM_BOOTSTRAP" not in os.environ:
        sys.stderr.write(f"{__doc__}\nchecks: {', '.join(checks)}\n")
        return USAGE
    chosen_checks = {check_name: checks[check_name] for check_name in check_names or checks}
    failed_count = sum(
        not _passes(library_name, check_name, check) for check_name, check in chosen_checks.items()
    )
    say(f"{len(chosen_checks) - failed_count} passed, {failed_count} failed")
    return 1 if failed_count else 0


def _passes(library_name: str, check_name: str, check: Callable[[Lab], None]) -> bool:
    try:
        check(_lab(library_name, check_name))
    except Exception as error:  # noqa: BLE001 - what a check or a library raises is its verdict
        traceback.print_exc()
        message = " ".join(str(error).split()) or "no reason given"
        reason = (
            message if isinstance(error, AssertionError) else f"{type(error).__name__}: {message}"
        )
        say(f"FAIL {check_name}: {reason}")
        return False
    say(f"PASS {check_name}")
    return True


def _lab(library_name: str, check_name: str) -> Lab:
    bootstrap = os.environ["TXNSIM_BOOTSTRAP"]
    directory = os.environ.get("TXNSIM_SECURITY_DIR")
    return Lab(
        importlib.import_module(f"tests.clients.drivers.{library_name}").Driver(bootstrap),
        bootstrap=bootstrap,
        name=f"{os.environ['TXNSIM_RUN']}-{check_name}",
        secured=None
        if directory is None
        else SecuredListeners(
            os.environ["TXNSIM_SASL_BOOTSTRAP"], os.environ["TXNSIM_TLS_BOOTSTRAP"], Path(directory)
        ),
    )


if __name__ == "__main__":
    # kafka-python reads its schemas in a way that Python is giving up.
    warnings.filterwarnings("ignore", category=DeprecationWarning)
    sys.exit(main(sys.argv[1:]))
