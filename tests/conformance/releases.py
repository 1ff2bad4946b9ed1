"""Ask an older Apache Kafka and the simulator that plays it the same things.

::

    python -m tests.conformance.releases --release 3.9                      # all cases and stories
    python -m tests.conformance.releases --release 4.0 --case coordinator/fencing --level 2
    python -m tests.conformance.releases --release 3.6 --story transactions_v1

Needs Java 17 and Maven. Both are started anew: one broker of the newest patch release of that line,
one of ``txnsim serve --as-version``. What may differ, and why, is in ``ACCEPTED``.
"""

from __future__ import annotations

import argparse
import contextlib
import re
import sys
from collections.abc import Iterator, Sequence
from operator import itemgetter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from tests.conformance import programme
from tests.conformance.casebook.model import LEVELS, BrokerConfig
from tests.conformance.casebook.playing import Play, finalize, play_all
from tests.conformance.casebook.reading import Case, brokers, chosen, rules
from tests.real.stories.player import Story
from tests.support.apache_kafka import ApacheKafka
from tests.support.transcript import Transcript, differences
from tests.support.txnsim_server import TxnsimServer
from txnsim.releases import RELEASES, Release

JVM_OPTIONS: Final = ("-Xmx512m",)
FEATURE: Final = "transaction.version"

ACCEPTED: Final[tuple[tuple[str, str], ...]] = (
    (
        r"(as-broker-at-0-v[45]|at-level-0-(true|false)) at 0: ",
        "these cases end in a locked id where there is transactions v2; where there is none they "
        "race with their own markers, and ours are quicker",
    ),
    (
        r"FindCoordinator v6 .*'15 coordinator_not_available' != '42 invalid_request'",
        "a group of shares is looked for; 3.9 has no coordinator for those yet and judges no key",
    ),
    (
        r"coordinator/expiry/.*producer_id: 'producer #\d' != 'producer #\d'",
        "an id that is not found is told with producer id 0, which the first play of all owns",
    ),
    (
        r"DescribeConfigs v4 |IncrementalAlterConfigs v1 .*error_message"
        r"|AlterConfigs v2 .*error_message|CreateTopics v\d .*error_message",
        "configurations are those of 4.3 in every release: names, types, least values, wording; "
        "so is the wording that counts brokers with cordoned directories",
    ),
    (
        r"UpdateFeatures v1 metadata\.version to 7 .*error_message",
        "the wording of a refused downgrade of metadata.version",
    ),
    (
        r"UnregisterBroker v0 .*error_message: '' != ",
        "an unknown broker is refused without words",
    ),
    (
        r"DescribeClientQuotas v0 \(\)\.entries",
        "the order of entries of a hash map",
    ),
    (
        r"UpdateFeatures v1 streams\.version to 0 ",
        "4.1 knows streams.version without any level to offer, and lets it be switched off",
    ),
    (
        r"coordinator/levels/(equal|twice)-v.* at 0: UpdateFeatures .*"
        r"('95 invalid_update_version' != '0 none'|Broker 1 does not support this)",
        "3.6 refuses level 0 of a feature that its brokers do not know; 3.9 and ours let it pass",
    ),
    (
        r"FindCoordinator v4 .*error_message: 'This most likely occurs.* != ''",
        "3.6 refuses an unknown type of coordinator with the words of the error",
    ),
    (
        r"Produce v9 .*error_message: 'Producer attempted to produce with an old epoch.' != None",
        "3.6 says the words of the error where later releases are silent",
    ),
    (
        r"DescribeLogDirs v4 .*(total|usable)_bytes: '?some .*!= -1",
        "txnsim.api.partitions.describe_log_dirs",
    ),
)
"""(pattern of a difference, why it may be)."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Play, compare, and tell."""
    parser = argparse.ArgumentParser(prog="python -m tests.conformance.releases")
    parser.add_argument("--release", required=True, choices=[one for one in RELEASES if one > "3"])
    parser.add_argument("--case", action="append", default=[], metavar="FILE[/NAME]")
    parser.add_argument("--story", action="append", default=[], metavar="NAME")
    parser.add_argument("--level", action="append", type=int, choices=LEVELS)
    options = parser.parse_args(arguments)
    rules()  # a mistake there is told once
    release = RELEASES[options.release]
    known = release.features.get(FEATURE)
    levels = sorted(options.level or ([0] if known is None else [known.new_cluster_level]))
    everything = not options.case and not options.story
    wrong: list[str] = []
    played = 0
    if everything or options.case:
        for line in compared_cases(release, chosen(options.case), levels):
            played += line is None
            wrong += [] if line is None else [line]
    if everything or options.story:
        for line in compared_stories(release, options.story, levels):
            played += line is None
            wrong += [] if line is None else [line]
    for line in wrong:
        sys.stdout.write(f"{line}\n")
    sys.stdout.write(f"{played} plays alike, {len(wrong)} differences (real != ours)\n")
    return 1 if wrong else 0


