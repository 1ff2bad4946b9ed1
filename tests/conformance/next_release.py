"""What changed between two real releases of Apache Kafka.

::

    python -m tests.conformance.next_release 4.3.1 4.4.0                    # all of it
    python -m tests.conformance.next_release 4.3.1 4.4.0 --part classes --part configs

Prints, for each part, what only the older one has (-), what only the newer one has (+), and what
both have but otherwise (~): ``versions`` (API versions, feature levels), ``configs`` (names,
types, defaults, bounds), ``classes`` (methods of coordinators, log and cleaner whose byte code is
another one), ``answers`` (every case and story, asked of both). Needs Java 17 and Maven; answers
take as long as they take to be recorded, the rest a minute. ``docs/contributing/next-release.md``
says what to do with it.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from tests.broker.codec.golden.record import HERE
from tests.conformance import releases
from tests.support.apache_kafka import java_command, kafka_libs, output_of, tool
from txnsim_lab.conformance._book.casebook_reader import choose_cases

CONFIGS: Final = Path(__file__).parents[1] / "support" / "java" / "configs" / "Configs.java"
LEVEL: Final = 2
"""Of ``transaction.version``, at which answers are compared."""

LOOKED_AT: Final = re.compile(
    r"(org/apache/kafka/(storage/internals/log|coordinator/(transaction|group|common))"
    r"|kafka/(coordinator|log|cluster))/(?!.*([Ss]treams|[Ss]hare))"
)
"""Classes that decide about transactions, groups that are here, and logs."""
GENERATED: Final = re.compile(r"(Key|Value)(JsonConverter)?(\$\w+)?\.class$")
"""Those of record schemas, which golden bytes compare."""

Facts = Mapping[str, Any]
"""What a release says, by what it is about."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Compare two releases, and print the differences."""
    parser = argparse.ArgumentParser(prog="python -m tests.conformance.next_release")
    parser.add_argument("older", metavar="OLDER", help="such as 4.3.1")
    parser.add_argument("newer", metavar="NEWER", help="such as 4.4.0")
    parser.add_argument("--part", action="append", choices=[*PARTS, "answers"])
    parser.add_argument("--keep", type=Path, metavar="FILE", help="of answers: resume from there")
    options = parser.parse_args(arguments)
    parts = options.part or [*PARTS, "answers"]
    for name, read_facts in PARTS.items():
        if name in parts:
            lines = list(changes(read_facts(options.older), read_facts(options.newer)))
            sys.stdout.write(f"{name}: {len(lines)} changes\n")
            sys.stdout.writelines(f"  {line}\n" for line in lines)
            sys.stdout.flush()
    if "answers" in parts:
        open_sides = releases.two_real(options.older, options.newer)
        comparison = releases.ReleaseComparison(options.keep)
        for compared_case in releases.compared_cases(
            open_sides, choose_cases([]), [LEVEL], labels_done=comparison.plays
        ):
            comparison.add(compared_case)
        for compared_story in releases.compared_stories(
            open_sides, [], [LEVEL], labels_done=comparison.plays
        ):
            comparison.add(compared_story)
    return 0


def changes(older_facts: Facts, newer_facts: Facts) -> Iterator[str]:
    """A line for each fact that differs between the releases."""
    for name in sorted(older_facts.keys() | newer_facts.keys()):
        body_name = name.partition(": ")[0]
        if body_name != name and not (body_name in older_facts and body_name in newer_facts):
            continue  # that its class came or went is told
        if name not in newer_facts:
            yield f"- {name} {_fact_text(older_facts[name])}".rstrip()
        elif name not in older_facts:
            yield f"+ {name} {_fact_text(newer_facts[name])}".rstrip()
        elif older_facts[name] != newer_facts[name]:
            change_shown = f"{_fact_text(older_facts[name])} -> {_fact_text(newer_facts[name])}"
            yield f"~ {name} {'' if change_shown == ' -> ' else change_shown}".rstrip()


def _fact_text(fact: Any) -> str:
    return "" if isinstance(fact, tuple) else str(fact)


# Facts


