"""``make release-check``: builds everything that would be published, installs it elsewhere and
tries it there. Nothing is published, and no program that is tried can import from the checkout.

- the source distribution and the wheel, which is installed from the source distribution's own build
  on every Python from 3.11 that this machine has, with each extra on the first of them;
- the npm package, as ``npm pack`` makes it, in an empty project;
- the Go module, as a copy that an empty module requires;
- the Maven modules, from a repository of their own, in an empty project.

It fails as long as a file has the placeholder of the project's public address. It prints one line
per step; the last line is the result. Standard library only.
"""

from __future__ import annotations

import argparse
import glob
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

PLACEHOLDER: Final = "https://project.invalid/txnsim"
"""Text in the place of the project's public address, until it has one."""
REPOSITORY: Final = Path(__file__).resolve().parents[2]
TIMEOUT_S: Final = 900.0
PYTHON_LEAST: Final = (3, 11)
PYTHON_NEWEST: Final = 14
EXTRAS: Final = ("http", "demo", "security", "pytest")
"""Extras that are tried together on the first Python. ``spark`` has 400 MB and is tried by the
pipeline's tests.
"""
_TAIL_LINES: Final = 30

TEST_PY: Final = """\
import sim

from txnsim.testing import AsyncSimulatedKafka


def test_cluster(txnsim_cluster):
    assert sim.OWN
    txnsim_cluster.assert_exactly_once([], [])


async def _brokers():
    async with AsyncSimulatedKafka(brokers=1) as kafka:
        return kafka.bootstrap.count(":")


def test_in_a_loop():
    import asyncio

    assert asyncio.run(_brokers()) == 1
"""
TEST_MJS: Final = """\
import assert from 'node:assert/strict'
import { test } from 'node:test'

import { start } from 'txnsim-test'

test('a cluster', async t => {
  const cluster = await start({ brokers: 1, topics: { orders: 2 } }, t)
  assert.equal((await cluster.topic('orders')).partitions.length, 2)
})
"""
TEST_GO: Final = """\
package released

import (
	"testing"

	"MODULE"
)

func TestCluster(t *testing.T) {
	cluster := txnsimtest.Start(t, txnsimtest.Options{Brokers: 1})
	if cluster.Bootstrap() == "" {
		t.Fatal("no address")
	}
}
"""
TEST_JAVA: Final = """\
import static org.junit.jupiter.api.Assertions.assertFalse;

import org.junit.jupiter.api.Test;
import txnsim.junit.Txnsim;
import txnsim.junit.TxnsimCluster;

@Txnsim(brokers = 1)
class ReleasedTest {
    @Test
    void serves(TxnsimCluster cluster) {
        assertFalse(cluster.bootstrap().isEmpty());
    }
}
"""


class StepError(Exception):
    """A step failed; the message has the end of what it printed."""


class Place(NamedTuple):
    """Folders and programs for trying a release."""

    root: Path
    version: str

    def folder(self, file_name: str) -> Path:
        """Make a new empty folder."""
        path = self.root / file_name
        path.mkdir(parents=True)
        return path

    @property
    def txnsim(self) -> Path:
        """Path of the installed command, which tests in other languages start."""
        return self.root / "python-0" / "bin" / "txnsim"


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="make release-check", description=__doc__)
    parser.add_argument("language", nargs="*", choices=[*LANGUAGES, []], metavar="LANGUAGE")
    chosen_languages = parser.parse_args(argv).language or list(LANGUAGES)
    outcomes: list[bool] = []
    with tempfile.TemporaryDirectory(prefix="txnsim-release-") as name:
        workspace = Place(Path(name), version())
        _step(outcomes, "one version everywhere", lambda: _one_version(workspace.version))
        _step(outcomes, "a public address", _refuse_placeholder_address)
        for language, steps in LANGUAGES.items():
            # The others start what the first one has installed.
            if language in chosen_languages or language == "python":
                for step_name, do in steps(workspace).items():
                    _step(outcomes, f"{language}: {step_name}", do)
    print(f"{sum(outcomes)} passed, {len(outcomes) - sum(outcomes)} failed", flush=True)
    return 0 if all(outcomes) else 1


