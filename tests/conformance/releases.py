"""Ask another Apache Kafka and the simulator that plays it the same things.

::

    python -m tests.conformance.releases --release 3.9                      # all cases and stories
    python -m tests.conformance.releases --release 4.0 --case coordinator/fencing --level 2
    python -m tests.conformance.releases --release 3.6 --story transactions_v1
    python -m tests.conformance.releases --release 4.4 --keep found.jsonl           # can be resumed

Needs Java 17 and Maven. Both are started anew: one broker of the newest patch release of that line,
one of ``txnsim serve --as-version``. What may differ, and why, is in ``ACCEPTED``.
"""

from __future__ import annotations

import argparse
import contextlib
import re
import sys
from collections.abc import Callable, Container, Iterator, Sequence
from contextlib import AbstractContextManager
from functools import partial
from operator import itemgetter
from pathlib import Path
from typing import Any, Final

import msgspec

from tests.conformance import programme
from tests.conformance.cluster_setups import kafka_on, setup_of, simulator_on
from txnsim.releases import RELEASES, Release
from txnsim_lab.conformance._book.case_player import Play, finalize_level, play_all
from txnsim_lab.conformance._book.casebook_reader import Case, broker_configs, choose_cases, rules
from txnsim_lab.conformance._book.frame_player import API_KEYS, Story
from txnsim_lab.conformance._book.model import TXN_LEVELS, BrokerConfig
from txnsim_lab.conformance._book.targets import NO_OTHER_USERS, PlaySurroundings, RunningTarget
from txnsim_lab.conformance._book.transcript import Transcript, differences

FEATURE: Final = "transaction.version"
HANDFUL: Final = 24
"""So many cases are played before they are compared."""

Accepted = tuple[tuple[str, str], ...]

ALWAYS_ACCEPTED: Final[Accepted] = (
    (
        r"DescribeLogDirs v[45] .*(total|usable)_bytes: '?some .*!= -1",
        "txnsim.api._partitions.describe_log_dirs",
    ),
    (
        r"DescribeClientQuotas v[01] .*\.entries",
        "the order of entries of a hash map",
    ),
    (
        r"DescribeConfigs v4 .*\.documentation: ",
        "txnsim.api._configs.describe_configs",
    ),
    (
        r"coordinator/share_states/odd-batches",
        "txnsim.share_state.decisions",
    ),
)
LINGERS_NOT_SINCE: Final = (4, 2)
AT_ONCE: Final = {"group.coordinator.append.linger.ms": "0"}
"""Up to 4.1 a group's coordinator waits 5 ms before it writes, unless it is told otherwise: what it
describes right behind a join would be what was before.
"""
ORDERED_BY_A_MAP: Final = frozenset({"leader_id", "committed_offset"})
"""A field of a partition in answers that tell partitions in an order of their own: of a topic up to
4.2, of all positions of a group before 4.0.
"""
SAME_SINCE: Final = (4, 3)
"""From that line on nothing else may differ."""

