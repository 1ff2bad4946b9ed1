"""``make journeys``: plays the first hour of new users with the built wheel, and compares the time
to the first success with the promised time. Each user begins in an empty folder and follows the
documents only.

Caches of pip, Go, npm and Maven are empty, so downloads are part of it. Building the wheel and the
image is not counted: users get them built. It prints one line per journey; the last line is the
result::

    python -m tests.release.journeys [python] [ci] [go] [node] [java] [spring] [demo]
        [author] [operator] [story] [container]

Standard library only.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from tests.release.check import REPOSITORY, StepError, interpreters, run_step, tool

HELPERS: Final = REPOSITORY / "helpers"
READY_SECONDS: Final = 60
HANGS: Final = 3
"""Exit status of ``find-hanging`` if it has found a transaction."""
_NEVER_COPIED: Final = shutil.ignore_patterns("target", "node_modules")


class Place(NamedTuple):
    """The folder of a journey, and the times of its steps."""

    folder: Path
    """Folder of the journey, empty at first."""
    wheel: Path
    seconds: dict[str, float]
    """Duration of each step in seconds."""
    handed: dict[str, float]
    """Steps that build what a user would be given; their durations are not counted."""

    def step(
        self, step_name: str, *command: str | Path, directory: Path | None = None, status: int = 0
    ) -> str:
        """Run a command as a user types it; returns its output."""
        begun_s = time.monotonic()
        try:
            command_line = [str(argument) for argument in command]
            working_folder = directory or self.folder
            return run_step(command_line, working_folder, status=status, **self.environment())
        finally:
            taken_s = time.monotonic() - begun_s
            self.seconds[step_name] = self.seconds.get(step_name, 0) + taken_s

    def environment(self) -> dict[str, str]:
        """Environment variables of commands: with empty caches, and the virtual environment first
        on the PATH.
        """
        return {
            "PATH": f"{self.folder / '.venv' / 'bin'}:{os.environ['PATH']}",
            "PIP_NO_CACHE_DIR": "1",
            "PIP_DISABLE_PIP_VERSION_CHECK": "1",
            "GOMODCACHE": str(self.folder / "go-modules"),
            "GOCACHE": str(self.folder / "go-build"),
            "GOFLAGS": "-modcacherw",
            "npm_config_cache": str(self.folder / "npm-cache"),
        }

    def install(self, *more_packages: str, extras: str = "") -> None:
        """Install ``txnsim`` into a virtual environment of its own (docs/install.md)."""
        self.step("venv", interpreters()[0], "-m", "venv", ".venv")
        self.step("pip install", "pip", "install", "-q", f"{self.wheel}{extras}", *more_packages)

    def copy(self, file_name: str, to: str) -> Path:
        """Copy a helper's folder, as its README says."""
        target_path = self.folder / to
        shutil.copytree(HELPERS / file_name, target_path, ignore=_NEVER_COPIED)
        return target_path


class Journey(NamedTuple):
    """One user's first steps, and the time that is promised for them."""

    promise_s: int
    play: Callable[[Place], None]


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="make journeys", description=__doc__)
    parser.add_argument("journey", nargs="*", choices=[*JOURNEYS, []], metavar="JOURNEY")
    chosen_journeys = parser.parse_args(argv).journey or list(JOURNEYS)
    outcomes = []
    with tempfile.TemporaryDirectory(prefix="txnsim-journeys-") as name:
        root = Path(name)
        build = ("-m", "build", "--wheel", "--outdir", str(root / "dist"), str(REPOSITORY))
        run_step([sys.executable, *build], root)
        (wheel_file,) = (root / "dist").glob("*.whl")
        for journey_name in chosen_journeys:
            folder = root / journey_name
            folder.mkdir()
            outcomes.append(
                _played(journey_name, JOURNEYS[journey_name], Place(folder, wheel_file, {}, {}))
            )
    print(f"{sum(outcomes)} passed, {len(outcomes) - sum(outcomes)} failed", flush=True)
    return 0 if all(outcomes) else 1


def _played(name: str, journey: Journey, workspace: Place) -> bool:
    begun_s = time.monotonic()
    try:
        journey.play(workspace)
    except (StepError, OSError, subprocess.TimeoutExpired) as failure:
        print(f"FAIL {name}: {failure}", flush=True)
        return False
    taken_s = time.monotonic() - begun_s - sum(workspace.handed.values())
    steps = ", ".join(f"{step} {seconds:.1f}" for step, seconds in workspace.seconds.items())
    steps += "".join(
        f"; not counted: {step_name} {s:.1f}" for step_name, s in workspace.handed.items()
    )
    is_in_time = taken_s <= journey.promise_s
    outcome = "PASS" if is_in_time else "FAIL"
    print(f"{outcome} {name}: {taken_s:.1f} s of {journey.promise_s} s ({steps})", flush=True)
    return is_in_time