def _step(outcomes: list[bool], name: str, do: Callable[[], str | None]) -> None:
    begun_s = time.monotonic()
    try:
        remark = do()
    except (StepError, OSError, subprocess.TimeoutExpired) as failure:
        print(f"FAIL {name}: {failure}", flush=True)
        outcomes.append(False)
        return
    remark_text = f", {remark}" if remark else ""
    print(f"PASS {name} ({time.monotonic() - begun_s:.1f} s{remark_text})", flush=True)
    outcomes.append(True)


def version() -> str:
    """The version in pyproject.toml."""
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text("utf-8"))["project"]
    return str(project["version"])


def _one_version(version: str) -> None:
    by_file = versions()
    other_versions = {
        file: file_version for file, file_version in by_file.items() if file_version != version
    }
    if other_versions:
        raise StepError(f"pyproject.toml has {version}, but {other_versions}")


def _refuse_placeholder_address() -> None:
    if files := placeholders():
        raise StepError(f"put the project's address for {PLACEHOLDER} into {', '.join(files)}")


def placeholders() -> list[str]:
    """Files that still have the placeholder of the project's public address."""
    finished_process = subprocess.run(
        ["git", "grep", "-lF", PLACEHOLDER],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
    )
    return [name for name in finished_process.stdout.split() if not name.startswith("tests/")]


def versions() -> dict[str, str]:
    helpers = REPOSITORY / "helpers"
    by_file = {"npm": json.loads((helpers / "node" / "package.json").read_text("utf-8"))["version"]}
    for file_name in ("java", "testcontainers-java"):
        pom = (helpers / file_name / "pom.xml").read_text("utf-8")
        by_file[file_name] = re.findall(r"<version>(.*?)</version>", pom)[0]
    source = (REPOSITORY / "sim" / "txnsim" / "__init__.py").read_text("utf-8")
    by_file["sim/txnsim"] = re.findall(r'VERSION: Final = "(.*)"', source)[0]
    citation = (REPOSITORY / "CITATION.cff").read_text("utf-8")
    by_file["CITATION.cff"] = re.findall(r"^version: (\S+)", citation, re.MULTILINE)[0]
    changes = (REPOSITORY / "CHANGELOG.md").read_text("utf-8")
    by_file["CHANGELOG.md"] = re.findall(r"^## (\S+)", changes, re.MULTILINE)[0]
    return by_file


# Python


def _python(workspace: Place) -> dict[str, Callable[[], str | None]]:
    dist_folder = workspace.root / "dist"

    def build() -> str:
        run_step(
            [sys.executable, "-m", "build", "--outdir", str(dist_folder), str(REPOSITORY)],
            workspace.root,
        )
        names = sorted(path.name for path in dist_folder.iterdir())
        return ", ".join(names)

    steps: dict[str, Callable[[], str | None]] = {"build": build}
    for interpreter_number, python_program in enumerate(interpreters()):
        steps[f"install and start on {python_program.name}"] = partial(
            _on, workspace, interpreter_number, python_program
        )
    steps["a test of its own"] = lambda: _own_test(workspace)
    return steps


def interpreters() -> list[Path]:
    """The Pythons to try: one for each minor version from 3.11, from the PATH and from pyenv."""
    by_name: dict[str, Path] = {}
    shims = os.environ.get("PYENV_ROOT", str(Path.home() / ".pyenv"))
    for minor in range(PYTHON_LEAST[1], PYTHON_NEWEST + 1):
        name = f"python3.{minor}"
        interpreter_paths = sorted(glob.glob(f"{shims}/versions/3.{minor}.*/bin/{name}"))
        on_path = shutil.which(name)
        for command in (*interpreter_paths, *([on_path] if on_path else [])):
            finished_process = subprocess.run(
                [command, "-c", "import venv"], capture_output=True, check=False
            )
            if finished_process.returncode == 0:
                by_name.setdefault(name, Path(command))
    return list(by_name.values())


