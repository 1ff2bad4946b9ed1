"""What readers copy from the documents is accepted by the program as it is now.

A command is a line that begins with ``$`` in a ``console`` block. It is not run: arguments,
requests and files are given to whoever would read them. The README's Python programs are run.
"""

from __future__ import annotations

import ast
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import urlsplit

import msgspec
import pytest

from tests.docs import PAGES, ROOT
from tests.support.txnsim_server import TxnsimServer
from txnsim.cli import commands as command_tables
from txnsim.cli import main as cli
from txnsim.config import load
from txnsim.faults.plan import FaultRule
from txnsim.http._app import OPERATIONS
from txnsim.http._openapi import document
from txnsim_lab.exploration.catalog import read as read_exploration
from txnsim_lab.scenario.catalog import find, scenarios
from txnsim_lab.scenario.scenario_reader import read

LANGUAGES: Final = frozenset(
    (
        "",
        "console",
        "go",
        "java",
        "js",
        "json",
        "properties",
        "python",
        "sql",
        "xml",
        "yaml",
    )
)
"""Of blocks; plain ones show output, or files that nobody reads. Programs of docs/recipes are files
that are run (`tests/recipes/test_pages.py`).
"""

BODIES: Final = {
    operation.path: operation.body for operation in OPERATIONS if operation.body is not None
}


class Block(NamedTuple):
    """A fenced block of a document."""

    page: str
    line: int
    language: str
    text: str


class Command(NamedTuple):
    """A command of a ``console`` block and the first line that it is said to print."""

    place: str
    words: list[str]
    printed: str


def pages() -> list[str]:
    """The documents that are written by hand and show commands."""
    hand_written = {path.relative_to(ROOT).as_posix() for path in ROOT.glob("docs/**/*.md")}
    return ["README.md", "ARCHITECTURE.md", *sorted(hand_written - set(PAGES))]


def blocks() -> Iterator[Block]:
    for page_text in pages():
        file_text = (ROOT / page_text).read_text("utf-8")
        for match in re.finditer(r"^```(\w*)\n(.*?)^```$", file_text, re.DOTALL | re.MULTILINE):
            line = file_text.count("\n", 0, match.start()) + 1
            yield Block(page_text, line, match[1], match[2])


def commands() -> Iterator[Command]:
    for block in blocks():
        if block.language != "console":
            continue
        lines = [*block.text.splitlines(), ""]
        for index, line in enumerate(lines):
            if line.startswith("$ "):
                location = f"{block.page}:{block.line + 1 + index}"
                yield Command(location, shlex.split(line[2:]), lines[index + 1])


COMMANDS: Final = tuple(commands())


@pytest.mark.parametrize("command", COMMANDS, ids=[command.place for command in COMMANDS])
def test_a_command_is_accepted(command: Command) -> None:
    program, *arguments = command.words
    match program:
        case "make":
            assert arguments[0] in make_targets()
        case "txnsim":
            accept_txnsim(arguments)
        case "curl":
            accept_curl(arguments, is_refused=command.printed.startswith('{"error":"'))
        case "python":
            assert arguments[:2] == ["-m", "http.server"]  # of the standard library
        case "pip":
            accept_pip(arguments)
        case unknown:
            pytest.fail(f"{unknown}: say here how it is checked")


def accept_pip(arguments: list[str]) -> None:
    """Only this checkout is installed, with extras that there are, and clients that are tried."""
    install, requirement, *clients = arguments
    assert set(clients) <= {"aiokafka", "confluent-kafka"}
    match = re.fullmatch(r"\.\[([\w,]+)\]", requirement)
    assert install == "install"
    assert match is not None
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert set(match[1].split(",")) <= project["optional-dependencies"].keys()


@pytest.mark.parametrize("page_text", ["README.md", "docs/testing.md"])
def test_what_the_first_test_needs_is_installed_above_it(page_text: str) -> None:
    """``make journeys`` runs the README's commands without any change."""
    text_above, test = (ROOT / page_text).read_text("utf-8").split("```python\n", 1)
    (line,) = re.findall(r"^\$ (pip install .*)$", text_above, re.MULTILINE)
    assert test.startswith("import pytest\nfrom kafka import KafkaProducer\n")
    assert shlex.split(line)[2] == ".[pytest,demo]"


def test_the_documents_show_each_command_of_the_program() -> None:
    shown_commands = {command.words[1] for command in COMMANDS if command.words[0] == "txnsim"}
    assert shown_commands == set(command_tables.commands())


