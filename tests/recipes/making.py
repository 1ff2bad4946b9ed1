"""Recipes are built once, below the ignored ``.cache/``, and named after what they are made of.

Sources are copied there, as a reader would copy them: nothing in them knows of this repository.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

from tests.recipes.judge import RecipeError
from tests.recipes.lab import CLUSTER, Lab, outside, tail
from tests.support.apache_kafka import CACHE, REPOSITORY, digest_of, make_once, tool
from tests.support.package_clients import run_in

RECIPES: Final = REPOSITORY / "tests" / "recipes"

LAUNCHER: Final = (
    "org.junit.platform.console.ConsoleLauncher",
    *("execute", "--scan-classpath", "--disable-banner", "--disable-ansi-colors"),
)
"""Behind ``java_command``: runs every test of a project."""

_HOME: Final = CACHE / "recipes"
_JAVAC: Final = ("-parameters", "-Xlint:all,-processing,-classfile,-serial", "-Werror")
_JVM: Final = ("-Xmx768m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData")
_JAVA: Final = "a JDK 17"
_MAVEN: Final = "Maven, with a JDK 17"


def node_project(
    folder: Path, *, helper_file: Path | None = None, runs_build_scripts: bool = False
) -> Path:
    """A copy of a project with what its package.json asks for.

    Args:
        folder: The project.
        helper: What it finds as ``txnsim-test`` beside its sources.
        runs_build_scripts: A package of its has a native part: scripts of packages are run, no
            others' are. Where it can't be had ready-made, it is compiled against this machine's
            libraries.

    Raises:
        RecipeError: Node.js is missing, or npm failed.
    """

    def copy_helper(target_path: Path) -> None:
        if helper_file is not None:
            ignored_names = shutil.ignore_patterns("node_modules")
            shutil.copytree(
                helper_file, target_path / "txnsim-test", ignore=ignored_names, dirs_exist_ok=True
            )

    def install(new_folder: Path, sources: Sequence[Path]) -> None:
        shutil.copy(sources[0], new_folder)
        copy_helper(new_folder)
        npm_options = ("--no-audit", "--no-fund", "--no-package-lock")
        scripts = () if runs_build_scripts else ("--ignore-scripts",)
        npm = [_tool("npm", "Node.js 20 with npm"), "install", *npm_options, *scripts]
        _do(
            npm,
            directory=new_folder,
            environment={"CKJS_LINKING": "dynamic"} if runs_build_scripts else {},
        )

    modules_folder = _make_once(folder.name, [folder / "package.json"], install)
    copy_helper(modules_folder)
    return _copy_without_helper(folder, target_path=modules_folder)


def python_project(folder: Path) -> Path:
    """A copy of a project with an environment, ``venv``, of what its requirements.txt asks for.

    Raises:
        RecipeError: pip failed.
    """
    environment_folder = _make_once(folder.name, [folder / "requirements.txt"], _install_python)
    return _copy_without_helper(folder, target_path=environment_folder)


def java_command(folder: Path, *, further_jars: Sequence[Path] = ()) -> list[str]:
    """Start of a command line with a project's classes, resources and the jars of its pom.

    Args:
        folder: With ``pom.xml``, ``*.java`` and ``resources/``.
        further_jars: Further sources that it shares with others.

    Raises:
        RecipeError: Maven or a JDK is missing, or one of them failed.
    """
    libs_directory = _make_once(folder.name, [folder / "pom.xml"], _copy_jars) / "libs"
    sources = sorted([*folder.glob("*.java"), *further_jars])
    tree_folder = folder / "resources"
    resources = sorted(file for file in tree_folder.rglob("*") if file.is_file())

    def compile_all(new_folder: Path, _: Sequence[Path]) -> None:
        javac = _tool("javac", _JAVA)
        _do(
            [
                javac,
                *_JAVAC,
                "-d",
                str(new_folder),
                "-cp",
                f"{libs_directory}/*",
                *map(str, sources),
            ],
            directory=folder,
        )
        if tree_folder.is_dir():
            shutil.copytree(tree_folder, new_folder, dirs_exist_ok=True)
        shutil.copy(CLUSTER, new_folder)

    class_directory = _make_once(
        f"{folder.name}-classes", [folder / "pom.xml", CLUSTER, *sources, *resources], compile_all
    )
    return [_tool("java", _JAVA), *_JVM, "-cp", f"{class_directory}{os.pathsep}{libs_directory}/*"]


def run_maven_tests(lab: Lab, folder: Path, *, least: int) -> int:
    """Run ``mvn test`` in a copy of a project that uses the helper for JUnit; how many passed.

    Raises:
        RecipeError: Maven or a JDK is missing, a test failed, or fewer ran than there are.
    """
    maven = [_tool("mvn", _MAVEN), "-B", "-ntp"]
    helper_file = REPOSITORY / "helpers" / "java"

    def copy_from(source_path: Path) -> Callable[[Path], object]:
        return lambda new_folder: shutil.copytree(
            source_path, new_folder, ignore=shutil.ignore_patterns("target")
        )

    lock_file = _HOME / f"{folder.name}.lock"
    junit_home = make_once(
        _HOME / f"junit-{_digest_of_tree(helper_file)}", copy_from(helper_file), lock_file=lock_file
    )
    lab.run([*maven, "-q", "install", "-DskipTests"], directory=junit_home, timeout_s=600)
    file_name = f"{folder.name}-{_digest_of_tree(folder)}"
    project_folder = make_once(_HOME / file_name, copy_from(folder), lock_file=lock_file)
    output = lab.run(
        [*maven, "test"], directory=project_folder, environment=outside(), timeout_s=900
    )
    counts = re.findall(r"Tests run: (\d+), Failures: 0, Errors: 0, Skipped: 0$", output, re.M)
    if not counts or int(counts[-1]) < least:
        raise RecipeError(f"fewer than {least} tests ran:\n{tail(output)}")
    return int(counts[-1])


def _digest_of_tree(folder: Path) -> str:
    return digest_of(
        file
        for file in sorted(folder.rglob("*"))
        if file.is_file() and not {"target", "__pycache__"} & set(file.relative_to(folder).parts)
    )


def _copy_without_helper(folder: Path, *, target_path: Path) -> Path:
    """Copy sources beside the packages that were installed for them."""
    for file in sorted([*folder.iterdir(), CLUSTER]):
        if file.is_file():
            shutil.copy(file, target_path)
    return target_path


def _make_once(
    name: str, sources: Iterable[Path], make: Callable[[Path, Sequence[Path]], None]
) -> Path:
    """A folder that ``make`` fills, once for these contents of its sources."""
    files = list(sources)
    target_path = _HOME / f"{name}-{digest_of(files)}"

    def fill(new_folder: Path) -> None:
        new_folder.mkdir(parents=True)
        make(new_folder, files)

    return make_once(target_path, fill, lock_file=_HOME / f"{name}.lock")


def _install_python(new_folder: Path, sources: Sequence[Path]) -> None:
    _do([sys.executable, "-m", "venv", str(new_folder / "venv")], directory=new_folder)
    pip = [str(new_folder / "venv" / "bin" / "python"), "-m", "pip", "--disable-pip-version-check"]
    _do([*pip, "install", "--quiet", "-r", str(sources[0])], directory=new_folder)


def _copy_jars(new_folder: Path, sources: Sequence[Path]) -> None:
    maven = [_tool("mvn", _MAVEN), "-q", "-B", "-f", str(sources[0])]
    _do(
        [*maven, "dependency:copy-dependencies", f"-DoutputDirectory={new_folder / 'libs'}"],
        directory=new_folder,
    )


def _tool(command: str, purpose: str) -> str:
    return tool(command, f"this recipe needs {purpose}", RecipeError)


def _do(
    command: Sequence[str], *, directory: Path, environment: Mapping[str, str] | None = None
) -> None:
    run_in(directory, command, environment, RecipeError)
