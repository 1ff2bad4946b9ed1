"""Schemathesis asks a server of its own whatever the OpenAPI document allows, and what it forbids.

``pip install --group schemathesis``, then ``python -m tests.lab.control_port.schemathesis
[--examples N]``. Its exit status is that of Schemathesis: 0 where every answer is as the document
says.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tests.support.txnsim_server import TxnsimServer
from txnsim.http._events import EventRoutes

EXAMPLES: Final = 10
_CONFIG: Final = Path(__file__).with_name("schemathesis.toml")
_PHASES: Final = "examples,coverage,fuzzing,stateful"


def main(argv: Sequence[str] | None = None) -> int:
    """Test every operation of the control port; return 0 if no test fails."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.lab.control_port.schemathesis", description=__doc__
    )
    parser.add_argument(
        "--examples", type=int, default=EXAMPLES, metavar="N", help="for each operation and phase"
    )
    parser.add_argument("--phases", default=_PHASES, help=f"of Schemathesis (default {_PHASES})")
    options = parser.parse_args(argv)
    arguments = ("--brokers", "1", "--topic", "orders:1", "--http", "0")
    # It keeps notes where it runs.
    with tempfile.TemporaryDirectory() as notes, TxnsimServer(arguments=arguments) as server:
        command = (
            *(sys.executable, "-m", "schemathesis.cli", "--config-file", str(_CONFIG), "run"),
            *(f"{server.http}/openapi.json", "--no-color", "--generation-deterministic"),
            *("--max-examples", str(options.examples), "--phases", options.phases),
            # An answer without an end. Schemathesis can stop reading Server-Sent Events alone.
            *("--exclude-path", EventRoutes.packed.operation.path),
            # A broker that is stopped may be waited for.
            *("--request-timeout", "60"),
        )
        return subprocess.run(command, cwd=notes, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
