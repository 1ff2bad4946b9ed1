"""The argument parser of all commands: argparse, with the exit status of a misuse chosen per
command.

Commands that stand in for one of Kafka's tools end with that tool's status, 1; ours with 2, as is
usual. Options are never
abbreviated: ``--partition`` must not be taken for ``--partitions`` of a later release.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

MISUSE_STATUS = 2


class CommandParser(argparse.ArgumentParser):
    """An ``ArgumentParser`` whose misuse status can be set."""

    def __init__(self, *args: Any, **options: Any) -> None:
        options.setdefault("allow_abbrev", False)
        super().__init__(*args, **options)
        self.misuse_status = MISUSE_STATUS

    def error(self, message: str) -> NoReturn:
        """Say how it is used and what was wrong, and end."""
        self.print_usage(sys.stderr)
        self.exit(self.misuse_status, f"{self.prog}: error: {message}\n")


class VersionAction(argparse.Action):
    """Reads the version only when it is asked for: the package's metadata take a while to find."""

    def __init__(self, option_strings: Sequence[str], **options: Any) -> None:
        options["dest"] = argparse.SUPPRESS
        super().__init__(option_strings, nargs=0, **options)

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        """Print it and end."""
        from importlib.metadata import version

        sys.stdout.write(f"txnsim {version('txnsim')}\n")
        parser.exit(0)
