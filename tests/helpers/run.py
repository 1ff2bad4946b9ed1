"""The helpers for tests in other languages, tried as their users try them: ``python -m
tests.helpers.run [go] [node] [java] [any]``.

Each one has tests of its own and examples with a real client library; both start simulators by
themselves. Sources are copied below the ignored ``.cache/`` where a tool would write beside them.
Standard library only. One line per step; the last line counts.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
import time  # noqa: TID251 - a command on the real machine
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final, NamedTuple

from tests.support.apache_kafka import CACHE, REPOSITORY, make_once, tool
from tests.support.txnsim_server import installed_txnsim

HELPERS: Final = REPOSITORY / "helpers"
STEP_TIMEOUT_S: Final = 600.0
TOKEN: Final = "the-token-of-the-helpers-tests"
"""Every simulator that they start wants it, so every request of theirs must carry it."""
_OUTPUT_LINES: Final = 60
_NEVER_COPIED: Final = shutil.ignore_patterns("target", "node_modules")


class Step(NamedTuple):
    """A command that must end with status 0."""

    name: str
    command: Sequence[str]
    directory: Path
    variables: Mapping[str, str] = {"TXNSIM_TOKEN": TOKEN}
    """Of the environment, besides the command."""


class MissingToolError(Exception):
    """A toolchain is not on this machine."""


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.helpers.run", description=__doc__)
    parser.add_argument(
        "language", nargs="*", choices=[*LANGUAGES, []], metavar="LANGUAGE", help="default: all"
    )
    names = parser.parse_args(argv).language or list(LANGUAGES)
    # Side by side: most of their time they wait for simulators to start, or for clients' timeouts.
    with ThreadPoolExecutor(max_workers=len(names)) as lane_pool:
        outcomes = [
            is_success for of_lane in lane_pool.map(_outcomes, names) for is_success in of_lane
        ]
    _print_outcome(
        f"{sum(outcomes)} passed, {len(outcomes) - sum(outcomes)} failed", has_passed=True
    )
    return 0 if all(outcomes) else 1


def _outcomes(language_name: str) -> list[bool]:
    """Run the steps of one language in order; return whether each one passed."""
    try:
        steps = LANGUAGES[language_name]()
    except MissingToolError as missing:
        return [_print_outcome(f"FAIL {language_name}: {missing}", has_passed=False)]
    return [_step_passes(step) for step in steps]


def _step_passes(step: Step) -> bool:
    start_s = time.monotonic()
    try:
        finished_process = subprocess.run(
            step.command,
            cwd=step.directory,
            env={**os.environ, "TXNSIM": str(installed_txnsim()), **step.variables},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=STEP_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired as expired:
        raw_output = expired.stdout or b""
        output = (
            raw_output.decode(errors="replace") if isinstance(raw_output, bytes) else raw_output
        )
        return _print_outcome(
            f"FAIL {step.name}: no end in {STEP_TIMEOUT_S} s\n{_tail(output)}", has_passed=False
        )
    if finished_process.returncode != 0:
        return _print_outcome(
            f"FAIL {step.name}: exit status {finished_process.returncode}\n"
            f"{_tail(finished_process.stdout)}",
            has_passed=False,
        )
    return _print_outcome(f"PASS {step.name} ({time.monotonic() - start_s:.1f} s)", has_passed=True)


# Languages


def _go() -> list[Step]:
    go = _tool("go", "Go 1.26")
    helper_file, examples_folder = HELPERS / "go", HELPERS / "go" / "examples"
    return [
        Step("go: vet", (go, "vet", "./..."), helper_file),
        Step("go: the helper's own tests", (go, "test", "-count=1", "./..."), helper_file),
        Step("go: examples with franz-go", (go, "test", "-count=1", "./..."), examples_folder),
    ]


def _node() -> list[Step]:
    node_name, npm = _tool("node", "Node.js 20, with npm"), _tool("npm", "Node.js 20, with npm")
    project_folder = _copy_helper("node")
    install_options = ("--no-audit", "--no-fund", "--no-package-lock", "--ignore-scripts")
    # Not the folder: tests below it need libraries that are installed for another part of CI.
    tests = sorted(
        str(file.relative_to(project_folder)) for file in project_folder.glob("test/*.test.mjs")
    )
    return [
        Step("node: install", (npm, "install", *install_options), project_folder / "examples"),
        Step("node: the helper's own tests", (node_name, "--test", *tests), project_folder),
        Step(
            "node: examples with KafkaJS", (node_name, "--test", "."), project_folder / "examples"
        ),
        Step(
            "node: install vitest",
            (npm, "install", *install_options),
            project_folder / "test" / "vitest",
        ),
        Step(
            "node: under vitest", (npm, "exec", "vitest", "run"), project_folder / "test" / "vitest"
        ),
    ]


def _java() -> list[Step]:
    maven = _tool("mvn", "a JDK 17 and Maven")
    return [
        Step("java: tests with kafka-clients", (maven, "-q", "-B", "test"), _copy_helper("java"))
    ]


def _steps_of_any() -> list[Step]:
    """The programs of helpers/any, which need no helper; that in C# has no toolchain here."""
    project_folder = _copy_helper("any")
    shop_file = project_folder / "shop"
    program_file = REPOSITORY / "tests" / "helpers" / "shop.py"
    python_program = installed_txnsim().with_name(
        "python"
    )  # the program needs our client; this does not
    shop_file.write_text(f'#!/bin/sh\nexec "{python_program}" "{program_file}" "$@"\n')
    shop_file.chmod(0o755)
    run = {
        "ruby": (_tool("ruby", "Ruby 3"), "lost_marker.rb"),
        "php": (_tool("php", "PHP 8"), "lost_marker.php"),
        "erlang": (_tool("escript", "Erlang/OTP 25 with inets"), "lost_marker.escript"),
        "rust": (_tool("cargo", "Rust 1.85"), "run", "--quiet"),
    }
    return [
        Step(
            f"any language: {name}",
            command,
            project_folder / "rust" if name == "rust" else project_folder,
            {"SHOP": str(shop_file)},
        )
        for name, command in run.items()
    ]


LANGUAGES: Final[Mapping[str, Callable[[], list[Step]]]] = {
    "go": _go,
    "node": _node,
    "java": _java,
    "any": _steps_of_any,
}


def _copy_helper(file_name: str) -> Path:
    """The helper's sources where tools may write beside them, named after what they say."""
    sources_folder = HELPERS / file_name
    target_path = CACHE / "helpers" / f"{file_name}-{_digest(sources_folder)}"
    return make_once(
        target_path,
        lambda new_folder: shutil.copytree(sources_folder, new_folder, ignore=_NEVER_COPIED),
        lock_file=CACHE / "helpers.lock",
    )


def _digest(folder: Path) -> str:
    running_hash = hashlib.sha256()
    for file in sorted(folder.rglob("*")):
        inside_path = file.relative_to(folder)
        if file.is_file() and not {"target", "node_modules"} & set(inside_path.parts):
            running_hash.update(str(inside_path).encode() + b"\0" + file.read_bytes() + b"\0")
    return running_hash.hexdigest()[:12]


def _tool(command: str, purpose: str) -> str:
    return tool(command, f"it needs {purpose}", MissingToolError)


# Output


def _print_outcome(text: str, *, has_passed: bool) -> bool:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()
    return has_passed


def _tail(output: str) -> str:
    return "\n".join(f"  {printed_line}" for printed_line in output.splitlines()[-_OUTPUT_LINES:])


if __name__ == "__main__":
    sys.exit(main())