# The journeys


def _python(workspace: Place) -> None:
    """Run the first test of the README, with the README's lines as they stand."""
    workspace.step("venv", interpreters()[0], "-m", "venv", ".venv")
    readme = (REPOSITORY / "README.md").read_text("utf-8")
    (install,) = re.findall(r"^\$ (pip install '.*)$", readme, re.MULTILINE)
    (file_name, test) = (*re.findall(r"`pytest (test_\w+\.py)`", readme)[:1], _first_test(readme))
    workspace.step("pip install", *shlex.split(install), directory=REPOSITORY)
    (workspace.folder / file_name).write_text(test)
    workspace.step("pytest", "pytest", file_name)


def _first_test(readme: str) -> str:
    (test,) = re.findall(r"```python\n(import pytest\n.*?)```", readme, re.DOTALL)
    return str(test)


def _ci(workspace: Place) -> None:
    """Run the GitLab job of docs/in-ci.md, with the wheel in the repository of the tests."""
    page_text = (REPOSITORY / "docs/in-ci.md").read_text("utf-8")
    (job,) = re.findall(r"^## GitLab\n.*?```\n(.*?)```", page_text, re.DOTALL | re.MULTILINE)
    (workspace.folder / "ci").mkdir()
    shutil.copy(workspace.wheel, workspace.folder / "ci")
    (workspace.folder / "requirements.txt").write_text("kafka-python\n")
    readme = (REPOSITORY / "README.md").read_text("utf-8")
    (workspace.folder / "test_shop.py").write_text(_first_test(readme))
    workspace.step("venv", interpreters()[0], "-m", "venv", ".venv")
    (url,) = re.findall(r"TXNSIM_WHEEL: (.*)", job)
    for line in re.findall(r"^    - (pip .*|pytest .*)$", job, re.MULTILINE):
        url = url.replace("$CI_PROJECT_DIR", str(workspace.folder))
        workspace.step(line.split()[0], "sh", "-ec", line.replace("$TXNSIM_WHEEL", url))
    _expect("<testcase" in (workspace.folder / "report.xml").read_text("utf-8"), job)


def _go(workspace: Place) -> None:
    """Follow helpers/go/README.md, and run its example with franz-go."""
    workspace.install(extras="[http]")
    workspace.copy("go", "txnsimtest")
    project_folder = workspace.folder / "shop"
    project_folder.mkdir()
    for file_name in ("late_produce_test.go", "lost_marker_test.go"):
        shutil.copy(HELPERS / "go" / "examples" / file_name, project_folder)
    go = tool("go")
    workspace.step("go mod", go, "mod", "init", "shop", directory=project_folder)
    replace = f"-replace=txnsim.test/txnsimtest={workspace.folder / 'txnsimtest'}"
    workspace.step("go mod", go, "mod", "edit", replace, directory=project_folder)
    workspace.step("go mod", go, "mod", "tidy", directory=project_folder)
    command = (go, "test", "-count=1", "-run", "LostMarker", "./...")
    workspace.step("go test", *command, directory=project_folder)


def _node(workspace: Place) -> None:
    """Follow helpers/node/README.md, and run its example with KafkaJS."""
    workspace.install(extras="[http]")
    helper_file = workspace.copy("node", "txnsim-test")
    project_folder = workspace.folder / "shop"
    project_folder.mkdir()
    (project_folder / "package.json").write_text('{"type": "module"}')
    npm_options = ("--no-audit", "--no-fund")
    command = (tool("npm"), "install", *npm_options, "kafkajs", helper_file)
    workspace.step("npm install", *command, directory=project_folder)
    shutil.copy(HELPERS / "node" / "examples" / "lost-marker.test.mjs", project_folder)
    workspace.step("node --test", tool("node"), "--test", directory=project_folder)


def _java(workspace: Place) -> None:
    """Follow helpers/java/README.md: install the extension, then run a project with
    kafka-clients.
    """
    workspace.install(extras="[http]")
    helper_file = workspace.copy("java", "txnsim-junit")
    maven = (tool("mvn"), "-q", "-B", f"-Dmaven.repo.local={workspace.folder / 'm2'}")
    workspace.step("mvn install", *maven, "-DskipTests", "install", directory=helper_file)
    project_folder = workspace.folder / "shop"
    tests_folder = project_folder / "src" / "test" / "java"
    tests_folder.mkdir(parents=True)
    (tests_folder / "OrdersTest.java").write_text(_ORDERS_TEST)
    (project_folder / "pom.xml").write_text(_POM)
    workspace.step("mvn test", *maven, "test", directory=project_folder)


