"""Style that no linter sees: one test per rule, each lists every offender.

The rules are explained in CONTRIBUTING.md. An exception stands in a table here, with its reason.
"""

from __future__ import annotations

import ast
import re
import subprocess
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from fnmatch import fnmatch
from functools import cache
from pathlib import Path
from typing import Any, Final, TypeVar

import pytest

from tests.support import public_api
from txnsim.config._kafka_names import known_properties
from txnsim.faults.points import FaultPoint
from txnsim.old_module_names import MOVED
from txnsim.on_demand_imports import EXTENSIONS
from txnsim.runtime.trace_kinds import KINDS

ROOT: Final = Path(__file__).resolve().parent.parent

N = TypeVar("N", bound=ast.AST)

FUNCTION_LINES_MAX: Final = 70

PROTOCOLS_ONLY: Final = "protocols and values, nothing runs"

JUDGED_ELSEWHERE: Final = {
    "sim/txnsim/client/raw/*.py": "tests/lab/conformance/test_conformance.py",
    "sim/txnsim/runtime/blocking_world.py": "tests/conformance/test_cases.py",
    "sim/txnsim_lab/conformance/_book/*.py": "tests/conformance/test_cases.py",
    "sim/txnsim_lab/conformance/*.py": "tests/lab/conformance/test_conformance.py",
    "sim/txnsim/coordinators/group/_classic*.py": (
        "tests/broker/coordinators/group/test_membership.py"
    ),
    "sim/txnsim_lab/cli/_traces/cut_off.py": "tests/test_judging_commands.py",
    "sim/txnsim_lab/cli/_incident.py": "tests/lab/scenario/test_incidents.py",
    "sim/txnsim_lab/scenario/_incident_disks.py": "tests/lab/scenario/test_incidents.py",
    "sim/txnsim_spark/questions/_*.py": "tests/spark/questions/test_decisions.py",
    "sim/txnsim_lab/cli/_check_hypothesis.py": "tests/lab/scenario/test_hypothesis.py",
    "sim/txnsim_lab/cli/_exam_compare.py": "tests/lab/exam/test_compare.py",
    "sim/txnsim_lab/cli/_conformance.py": "tests/lab/conformance/test_conformance.py",
    "sim/txnsim/__main__.py": "tests/broker/cli/test_main.py",
    "sim/txnsim_spark/narrowing.py": "tests/spark/pipeline/test_narrowing.py",
    "sim/txnsim/txn/finding_facts.py": "tests/spark/cli/logs/test_decision_story.py",
    "sim/txnsim/cli/decision_output.py": "tests/spark/cli/logs/test_decisions.py",
    "sim/txnsim/http/wire_noun.py": "tests/broker/http/test_nouns.py",
    "sim/txnsim_lab/cli/_traces/trace.py": "tests/spark/cli/test_cli.py",
    "sim/txnsim_lab/trace/payload_error.py": "tests/lab/cli/traces/test_traces.py",
    "sim/txnsim_lab/http/control_port.py": "tests/lab/http/test_http.py",
    "sim/txnsim_spark/campaign_engine.py": "tests/spark/pipeline/test_campaign.py",
    "sim/txnsim_lab/exam/real_targets.py": "tests/real/test_exam.py",
    "sim/txnsim_lab/exam/situations/*.py": "tests/lab/exam/test_exam.py",
    "sim/txnsim/api/kip_text/*.py": "tests/broker/kip_text/test_differences.py",
    "sim/txnsim/api/_configs/describe_client_quotas.py": "tests/broker/api/test_api.py",
    "sim/txnsim/api/_groups/groups_of_type.py": "tests/broker/api/groups/test_streams_groups.py",
    "sim/txnsim/api/_groups/heartbeat.py": "tests/broker/api/test_api.py",
    "sim/txnsim/api/_groups/leave_group.py": "tests/broker/api/test_api.py",
    "sim/txnsim/api/_groups/offset_commit.py": "tests/broker/api/test_api.py",
    "sim/txnsim/api/_identities/sasl_*.py": "tests/broker/api/test_api.py",
    "sim/txnsim/api/nodes/_describe_cluster.py": "tests/broker/api/test_api.py",
    "sim/txnsim/api/_transactions/list_transactions.py": "tests/broker/api/test_api.py",
    "sim/txnsim/api/_identities/*_delegation_token.py": (
        "tests/broker/api/identities/test_identities.py"
    ),
    "sim/txnsim/api/_records/share_*.py": "tests/broker/broker/test_share_fetch.py",
    "sim/txnsim/broker/_led_share_partition.py": "tests/broker/server/views/test_metric_values.py",
    "sim/txnsim/broker/_share_meters.py": "tests/broker/server/views/test_metric_values.py",
    "sim/txnsim/broker/_share_partitions.py": "tests/broker/broker/test_share_fetch.py",
    "sim/txnsim/group/rebalance.py": "tests/broker/group/test_classic.py",
    "sim/txnsim_lab/http/_runs/lessons.py": "tests/lab/control_port/test_answers.py",
    "sim/txnsim_lab/http/_runs/own_cluster.py": "tests/lab/control_port/test_own_cluster.py",
    "sim/txnsim_lab/cli/_teaching/own_cluster.py": "tests/clients/test_own_cluster.py",
    "sim/txnsim_lab/cli/_teaching/terminal_dialogue.py": "tests/lab/cli/teaching/test_teaching.py",
    "sim/txnsim_lab/cli/_site.py": "tests/lab/browser/test_site.py",
    "sim/txnsim_lab/http/_runs/run_players.py": "tests/lab/http/runs/test_driven_runs.py",
    "sim/txnsim_lab/http/site/_stand_ins/*.py": "tests/lab/browser/test_site.py",
    "sim/txnsim_lab/http/_runs/run_requests.py": "tests/lab/http/runs/test_runs.py",
    "sim/txnsim_lab/scenario/driven_run.py": "tests/lab/http/runs/test_driven_runs.py",
    "sim/txnsim/interbroker/dead_letters.py": "tests/broker/codec/test_peer_codec.py",
    "sim/txnsim/interbroker/lifecycle.py": "tests/broker/test_settings.py",
    "sim/txnsim/interbroker/replication.py": "tests/broker/test_settings.py",
    "sim/txnsim/interbroker/share_state.py": "tests/broker/test_settings.py",
    "sim/txnsim/interbroker/transactions.py": "tests/broker/test_settings.py",
    "sim/txnsim_spark/streaming/stream.py": "tests/spark/pipeline/test_stream.py",
    "sim/txnsim_spark/streaming/events.py": "tests/spark/cli/test_cli.py",
    "sim/txnsim_spark/streaming/_records.py": "tests/spark/pipeline/test_stream.py",
    "sim/txnsim_spark/streaming/_sink.py": "tests/spark/pipeline/test_stream.py",
    "sim/txnsim_spark/streaming/_watch.py": "tests/spark/pipeline/test_stream.py",
    "sim/txnsim/wire/messages/_*_v?.py": "tests/broker/codec/test_golden.py",
    "sim/txnsim/wire/messages/consumer_group_records.py": ("tests/broker/group/test_records.py"),
    "sim/txnsim/wire/messages/group_records.py": "tests/broker/group/test_records.py",
    "sim/txnsim/wire/messages/share_group_records.py": "tests/broker/group/test_records.py",
    "sim/txnsim/wire/messages/streams_group_records.py": (
        "tests/broker/group/streams/test_record_fields.py"
    ),
    "sim/txnsim/group/streams/commands.py": "tests/broker/group/streams/test_protocol.py",
    "sim/txnsim/wire/messages/share_state_records.py": (
        "tests/broker/share_state/test_log_format.py"
    ),
}
"""Modules without a unit test of their own: the test that judges them, or why nothing can."""