def _on(workspace: Place, number: int, python_program: Path) -> str:
    """Install the wheel for one Python, and run commands and a cluster with it."""
    environment_folder = workspace.root / f"python-{number}"
    (wheel_file,) = (workspace.root / "dist").glob("*.whl")
    run_step([str(python_program), "-m", "venv", str(environment_folder)], workspace.root)
    extras = EXTRAS if number == 0 else ("http",)
    # Only wheels: a user without a compiler must get a running program.
    pip = [str(environment_folder / "bin" / "python"), "-m", "pip", "--disable-pip-version-check"]
    requirement = f"{wheel_file}[{','.join(extras)}]"
    run_step([*pip, "install", "-q", "--only-binary", ":all:", requirement], workspace.root)
    command = str(environment_folder / "bin" / "txnsim")
    version_line = run_step([command, "--version"], workspace.root).strip()
    if version_line != f"txnsim {workspace.version}":
        raise StepError(f"it calls itself {version_line}")
    run_step([command, "scenario", "run", "z01", "--quiet"], workspace.root)
    run_step([command, "explain", "PRODUCER_FENCED"], workspace.root)
    ready_file = environment_folder / "ready.json"
    # Its standard input is empty: it ends at once, in order, after it has said that it is ready.
    serve = [command, "serve", "--port", "0", "--http", "0", "--until-eof"]
    run_step([*serve, "--ready-file", str(ready_file)], workspace.root)
    return run_step(
        [str(environment_folder / "bin" / "python"), "--version"], workspace.root
    ).strip()


def _own_test(workspace: Place) -> None:
    project_folder = workspace.folder("python-project")
    # A folder of the name that the package had before 0.2.
    (project_folder / "sim").mkdir()
    (project_folder / "sim" / "__init__.py").write_text("OWN = True\n")
    (project_folder / "test_it.py").write_text(TEST_PY)
    run_step([str(workspace.txnsim.with_name("python")), "-m", "pytest", "-q"], project_folder)


# Other languages


def _node(workspace: Place) -> dict[str, Callable[[], str | None]]:
    def try_it() -> str:
        project_folder = workspace.folder("node-project")
        npm = tool("npm")
        source_path = workspace.root / "node"
        shutil.copytree(REPOSITORY / "helpers" / "node", source_path, ignore=_NEVER_COPIED)
        run_step([npm, "pack", "--pack-destination", "."], source_path)
        (package_folder,) = source_path.glob("*.tgz")
        (project_folder / "package.json").write_text('{"type": "module"}')
        run_step([npm, "install", "--no-audit", "--no-fund", str(package_folder)], project_folder)
        (project_folder / "it.test.mjs").write_text(TEST_MJS)
        run_step([tool("node"), "--test"], project_folder, TXNSIM=str(workspace.txnsim))
        return package_folder.name

    return {"pack, install, test": try_it}


def _go(workspace: Place) -> dict[str, Callable[[], str | None]]:
    def try_it() -> str:
        source_path, project_folder = workspace.root / "go", workspace.folder("go-project")
        shutil.copytree(REPOSITORY / "helpers" / "go", source_path, ignore=_NEVER_COPIED)
        head_text = (source_path / "go.mod").read_text("utf-8")
        module, language = re.findall(r"^(?:module|go) (\S+)", head_text, re.MULTILINE)
        (project_folder / "go.mod").write_text(
            f"module released\n\ngo {language}\n\nrequire {module} v{workspace.version}\n\n"
            f"replace {module} => {source_path}\n"
        )
        (project_folder / "it_test.go").write_text(TEST_GO.replace("MODULE", module))
        run_step(
            [tool("go"), "test", "-count=1", "./..."], project_folder, TXNSIM=str(workspace.txnsim)
        )
        return str(module)

    return {"a module that requires it": try_it}