ACCEPTED: Final[Accepted] = (
    *ALWAYS_ACCEPTED,
    (
        r"(as-broker-at-0-v[45]|at-level-0-(true|false)|transactions/not-added-at-level-0) at 0: ",
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
        r"|AlterConfigs v2 .*error_message|CreateTopics v\d .*(error_message|\.configs: )",
        "configurations are those of 4.3 in each older release: names, types, least values, words; "
        "so is the wording that counts brokers with cordoned directories",
    ),
    (
        r"leader/configs/alter-lists-v[01] at \d: ",
        "lists are judged as in 4.4 in each older release, and groups have configurations",
    ),
    (
        r"Metadata v\d+ an internal topic that is not there\..*is_internal: False != True"
        r"|CreateTopics v\d name __cluster_metadata\..*'29 topic_authorization_failed'",
        "3.8 does not know __share_group_state, and refuses __cluster_metadata with another error",
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
        r"UpdateFeatures v1 streams\.version to 0 ",
        "4.1 knows streams.version without any level to offer, and lets it be switched off",
    ),
    (
        r"coordinator/levels/(equal|twice)-v.* at 0: UpdateFeatures .*"
        r"('95 invalid_update_version' != '0 none'|Broker 1 does not support this)",
        "3.6 refuses level 0 of a feature that its brokers do not know; 3.9 and ours let it pass",
    ),
    (
        r"loggers at \d: IncrementalAlterConfigs v1 .*'-1 unknown_server_error' != ",
        "the jars of 4.0 from Maven come without log4j, which its Log4jController needs",
    ),
    (
        r"groups/positions/several-groups-v[89] at \d: .*'no answer, the connection stays' != ",
        "up to 4.0 an OffsetFetch of no group is never answered, nor is what comes behind it on "
        "its connection: OffsetFetchResponse.errorCounts has no error to count",
    ),
    (
        r"FindCoordinator v[45] .*error_message: 'This most likely occurs.* != ''",
        "up to 3.8 an unknown type of coordinator is refused with the words of the error",
    ),
    (
        r"Produce v9 .*error_message: 'Producer attempted to produce with an old epoch.' != None",
        "3.6 says the words of the error where later releases are silent",
    ),
)
"""Of older lines besides."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Play, compare, and tell of each play as soon as it is over."""
    parser = argparse.ArgumentParser(prog="python -m tests.conformance.releases")
    parser.add_argument(
        "--release",
        required=True,
        choices=[comparison for comparison in RELEASES if comparison > "3"],
    )
    parser.add_argument("--case", action="append", default=[], metavar="FILE[/NAME]")
    parser.add_argument("--story", action="append", default=[], metavar="NAME")
    parser.add_argument("--level", action="append", type=int, choices=TXN_LEVELS)
    parser.add_argument(
        "--keep",
        type=Path,
        metavar="FILE",
        help="write each play's result there; what it has already is not played again",
    )
    options = parser.parse_args(arguments)
    rules()  # a mistake there is told once
    release = RELEASES[options.release]
    feature = release.features.get(FEATURE)
    transaction_versions = sorted(
        options.level or ([0] if feature is None else [feature.new_cluster_level])
    )
    compares_everything = not options.case and not options.story
    accepted = ACCEPTED if Release.line_of(release.name) < SAME_SINCE else ALWAYS_ACCEPTED
    compared = ReleaseComparison(options.keep, accepted)
    open_sides = partial(both, release)
    if compares_everything or options.case:
        cases = [case for case in choose_cases(options.case) if feature or not _moves_level(case)]
        surroundings = PlaySurroundings(offered_versions=offered_by(release))
        for comparison in compared_cases(
            open_sides,
            cases,
            transaction_versions,
            labels_done=compared.plays,
            surroundings=surroundings,
        ):
            compared.add(comparison)
    if compares_everything or options.story:
        for comparison in compared_stories(
            open_sides, options.story, transaction_versions, labels_done=compared.plays
        ):
            compared.add(comparison)
    difference_counts = [
        len(compared.unexplained(comparison)) for comparison in compared.plays.values()
    ]
    sys.stdout.write(
        f"{difference_counts.count(0)} plays alike, {sum(difference_counts)} differences "
        "(real != ours)\n"
    )
    return 1 if any(difference_counts) else 0


