"""The broker with nothing of the lab and of Spark on the path, as in an installation of its own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
SITE: Final = """\
import sys
from pathlib import Path

sys.path = [one for one in sys.path if not Path(one, "txnsim_lab").is_dir()]
"""
"""Run by Python before anything else: an editable installation has all packages on the path."""


@contextmanager
def broker_alone() -> Iterator[dict[str, str]]:
    """Variables for a process that finds ``txnsim`` and neither of the two others."""
    with TemporaryDirectory(prefix="txnsim-alone-") as folder:
        Path(folder, "txnsim").symlink_to(ROOT / "sim" / "txnsim")
        Path(folder, "sitecustomize.py").write_text(SITE)
        yield {"PYTHONPATH": folder}