def _spring(workspace: Place) -> None:
    """Follow docs/recipes/spring.md: copy the folder, and lose a commit's marker in a Spring
    test.
    """
    workspace.install(extras="[http]")
    helper_file = workspace.copy("java", "txnsim-junit")
    maven = (tool("mvn"), "-B", "-ntp", f"-Dmaven.repo.local={workspace.folder / 'm2'}")
    workspace.step("mvn install", *maven, "-q", "-DskipTests", "install", directory=helper_file)
    project_folder = workspace.folder / "shop"
    recipe_file = REPOSITORY / "tests" / "recipes" / "spring"
    shutil.copytree(recipe_file, project_folder, ignore=_NEVER_COPIED)
    output = workspace.step("mvn test", *maven, "test", directory=project_folder)
    _expect("Tests run: 2, Failures: 0, Errors: 0, Skipped: 0" in output, output)


def _demo(workspace: Place) -> None:
    """Follow the first screen of the README: the demo, and the first lesson."""
    workspace.install()
    output = workspace.step("demo", "txnsim", "lesson", "demo")
    _expect(output.strip().endswith("next: txnsim lesson L1"), output)


def _author(workspace: Place) -> None:
    """Follow docs/first-client.md: send three requests as bytes, for a client that does not exist
    yet.
    """
    workspace.install("pytest")
    (workspace.folder / "docs").mkdir()
    (workspace.folder / "tests").mkdir()
    for file_name in ("docs/first-client.md", "tests/test_raw_requests_page.py"):
        shutil.copy(REPOSITORY / file_name, workspace.folder / file_name)
    workspace.step("pytest", "python", "-m", "pytest", "-q", "tests")


def _operator(workspace: Place) -> None:
    """Follow docs/practise.md: find a hanging transaction, ask why, repair it."""
    workspace.install(extras="[http]")
    with _running(workspace, "txnsim", "practise", "--port", "0", "--http", "0") as output:
        (bootstrap,) = re.findall(r"bootstrap.servers=([^,\s]+)", output)
        txns = ("txnsim", "txns", "--bootstrap-server", bootstrap)
        listing_text = workspace.step("find-hanging", *txns, "find-hanging", "--all", status=HANGS)
        _expect("orders" in listing_text, listing_text)
        reason = workspace.step("why", *txns, "why", "orders-0", status=HANGS)
        _expect("It hangs." in reason, reason)
        workspace.step("repair", *txns, "repair", "--yes")
        why_output = workspace.step("why", *txns, "why", "orders-0")
        _expect("It hangs." not in why_output, why_output)


def _story(workspace: Place) -> None:
    """Follow docs/writing-scenarios.md: change, check and run a scenario of one's own."""
    workspace.install()
    workspace.step("scenario new", "txnsim", "scenario", "new", "mine")
    (file,) = workspace.folder.glob("mine*.yaml")
    file_text = file.read_text("utf-8")
    file.write_text(re.sub(r"^title: .*$", "title: My own story", file_text, flags=re.MULTILINE))
    workspace.step("scenario check", "txnsim", "scenario", "check", file)
    output = workspace.step("scenario run", "txnsim", "scenario", "run", file)
    _expect("late" in output or "commit" in output, output)


def _container(workspace: Place) -> None:
    """Follow the README: run the image, and let a client commit. The image is built before, not
    counted.
    """
    from tests.image.builder import Builder

    with Builder() as builder:
        begun_s = time.monotonic()
        builder.build()
        container = builder.ask("buildah", "from", "--pull-never", "localhost/txnsim:latest")
        name = container.split()[-1]
        workspace.handed["the image"] = time.monotonic() - begun_s
        options = ("-e", "TXNSIM_PORT=0", "-e", "TXNSIM_HTTP_PORT=off")
        host = ("-e", "TXNSIM_ADVERTISED_HOST=127.0.0.1")
        run = builder.words("run", "--isolation", "chroot", *options, *host, name)
        entry = ("python", "-m", "txnsim.testing.container", "--topic", "orders")
        begun_s = time.monotonic()
        with _running(workspace, *run, "--", *entry) as output:
            (bootstrap,) = re.findall(r"bootstrap.servers=([^,\s]+)", output)
            program = _COMMIT.format(bootstrap=bootstrap)
            workspace.step("a client commits", sys.executable, "-c", program, directory=REPOSITORY)
        workspace.seconds["run to commit"] = time.monotonic() - begun_s