class ReleaseComparison:
    """What was found so far.

    Args:
        file: Where each play is written down; those that it has already are known.
        accepted: Patterns of differences that may be, and why.
    """

    def __init__(self, file: Path | None, accepted: Accepted = ()) -> None:
        self._file = file
        self._accepted = accepted
        self.plays: dict[str, ComparedPlay] = {}
        if file is not None and file.exists():
            for line in file.read_text().splitlines():
                self._print_comparison(msgspec.json.decode(line, type=ComparedPlay))

    def add(self, compared_play: ComparedPlay) -> None:
        if self._file is not None:
            with self._file.open("ab") as results_file:
                results_file.write(msgspec.json.encode(compared_play) + b"\n")
        self._print_comparison(compared_play)

    def _print_comparison(self, compared_play: ComparedPlay) -> None:
        self.plays[compared_play.label] = compared_play
        unexplained_lines = self.unexplained(compared_play)
        sys.stdout.write(
            f"{len(self.plays):5} {compared_play.label}{'' if unexplained_lines else ': alike'}\n"
        )
        sys.stdout.writelines(
            f"      {unexplained_line}\n" for unexplained_line in unexplained_lines
        )
        sys.stdout.flush()

    def unexplained(self, compared_play: ComparedPlay) -> list[str]:
        """The unexpected differences between the two brokers in a play."""
        return [
            line
            for line in compared_play.lines
            if not any(
                re.search(pattern, f"{compared_play.label}: {line}")
                for pattern, _ in self._accepted
            )
        ]


class ComparedPlay(msgspec.Struct, frozen=True):
    """A comparison of a play's recorded answers with ours."""

    label: str
    lines: list[str]
    """Where the two differ."""


Sides = Callable[[BrokerConfig, int], AbstractContextManager[tuple[str, str]]]
"""Starts two brokers with a configuration and a level; their addresses."""


def offered_by(release: Release) -> dict[str, tuple[int, int]]:
    """Versions of a release, by API. A case with another one does not apply: both brokers close the
    connection, and what the case waits for comes by a timeout, if it comes.
    """
    versions_by_key = release.api_versions
    return {name: versions_by_key[key] for name, key in API_KEYS.items() if key in versions_by_key}


def compared_cases(
    open_sides: Sides,
    cases_chosen: Sequence[Case],
    transaction_versions: Sequence[int],
    *,
    labels_done: Container[str] = (),
    surroundings: PlaySurroundings = NO_OTHER_USERS,
) -> Iterator[ComparedPlay]:
    """Each case that is not known, a handful on the one broker and then on the other."""
    for broker_name, config in broker_configs().items():
        for transaction_version in transaction_versions:
            cases_left = [
                case
                for case in cases_chosen
                if case.broker == broker_name
                and transaction_version in case.text.levels
                and _label(case.id, transaction_version) not in labels_done
            ]
            if not cases_left:
                continue
            cases_left.sort(key=lambda case: case.plays_alone)  # as they are played
            with open_sides(config, transaction_version) as addresses:
                for handful_start in range(0, len(cases_left), HANDFUL):
                    few_cases = cases_left[handful_start : handful_start + HANDFUL]
                    expected, plays_found = (
                        _play_handful(few_cases, address, transaction_version, surroundings)
                        for address in addresses
                    )
                    for case in few_cases:
                        label = _label(case.id, transaction_version)
                        yield ComparedPlay(label, _unlike(expected[case.id], plays_found[case.id]))


def compared_stories(
    open_sides: Sides,
    story_names: Sequence[str],
    transaction_versions: Sequence[int],
    *,
    labels_done: Container[str] = (),
) -> Iterator[ComparedPlay]:
    config = BrokerConfig(about="stories", properties=programme.PROPERTIES)
    for transaction_version in transaction_versions:
        stories = {
            _label(programme.name_of(story), transaction_version): story
            for story in programme.stories_at(transaction_version)
            if not story_names or programme.name_of(story) in story_names
        }
        stories = {label: story for label, story in stories.items() if label not in labels_done}
        if not stories:
            continue
        with open_sides(config, transaction_version) as addresses:
            for label, story in stories.items():
                expected_transcript, transcript_found = (
                    _play_story(story, address, transaction_version) for address in addresses
                )
                yield ComparedPlay(label, _unlike_stories(expected_transcript, transcript_found))


def _moves_level(case: Case) -> bool:
    """Whether it finalizes a level of ``transaction.version``, or waits for one. Where the release
    has no such feature both brokers would be waited for in vain.
    """
    return any(
        step.verb == "finalize" or any("finalized_features" in path for path in step.until)
        for level in case.text.levels
        for step in case.steps(level)
    )


def _label(name: str, transaction_version: int) -> str:
    return f"{name} at {transaction_version}"


