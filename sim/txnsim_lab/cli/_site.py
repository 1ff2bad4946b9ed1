"""``txnsim site``: writes the page with the simulator in WebAssembly, as files for any file
server.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Final

from txnsim.cli.output import TERMINAL, Columns
from txnsim.cli.parsing import new_folder

COLUMNS: Final[Columns[dict[str, str]]] = {
    "File": lambda one: one["file"],
    "Bytes": lambda one: one["bytes"],
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``site``."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    build = actions.add_parser("build", help="write the site's files into a folder")
    build.add_argument(
        "folder", type=new_folder, metavar="DIR", help="where; same names are replaced"
    )
    build.add_argument(
        "--from",
        dest="given",
        type=Path,
        metavar="FOLDER",
        help="take Pyodide and the wheels from here; fetched by npm and pip unless given",
    )
    build.add_argument(
        "--gzip", action="store_true", help="each file packed with gzip beside it, as NAME.gz"
    )
    build.add_argument("--json", action="store_true", help="the files as JSON")
    build.epilog = (
        "Node.js 20 or newer is needed, and npm and a network unless --from is given."
        " Try it: python -m http.server --directory DIR"
    )


def run(args: argparse.Namespace) -> int:
    """Run the command; returns the exit status."""
    from txnsim_lab.http.site.build import build

    files = build(
        args.folder,
        parts_folder=args.given,
        pack_beforehand=args.gzip,
        tell=lambda line: print(line, file=sys.stderr),
    )
    TERMINAL.tell(
        args, [{"file": name, "bytes": f"{size:,}"} for name, size in files.items()], COLUMNS
    )
    return 0