def compared_cases(
    release: Release, wanted: Sequence[Case], levels: Sequence[int]
) -> Iterator[str | None]:
    """A line for each difference, None for each play without any."""
    for name, config in brokers().items():
        for level in levels:
            mine = [case for case in wanted if case.broker == name and level in case.text.levels]
            if not mine:
                continue
            with both(release, config, level) as addresses:
                expected, found = (_played(mine, address, level) for address in addresses)
            for case in mine:
                yield from _unlike(case.id, level, expected[case.id], found[case.id])


def compared_stories(
    release: Release, names: Sequence[str], levels: Sequence[int]
) -> Iterator[str | None]:
    """The same for stories."""
    config = BrokerConfig(about="stories", properties=programme.PROPERTIES)
    for level in levels:
        stories = [
            story
            for story in programme.stories_at(level)
            if not names or programme.name_of(story) in names
        ]
        if not stories:
            continue
        with both(release, config, level) as addresses:
            for story in stories:
                label = f"{programme.name_of(story)} at {level}"
                expected, found = (_told(story, address, level) for address in addresses)
                yield from _unlike_stories(label, expected, found)


def _told(story: Story, address: str, level: int) -> Transcript | None:
    """What the broker answers, None where it lacks what the story asks for."""
    try:
        return programme.played(story, address, level)
    except (AttributeError, AssertionError, KeyError):
        return None


def _unlike_stories(
    label: str, one: Transcript | None, other: Transcript | None
) -> list[str | None]:
    if one is None and other is None:
        return [None]
    if one is None or other is None:
        return [f"{label}: {'the real broker' if one is None else 'ours'} can't play it"]
    return list(_judged(label, _differences(one, other))) or [None]


@contextlib.contextmanager
def both(release: Release, config: BrokerConfig, level: int) -> Iterator[tuple[str, str]]:
    """Addresses of a real broker of that release and of ours."""
    with TemporaryDirectory(prefix="txnsim-releases-") as directory:
        file = Path(directory, "server.properties")
        file.write_text("".join(f"{name}={value}\n" for name, value in config.properties.items()))
        properties = {**config.properties, **config.kafka_only}
        with (
            ApacheKafka(
                transaction_version=level,
                brokers=config.brokers,
                properties=properties,
                jvm_options=JVM_OPTIONS,
                version=release.patch_release,
            ) as kafka,
            TxnsimServer(
                transaction_version=level,
                brokers=config.brokers,
                arguments=("--config", str(file), "--as-version", release.name),
            ) as server,
        ):
            yield kafka.bootstrap, server.bootstrap


def _played(mine: Sequence[Case], address: str, level: int) -> dict[str, Play | str]:
    found: dict[str, Play | str] = {}
    for case, done in play_all(mine, address, level):
        failure = done.exception()
        found[case.id] = done.result() if failure is None else f"{failure}"
        if case.text.alone and level:
            finalize(address, level)
    return found


def _unlike(name: str, level: int, one: Play | str, other: Play | str) -> list[str | None]:
    label = f"{name} at {level}"
    if isinstance(one, str) and isinstance(other, str):
        return [None]  # neither has what the case asks for
    if isinstance(one, str) or isinstance(other, str):
        told = one if isinstance(one, str) else other
        side = "the real broker" if isinstance(one, str) else "ours"
        return [f"{label}: {side} can't play it: {told}"]
    racy = {one.transcript.entries[place][0] for place in one.racy}
    lines = [
        line
        for line in _differences(one.transcript, other.transcript)
        if not any(line.startswith(place) for place in racy)
    ]
    return list(_judged(label, lines)) or [None]


def _differences(one: Transcript, other: Transcript) -> Iterator[str]:
    """But for the order of a topic's partitions: up to 4.2 it is that of a map."""
    for transcript in (one, other):
        transcript.entries = [(label, _by_partition(told)) for label, told in transcript.entries]
    return differences(one, other)


def _by_partition(told: Any) -> Any:
    if isinstance(told, dict):
        return {name: _by_partition(value) for name, value in told.items()}
    if not isinstance(told, list):
        return told
    values = [_by_partition(value) for value in told]
    if all(isinstance(value, dict) and "leader_id" in value for value in values):
        values.sort(key=itemgetter("partition_index"))
    return values


def _judged(label: str, lines: Iterator[str] | Sequence[str]) -> list[str | None]:
    return [
        f"{label}: {line}"
        for line in lines
        if not any(re.search(pattern, f"{label}: {line}") for pattern, _ in ACCEPTED)
    ]


if __name__ == "__main__":
    sys.exit(main())
