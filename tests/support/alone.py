"""Run the broker as it is installed alone: neither the lab's nor Spark's package is importable."""

from __future__ import annotations

import sysconfig
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from txnsim import VERSION
from txnsim.on_demand_imports import EXTENSIONS

ROOT: Final = Path(__file__).resolve().parents[2]
OUR_PACKAGES: Final = ("txnsim", *EXTENSIONS)
SITE: Final = """\
import sys
from pathlib import Path

sys.path = [entry for entry in sys.path if not Path(entry, "txnsim_lab").is_dir()]
"""
"""Run by Python before anything else: an editable installation has all packages on the path, and
what the build adds to them among the libraries.
"""


@contextmanager
def broker_alone() -> Iterator[dict[str, str]]:
    """Variables for a process that finds ``txnsim``, its libraries and nothing else of ours."""
    libraries = Path(sysconfig.get_path("purelib"))
    with TemporaryDirectory(prefix="txnsim-alone-") as folder_name:
        folder = Path(folder_name)
        for library_folder in libraries.iterdir():
            if library_folder.name.partition("-")[0] not in OUR_PACKAGES:
                (folder / library_folder.name).symlink_to(library_folder)
        (folder / "txnsim").symlink_to(ROOT / "sim" / "txnsim")
        (folder / "sitecustomize.py").write_text(SITE)
        _install(folder / f"txnsim-{VERSION}.dist-info")
        yield {"PYTHONPATH": folder_name}


def _install(metadata_file: Path) -> None:
    """Write the metadata by which pytest finds the plugin."""
    metadata_file.mkdir()
    (metadata_file / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: txnsim\nVersion: {VERSION}\n"
    )
    (metadata_file / "entry_points.txt").write_text("[pytest11]\ntxnsim = txnsim.testing.plugin\n")