_COMMIT: Final = """
import asyncio, sys
sys.path.insert(0, "sim")
from txnsim.client import Cluster, Producer
async def main():
    async with Cluster("{bootstrap}") as cluster:
        producer = Producer(cluster, transactional_id="shop")
        await producer.init_transactions()
        producer.begin()
        await producer.send("orders", 0, b"one order")
        await producer.commit()
asyncio.run(main())
"""

JOURNEYS: Final[Mapping[str, Journey]] = {
    "python": Journey(60, _python),
    "ci": Journey(90, _ci),
    "go": Journey(180, _go),
    "node": Journey(180, _node),
    "java": Journey(180, _java),
    "spring": Journey(300, _spring),
    "demo": Journey(60, _demo),
    "author": Journey(60, _author),
    "operator": Journey(60, _operator),
    "story": Journey(300, _story),
    "container": Journey(300, _container),
}


class _running:  # noqa: N801 - a context, as contextmanager makes it
    """Run a command that serves until the block ends; yields its output up to the moment it is
    ready.
    """

    def __init__(self, workspace: Place, *command: str) -> None:
        self._place = workspace
        self._output = workspace.folder / "served"
        with self._output.open("wb") as output:
            self._process = subprocess.Popen(
                command,
                cwd=workspace.folder,
                env={**os.environ, **workspace.environment()},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )

    def __enter__(self) -> str:
        begun_s = time.monotonic()
        while "stop with Ctrl-C" not in (output := self._output.read_text("utf-8")):
            taken_s = time.monotonic() - begun_s
            if self._process.poll() is not None or taken_s > READY_SECONDS:
                self.__exit__()
                raise StepError(f"it does not serve:\n{output}")
            time.sleep(0.05)
        self._place.seconds["serve"] = time.monotonic() - begun_s
        return output

    def __exit__(self, *_: object) -> None:
        output = self._output.read_text("utf-8")
        for pid in re.findall(r"to the process (\d+)", output):
            if self._process.poll() is None:
                os.kill(int(pid), signal.SIGTERM)
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def _expect(is_met: bool, output: str) -> None:
    if not is_met:
        raise StepError(f"not what the page promises:\n{output}")


_ORDERS_TEST: Final = """\
import java.time.Duration;
import java.util.Map;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringSerializer;
import org.junit.jupiter.api.Test;
import txnsim.junit.Faults;
import txnsim.junit.Txnsim;
import txnsim.junit.TxnsimCluster;

@Txnsim(topics = "orders:1")
class OrdersTest {
    @Test
    void aCommitSurvivesALostMarker(TxnsimCluster cluster) throws Exception {
        var lost = Faults.Rule.at("peer.request", "lost").api("WriteTxnMarkers").limit(1).drop();
        cluster.faults().arm(lost);
        Map<String, Object> config =
                Map.of("bootstrap.servers", cluster.bootstrap(), "transactional.id", "shop");
        var text = new StringSerializer();
        try (var producer = new KafkaProducer<>(config, text, text)) {
            producer.initTransactions();
            producer.beginTransaction();
            producer.send(new ProducerRecord<>("orders", "one order")).get();
            producer.commitTransaction();
            cluster.faults().waitUntilStruck("lost", 1, Duration.ofSeconds(10));
            cluster.advanceClock(Duration.ofSeconds(31));
            cluster.waitForTransaction("shop", "CompleteCommit");
        }
    }
}
"""

_POM: Final = """\
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>shop</groupId>
  <artifactId>shop</artifactId>
  <version>1</version>
  <properties>
    <maven.compiler.release>17</maven.compiler.release>
    <project.build.sourceEncoding>UTF-8</project.build.sourceEncoding>
  </properties>
  <dependencies>
    <dependency>
      <groupId>io.txnsim</groupId>
      <artifactId>txnsim-junit</artifactId>
      <version>0.2.0</version>
    </dependency>
    <dependency>
      <groupId>org.apache.kafka</groupId>
      <artifactId>kafka-clients</artifactId>
      <version>4.3.1</version>
    </dependency>
    <dependency>
      <groupId>org.junit.jupiter</groupId>
      <artifactId>junit-jupiter</artifactId>
      <version>5.13.4</version>
    </dependency>
  </dependencies>
  <build>
    <plugins>
      <plugin><artifactId>maven-compiler-plugin</artifactId><version>3.14.0</version></plugin>
      <plugin><artifactId>maven-surefire-plugin</artifactId><version>3.5.3</version></plugin>
    </plugins>
  </build>
</project>
"""


if __name__ == "__main__":
    sys.exit(main())