FOR_OTHERS: Final = {
    "txnsim.__main__": "`python -m txnsim`",
    "txnsim.api.kip_text.differences": "what DEVIATIONS.md shows, and a test goes through",
    "txnsim_spark.cli.submit": "what spark-submit runs",
    "txnsim_lab.http.site._pack": "what runs in WebAssembly when the site is built",
    **dict.fromkeys(
        (
            f"txnsim_lab.http.site._stand_ins.{name}"
            for name in (
                *("crc32c", "kio_native"),
                *(f"starlette.{module}" for module in ("requests", "responses", "routing")),
            )
        ),
        "takes the place of a library in the site",
    ),
    "txnsim_spark.daemon": "what Spark forks workers from, by name in a session's settings",
    "txnsim.client.consumer": "our client as a library: whoever reads with it",
    "txnsim.runtime.virtual.run": "what tests start a cluster in virtual time with",
    "txnsim.storage.producer_snapshot": "a file of Kafka's, for readers of log directories",
    "txnsim.testing.container": "what the container image runs",
    "txnsim.testing.testcontainers": "what tests that start the image import",
}
"""Modules that the product offers and does not import itself."""

# Written in halves, because this file is read by the test that looks for them.
BANNED: Final = {
    "TO" + "DO": "say what is missing in an issue, or do it",
    "FIX" + "ME": "fix it",
    "X" + "XX": "write the sentence",
    "HA" + "CK": "say why it is right",
    "/ro" + "ot/": "a path of one machine",
    "/ho" + "me/": "a path of one machine",
    "/wo" + "rk/": "a path of one machine",
    "../" + "shared": "a folder beside the repository",
    "style" + ".md": "a file that readers don't have",
    "facts" + ".md": "a file that readers don't have",
    **{
        f"{fetch}{quote}txnsim": "anybody could take the name on an index: '.[extra]', or the wheel"
        for fetch in ("pip install ", "pipx install ", "uv add ", "uvx ")
        for quote in ("", "'", '"')
    },
}

TEXT_SUFFIXES: Final = {
    *["", ".cfg", ".css", ".go", ".html", ".ipynb", ".java", ".js", ".json", ".md", ".mjs"],
    *[".properties", ".py", ".rs", ".sh", ".toml", ".ts", ".txt", ".xml", ".yaml", ".yml"],
}

NOT_OURS: Final = {"LICENSE"}


def assert_none(offenders: Iterable[str], advice: str) -> None:
    """Fail with one line for each offender; pytest would cut a long list."""
    problems = sorted(offenders)
    assert not problems, f"{advice}:\n" + "\n".join(f"  {offender}" for offender in problems)


# Files and lines


@cache
def tracked_files() -> list[str]:
    """Every file that is or would be committed; without git, all but hidden folders."""
    listing = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=False,
    )  # fmt: skip
    file_names = listing.stdout.splitlines() or [
        path.relative_to(ROOT).as_posix()
        for path in ROOT.rglob("*")
        if not any(
            path_part.startswith(".") or path_part == "__pycache__" for path_part in path.parts
        )
    ]
    return sorted(file_name for file_name in set(file_names) if (ROOT / file_name).is_file())