def test_a_page_that_shows_the_command_says_how_to_have_it() -> None:
    pages = {command.place.split(":")[0] for command in COMMANDS if command.words[0] == "txnsim"}
    silent_pages = [
        page_text
        for page_text in sorted(pages - {"docs/install.md"})
        if "install.md)" not in (ROOT / page_text).read_text("utf-8")
    ]
    assert silent_pages == []


def test_a_command_that_does_not_exist_is_noticed() -> None:
    with pytest.raises(AssertionError):
        accept_txnsim(["serve", "--brokrs", "1"])
    with pytest.raises(AssertionError):
        accept_txnsim(["txns", "lst"])
    with pytest.raises(AssertionError):
        accept_curl(["-X", "PUT", "http://127.0.0.1:9080/api/v1/clock"], is_refused=False)
    with pytest.raises(msgspec.ValidationError):
        accept_curl(["http://127.0.0.1:9080/api/v1/clock", "-d", '{"ms": 1}'], is_refused=False)


def make_targets() -> set[str]:
    makefile = (ROOT / "Makefile").read_text("utf-8")
    return set(re.findall(r"^([\w-]+):", makefile, re.MULTILINE))


def accept_txnsim(arguments: list[str]) -> None:
    argument_name = arguments[0]
    assert argument_name in command_tables.commands(), argument_name
    module = cli._load_command(argument_name)
    parser = cli._build_parser(argument_name, module)
    try:
        options = parser.parse_args(getattr(module, "rewrite", list)(arguments))
    except SystemExit as end:
        raise AssertionError(f"txnsim {shlex.join(arguments)} ends with {end.code}") from None
    if argument_name == "scenario" and "name" in options and options.action != "new":
        for story in [options.name] if isinstance(options.name, str) else options.name:
            if (ROOT / story).exists():
                find(str(ROOT / story))
            elif not story.endswith(".yaml"):
                find(story)


def accept_curl(arguments: list[str], *, is_refused: bool) -> None:
    """The control port has that route, and takes that body or, where it should, refuses it."""
    (url,) = (argument_word for argument_word in arguments if argument_word.startswith("http://"))
    body = arguments[arguments.index("-d") + 1] if "-d" in arguments else None
    default_method = "GET" if body is None else "POST"
    method = arguments[arguments.index("-X") + 1] if "-X" in arguments else default_method
    path = urlsplit(url).path
    routes: dict[str, dict[str, object]] = msgspec.convert(
        document(OPERATIONS)["paths"], dict[str, dict[str, object]]
    )
    methods = [verbs for route, verbs in routes.items() if _matches(route, path)]
    assert any(method.lower() in verbs for verbs in methods), f"no route {method} {path}"
    if body is None:
        return
    (kind,) = (BODIES[route] for route in BODIES if _matches(route, path))
    if is_refused:
        with pytest.raises((msgspec.ValidationError, ValueError)):
            msgspec.json.decode(body, type=kind)
    else:
        msgspec.json.decode(body, type=kind)


def _matches(route: str, path: str) -> bool:
    return re.fullmatch(re.sub(r"\{\w+\}", "[^/]+", route), path) is not None


# Other blocks


def test_every_block_is_of_a_language_that_is_looked_at() -> None:
    assert {block.language for block in blocks()} <= LANGUAGES


def test_python_parses() -> None:
    python_blocks = [block for block in blocks() if block.language == "python"]
    assert python_blocks
    for block in python_blocks:
        ast.parse(block.text, f"{block.page}:{block.line}")


@pytest.mark.clients
def test_the_programs_of_readme_and_first_client_commit_and_read() -> None:
    """The programs run in the page's order, because the reader needs committed records."""
    programs = [
        block
        for block in blocks()
        if block.page in ("README.md", "docs/first-client.md")
        and block.language == "python"
        and "def test_" not in block.text  # tests/lab/plugin runs these
    ]
    outputs = []
    with TxnsimServer(arguments=("--topic", "orders:3")) as server:
        for program in programs:
            text = program.text.replace("127.0.0.1:9092", server.bootstrap)
            assert text != program.text, f"{program.page}:{program.line}: another address"
            finished_process = subprocess.run(
                [sys.executable, "-c", text],
                capture_output=True,
                text=True,
                check=False,
            )
            assert finished_process.returncode == 0, (
                f"{program.page}:{program.line}: {finished_process.stderr}"
            )
            outputs.append(finished_process.stdout.strip())
    assert outputs == ["committed", "committed", "b'one order'", "committed", "committed"]