def _play_story(story: Story, address: str, transaction_version: int) -> Transcript | None:
    """What the broker answers, None where it lacks what the story asks for."""
    try:
        return programme.play_story(story, address, transaction_version)
    except (AttributeError, AssertionError, KeyError):
        return None


def _unlike_stories(
    expected_transcript: Transcript | None, transcript_found: Transcript | None
) -> list[str]:
    if expected_transcript is None and transcript_found is None:
        return []
    if expected_transcript is None or transcript_found is None:
        return [f"{'the real broker' if expected_transcript is None else 'ours'} can't play it"]
    return list(_differences(expected_transcript, transcript_found))


@contextlib.contextmanager
def both(
    release: Release, config: BrokerConfig, transaction_version: int
) -> Iterator[tuple[str, str]]:
    """Addresses of a real broker of a release and of our broker of the same release."""
    setup = setup_of(config)
    older_settings = AT_ONCE if Release.line_of(release.name) < LINGERS_NOT_SINCE else {}
    of_kafka = msgspec.structs.replace(setup, kafka_only={**setup.kafka_only, **older_settings})
    with (
        kafka_on(of_kafka, transaction_version, release.patch_release) as kafka_target,
        simulator_on(setup, transaction_version, release.name) as simulator_target,
    ):
        yield kafka_target.bootstrap, simulator_target.bootstrap


def two_real(older_release: str, newer_release: str) -> Sides:
    """Two real brokers, whose answers are then told as real != ours: older != newer."""

    @contextlib.contextmanager
    def start_both(config: BrokerConfig, transaction_version: int) -> Iterator[tuple[str, str]]:
        setup = setup_of(config)
        with (
            kafka_on(setup, transaction_version, older_release) as older_kafka_target,
            kafka_on(setup, transaction_version, newer_release) as newer_kafka_target,
        ):
            yield older_kafka_target.bootstrap, newer_kafka_target.bootstrap

    return start_both


def _play_handful(
    handful: Sequence[Case], address: str, transaction_version: int, surroundings: PlaySurroundings
) -> dict[str, Play | str]:
    plays_by_case: dict[str, Play | str] = {}
    for case, outcome_future in play_all(
        handful, RunningTarget(address), transaction_version, surroundings=surroundings
    ):
        failure = outcome_future.exception()
        plays_by_case[case.id] = outcome_future.result() if failure is None else f"{failure}"
        if case.text.alone and transaction_version:
            finalize_level(address, transaction_version)
    return plays_by_case


def _unlike(expected_play: Play | str, play_found: Play | str) -> list[str]:
    if isinstance(expected_play, str) and isinstance(play_found, str):
        return []  # neither has what the case asks for
    if isinstance(expected_play, str) or isinstance(play_found, str):
        failure = expected_play if isinstance(expected_play, str) else play_found
        broker_label = "the real broker" if isinstance(expected_play, str) else "ours"
        return [f"{broker_label} can't play it: {failure}"]
    racy = {expected_play.transcript.entries[index][0] for index in expected_play.racy_entries}
    return [
        difference_line
        for difference_line in _differences(expected_play.transcript, play_found.transcript)
        if not any(difference_line.startswith(racy_question) for racy_question in racy)
    ]


def _differences(expected_transcript: Transcript, transcript_found: Transcript) -> Iterator[str]:
    """The differences, without the order of partitions where it is that of a map."""
    for transcript in (expected_transcript, transcript_found):
        transcript.entries = [
            (label, _by_partition(answer_told)) for label, answer_told in transcript.entries
        ]
    return differences(expected_transcript, transcript_found)


def _by_partition(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _by_partition(value) for name, value in value.items()}
    if not isinstance(value, list):
        return value
    values = [_by_partition(value) for value in value]
    if all(isinstance(value, dict) and not ORDERED_BY_A_MAP.isdisjoint(value) for value in values):
        values.sort(key=itemgetter("partition_index"))
    return values


if __name__ == "__main__":
    sys.exit(main())
