"""The parts of the gate: only checks with a certain result, on any machine and in every run."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Final

from tests.ci.asking import PYTHON, in_a_browser, matrix, pytest
from tests.ci.process import Deadline, PartOutcome, judge_pytest, judge_step, run
from tests.support.txnsim_server import TxnsimServer

CLIENTS: Final = ("kafka-clients", "franz-go", "kafkajs", "confluent-kafka", "krafka")
"""One for each language: C by way of Python, Rust without C, whose build takes minutes."""
NEWEST_LEVEL: Final = 2
"""Of ``transaction.version``."""


def make_test(deadline: Deadline) -> PartOutcome:
    """The repository's own check, with the clients written in Python; it makes ``.venv``."""
    return judge_pytest("make test", run(["make", "test"], deadline=deadline))


def costly(deadline: Deadline) -> PartOutcome:
    """Run the tests that ``make check`` leaves out because each occupies a processor for long."""
    command = [PYTHON, "-m", "tests.check", "--costly"]
    return judge_pytest("costly tests", run(command, deadline=deadline))


def programs(deadline: Deadline) -> PartOutcome:
    """Build the client programs that the gate needs."""
    return matrix("programs", "--build", "--client", *CLIENTS, deadline=deadline)


def clients(deadline: Deadline) -> PartOutcome:
    """A client library per language, everything that it can do, at the newest level."""
    # One lane: parts are side by side already.
    chosen_options = ("--client", *CLIENTS, "--level", str(NEWEST_LEVEL), "--lanes", "1")
    return matrix("txnsim", *chosen_options, deadline=deadline)


def spark(deadline: Deadline) -> PartOutcome:
    """The pipeline on Spark: directories and streams of the simulator, traces."""
    chosen_options = (
        "tests/spark/pipeline",
        "-m",
        "spark and not real and not slow and not nightly",
    )
    return pytest("Spark", *chosen_options, deadline=deadline)


def wheel(deadline: Deadline) -> PartOutcome:
    """The wheel, built, installed without a compiler, and run from an empty directory."""
    with tempfile.TemporaryDirectory(prefix="txnsim-wheel-") as name:
        root = Path(name)
        empty_path = root / "empty"
        empty_path.mkdir()
        build = [PYTHON, "-m", "build", "--wheel", "--outdir", str(root / "dist")]
        built = judge_step("build the wheel", run(build, deadline=deadline))
        if built.failed:
            return built
        (file,) = (root / "dist").glob("*.whl")
        environment_folder = root / "venv"
        make = [sys.executable, "-m", "venv", str(environment_folder)]
        pip = [
            str(environment_folder / "bin" / "python"),
            "-m",
            "pip",
            "--disable-pip-version-check",
        ]
        # Only wheels: a user without a compiler must get a running program.
        install = [*pip, "install", "--quiet", "--only-binary", ":all:", str(file)]
        for step in (make, install):
            outcome = judge_step(" ".join(step[-2:]), run(step, deadline=deadline))
            if outcome.failed:
                return outcome
        plugin = _run_plugin(environment_folder / "bin" / "python", empty_path, deadline)
        return (
            built
            + plugin
            + _run_installed(environment_folder / "bin" / "txnsim", empty_path, deadline)
        )


def page(deadline: Deadline) -> PartOutcome:
    """The page in a real browser, and each story in the site's WebAssembly."""
    return in_a_browser("(browser or costly) and not nightly", deadline)


def _run_plugin(python_program: Path, empty_path: Path, deadline: Deadline) -> PartOutcome:
    """Run a user's suite where pytest and our wheel are all that is installed.

    Its project has a folder ``sim`` of its own.
    """
    install = [
        str(python_program),
        "-m",
        "pip",
        "--disable-pip-version-check",
        "install",
        "-q",
        "pytest",
    ]
    installed = judge_step("wheel: install pytest", run(install, deadline=deadline))
    if installed.failed:
        return installed
    (empty_path / "sim").mkdir()
    (empty_path / "sim" / "__init__.py").write_text("OWN = True\n")
    test = (
        "import sim\n\n\n"
        "def test_cluster(txnsim_cluster):\n"
        "    assert sim.OWN\n"
        "    txnsim_cluster.assert_exactly_once([], [])\n"
    )
    (empty_path / "test_cluster.py").write_text(test)
    program_result = run(
        [str(python_program), "-m", "pytest", "-q"], deadline=deadline, directory=empty_path
    )
    return judge_pytest("wheel: pytest plugin", program_result)


def _run_installed(command: Path, empty_path: Path, deadline: Deadline) -> PartOutcome:
    verdict = PartOutcome(0, 0)
    story = "late-produce-after-abort"
    for arguments in (
        ("scenario", "list"),
        ("scenario", "show", story),
        ("scenario", "run", story),
    ):
        program_result = run([str(command), *arguments], deadline=deadline, directory=empty_path)
        verdict += judge_step(f"wheel: txnsim {' '.join(arguments)}", program_result)
    with TxnsimServer(executable=command, working_directory=empty_path) as server:
        listing = [str(command), "txns", "--bootstrap-server", server.bootstrap, "list"]
        program_result = run(listing, deadline=deadline, directory=empty_path)
        verdict += judge_step("wheel: txnsim txns list", program_result)
    return verdict