def test_yaml_is_read_by_its_reader(tmp_path: Path) -> None:
    import yaml

    kinds = set()
    for block in (block for block in blocks() if block.language == "yaml"):
        content = yaml.safe_load(block.text)
        location = f"{block.page}:{block.line}"
        if "jobs" in content:
            kinds.add("workflow")
            # YAML 1.1 reads `on` as true; GitHub reads the word.
            assert content.keys() == {"name", True, "jobs"}, f"{location}: paste it whole"
            for job in content["jobs"].values():
                assert "runs-on" in job
                assert all({"uses", "run"} & step.keys() for step in job["steps"])
        elif "steps" in content:
            kinds.add("scenario")
            read(location, block.text)
        elif "tracks" in content:
            kinds.add("exploration")
            file = tmp_path / "exploration.yaml"
            file.write_text(block.text, "utf-8")
            assert read_exploration(file).name == content["name"], location
        elif "action" in content:
            kinds.add("rule")
            msgspec.convert(content, FaultRule)
        elif "services" in content:
            kinds.add("job")  # of CI: test_container_process.py holds it against the image
        else:
            kinds.add("configuration")
            file = tmp_path / "cluster.yaml"
            file.write_text(block.text, "utf-8")
            assert load(file).warnings == (), location
    assert kinds == {"scenario", "exploration", "rule", "job", "configuration", "workflow"}


def test_the_readme_counts_the_anomalies() -> None:
    anomalies = {story.anomaly for story in scenarios().values()}
    page_text = (ROOT / "README.md").read_text("utf-8")
    assert f"It is one of {len(anomalies)} [documented anomalies]" in page_text


def test_the_readme_compares_by_figures_that_were_measured() -> None:
    page_text = " ".join((ROOT / "README.md").read_text("utf-8").split())
    rows = {
        cells[0]: cells[1:]
        for page in ("docs/performance.md", "docs/conformance.md")
        for line in (ROOT / page).read_text("utf-8").splitlines()
        if line.startswith("| ")
        and (cells := [cell_text.strip() for cell_text in line.strip("|").split("|")])
    }
    starts = [
        int(cell_text.replace(",", "")) / 1000
        for cell_text in rows["process start to first commit, ms"][:2]
    ]
    memory = rows["idle memory, MB"]
    assert (
        f"need {starts[0]:.1f} s until their first commit and {memory[0]} MB of memory" in page_text
    )
    assert f"txnsim {starts[1]:.2f} s and {memory[1]} MB" in page_text
    passed_count, differ = (int(cell_text) for cell_text in rows["kfake"][3:5])
    own_count, own_differences = (int(cell_text) for cell_text in rows["txnsim"][3:5])
    assert own_differences == 0
    assert f"txnsim answers all {own_count} of" in page_text
    assert (
        f"{passed_count + differ} cases apply to kfake; it answers {passed_count} so." in page_text
    )


def test_a_reader_with_an_error_is_sent_to_explain() -> None:
    page_text = (ROOT / "README.md").read_text("utf-8")
    (row,) = re.findall(
        r"^\| have an error and want to know why \| (.+) \|$", page_text, re.MULTILINE
    )
    assert row.startswith("`txnsim explain ")


def test_the_readme_says_what_a_marker_is_where_it_first_names_it() -> None:
    beginning, _ = (ROOT / "README.md").read_text("utf-8").split("![The picture", 1)
    assert "A marker is the record that ends a transaction" in " ".join(beginning.split())


def test_files_that_are_named_exist() -> None:
    missing = [
        f"{page}: {name}"
        for page in [*pages(), "CONTRIBUTING.md", "tests/README.md"]
        for name in re.findall(
            r"`((?:sim|tests|docs|benchmarks|scenarios)/[\w./*-]*\w)`",
            (ROOT / page).read_text("utf-8"),
        )
        if not any(ROOT.glob(name))
    ]
    assert missing == []
    page_text = (ROOT / "tests/README.md").read_text("utf-8")
    named_paths = re.findall(r"`((?:[\w-]+/)+test_\w+\.py)", page_text)
    assert len(named_paths) > 50
    assert [
        file_name
        for file_name in named_paths
        if not any((folder / file_name).exists() for folder in BESIDE)
    ] == []


BESIDE: Final = (ROOT, ROOT / "tests")
"""What paths in tests/README.md begin at."""
