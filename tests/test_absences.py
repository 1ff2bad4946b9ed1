"""What pages say is not there, is not there: each such sentence has a check that fails once it is.

``ABSENCE`` finds the sentences of the class: "there is no …", "not tried", "has no effect", "not
here". A page may not gain one without an entry. An entry of ``CHECKED`` is a function, or the test
that holds it; ``OF_A_CASE`` are sentences about Kafka or about what happens in a run, which claim
nothing about txnsim.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from typing import Final

import pytest

from tests.clients.matrix.rosters import clients
from tests.docs import ROOT
from txnsim.api.registry import SHIPPED
from txnsim.config._kafka_names import why_without_effect
from txnsim.security.sasl import MECHANISMS
from txnsim.settings import DEFAULTS
from txnsim_lab.http.site import build
from txnsim_lab.scenario import catalog
from txnsim_lab.scenario.on_real.comparison import only_simulated
from txnsim_lab.target.cluster import RUNNING_ABILITIES, STARTED_ABILITIES, Ability

ABSENCE: Final = re.compile(
    r"\bthere (?:is|are) no\b|\bnot (?:yet )?(?:supported|implemented|tried|tested|simulated)\b"
    r"|\bno such groups\b|n't supported|\bno \w+(?: \w+){0,3} (?:here|yet)\b|\bon no registry\b"
    r"|\bnot on a package index\b|\btxnsim (?:has none|does not have)|\bhere there is none\b"
    r"|\b(?:have|has) no effect\b|\bcan't (?:play|load|be loaded|be moved|be unpacked)\b"
    r"|\bdo(?:es)?(?:n't| not) exist here|\bno program\b|\bno hands\b|\bknows no loggers\b"
    r"|\bhas no (?:writer|disk|plugin|driver|public address)|\bhave no driver|\bnot advertised\b"
    r"|\bare not played\b|\bis not spoken\b|\bcan't be unregistered\b|\bis refused \(UNSUPPORTED"
    r"|\bproxy is not between\b|\bno check is\b",
    re.IGNORECASE,
)
LEFT_OUT: Final = ("docs/rules.md",)
"""Each of its rows names the cases of a real Kafka, or the tests, that show it."""
_FENCE: Final = re.compile(r"(?ms)^ *```.*?^ *```$")
_PARTS: Final = re.compile(r"\n\s*\n|\n(?=[-*|#] )|\n\|")
_SENTENCES: Final = re.compile(r"(?<=[.:;!?])\s+|\s\|\s")


def sentences() -> Iterator[tuple[str, str]]:
    """The sentences of the pages that users read, each with its page."""
    patterns = ("*.md", "docs/**/*.md", "helpers/*.md", "helpers/**/*.md")
    paths = sorted({path for pattern in patterns for path in ROOT.glob(pattern)})
    for path in paths:
        page_text = path.relative_to(ROOT).as_posix()
        is_ours = page_text in ("README.md", "DEVIATIONS.md") or "/" in page_text
        if not is_ours or page_text.startswith(LEFT_OUT) or "node_modules" in path.parts:
            continue
        for part in _PARTS.split(_FENCE.sub("", path.read_text("utf-8"))):
            for sentence in _SENTENCES.split(" ".join(part.split())):
                if ABSENCE.search(sentence):
                    yield page_text, sentence


# Checks


def held_by(test: str) -> Callable[[], bool]:
    """A check that a test of this name exists, which fails once the sentence is wrong."""

    def check() -> bool:
        file, _, name = test.partition("::")
        module_tree = ast.parse((ROOT / file).read_text("utf-8"))
        functions = (ast.FunctionDef, ast.AsyncFunctionDef)
        return any(
            isinstance(node, functions) and node.name == name for node in ast.walk(module_tree)
        )

    return check


def unread(*names: str) -> Callable[[], bool]:
    """A check that only the tables of configs name this config."""

    def check() -> bool:
        tables = ("sim/txnsim/metadata/config_keys.py", "sim/txnsim/config/")
        other_files = [
            path.read_text("utf-8")
            for path in ROOT.glob("sim/**/*.py")
            if not path.relative_to(ROOT).as_posix().startswith(tables)
        ]
        return not any(
            f'"{name}"' in other_file_text for name in names for other_file_text in other_files
        )

    return check


def has_no_effect(property_name: str) -> Callable[[], bool]:
    return lambda: why_without_effect(property_name) is not None


def names_nowhere(words_pattern: str, *patterns: str) -> Callable[[], bool]:
    """That no file that matches says one of these words: no test of ours plays it."""
    known_as = re.compile(words_pattern, re.IGNORECASE)

    def check() -> bool:
        files = [path for pattern in patterns for path in ROOT.glob(pattern) if path.is_file()]
        return bool(files) and not any(known_as.search(path.read_text("utf-8")) for path in files)

    return check


def is_unpublished() -> bool:
    """CONTRIBUTING.md: a placeholder stands for the public address, until there is one."""
    project = (ROOT / "pyproject.toml").read_text("utf-8")
    is_placeholder = "project.invalid" in (ROOT / "SECURITY.md").read_text("utf-8")
    return is_placeholder and "\n[project.urls]" not in project


def has_no_writer() -> bool:
    module_tree = ast.parse((ROOT / "sim/txnsim_spark/source.py").read_text("utf-8"))
    names = {node.name for node in ast.walk(module_tree) if isinstance(node, ast.FunctionDef)}
    return not names & {"writer", "streamWriter"}


def is_needed_by_no_story() -> bool:
    return Ability.CLOCK not in STARTED_ABILITIES | RUNNING_ABILITIES


DELEGATION: Final = (
    "tests/broker/api/identities/test_identities.py"
    "::test_an_unauthenticated_connection_may_not_ask_and_to_others_tokens_are_disabled"
)
PROPERTIES: Final = (
    "tests/broker/config/test_properties.py"
    "::test_every_property_is_a_setting_or_a_listener_or_has_a_reason"
)
HANDS: Final = "tests/lab/proxy/test_fault_proxy.py::test_a_proxy_has_no_hands_on_the_cluster"
NODES: Final = "tests/broker/api/nodes/test_nodes.py::test_no_broker_can_be_unregistered"
TOPOLOGIES: Final = (
    "tests/broker/api/groups/test_streams_groups.py"
    "::test_descriptions_of_topologies_are_taken_by_nobody"
)
BROKER_PARTS: Final = ("api", "broker", "coordinators", "log", "replica", "replication", "txn")
TIERED: Final = (
    "local.retention.bytes", "local.retention.ms", "remote.log.copy.disable",
    "remote.log.delete.on.disable",
)  # fmt: skip
"""``remote.storage.enable`` is looked at where a broker without it refuses ``true``."""
CONTAINERS: Final = names_nowhere(r"\bdocker network\b|\bNetwork\(", "tests/image/*.py")

CHECKED: Final[dict[tuple[str, str], Callable[[], bool]]] = {
    ("DEVIATIONS.md", "- IncrementalAlterConfigs knows no loggers:"): names_nowhere(
        r"getLogger|setLevel", "sim/txnsim/api/_configs/*.py"
    ),
    ("DEVIATIONS.md", "- Topic configs of message formats (message.format.version,"): unread(
        "message.format.version",
        "message.downconversion.enable",
        "message.timestamp.difference.max.ms",
    ),
    ("DEVIATIONS.md", "txnsim has none, so StreamsGroupTopologyDescription"): held_by(TOPOLOGIES),
    ("DEVIATIONS.md", "leader.replication.throttled.rate and its like"): unread(
        "leader.replication.throttled.rate", "follower.replication.throttled.rate"
    ),
    ("DEVIATIONS.md", "txnsim has none, so POLICY_VIOLATION"): has_no_effect(
        "create.topic.policy.class.name"
    ),
    ("DEVIATIONS.md", "- A broker that is registered can't be unregistered:"): held_by(NODES),
    ("DEVIATIONS.md", "- Topic configs of flushing and tiered storage,"): unread(
        "flush.messages",
        "flush.ms",
        *TIERED,
        "compression.lz4.level",
        "max.decompressed.message.bytes",
    ),
    ("DEVIATIONS.md", "v6 is unstable and not advertised;"): lambda: (
        not DEFAULTS.unstable_api_versions_enable
    ),
    ("README.md", "It is not on a package index yet"): is_unpublished,
    ("docs/in-ci.md", "txnsim is not on a package index yet"): is_unpublished,
    ("docs/install.md", "It is not on a package index yet."): is_unpublished,
    ("helpers/node/README.md", "It is on no registry yet:"): is_unpublished,
    ("docs/apis.md", "A broker has one directory here"): held_by(
        "tests/broker/api/partitions/test_partitions.py"
        "::test_the_last_directory_of_a_partition_holds"
    ),
    ("docs/contributing/where.md", "no broker here answers it:"): names_nowhere(
        r"unknown_producer_id", *(f"sim/txnsim/{part}/**/*.py" for part in BROKER_PARTS)
    ),
    ("docs/conformance.md", "Faults are not played:"): names_nowhere(
        r"import .*\bfaults\b|from txnsim\.faults", "sim/txnsim_lab/conformance/**/*.py"
    ),
    ("docs/found.md", "The simulator can't play it:"): held_by(
        "tests/real/test_late_unload.py::test_a_commit_that_waits_where_the_coordinator_moves"
    ),
    ("docs/groups.md", "- No broker without a plugin takes descriptions"): held_by(TOPOLOGIES),
    ("docs/kafka-log.md", "**Not tried**:"): names_nowhere(
        r"\byarn\b|kubernetes|amazonaws\.com|googleapis\.com", "tests/spark/pipeline/*.py"
    ),
    ("docs/kafka-log.md", "The source has no writer."): has_no_writer,
    ("docs/on-real-kafka.md", "There the proxy is not between the brokers"): lambda: (
        not RUNNING_ABILITIES & {Ability.PEERS, Ability.BROKERS}
    ),
    ("docs/on-real-kafka.md", "- **Time.** A broker's clock can't be moved."): (
        is_needed_by_no_story
    ),
    ("docs/proxy.md", "a proxy has no hands on brokers"): held_by(HANDS),
    ("docs/proxy.md", "GSSAPI is refused (UNSUPPORTED_SASL_MECHANISM)"): held_by(
        "tests/lab/proxy/test_fault_proxy.py::test_what_passes_and_what_does_not"
    ),
    ("docs/recipes/README.md", "No program in .NET is run here."): names_nowhere(
        r"\bdotnet\b", "tests/recipes/**/*.py", "tests/helpers/*.py", "tests/ci/*.py"
    ),
    ("docs/recipes/quix.md", "It is not tried here;"): names_nowhere(
        r"\bfaust\b", "tests/recipes/**/*.py", "tests/recipes/**/*.txt", "tests/clients/**/*.py"
    ),
    ("docs/settings.md", "**Java classes can't be loaded**:"): held_by(PROPERTIES),
    ("docs/settings.md", "**Kerberos is not spoken**:"): lambda: "GSSAPI" not in MECHANISMS,
    ("docs/settings.md", "**There are no delegation tokens**:"): held_by(DELEGATION),
    ("docs/settings.md", "**There is no tiered storage**:"): unread(*TIERED),
    ("docs/site.md", "There is no live cluster, so lessons L10 and L11"): lambda: (
        "own_cluster" in build.OWN_CLUSTER_MODULE
    ),
    ("docs/site.md", "Batches of lz4, snappy and zstd can't be unpacked."): names_nowhere(
        "cramjam", "sim/txnsim_lab/http/site/*.py"
    ),
    ("docs/testing.md", "Networks between containers are not tried."): CONTAINERS,
    ("docs/testing.md", "Pulling an image and networks between containers"): CONTAINERS,
}
"""Page and beginning of the sentence -> whether it is true."""

OF_A_CASE: Final = {
    ("docs/which-rule-prevents-what.md", "it has seen no transaction yet"),
    ("docs/checkers.md", "- **Doubt acquits.**"),
    ("docs/contributing/next-release.md", "`kafka-tools:4.4.0` came weeks after"),
    ("docs/contributing/next-release.md", "while there is no jar,"),
    ("docs/contributing/pipeline-design.md", "There is no second reader."),
    ("docs/contributing/spark-pushed-filters.md", "> > ``` > 10 1 1"),
    ("docs/contributing/where.md", "`init.pending`, `init.prepared`"),
    ("docs/fault-actions.md", "What a member said has no effect"),
    ("docs/first-client.md", "There is no answer:"),
    ("docs/forensics.md", "the last decision was about this partition"),
    ("docs/kafka-log.md", "One that began in an older segment has no beginning here:"),
    ("docs/kafka-log-tables.md", "Why there is no verdict;"),
    ("docs/metrics.md", "a failed directory is not tried again before"),
    ("docs/monitoring.md", "a failed directory is not tried again before."),
    ("docs/practise.md", "The program refuses what it can't load"),
    ("docs/releases.md", "there is no version 2 to remember"),
    ("docs/releases.md", "Other changes between these releases"),
    ("docs/releases.md", "there is no moment between"),
    ("docs/security.md", "what has no effect is named"),
    ("docs/teaching.md", "the partition has no marker yet"),
    ("docs/testing.md", "**A fault that never struck fails its test**"),
    ("docs/security.md", "CreateAcls, DescribeAcls and DeleteAcls"),
    ("docs/serve.md", "The program names what has no effect here"),
    ("docs/serve.md", "a leader does not take the markers"),
    ("docs/testing.md", "The program names what has no effect here"),
    ("docs/troubleshooting.md", "**`code 15`.** There is no coordinator."),
    ("docs/troubleshooting.md", "If there is no pause, look"),
    ("docs/troubleshooting.md", "**`code 69`.** There is no group"),
    ("docs/writing-scenarios.md", "a call in the background has no answer yet"),
}


def _entry(page_text: str, sentence: str) -> tuple[str, str] | None:
    entries = (*CHECKED, *OF_A_CASE)
    return next(
        (entry for entry in entries if entry[0] == page_text and sentence.startswith(entry[1])),
        None,
    )


def test_each_sentence_about_what_is_not_there_has_its_check() -> None:
    unchecked = [
        f"{page_text}: {sentence}"
        for page_text, sentence in sentences()
        if _entry(page_text, sentence) is None
    ]
    assert unchecked == [], "write a check, or say that it is of a case"


def test_no_check_outlives_its_sentence() -> None:
    used_entries = {_entry(page_text, sentence) for page_text, sentence in sentences()}
    assert {*CHECKED, *OF_A_CASE} - used_entries == set()


@pytest.mark.parametrize("entry", CHECKED, ids=lambda entry: f"{entry[0]}: {entry[1]}")
def test_it_is_not_there(entry: tuple[str, str]) -> None:
    assert CHECKED[entry](), "it is there now: correct the sentence"


def test_a_new_sentence_is_noticed() -> None:
    for sentence in (
        "There are no streams groups here.",
        "there are no such groups yet",
        "KIP-9999 is not supported.",
        "A group of another protocol does not exist here.",
    ):
        assert ABSENCE.search(sentence)


# Numbers and lists that pages have of what is not there


def test_the_matrix_asks_about_share_and_streams_groups_nowhere_and_both_are_there() -> None:
    """docs/clients.md leads from its list to the plays of these groups."""
    checks = {check_name for client in clients() for check_name in client.checks}
    assert not {
        check_name
        for check_name in checks
        if "share" in check_name or check_name.startswith("streams-group")
    }
    assert {78, 88} <= SHIPPED.advertised.keys()  # ShareFetch, StreamsGroupHeartbeat
    for play in ("share/kills.py", "share/test_share_stories.py", "streams/kills.py"):
        assert (ROOT / "tests/clients" / play).is_file()


def test_eight_stories_need_a_simulator() -> None:
    need = {
        scenario.name
        for scenario in catalog.scenarios().values()
        for run_name in scenario.runs
        if only_simulated(scenario, run_name, "armed", abilities=STARTED_ABILITIES) is not None
    }
    page_text = (ROOT / "docs/on-real-kafka.md").read_text("utf-8")
    assert len(need) == 8
    assert "\nEight stories take a step that only a simulator can take:" in page_text


def test_the_site_has_the_requests_of_every_member_of_a_group() -> None:
    """A story that a visitor writes may have members of any kind."""
    schemas = ("join_group", "consumer_group_heartbeat", "share_group_heartbeat")
    for name in (*schemas, "share_fetch", "streams_group_heartbeat", "txn_offset_commit"):
        assert not build._LIBRARIES_LEFT_OUT.match(f"kio/schema/{name}/v0/request.py")
