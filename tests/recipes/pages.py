"""The pages of docs/recipes show whole files: ``python -m tests.recipes.pages --write``.

A block shows a file if the paragraph above it begins with a link in bold to that file. Without
``--write`` it says which blocks are out of date and exits with 1; ``test_pages.py`` asks the same.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tests.support.apache_kafka import REPOSITORY

PAGES: Final = REPOSITORY / "docs" / "recipes"

_SHOWN_RE: Final = re.compile(
    r"^(?P<head>\*\*\[[^\]]+\]\((?P<target>[^)]+)\)\*\*[^\n]*\n(?:[^\n]+\n)*\n```\w+\n)(?P<text>.*?)^```$",
    re.DOTALL | re.MULTILINE,
)


def main(argv: Sequence[str] | None = None) -> int:
    """Write the pages anew, or say which differ."""
    parser = argparse.ArgumentParser(prog="python -m tests.recipes.pages", description=__doc__)
    parser.add_argument("--write", action="store_true", help="write the pages")
    options = parser.parse_args(argv)
    stale_pages = [
        page_file
        for page_file in sorted(PAGES.glob("*.md"))
        if current_text(page_file) != expected_text(page_file)
    ]
    for page_file in stale_pages:
        if options.write:
            page_file.write_text(expected_text(page_file), "utf-8")
        sys.stdout.write(f"{'written' if options.write else 'out of date'}: {page_file.name}\n")
    return 1 if stale_pages and not options.write else 0


def current_text(page_file: Path) -> str:
    return page_file.read_text("utf-8")


def expected_text(page_file: Path) -> str:
    """The page's text with the present contents of the files that it shows."""

    def replace_block(match: re.Match[str]) -> str:
        return f"{match['head']}{(page_file.parent / match['target']).read_text('utf-8')}```"

    return _SHOWN_RE.sub(replace_block, current_text(page_file))


def shown_files(page_file: Path) -> set[Path]:
    """The files that a page shows in full."""
    return {
        (page_file.parent / match["target"]).resolve()
        for match in _SHOWN_RE.finditer(current_text(page_file))
    }


if __name__ == "__main__":
    sys.exit(main())
