"""The site of ``txnsim site build``, made once and kept; its parts are fetched once.

``run_python_in_site`` runs Python in the site's own WebAssembly, without a browser.
"""

from __future__ import annotations

import gzip
import json
import shutil
import subprocess
from pathlib import Path
from typing import Any, Final

import txnsim
import txnsim_lab
import txnsim_lab.http.site.build as building
from tests.support.apache_kafka import digest_of, make_once
from txnsim_lab.scenario.catalog import directory

CACHE: Final = Path(__file__).parents[2] / ".cache"
_SOURCES: Final = (".css", ".html", ".js", ".mjs", ".py", ".toml")
_PROGRAM: Final = Path(__file__).with_name("site_in_node.mjs")


def built_site() -> Path:
    """The folder of the built site, which is read-only by convention."""
    packages = [Path(*package.__path__) for package in (txnsim, txnsim_lab)]
    files = [file for package in packages for file in package.rglob("*")]
    sources = [file for file in files if file.suffix in _SOURCES] + [*directory().rglob("*.yaml")]
    target_path = CACHE / f"site-{digest_of(sorted(sources))}"

    def make(folder: Path) -> None:
        for old_path in CACHE.glob("site-*"):
            if old_path.is_dir() and not old_path.name.startswith("site-parts"):
                shutil.rmtree(old_path)
        building.build(folder, parts_folder=_parts())

    return make_once(target_path, make, lock_file=CACHE / "site.lock")


def _parts() -> Path:
    parts_digest = digest_of([Path(building.__file__).with_name("parts.toml")])
    return make_once(
        CACHE / f"site-parts-{parts_digest}", building.fetch, lock_file=CACHE / "site-parts.lock"
    )


def run_python_in_site(site_folder: Path, folder: Path, program: str, inputs: object) -> Any:
    """Run a Python program in the site's WebAssembly. It gets ``inputs`` as JSON, and its
    ``answer`` is returned.

    Args:
        site: A built one.
        folder: For its files, unpacked; it is made.
        program: In the place of the worker's.
        inputs: What it is to know.
    """
    folder.mkdir()
    for file_name in ("pyodide.mjs", "pyodide.asm.mjs", "site_worker.js"):
        shutil.copy(site_folder / file_name, folder / file_name)
    for file_name, packed_name in building.PACKED.items():
        (folder / file_name).write_bytes(gzip.decompress((site_folder / packed_name).read_bytes()))
    process = subprocess.run(
        ["node", str(_PROGRAM), str(folder)],
        input=json.dumps({"program": program, "given": inputs}),
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.returncode == 0, process.stderr
    return json.loads(process.stdout)