def python_files(*folders: str) -> list[str]:
    return [
        file_name
        for file_name in tracked_files()
        if file_name.endswith(".py")
        and file_name.split("/")[0] in (folders or ("sim", "tests", "benchmarks"))
    ]


@cache
def source(file_name: str) -> str:
    return (ROOT / file_name).read_text("utf-8")


@cache
def tree(name: str) -> ast.Module:
    return ast.parse(source(name), name)


@cache
def _by_class(name: str) -> dict[type[ast.AST], list[Any]]:
    # Once for all rules: a walk takes as long as parsing.
    by_class = defaultdict(list)
    for node in ast.walk(tree(name)):
        by_class[type(node)].append(node)
    return by_class


def nodes(name: str, *classes: type[N]) -> list[N]:
    return [node for node_class in classes for node in _by_class(name).get(node_class, ())]


def functions(name: str) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    return nodes(name, ast.FunctionDef, ast.AsyncFunctionDef)


@pytest.fixture(scope="module", autouse=True)
def forget_caches() -> Iterator[None]:
    """Drop the cached syntax trees, a million nodes, before the following tests."""
    yield
    for cached in (_by_class, tree, source):
        cached.cache_clear()


def module_of(name: str) -> str:
    module_name = name.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    return module_name.removeprefix("sim.")


def test_functions_fit_a_screen() -> None:
    long_functions = (
        f"{file_name}:{function.lineno} {function.name}: {lines}"
        for file_name in python_files()
        for function in functions(file_name)
        if (lines := (function.end_lineno or 0) - function.lineno + 1) > FUNCTION_LINES_MAX
    )
    assert_none(long_functions, f"at most {FUNCTION_LINES_MAX} lines, docstring included")


def test_nothing_is_put_off_and_no_machine_is_named() -> None:
    lines_found = []
    for file_name in tracked_files():
        if Path(file_name).suffix not in TEXT_SUFFIXES or file_name in NOT_OURS:
            continue
        text = source(file_name)
        for word in (word for word in BANNED if word in text):
            for match in re.finditer(rf"(?<![\w.]){re.escape(word)}(?![A-Za-z])", text):
                number = text.count("\n", 0, match.start()) + 1
                lines_found.append(f"{file_name}:{number}: {word}: {BANNED[word]}")
    assert_none(lines_found, "reword")


def test_an_exception_from_a_tool_has_its_reason() -> None:
    marker = re.compile(
        r"#\s*(?:noqa: [A-Z]+\d+(?:, ?[A-Z]+\d+)*|type: ignore\[[\w, -]+\]|pragma: no \w+)(.*)"
    )
    bare_marks = [
        f"{file_name}:{number}: {line.strip()}"
        for file_name in python_files()
        for number, line in enumerate(source(file_name).splitlines(), start=1)
        if (match := marker.search(line))
        and len(match[1].strip(" -#")) < 3
        # A test hands over a wrong type to see it refused: that needs no word.
        and not (file_name.startswith("tests/") and "type: ignore" in match[0])
    ]
    assert_none(bare_marks, "write the reason behind it: `# noqa: X123 - because`")


def test_a_skipped_test_has_its_reason() -> None:
    bare_marks = []
    for file_name in python_files("tests"):
        if "skip" not in source(file_name) and "xfail" not in source(file_name):
            continue
        for node in nodes(file_name, ast.Attribute):
            text = ast.unparse(node) if node.attr in {"skip", "skipif", "xfail"} else ""
            if text == f"pytest.mark.{node.attr}":
                call = next((c for c in nodes(file_name, ast.Call) if c.func is node), None)
                if call is None or not any(k.arg == "reason" for k in call.keywords):
                    bare_marks.append(f"{file_name}:{node.lineno}: {text}")
    assert_none(bare_marks, "say why it is skipped: reason=")


# Docstrings


def test_a_module_opens_with_its_idea() -> None:
    missing = [
        file_name for file_name in python_files("sim") if not ast.get_docstring(tree(file_name))
    ]
    assert_none(missing, "say what it is, what it refuses to know, and Kafka's counterpart")


def test_a_handler_opens_with_its_name_key_and_versions() -> None:
    """`docs/apis.md` is made of these: `Name (key N): what it does.`, then `Versions: …`."""
    odd_files = []
    for file_name in python_files("sim"):
        docstring = ast.get_docstring(tree(file_name)) or ""
        keys = _keys(file_name)
        if keys and not re.match(
            rf"\w+ \(key {keys[0]!r}\): .*?\n\n.*\b[Vv]ersions?\b", docstring, re.DOTALL
        ):
            odd_files.append(file_name)
    assert_none(odd_files, "name, key, versions")


def _keys(name: str) -> list[object]:
    """The ``KEY`` of a handler, by which the registry finds it."""
    return [
        node.value.value
        for node in tree(name).body
        if name.startswith("sim/txnsim/api/")
        and isinstance(node, ast.AnnAssign)
        and ast.unparse(node.target) == "API_KEY"
        and isinstance(node.value, ast.Constant)
    ]


