"""Client programs whose libraries npm or cargo brings: made once, below the ignored ``.cache/``.

Versions are pinned beside the sources. What is installed or built is named after what it was made
of, except for cargo, which finds out by itself. Standard library only.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from tests.support.apache_kafka import CACHE, REPOSITORY, hold_lock, make_once
from tests.support.foreign_clients import ForeignClientError, toolchain

NODE_SOURCES: Final = REPOSITORY / "tests" / "clients" / "node"
RUST_SOURCES: Final = REPOSITORY / "tests" / "clients" / "rust"

_NODE_VERSION: Final = "Node.js 20.19 or newer, with npm"
_RUST_VERSION: Final = "Rust 1.95 with cargo"
_OUTPUT_LINES: Final = 60


def node_program(library_name: str) -> list[str]:
    """Command line of the program in Node.js for a library, without its checks.

    Raises:
        ForeignClientError: Node.js is missing, or the libraries can't be installed.
    """
    toolchain("node", _NODE_VERSION)  # npm comes with it: where it is missing, it is named first
    modules_folder = node_modules(library_name)
    return [
        node_of(modules_folder),
        str(NODE_SOURCES / "main.mjs"),
        str(modules_folder),
        library_name,
    ]


def node_of(modules_folder: Path) -> str:
    """What runs a library: the Node.js that its package.json names, or this machine's.

    Raises:
        ForeignClientError: Node.js is missing.
    """
    own_node_folder = modules_folder / "node" / "bin" / "node"
    return str(own_node_folder) if own_node_folder.exists() else toolchain("node", _NODE_VERSION)


def node_manifest(library_name: str) -> Path:
    """The package.json that pins a library.

    One with a native part has its own, so that others do not wait for its compiler; and one that
    wants a newer Node.js, which comes with it.
    """
    own_manifest_file = NODE_SOURCES / library_name / "package.json"
    return own_manifest_file if own_manifest_file.exists() else NODE_SOURCES / "package.json"


def rust_program(library_name: str) -> list[str]:
    """Command line of the program in Rust for a library, without its checks.

    Raises:
        ForeignClientError: Rust is missing, or it does not build.
    """
    cargo = toolchain("cargo", _RUST_VERSION)
    package = f"matrix-{library_name}"
    target_path = CACHE / "rust" / "target"
    command = [cargo, "build", "--quiet", "--package", package]
    if library_name == "rdkafka" and not _has_openssl():
        command += ["--features", "vendored-tls"]
    with hold_lock(CACHE / "rust.lock"):
        run_in(RUST_SOURCES, command, {"CARGO_TARGET_DIR": str(target_path)})
    return [str(target_path / "debug" / package)]


def node_modules(library_name: str) -> Path:
    """The folder of what the package.json of a library names.

    Scripts are run of those with a package.json of their own alone. A native part is compiled
    against the libraries of this machine where it can't be had ready-made.

    Raises:
        ForeignClientError: npm is missing, or it can't install them.
    """
    package_folder = node_manifest(library_name)
    is_own = package_folder.parent != NODE_SOURCES
    home = CACHE / "node" / hashlib.sha256(package_folder.read_bytes()).hexdigest()[:12]

    def install(new_folder: Path) -> None:
        npm = toolchain("npm", _NODE_VERSION)
        new_folder.mkdir(parents=True)
        shutil.copy(package_folder, new_folder)
        npm_options = ("--no-audit", "--no-fund", "--no-package-lock")
        scripts = () if is_own else ("--ignore-scripts",)
        linking = {"CKJS_LINKING": "dynamic"} if is_own else {}
        run_in(new_folder, [npm, "install", *npm_options, *scripts], linking)

    return make_once(home, install, lock_file=CACHE / "node.lock") / "node_modules"


def _has_openssl() -> bool:
    """Whether OpenSSL's headers are installed where librdkafka's build finds them."""
    pkg_config = shutil.which("pkg-config")
    if pkg_config is None:
        return False
    return subprocess.run([pkg_config, "--exists", "openssl"], check=False).returncode == 0


def run_in(
    directory: Path,
    command: Sequence[str],
    environment: Mapping[str, str] | None = None,
    error: type[Exception] = ForeignClientError,
) -> None:
    """Run a command to its end. If it fails, raises ``error`` with the end of its output."""
    process = subprocess.run(
        command,
        cwd=directory,
        env={**os.environ, **(environment or {})},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        check=False,
    )
    if process.returncode != 0:
        output = "\n".join(process.stdout.splitlines()[-_OUTPUT_LINES:])
        raise error(f"{' '.join(command[:2])} failed in {directory}:\n{output}")