def _java(workspace: Place) -> dict[str, Callable[[], str | None]]:
    repository_folder = workspace.root / "m2"

    def maven(*arguments: str, directory: Path) -> str:
        return run_step(
            [tool("mvn"), "-q", "-B", *arguments], directory, TXNSIM=str(workspace.txnsim)
        )

    def install(file_name: str) -> str:
        source_path = workspace.root / file_name
        shutil.copytree(REPOSITORY / "helpers" / file_name, source_path, ignore=_NEVER_COPIED)
        # Not installed into this machine's own repository: the last step must find it in ours.
        options = ("-DskipTests", "-Dmaven.install.skip=true")
        repository_option = f"-DaltDeploymentRepository=here::file://{repository_folder}"
        maven(*options, repository_option, "deploy", directory=source_path)
        jars = sorted(path.name for path in repository_folder.rglob("*.jar"))
        return ", ".join(jars)

    def try_it() -> None:
        project_folder = workspace.folder("java-project")
        tests_folder = project_folder / "src" / "test" / "java"
        tests_folder.mkdir(parents=True)
        (tests_folder / "ReleasedTest.java").write_text(TEST_JAVA)
        pom = _POM.replace("VERSION", workspace.version).replace(
            "REPOSITORY", f"file://{repository_folder}"
        )
        (project_folder / "pom.xml").write_text(pom)
        maven("test", directory=project_folder)

    return {
        "deploy txnsim-junit to a folder": lambda: install("java"),
        "deploy txnsim-testcontainers to a folder": lambda: install("testcontainers-java"),
        "a project that depends on txnsim-junit": try_it,
    }


_POM: Final = """\
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>released</groupId>
  <artifactId>released</artifactId>
  <version>1</version>
  <properties>
    <maven.compiler.release>17</maven.compiler.release>
    <project.build.sourceEncoding>UTF-8</project.build.sourceEncoding>
  </properties>
  <repositories><repository><id>here</id><url>REPOSITORY</url></repository></repositories>
  <dependencies>
    <dependency>
      <groupId>io.txnsim</groupId>
      <artifactId>txnsim-junit</artifactId>
      <version>VERSION</version>
      <scope>test</scope>
    </dependency>
    <dependency>
      <groupId>org.junit.jupiter</groupId>
      <artifactId>junit-jupiter</artifactId>
      <version>5.13.4</version>
      <scope>test</scope>
    </dependency>
  </dependencies>
  <build>
    <plugins>
      <plugin><artifactId>maven-compiler-plugin</artifactId><version>3.14.1</version></plugin>
      <plugin><artifactId>maven-surefire-plugin</artifactId><version>3.5.4</version></plugin>
    </plugins>
  </build>
</project>
"""

LANGUAGES: Final[Mapping[str, Callable[[Place], dict[str, Callable[[], str | None]]]]] = {
    "python": _python,
    "node": _node,
    "go": _go,
    "java": _java,
}

_NEVER_COPIED: Final = shutil.ignore_patterns("target", "node_modules", "examples")


def tool(name: str) -> str:
    """The path of a toolchain's command.

    Raises:
        StepError: The command is not on this machine.
    """
    path = shutil.which(name)
    if path is None:
        raise StepError(f"{name}: not found on this machine")
    return path


_NOT_A_USERS: Final = ("PYTHONPATH", "VIRTUAL_ENV", "PYTHONDONTWRITEBYTECODE")
"""Environment variables that a user would not have set; the last one makes every start compile all
modules anew.
"""


def run_step(command: Sequence[str], directory: Path, *, status: int = 0, **variables: str) -> str:
    """Run a command; returns what it prints.

    Raises:
        StepError: The exit status is not ``status``; the message has the end of the output.
    """
    environment = {k: v for k, v in os.environ.items() if k not in _NOT_A_USERS}
    finished_process = subprocess.run(
        command,
        cwd=directory,
        env={**environment, **variables},
        input="",
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        timeout=TIMEOUT_S,
        check=False,
    )
    if finished_process.returncode != status:
        end = "\n".join(finished_process.stdout.splitlines()[-_TAIL_LINES:])
        raise StepError(
            f"{' '.join(command[:4])} … ended with {finished_process.returncode}\n{end}"
        )
    return finished_process.stdout


if __name__ == "__main__":
    sys.exit(main())