def test_docstrings_name_the_arguments_that_exist() -> None:
    complaints = []
    for file_name in python_files("sim"):
        for function in functions(file_name):
            arguments = {argument.arg for argument in _arguments(function)}
            documented = _section(function, "Args")
            complaints += [
                f"{file_name}:{function.lineno} {function.name}: {argument}"
                for argument in documented
                if argument.lstrip("*") not in arguments
            ]
            if documented and len(documented) < len(arguments - {"self", "cls"}):
                missing = sorted(arguments - {"self", "cls", *documented})
                complaints.append(
                    f"{file_name}:{function.lineno} {function.name}: without {missing}"
                )
    assert_none(complaints, "the Args section and the signature disagree")


def test_public_functions_say_what_they_raise() -> None:
    silent_functions = []
    for file_name in python_files("sim"):
        for function in functions(file_name):
            if function.name.startswith("_"):
                continue
            raised_errors = _raised_for_callers(function)
            silent_functions += [
                f"{file_name}:{function.lineno} {function.name}: {error}"
                for error in sorted(raised_errors - set(_section(function, "Raises")))
            ]
    assert_none(silent_functions, "add a Raises section")


def _arguments(function: ast.FunctionDef | ast.AsyncFunctionDef) -> list[ast.arg]:
    signature = function.args
    starred = [argument for argument in (signature.vararg, signature.kwarg) if argument is not None]
    return [*signature.posonlyargs, *signature.args, *signature.kwonlyargs, *starred]


def _section(function: ast.FunctionDef | ast.AsyncFunctionDef, title: str) -> list[str]:
    """The names that a section of a Google docstring explains."""
    lines = (ast.get_docstring(function) or "").splitlines()
    starts = [
        start_index
        for start_index, line in enumerate(lines)
        if re.fullmatch(rf"{title}( \(.*\))?:", line)
    ]
    if not starts:
        return []
    names: list[str] = []
    for line in lines[starts[0] + 1 :]:
        if line and not line.startswith("    "):
            break
        if match := re.match(r"    ([\w*., ]+?)(?: \(.*\))?:(?: |$)", line):
            names += [part.strip() for part in match[1].split(",")]
    return names


def _raised_for_callers(function: ast.FunctionDef | ast.AsyncFunctionDef) -> set[str]:
    """The errors of txnsim that a function raises by name, without ``InvariantViolation``."""
    tree_names = {
        node.name for node in tree("sim/txnsim/errors.py").body if isinstance(node, ast.ClassDef)
    }
    own_errors = tree_names - {"InvariantViolation", "Rejection"}
    names = set()
    inner = {
        id(node)
        for inner in ast.walk(function)
        if isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        and inner is not function
        for node in ast.walk(inner)
    }
    for node in ast.walk(function):
        if isinstance(node, ast.Raise) and id(node) not in inner and node.exc is not None:
            callee = node.exc.func if isinstance(node.exc, ast.Call) else node.exc
            if isinstance(callee, ast.Name) and callee.id in own_errors:
                names.add(callee.id)
    return names


# The map


TESTS_OF: Final = {"txnsim": "broker", "txnsim_lab": "lab", "txnsim_spark": "spark"}
"""Package -> the folder of its tests."""
OF_MANY_ROOMS: Final = {
    "tests/broker": {"codec", "kip_text", "older_releases", "property", "simulation"},
    "tests/lab": {
        *("browser", "catalogue", "checkers", "control_port", "known_bugs", "plugin", "preventing"),
    },
    "tests/spark": {"pipeline"},
}
"""Folders that mirror no room: their tests ask several."""


def test_unit_tests_follow_the_folders_of_the_product() -> None:
    """A module has a test file or a section of its name, or a file in that folder imports it."""
    untested = {
        file_name
        for file_name in python_files("sim")
        if not file_name.endswith("__init__.py") and module_of(file_name) not in _in_test_folders()
    }
    excused = {
        pattern: {file_name for file_name in python_files("sim") if fnmatch(file_name, pattern)}
        for pattern in JUDGED_ELSEWHERE
    }
    missing = untested.difference(*excused.values())
    assert_none(missing, "write their tests, or say in JUDGED_ELSEWHERE who judges them")
    needless = (pattern for pattern, names in excused.items() if not names & untested)
    assert_none(needless, "tests of their own folder have them: remove from JUDGED_ELSEWHERE")


def test_no_unit_test_is_astray() -> None:
    """Each is for a module or a package of the folder that its own folder mirrors."""
    modules_beside: dict[str, set[str]] = {}
    for file_name in python_files("sim"):
        modules_beside.setdefault(_folder_of_tests(file_name), set()).add(module_of(file_name))
    expected_tests = {_unit_test_of(file_name) for file_name in python_files("sim")}
    stray_tests = [
        file_name
        for file_name in _unit_tests()
        if not expected_tests & {file_name, *_sections(file_name)}
        and not modules_beside.get(Path(file_name).parent.as_posix(), set())
        & set(_imports(file_name))
    ]
    assert_none(stray_tests, "they import nothing of the folder that theirs mirrors")


def _unit_tests() -> list[str]:
    return [
        file_name
        for file_name in python_files("tests")
        if (
            match := re.fullmatch(
                r"(tests/(?:broker|lab|spark))/(?:(\w+)/.*)?test_\w+\.py", file_name
            )
        )
        and match[2] not in OF_MANY_ROOMS[match[1]]
    ]