def versions(release: str) -> Facts:
    """Ranges of API versions and levels of features, as a release's own classes have them."""
    with TemporaryDirectory(prefix="txnsim-next-") as directory:
        _java(release, HERE / "Recorder.java", directory)
        facts_by_kind = json.loads(Path(directory, "release.json").read_text("utf-8"))
    return {
        f"{kind} {fact_name}": fact
        for kind, facts in facts_by_kind.items()
        if isinstance(facts, dict)
        for fact_name, fact in facts.items()
    }


def configs(release: str) -> Facts:
    """Every config of topics, brokers, groups and clients."""
    output = _java(release, CONFIGS)
    rows = (
        printed_line.split(" | ", 1)
        for printed_line in output.splitlines()
        if " | " in printed_line
    )
    return {name: re.sub(r"@[0-9a-f]+", "", description) for name, description in rows}


def classes(release: str) -> Facts:
    """The byte code of each method, without what differs from build to build."""
    with TemporaryDirectory(prefix="txnsim-next-") as directory:
        files = list(_unpack_classes(release, Path(directory)))
        javap = tool("javap", "classes are read by a JDK 17")
        output = output_of([javap, "-p", "-c", *map(str, files)], "javap failed")
    return dict(methods(output.splitlines()))


def methods(lines: Sequence[str]) -> Mapping[str, tuple[str, ...]]:
    """What javap prints: class and method -> its instructions in alphabetical order.

    Packages, numbers of constants, local variables, lambdas and lines are left out: they change
    where the code does not.
    """
    lines_by_method: dict[str, list[str]] = {}
    of_class = body = ""
    for line in map(_plain, lines):
        if line and not line.startswith((" ", "Compiled", "}")):
            body = of_class = _CLASS.findall(line)[0]
            lines_by_method[body] = []
        elif re.match(r" {2}\S", line):
            body = f"{of_class}: {line.strip().rstrip(';')}"
            if not _SYNTHETIC.search(body):
                lines_by_method.setdefault(body, [])
        elif line.strip() not in ("", "Code:") and body in lines_by_method:
            lines_by_method[body].append(line.strip())
    return {
        method_name: tuple(sorted(instructions))
        for method_name, instructions in lines_by_method.items()
    }


_CLASS: Final = re.compile(r"(?:class|interface) ([\w$]+)")
_SYNTHETIC: Final = re.compile(
    r"lambda\$|anonfun|\$adapted|access\$|canEqual|product(Arity|Element)"
)
"""Methods that compilers make, whose numbers change with every other."""
_NOISE: Final = (
    (re.compile(r"(?:\b[a-z][\w]*[./])+(?=[A-Z])"), ""),  # packages
    (re.compile(r"#\d+(, *\d+)?"), "#"),  # constants
    (re.compile(r"^ +\d+: "), "    "),  # places of instructions
    (re.compile(r"\b(if\w*|goto) +\d+"), r"\1"),
    (re.compile(r"\b([aijlfd](?:load|store))(?: +|_)\d+"), r"\1"),
    (re.compile(r"\bldc(_w|2_w)?\b"), "ldc"),
    (re.compile(r"\$\d+"), "$N"),
    (re.compile(r"InvokeDynamic #\d*"), "InvokeDynamic"),
    (re.compile(r"^ +(\d+ +\d+ +\d+ +.*|-?\d+: \d+|default: \d+|from +to.*)$"), ""),
)


def _plain(line: str) -> str:
    for pattern, instead in _NOISE:
        line = pattern.sub(instead, line)
    return line


def _unpack_classes(release: str, directory: Path) -> Iterator[Path]:
    for jar_file in sorted(kafka_libs(release).glob(f"kafka*-{release}.jar")):
        with zipfile.ZipFile(jar_file) as zip_archive:
            for name in zip_archive.namelist():
                if LOOKED_AT.match(name) and name.endswith(".class") and not GENERATED.search(name):
                    yield Path(zip_archive.extract(name, directory))


def _java(release: str, program_file: Path, *arguments: str) -> str:
    command = [*java_command(kafka_libs(release)), str(program_file), *arguments]
    process = subprocess.run(command, capture_output=True, text=True, check=True)
    return process.stdout


PARTS: Final[Mapping[str, Callable[[str], Facts]]] = {
    "versions": versions,
    "configs": configs,
    "classes": classes,
}

if __name__ == "__main__":
    sys.exit(main())
