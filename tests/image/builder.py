"""The container image, built as a user builds it, on a machine without an engine and without any
image registry.

Debian's ``debootstrap`` makes the base from packages, ``podman import`` gives it the name that the
Containerfile begins with, and ``buildah bud --isolation chroot`` builds on it. What is missing is
installed by apt, so this is for root on Debian. The base is kept in ``.cache/image``. As a command
it builds and prints the seconds of each step::

    python -m tests.image.builder
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time  # noqa: TID251 - seconds of the real machine
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from tests.support.apache_kafka import CACHE, REPOSITORY, hold_lock
from tests.support.debian import APT_LOCK

TOOLS: Final = ("debootstrap", "podman", "buildah")
PACKAGES: Final = (*TOOLS, "crun")
FOLDER: Final = CACHE / "image"
BASE: Final = FOLDER / "base.tar"
STORE: Final = FOLDER / "store"
BASE_NAME: Final = "docker.io/library/python:3.11-slim"
"""As the Containerfile has it: Debian 12 has the same Python."""
SUITE: Final = "bookworm"
INSIDE: Final = "python3,python3-venv,ca-certificates"
IMAGE: Final = "localhost/txnsim:latest"
BUNDLE: Final = Path("etc/ssl/certs/ca-certificates.crt")
"""The machine's own certificates go into the base, and pip's settings: a build may have to fetch
packages through a mirror that only this machine knows.
"""
PIP_SETTINGS: Final = Path("etc/pip.conf")
_ROOT: Final = Path("/")
_TIMEOUT_S: Final = 900.0


class ImageError(Exception):
    """The image can't be built here; the message says why."""


class Builder:
    """An image store of its own, below ``.cache/image``, which is thrown away at the end."""

    def __init__(self) -> None:
        self._where: tuple[str, ...] = ()
        self.seconds: dict[str, float] = {}
        """What each step took."""

    def __enter__(self) -> Builder:
        FOLDER.mkdir(parents=True, exist_ok=True)
        self._forget()
        return self

    def __exit__(self, *_: object) -> None:
        self._forget()

    def build(self) -> None:
        """Make ``IMAGE`` of the Containerfile.

        Raises:
            ImageError: A step failed, or this is no machine for it.
        """
        with hold_lock(CACHE / "image.lock"):
            self._step("install tools", install_tools)
            self._open()
            if not BASE.is_file():
                self._step("debootstrap the base", make_base)
            self._step(
                "import the base", lambda: self.ask("podman", "import", str(BASE), BASE_NAME)
            )
            self._step("build", self._build)

    def _build(self) -> None:
        self.build_file(REPOSITORY / "Containerfile", context_folder=REPOSITORY, name=IMAGE)

    def build_file(self, file: Path, *, context_folder: Path, name: str) -> None:
        """Make an image of a Containerfile.

        Raises:
            ImageError: A step of it failed.
        """
        # A health check is no part of the OCI format: it takes Docker's.
        build_options = ("bud", "--isolation", "chroot", "--pull-never", "--format", "docker")
        self.ask("buildah", *build_options, "-f", str(file), "-t", name, str(context_folder))

    def ask(self, tool: str, *arguments: str) -> str:
        """What a tool answers about this store.

        Raises:
            ImageError: It failed.
        """
        return _run([tool, *self._where, *arguments])

    def words(self, *arguments: str) -> list[str]:
        """The command line of buildah on this store."""
        return ["buildah", *self._where, *arguments]

    def _open(self) -> None:
        """Choose how layers are kept: as overlays where this file system can, else as copies."""
        for driver in ("overlay", "vfs"):
            folder_options = ("--root", str(STORE / driver), "--runroot", str(FOLDER / "run"))
            self._where = ("--storage-driver", driver, *folder_options)
            try:
                self.ask("podman", "info")
            except ImageError:
                if driver == "vfs":
                    raise
            else:
                return

    def _step(self, step_name: str, do: object) -> None:
        assert callable(do)
        begun_s = time.monotonic()
        do()
        self.seconds[step_name] = time.monotonic() - begun_s

    def _forget(self) -> None:
        # What a run that was ended has left mounted, the innermost first.
        mounted = [
            line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()
        ]
        for mount_point in reversed(mounted):
            if Path(mount_point).is_relative_to(FOLDER.resolve()):
                _run(["umount", mount_point])
        for folder in (STORE, FOLDER / "run"):
            if folder.exists():
                shutil.rmtree(folder)


def install_tools() -> None:
    """Debian's packages, unless they are there.

    Raises:
        ImageError: This machine has no apt, or we are not root.
    """
    if all(map(shutil.which, TOOLS)):
        return
    if shutil.which("apt-get") is None or os.geteuid() != 0:
        missing = ", ".join(tool for tool in TOOLS if shutil.which(tool) is None)
        raise ImageError(f"{missing}: not found, and only root on Debian can install them here")
    apt_environment = {"DEBIAN_FRONTEND": "noninteractive"}
    with hold_lock(APT_LOCK):
        _run(["apt-get", "update", "-q"], apt_environment)
        _run(
            ["apt-get", "install", "-y", "-q", "--no-install-recommends", *PACKAGES],
            apt_environment,
        )


def make_base() -> None:
    """A Debian with Python as a tar file, whole or not at all.

    Raises:
        ImageError: A step failed.
    """
    root = FOLDER / "rootfs"
    shutil.rmtree(root, ignore_errors=True)
    _run(["debootstrap", "--variant=minbase", f"--include={INSIDE}", SUITE, str(root)])
    for file in (BUNDLE, PIP_SETTINGS):
        if (_ROOT / file).is_file():
            shutil.copyfile(_ROOT / file, root / file)
    python_program = root / "usr" / "bin" / "python"
    if not python_program.is_symlink():
        python_program.symlink_to("python3")
    partial_file = BASE.with_suffix(".partial")
    _run(["tar", "-C", str(root), "-c", "-f", str(partial_file), "."])
    partial_file.replace(BASE)
    shutil.rmtree(root)


def _run(command: Sequence[str], environment: Mapping[str, str] | None = None) -> str:
    finished_process = subprocess.run(
        command,
        env={**os.environ, **(environment or {})},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        check=False,
        timeout=_TIMEOUT_S,
    )
    if finished_process.returncode != 0:
        end = "\n".join(finished_process.stdout.splitlines()[-30:])
        raise ImageError(
            f"{' '.join(command[:6])} … ended with {finished_process.returncode}:\n{end}"
        )
    return finished_process.stdout


def main() -> int:
    """Build and tell how long it took."""
    with Builder() as builder:
        builder.build()
        for step_name, seconds in builder.seconds.items():
            sys.stdout.write(f"{seconds:6.1f} s  {step_name}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