@cache
def _in_test_folders() -> frozenset[str]:
    """Modules that tests of their folder name: by their file name, by an import, or above a section
    of a file: ``# ``name``: what it is``.
    """
    tests = set(_unit_tests())
    imports_by_folder: dict[str, set[str]] = {}
    for test in tests:
        tests = tests | _sections(test)
        imports_by_folder.setdefault(Path(test).parent.as_posix(), set()).update(_imports(test))
    return frozenset(
        module_name
        for file_name in python_files("sim")
        if (module_name := module_of(file_name))
        in imports_by_folder.get(_folder_of_tests(file_name), ())
        or _unit_test_of(file_name) in tests
    )


def _sections(test: str) -> set[str]:
    """The test files that a file's section headings stand for."""
    section_names = re.findall(r"^# ``(\w+)``", source(test), re.MULTILINE)
    return {Path(test).with_name(f"test_{name}.py").as_posix() for name in section_names}


def _folder_of_tests(name: str) -> str:
    return Path(_unit_test_of(name)).parent.as_posix()


def _unit_test_of(name: str) -> str:
    _, package, *inside = (re.sub("^_(?!_)", "", part) for part in Path(name).parts)
    path = Path("tests", TESTS_OF.get(package, package), *inside)
    return path.with_name(f"test_{path.name}").as_posix()


def test_tests_of_the_broker_need_no_tests_of_others() -> None:
    """These tests import the broker's package, their own folder and ``tests.support``."""
    own_prefixes = ("tests.broker", "tests.support", "tests.image", "tests.test_tidy")
    foreign_imports = [
        f"{file_name}: {module_name}"
        for file_name in python_files("tests")
        if file_name.startswith("tests/broker/")
        for module_name in _imported_modules(file_name)
        if module_name.startswith("tests.") and not module_name.startswith(own_prefixes)
    ]
    assert_none(foreign_imports, "move it to tests/support")


def test_no_exception_outlives_its_file() -> None:
    files = tracked_files()
    outdated = [
        pattern
        for pattern, judge in JUDGED_ELSEWHERE.items()
        if not any(fnmatch(name, pattern) for name in files)
        or (judge.startswith("tests/") and judge not in files)
    ]
    assert_none(outdated, "remove them from JUDGED_ELSEWHERE")


@cache
def entry_points() -> set[str]:
    """Modules that are started from outside: console scripts and plugins of the distribution."""
    project = tomllib.loads(source("pyproject.toml"))["project"]
    groups = [project.get("scripts", {}), *project.get("entry-points", {}).values()]
    return {target.partition(":")[0] for group in groups for target in group.values()}


def test_every_module_is_imported_by_the_product() -> None:
    imported_modules: set[str] = set()
    for file_name in python_files("sim"):
        own_name = module_of(file_name)
        imported_modules |= {
            module_name for module_name in _imports(file_name) if module_name != own_name
        }
    unused_modules = [
        file_name
        for file_name in python_files("sim")
        if not file_name.endswith("__init__.py")
        and module_of(file_name) not in imported_modules
        and module_of(file_name) not in {*entry_points(), *FOR_OTHERS}
        and not _keys(file_name)
    ]
    assert_none(unused_modules, "only tests use them, or nobody")


def _imports(name: str) -> Iterator[str]:
    """Modules of ours that a file names: imported anywhere in it, or as text for a lazy import."""
    for node in nodes(name, ast.Import, ast.ImportFrom, ast.Call, ast.Constant):
        match node:
            case ast.Import(names=names):
                yield from (alias.name for alias in names)
            case ast.ImportFrom(module=str(module_name), names=names):
                yield module_name
                yield from (f"{module_name}.{alias.name}" for alias in names)
            case ast.Call(
                func=ast.Name(id="offered" | "offering"), args=[ast.Constant(value=str(text))]
            ):
                yield from (f"{extension}.{text}" for extension in EXTENSIONS)
            case ast.Constant(value=str(text)) if re.match(r"txnsim(_lab|_spark)?\.", text):
                yield text
            case _:
                pass


def test_test_support_is_used() -> None:
    word_counts = Counter(
        word
        for file_name in python_files("tests", "benchmarks")
        for word in set(re.findall(r"\w+", source(file_name)))
    )
    unused_modules = [
        file_name
        for file_name in python_files("tests")
        if file_name.startswith("tests/support/")
        and not file_name.endswith("__init__.py")
        and word_counts[Path(file_name).stem]
        <= (Path(file_name).stem in re.findall(r"\w+", source(file_name)))
    ]
    assert_none(unused_modules, "no test uses them")


WRITERS: Final = {
    "sim/txnsim/files.py": "the mechanism itself",
    "sim/txnsim/cli/main.py": "the null device, where a standard file is closed",
    "sim/txnsim_spark/cli/_stream.py": "open for `append`",
    "sim/txnsim/cli/_txns/audit.py": "open for `append`",
    "sim/txnsim_lab/http/site/build.py": "in a temporary folder",
    "sim/txnsim_lab/http/site/_pack.py": "the same, in WebAssembly",
    "sim/txnsim_lab/cli/_teaching/own_cluster.py": "what its cluster says, in a temporary folder",
    "sim/txnsim_spark/stores/mirror.py": "in a temporary folder",
    "sim/txnsim/runtime/tls.py": "in a temporary folder",
    "sim/txnsim_lab/target/apache.py": "in the temporary home of a real broker",
    "sim/txnsim_lab/target/jars.py": "in a temporary folder; a lock",
    "sim/txnsim_lab/simulation/seed_batch.py": "open for `append`",
    "sim/txnsim/storage/replica_install.py": "in temporary folders, synced to the disk",
    "sim/txnsim/testing/container.py": "the settings of a container, read when it starts again",
    "sim/txnsim/testing/testcontainers.py": "an archive in memory",
}
"""Modules that open files for writing by themselves, and why that leaves nothing in part."""


