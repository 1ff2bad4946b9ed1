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
    "File": lambda file_row: file_row["file"],
    "Bytes": lambda file_row: file_row["bytes"],
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    subcommands = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    build_parser = subcommands.add_parser("build", help="write the site's files into a folder")
    build_parser.add_argument(
        "folder", type=new_folder, metavar="DIR", help="where; same names are replaced"
    )
    build_parser.add_argument(
        "--from",
        dest="given",
        type=Path,
        metavar="FOLDER",
        help="take Pyodide and the wheels from here; fetched by npm and pip unless given",
    )
    build_parser.add_argument(
        "--gzip", action="store_true", help="each file packed with gzip beside it, as NAME.gz"
    )
    build_parser.add_argument("--json", action="store_true", help="the files as JSON")
    build_parser.epilog = (
        "Node.js 20 or newer is needed, and npm and a network unless --from is given."
        " Try it: python -m http.server --directory DIR"
    )


def run(args: argparse.Namespace) -> int:
    """Run the command; returns the exit status."""
    from txnsim_lab.http.site.build import build

    sizes_by_file = build(
        args.folder,
        parts_folder=args.given,
        packs_beforehand=args.gzip,
        report_progress=lambda line: print(line, file=sys.stderr),
    )
    TERMINAL.tell(
        args,
        [
            {"file": file_name, "bytes": f"{size_bytes:,}"}
            for file_name, size_bytes in sizes_by_file.items()
        ],
        COLUMNS,
    )
    return 0