def test_files_are_written_by_one_mechanism() -> None:
    writers = {
        file_name
        for file_name in python_files("sim")
        if any(map(_writes, nodes(file_name, ast.Call)))
    }
    assert_none(writers - WRITERS.keys(), "use txnsim.files: a full disk leaves nothing")
    assert_none(WRITERS.keys() - writers, "it writes no file: remove its row")


def _writes(call: ast.Call) -> bool:
    """Whether a call opens a file for writing."""
    match call.func:
        case ast.Attribute(attr="write_text" | "write_bytes"):
            return True
        case ast.Attribute(attr="open" | "ZipFile") | ast.Name(id="open"):
            arguments = [
                *call.args,
                *(keyword.value for keyword in call.keywords if keyword.arg == "mode"),
            ]
            modes = (argument.value for argument in arguments if isinstance(argument, ast.Constant))
            return any(re.fullmatch("[wax]b?", str(mode)) for mode in modes)
    return False


def test_git_ignores_no_file_that_it_has() -> None:
    """The build and ruff go by ``.gitignore``: what it names is in no wheel, and unread."""
    listing = subprocess.run(
        ["git", "ls-files", "--cached", "--ignored", "--exclude-standard"],
        cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=False,
    )  # fmt: skip
    assert_none(listing.stdout.splitlines(), "name the exception in .gitignore: !path/")


def test_no_python_file_is_empty() -> None:
    assert_none((n for n in python_files() if not source(n).strip()), "write or remove them")


# What docstrings name


NO_MODULES: Final = {
    "kafka_log": "a format of Spark",
    "obstore": "a library",
    "pyspark_": "the beginning of names",
    "range": "an assignor",
    "security.listeners": "a section of a YAML file",
    "security.protocol": "a property of clients",
    "spark": "an extra",
}
"""Words in backticks that look like modules, and are none."""


OF_A_KIND: Final = (
    *("sim/txnsim/api/*", "sim/*/cli/*", "sim/txnsim/wire/messages/*"),
    *("sim/txnsim_lab/exam/situations/*", "sim/txnsim_spark/tables/*"),
)
"""Packages with a file per API, command, message, situation, table: the names of files say all."""
FEW_MODULES: Final = 8


def test_a_package_names_the_modules_that_are_there() -> None:
    """A list of modules has them all, and no other; a large package has one."""
    absent_modules, missing = [], []
    for file_name in python_files("sim"):
        docstring = ast.get_docstring(tree(file_name)) or ""
        if not file_name.endswith("/__init__.py"):
            continue
        named_modules = set(re.findall(r"``([a-z]\w*(?:\.\w+)*)``", docstring))
        absent_modules += [
            f"{file_name}: {module_name}"
            for module_name in named_modules
            if not _is_name(module_name, module_of(file_name)) and not _is_no_module(module_name)
        ]
        is_of_a_kind = any(fnmatch(file_name, pattern) for pattern in OF_A_KIND)
        is_large = (
            len(_modules_beside(file_name)) > FEW_MODULES and module_of(file_name) != "txnsim"
        )
        if re.search(r"^- ``", docstring, re.MULTILINE) or (is_large and not is_of_a_kind):
            missing += [
                f"{file_name}: {module}" for module in _modules_beside(file_name) - named_modules
            ]
    assert_none(absent_modules, "there is no such module beside it")
    assert_none(missing, "its docstring leaves these out")


def test_a_module_that_a_docstring_names_exists() -> None:
    """As ``txnsim.runtime.loop_turns``, or as ``runtime.loop_turns``: of the package itself, or of
    txnsim.
    """
    package_names = {
        module_name.split(".")[1] for module_name in _module_names() if "." in module_name
    }
    first_words = {*package_names, *TESTS_OF, "pipeline"}
    absent_modules = [
        f"{file_name}: {dotted}"
        for file_name in python_files("sim")
        for text in _texts(file_name)
        for dotted in re.findall(r"``([a-z]\w*(?:\.\w+)+)``", text)
        if dotted.partition(".")[0] in first_words
        and not _is_name(dotted, module_of(file_name))
        and not _is_no_module(dotted)
    ]
    assert_none(absent_modules, "no module of the package has this name, and none of txnsim")


@pytest.mark.parametrize("page_text", ["ARCHITECTURE.md", "CONTRIBUTING.md"])
def test_a_page_names_modules_and_files_that_exist(page_text: str) -> None:
    quoted_names = set(re.findall(r"`([\w.]+)`", source(page_text))) - MOVED.keys()
    package_names = {
        module_name.split(".")[1] for module_name in _module_names() if "." in module_name
    }
    dotted = {
        quoted_name
        for quoted_name in quoted_names
        if quoted_name.partition(".")[0] in {*package_names, *TESTS_OF} and "." in quoted_name
    }
    files = {
        quoted_name for quoted_name in quoted_names if re.search(r"\.(py|js|toml)$", quoted_name)
    }
    absent_names = [
        quoted_name
        for quoted_name in dotted - files
        if not any(_is_name(quoted_name, package) for package in TESTS_OF)
        and not _is_no_module(quoted_name)
    ]
    absent_names += files - {Path(file_name).name for file_name in tracked_files()}
    assert_none(absent_names, f"{page_text} names what is gone")


def test_a_name_that_is_gone_is_noticed() -> None:
    assert _is_name("runtime.loop_turns", "txnsim.server._connection")
    assert _is_name("transitions", "txnsim.txn")
    assert _is_name("interception.Interceptor", "txnsim.faults")
    assert not _is_name("decided", "txnsim.txn")
    assert not _is_name("runtime.virtual_net", "txnsim.server")
    assert not _is_name("pipeline.figures", "txnsim_spark.traces.tables")


def _texts(name: str) -> Iterator[str]:
    """The docstrings of a file, and the strings below attributes."""
    for node in nodes(name, ast.Expr):
        match node.value:
            case ast.Constant(value=str(text)):
                yield text
            case _:
                pass


def _modules_beside(name: str) -> set[str]:
    """Public modules and packages of the package that this file opens."""
    package = module_of(name)
    inside = {
        module_name.removeprefix(f"{package}.").partition(".")[0]
        for module_name in _module_names()
        if module_name.startswith(f"{package}.")
    }
    return {module_name for module_name in inside if not module_name.startswith("_")}


def _is_name(dotted: str, dotted_name: str) -> bool:
    """Whether it is a module, or is in one: looked for from here upwards, then in txnsim."""
    parts = dotted_name.split(".")
    outer_prefixes = [".".join(parts[:length]) + "." for length in range(len(parts), 0, -1)]
    return any(_has(f"{prefix}{dotted}") for prefix in [*outer_prefixes, "txnsim.", ""])


def _has(module_name: str) -> bool:
    while module_name not in _module_names():
        module_name, _, attribute_name = module_name.rpartition(".")
        if module_name in _module_names():
            return attribute_name in _names_in(module_name)
        if not module_name:
            return False
    return True


GIVE_NAMES: Final = (
    *(ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef),
    *(ast.Name, ast.Attribute, ast.alias),
)


@cache
def _names_in(module_name: str) -> frozenset[str]:
    """Names that a module, or a class in it, gives to something or imports."""
    path = f"sim/{module_name.replace('.', '/')}"
    names: set[str] = set()
    file = f"{path}.py" if (ROOT / f"{path}.py").exists() else f"{path}/__init__.py"
    for node in nodes(file, *GIVE_NAMES):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                names.add(name)
            case ast.ClassDef(name=name):
                names.add(name)
            case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                names.add(name)
            case ast.alias(name=name):
                names.add(name)
            case _:
                pass
    return frozenset(names)


def _is_no_module(dotted: str) -> bool:
    """A property of Kafka's, a feature, a fault point, a kind of event, a file."""
    return (
        dotted in NO_MODULES
        or dotted in known_properties()
        or dotted in KINDS
        or dotted in set(FaultPoint)
        or dotted.endswith((".properties", ".version"))
    )


# Doors


def package_of(module_name: str) -> str:
    """The package that owns a module: ``txnsim.txn``; the root's own modules are the root's."""
    parts = module_name.split(".")
    is_folder = len(parts) > 1 and (ROOT / "sim" / parts[0] / parts[1]).is_dir()
    return ".".join(parts[:2]) if is_folder else parts[0]


def is_private(module_name: str) -> bool:
    return any(re.match("_(?!_)", part) for part in module_name.split("."))


@cache
def doors() -> frozenset[str]:
    """Modules of ours that another package or another program imports."""
    names = _module_names()
    modules = {*entry_points(), *public_api.sections(), *public_api.shown_modules()}
    modules |= {module_name for module_name in FOR_OTHERS if not is_private(module_name)}
    for file_name in python_files("sim"):
        own_package = package_of(module_of(file_name))
        modules |= {
            module_name
            for module_name in _imports(file_name)
            if module_name in names and package_of(module_name) != own_package
        }
    return frozenset(modules)


def test_a_private_module_is_imported_by_its_own_package_alone() -> None:
    assert_none(
        (module_name for module_name in doors() if is_private(module_name)),
        "take a door of that package",
    )


def test_a_module_that_no_other_package_imports_is_private() -> None:
    """A door keeps its name; every other module, or a folder above it, begins with ``_``."""
    complaints = [
        module_name
        for file_name in python_files("sim")
        if not file_name.endswith("__init__.py")
        and package_of(module_name := module_of(file_name)).count(".")
        and not is_private(module_name)
        and module_name not in doors()
    ]
    assert_none(complaints, "begin its name with an underscore, or that of its folder")


# Layers


def contract(name: str) -> dict[str, list[str]]:
    """The contract of import-linter whose name begins so."""
    contracts = tomllib.loads(source("pyproject.toml"))["tool"]["importlinter"]["contracts"]
    return next(dict(entry) for entry in contracts if entry["name"].startswith(name))


@cache
def layers(product: str = "broker") -> list[set[str]]:
    """The rows of a product's layer contract, highest first, without optional marks."""
    rows = contract(f"Layers of the {product}")["layers"]
    return [_entries(row) for row in rows]


def test_the_architecture_shows_the_layers_that_are_enforced() -> None:
    blocks = source("ARCHITECTURE.md").split("## Layers")[1].split("```")[1::2]
    for product, block in zip(("broker", "lab"), blocks, strict=False):
        assert [_entries(row) for row in block.strip().splitlines()] == layers(product)


def test_the_architecture_has_a_row_for_every_folder() -> None:
    tables = source("ARCHITECTURE.md").split("| Folders of `sim/")[1:]
    shown_tables = {table.partition("`")[0]: table.partition("\n\n")[0] for table in tables}
    assert shown_tables.keys() == TESTS_OF.keys()
    for package, table in shown_tables.items():
        first_cells = "".join(row.split("|")[1] for row in table.splitlines()[2:])
        folders = {path.parent.name for path in (ROOT / "sim" / package).glob("*/__init__.py")}
        assert set(re.findall(r"`(\w+)`", first_cells)) == folders, package


def _entries(row: str) -> set[str]:
    """Siblings of a row: independent ones (`|`), and those of the ground (`:`)."""
    return {part.strip(" ()") for part in re.split(r"[|:]", row)}


def test_a_row_of_the_map_names_folders() -> None:
    ground = layers()[-1]
    files = [
        f"{file_name}: a module"
        for file_name in set().union(*layers()) - ground
        if not (ROOT / "sim/txnsim" / file_name).is_dir()
    ]
    assert_none(files, "a row names folders; only the ground is made of modules")


def test_no_files_import_each_other_in_a_circle() -> None:
    """Imports that are only for types count: who is named in a signature has to be understood."""
    modules = {module_of(file_name): file_name for file_name in python_files("sim")}
    imports_by_module = {
        module: sorted(
            {target for target in _imported_modules(module_name) if target in modules} - {module}
        )
        for module, module_name in modules.items()
    }
    circles = [
        f"{module} <-> {other_module}"
        for module, targets in imports_by_module.items()
        for other_module in targets
        if module < other_module and module in _reachable(other_module, imports_by_module)
    ]
    assert_none(circles, "move what both need to a module of its own")


def _imported_modules(name: str) -> Iterator[str]:
    for node in nodes(name, ast.Import, ast.ImportFrom):
        match node:
            case ast.Import(names=names):
                yield from (alias.name for alias in names)
            case ast.ImportFrom(module=str(module_name), names=names):
                inner = [f"{module_name}.{alias.name}" for alias in names]
                yield from inner
                if not all(submodule in _module_names() for submodule in inner):
                    yield module_name
            case _:
                pass


@cache
def _module_names() -> frozenset[str]:
    return frozenset(module_of(file_name) for file_name in python_files("sim"))


def _reachable(start: str, imports_by_module: dict[str, list[str]]) -> set[str]:
    reached_modules, pending = set[str](), [start]
    while pending:
        new_modules = set(imports_by_module[pending.pop()]) - reached_modules
        reached_modules |= new_modules
        pending += new_modules
    return reached_modules


def rows_below_runtime() -> list[set[str]]:
    """The rows of packages below ``runtime``, which are pure."""
    rows = layers()
    return rows[1 + next(index for index, row in enumerate(rows) if "runtime" in row) :]


def test_only_rows_above_the_cores_are_excused_from_purity() -> None:
    excused = {
        entry_text.removeprefix("txnsim.").removesuffix(" -> *").removesuffix(".**")
        for entry_text in contract("Cores are pure")["ignore_imports"]
        if entry_text.endswith(" -> *")
    }
    pure = set().union(*rows_below_runtime())
    assert excused == set().union(*layers()) - (pure - {"loggers"})


def test_no_core_logs() -> None:
    """The cores are the packages below ``runtime``; all other packages may use ``loggers``."""
    cores = [set(row) for row in rows_below_runtime()]
    complaints = [
        file_name
        for file_name in python_files("sim/txnsim")
        if file_name.split("/")[2] in set().union(*cores) and "txnsim.loggers" in source(file_name)
    ]
    assert_none(complaints, "a core logs nothing: what it wants to say is in the value it returns")


def test_full_coverage_is_asked_of_every_core_and_of_no_shell() -> None:
    coverage = tomllib.loads(source("pyproject.toml"))["tool"]["coverage"]["run"]

    def is_measured(path: str) -> bool:
        return any(fnmatch(path, pattern) for pattern in coverage["include"])

    cores = {f"txnsim.{core}" for core in set().union(*rows_below_runtime()) | {"config"}}
    # pytest's plugin has imported it before coverage begins
    cores.remove("txnsim.on_demand_imports")
    complaints = [
        file_name
        for file_name in python_files("sim")
        if not file_name.endswith("__init__.py")
        and is_measured(file_name)
        != any(f"{module_of(file_name)}.".startswith(f"{c}.") for c in cores | {"txnsim_lab.check"})
    ]
    assert_none(complaints, "a core that coverage leaves out, or a shell that it includes")


def test_cores_are_not_async() -> None:
    pure = set().union(*rows_below_runtime())
    async_functions = [
        f"{file_name}:{node.lineno}"
        for file_name in python_files("sim")
        if any(f"{module_of(file_name)}.".startswith(f"txnsim.{core}.") for core in pure)
        for node in nodes(file_name, ast.AsyncFunctionDef)
    ]
    assert_none(async_functions, "a core decides and answers; its shell waits")
