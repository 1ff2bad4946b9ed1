"""Plays the casebook to any broker, and compares its answers with Kafka's. It uses only Kafka's
protocol. All topics, ids and groups that it creates have a prefix, and are removed at the end. It
plays the cases that need only one broker with the settings of ``needed_settings``.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from txnsim.client.authentication import ClientSecurity
from txnsim.client.raw.connection import NoAnswer as WireOutcome
from txnsim.client.raw.connection import RawConnection
from txnsim.errors import ClientError, ConfigError, ErrorCode, TxnsimError
from txnsim.files import problem_of
from txnsim.metadata.settings_table import setting_rows
from txnsim.releases import REFERENCE, Release, release_named
from txnsim.wire.apis import api_name
from txnsim.wire.registry import versions
from txnsim_lab.conformance._book import answers
from txnsim_lab.conformance._book.case_player import FEATURE, Play, play_all
from txnsim_lab.conformance._book.casebook_reader import Case, broker_configs, choose_cases
from txnsim_lab.conformance._book.frame_player import API_KEYS, NotOfferedError
from txnsim_lab.conformance._book.recordings import Recording, answer_differences
from txnsim_lab.conformance._book.targets import PlaySurroundings, RunningTarget
from txnsim_lab.conformance._book.transcript import Transcript
from txnsim_lab.conformance._name_prefixes import prefix_without_hash
from txnsim_lab.conformance.results import (
    AnswerDifference,
    CaseOutcome,
    CaseResult,
    ConformanceResults,
)

NAME_PREFIX: Final = "txnsim-conformance-"
PLAYED_CONFIGS: Final = ("default", "groups")
"""Broker configurations whose cases are played; ``needed_settings`` are the settings of all."""
RAISED_EPOCH_MAX: Final = 1_000
PATIENCE_S: Final = 10.0
REPLAYED_CASES_MAX: Final = 20
ASK_ATTEMPTS_MAX: Final = 2
"""Maximum number of attempts to send a request: brokers close idle connections."""
CASES_AT_ONCE: Final = 100
"""Number of cases that are played before their topics are deleted."""
_LEAVING_EPOCH: Final = -1
"""Member epoch with which a member leaves."""
_UNFINISHED_STATES: Final = ("PrepareCommit", "PrepareAbort", "Ongoing")


class ConformanceOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What the user chose: the cluster, the release, the cases."""

    bootstrap: str
    release: str
    only: tuple[str, ...] = ()
    beside_others: bool = False
    patience_s: float = PATIENCE_S
    security: ClientSecurity = ClientSecurity()


def needed_settings(release_name: str = REFERENCE.name) -> dict[str, str]:
    """Settings that a broker needs for all cases, in addition to being the only broker of its
    cluster. A setting that the release does not have is left out.

    Raises:
        ConfigError: There is no such release.
    """
    release_rules = release_named(release_name).rules
    row_by_setting = setting_rows("broker")
    return {
        setting_name: value
        for config_name in PLAYED_CONFIGS
        for setting_name, value in broker_configs()[config_name].properties.items()
        if row_by_setting[setting_name].is_in(release_rules)
    }


def run_conformance(
    options: ConformanceOptions,
    report_result: Callable[[CaseResult, int], None],
    *,
    stops: tuple[type[BaseException], ...] = (),
) -> ConformanceResults:
    """Play all cases that apply.

    Args:
        options: The user's choices.
        report_result: Takes each result when it is there, and the number of all cases.
        stops: Exceptions that end the run early, such as KeyboardInterrupt: the results so far are
            returned, and what was created is removed.

    Raises:
        ConfigError: The cluster can't be reached, has several brokers or topics of others, or there
            are no recorded answers of that release.
        ClientError: The broker refuses the login.
    """
    release = release_named(options.release)
    recorded_answers = answers.Answers.of_release(release.name)
    with (
        RawConnection.reaching(options.security),
        contextlib.closing(_Cluster(options.bootstrap)) as cluster,
    ):
        cluster.check(runs_beside_others=options.beside_others)
        cases = [case for case in choose_cases(options.only) if cluster.level in case.text.levels]
        if not cases:
            raise ConfigError(f"no case is called {' or '.join(options.only)}")
        cluster.clean(NAME_PREFIX)  # of a run that was killed
        surroundings = cluster.new_surroundings(options.patience_s)
        collected_results: list[CaseResult] = []
        is_stopped = False
        try:
            with contextlib.closing(
                _play_cases(cases, options.bootstrap, cluster, surroundings, recorded_answers)
            ) as case_results:
                for result in case_results:
                    collected_results.append(result)
                    report_result(result, len(cases))
            later_surroundings = cluster.new_surroundings(options.patience_s)
            collected_results = _replay_differing(
                collected_results,
                options.bootstrap,
                cluster,
                later_surroundings,
                recorded_answers,
            )
        except stops:
            is_stopped = True
        finally:
            left_behind = cluster.clean(NAME_PREFIX)
    case_order = {case.id: index for index, case in enumerate(cases)}
    return ConformanceResults(
        bootstrap=options.bootstrap,
        release=release.name,
        answered_by=recorded_answers.kafka,
        transaction_version=cluster.level,
        lacks=tuple(cluster.missing_versions(release)),
        results=tuple(sorted(collected_results, key=lambda result: case_order[result.case])),
        left_behind=left_behind,
        cases=tuple(case.id for case in cases),
        is_stopped=is_stopped,
    )


def _replay_differing(
    results: list[CaseResult],
    bootstrap: str,
    cluster: _Cluster,
    surroundings: PlaySurroundings,
    recorded_answers: answers.Answers,
) -> list[CaseResult]:
    """Play differing cases once more, each alone: on a busy machine a state may have changed
    between two steps. The second answer counts. If many cases differ, chance is excluded, and
    nothing is repeated.
    """
    differing_ids = [result.case for result in results if result.outcome is CaseOutcome.DIFFERS]
    if len(differing_ids) > REPLAYED_CASES_MAX:
        return results
    second_results: dict[str, CaseResult] = {}
    for case_id in differing_ids:
        (case,) = (candidate for candidate in choose_cases([case_id]) if candidate.id == case_id)
        for result in _play_cases([case], bootstrap, cluster, surroundings, recorded_answers):
            second_results[case_id] = result
    return [second_results.get(result.case, result) for result in results]


def _play_cases(
    cases: Sequence[Case],
    bootstrap: str,
    cluster: _Cluster,
    surroundings: PlaySurroundings,
    recorded_answers: answers.Answers,
) -> Generator[CaseResult, None, None]:
    level = cluster.level
    playable_cases = []
    for case in cases:
        if reason := unplayable_reason(case, level):
            yield _not_applicable(case, level, reason)
        else:
            playable_cases.append(case)
    for chunk_start in range(0, len(playable_cases), CASES_AT_ONCE):
        case_chunk = playable_cases[chunk_start : chunk_start + CASES_AT_ONCE]
        plays = play_all(case_chunk, RunningTarget(bootstrap), level, surroundings=surroundings)
        with contextlib.closing(plays):  # now, and not when the traceback of Ctrl-C goes
            for case, play_future in plays:
                recording = recorded_answers.of_case(case.file, case.name, level)
                yield _judge_play(
                    case, level, recording, play_future.exception() or play_future.result()
                )
        cluster.clean(surroundings.run_prefix)


@contextlib.contextmanager
def surroundings_of(bootstrap: str) -> Iterator[PlaySurroundings]:
    """Make surroundings for plays on a cluster; what the plays create is removed at the end."""
    cluster = _Cluster(bootstrap)
    surroundings = cluster.new_surroundings(PATIENCE_S)
    try:
        yield surroundings
    finally:
        cluster.clean(surroundings.run_prefix)
        cluster.close()


# Verdicts


def unplayable_reason(case: Case, level: int) -> str:
    if case.broker not in PLAYED_CONFIGS:
        return f"it needs other brokers or settings: {broker_configs()[case.broker].about}"
    if case.plays_alone:
        return "it changes what other clients of the cluster see"
    if any(
        step.verb == "climb" and step.given["to"] > RAISED_EPOCH_MAX for step in case.steps(level)
    ):
        return "it goes through all epochs of a producer"
    return ""


def _not_applicable(case: Case, level: int, reason: str) -> CaseResult:
    rules = tuple(sorted(case.rule_ids(level)))
    return CaseResult(case=case.id, outcome=CaseOutcome.NOT_APPLICABLE, rules=rules, because=reason)


def _judge_play(
    case: Case, level: int, recording: Recording | None, play_or_failure: Play | BaseException
) -> CaseResult:
    if isinstance(play_or_failure, NotOfferedError):
        return _not_applicable(case, level, str(play_or_failure))
    if isinstance(play_or_failure, ConnectionRefusedError):
        return _not_applicable(case, level, "the broker is gone")
    if recording is None:
        return _not_applicable(case, level, "this release of Kafka can't play it either")
    case_rules = tuple(sorted(case.rule_ids(level)))
    if isinstance(play_or_failure, BaseException):
        reason = str(play_or_failure) or type(play_or_failure).__name__
        failure = f"it could not be played to its end: {reason}"
        return CaseResult(
            case=case.id, outcome=CaseOutcome.DIFFERS, rules=case_rules, because=failure
        )
    differences = tuple(_differences(recording, play_or_failure))
    return CaseResult(
        case=case.id,
        outcome=CaseOutcome.DIFFERS if differences else CaseOutcome.PASSED,
        rules=case_rules,
        differences=differences,
        seconds=play_or_failure.seconds,
    )


def _differences(recording: Recording, play: Play) -> Iterator[AnswerDifference]:
    """The differing answers, up to the point where the requests differ."""
    for index, (exchange, (request, answer)) in enumerate(
        zip(recording, play.transcript.entries, strict=False)
    ):
        single_transcript = Transcript()
        single_transcript.entries.append((request, answer))
        differing_fields = tuple(
            difference_line.removeprefix(f"{request}.")
            for difference_line in answer_differences((exchange,), single_transcript)
        )
        if differing_fields:
            yield AnswerDifference(
                request=request,
                answer=answer,
                kafka=json.loads(exchange.answers[0]),
                fields=differing_fields,
                rules=play.rule_ids[index],
            )
        if exchange.asked != request:
            return


# The cluster


class _Cluster:
    """Checks the cluster before the plays, and cleans it afterwards.

    Raises:
        ConfigError: The cluster can't be reached.
    """

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        try:
            self._connection = RawConnection(bootstrap)
        except OSError as error:
            raise ConfigError(f"{bootstrap}: {problem_of(error)}") from None
        self.offered: Mapping[str, tuple[int, int]] = {}
        self.level = 0
        self.brokers: list[int] = []
        self.topics: list[Any] = []
        try:
            self._ask_facts(bootstrap)
        except ConfigError:
            self._connection.close()
            raise
        except OSError as error:
            self._connection.close()
            raise ConfigError(f"{bootstrap}: {problem_of(error)}") from error
        except (NotOfferedError, TxnsimError) as error:
            self._connection.close()
            raise ConfigError(f"{bootstrap} is no broker that can be asked: {error}") from error

    def _ask_facts(self, bootstrap: str) -> None:
        """Learn what it offers, and what the cluster has.

        Raises:
            TxnsimError: It answers otherwise than a broker does.
        """
        versions = self._ask_versions(bootstrap)
        self.offered = {
            api_name(api.api_key): (api.min_version, api.max_version)
            for api in versions.api_keys
            if api.api_key in API_KEYS.values()
        }
        level_by_feature = {
            feature.name: feature.max_version_level for feature in _features_of(versions)
        }
        self.level = int(level_by_feature.get(FEATURE, 0))
        metadata = self._ask_broker("Metadata", topics=None)
        self.brokers = [broker.node_id for broker in metadata.brokers]
        self.topics = [topic for topic in metadata.topics if not topic.is_internal]

    def _ask_versions(self, bootstrap: str) -> Any:
        for version in (4, 3, 0):
            answer = self._connection.ask(
                API_KEYS["ApiVersions"],
                version,
                client_software_name="txnsim",
                client_software_version="1",
            )
            if getattr(answer, "error_code", None) == ErrorCode.none:
                return answer
            if answer is WireOutcome.SILENT:
                break
        error_code = getattr(answer, "error_code", None)
        failure = (
            f"it answers {error_code.name.upper()}"
            if isinstance(error_code, ErrorCode)
            else "no answer"
        )
        raise ConfigError(f"{bootstrap} does not answer ApiVersions: {failure}")

    @property
    def broker_id(self) -> int:
        return int(self.brokers[0])

    def check(self, *, runs_beside_others: bool) -> None:
        """Check that the cases may be played on the cluster.

        Raises:
            ConfigError: It has several brokers, or topics of others.
        """
        if len(self.brokers) != 1:
            raise ConfigError(
                f"the cluster has {len(self.brokers)} brokers: the cases ask one that leads all"
            )
        foreign_topics = [
            topic.name for topic in self.topics if not topic.name.startswith(NAME_PREFIX)
        ]
        if foreign_topics and not runs_beside_others:
            example_names = ", ".join(sorted(foreign_topics)[:3])
            raise ConfigError(
                f"the cluster has {len(foreign_topics)} topics of others ({example_names}):"
                " --beside-others plays"
                f" the cases all the same; their names begin with {NAME_PREFIX}"
            )

    def new_surroundings(self, patience_s: float) -> PlaySurroundings:
        """Make surroundings for plays on this cluster, with a new prefix of names."""
        return PlaySurroundings(
            run_prefix=prefix_without_hash(NAME_PREFIX),
            patience_s=patience_s,
            offered_versions=self.offered,
            broker_id=self.broker_id,
        )

    def missing_versions(self, release: Release) -> Iterator[str]:
        """APIs and versions that the release offers and the broker does not."""
        for api_key, (_, highest_wanted_version) in sorted(release.api_versions.items()):
            api = api_name(api_key)
            lowest_version, highest_version = self.offered.get(api, (0, -1))
            if api in API_KEYS and highest_version < highest_wanted_version:
                yield (
                    f"{api} v{highest_wanted_version}"
                    if highest_version < lowest_version
                    else f"{api} v{highest_version + 1}–v{highest_wanted_version}"
                )

    def clean(self, prefix: str) -> tuple[str, ...]:
        """Remove everything with the prefix; returns what could not be removed."""
        leftover_sentences: list[str] = []
        for remove_all in (self._end_transactions, self._delete_groups, self._delete_topics):
            try:
                leftover_sentences += remove_all(prefix)
            except (NotOfferedError, ClientError, OSError) as error:
                leftover_sentences.append(
                    f"what begins with {prefix} could not be taken away: {error}"
                )
        return tuple(leftover_sentences)

    def _end_transactions(self, prefix: str) -> list[str]:
        """End open transactions: InitProducerId of a transactional id aborts its transaction. The
        ids themselves expire on the broker.
        """
        listing = self._ask_broker("ListTransactions", state_filters=[], producer_id_filters=[],
                           duration_filter=-1)  # fmt: skip
        for transaction in listing.transaction_states:
            if (
                transaction.transactional_id.startswith(prefix)
                and transaction.transaction_state in _UNFINISHED_STATES
            ):
                self._ask_broker(
                    "InitProducerId",
                    transactional_id=transaction.transactional_id,
                    transaction_timeout=60_000,
                    producer_id=-1,
                    producer_epoch=-1,
                )
        return []

    def _delete_groups(self, prefix: str) -> list[str]:
        listing = self._ask_broker("ListGroups", states_filter=[], types_filter=[])
        own_groups = [
            group_state.group_id
            for group_state in listing.groups
            if group_state.group_id.startswith(prefix)
        ]
        if not own_groups:
            return []
        for group in own_groups:
            self._empty_group(group)
        deletion = self._ask_broker("DeleteGroups", groups_names=own_groups)
        return [
            f"group {group_state.group_id}: {ErrorCode(group_state.error_code).name.upper()}"
            for group_state in deletion.results
            if group_state.error_code not in (ErrorCode.none, ErrorCode.group_id_not_found)
        ]

    def _empty_group(self, group: str) -> None:
        """Make all members leave a group: only an empty group can be deleted."""
        group_description = self._ask_broker("DescribeGroups", groups=[group]).groups[0]
        member_ids = [{"member_id": member.member_id} for member in group_description.members]
        if member_ids:
            self._ask_broker("LeaveGroup", group_id=group, members=member_ids)
        if "ConsumerGroupDescribe" not in self.offered:
            return
        for member in (
            self._ask_broker("ConsumerGroupDescribe", group_ids=[group]).groups[0].members
        ):
            self._ask_broker(
                "ConsumerGroupHeartbeat",
                group_id=group,
                member_id=member.member_id,
                instance_id=member.instance_id,
                member_epoch=_LEAVING_EPOCH,
            )

    def _delete_topics(self, prefix: str) -> list[str]:
        metadata = self._ask_broker("Metadata", topics=None)
        own_topics = [topic.name for topic in metadata.topics if topic.name.startswith(prefix)]
        if not own_topics:
            return []
        deletion = self._ask_broker(
            "DeleteTopics",
            topics=[{"name": topic_name, "topic_id": None} for topic_name in own_topics],
            topic_names=own_topics,
            timeout=30_000,
        )
        return [
            f"topic {topic.name}: {ErrorCode(topic.error_code).name.upper()}"
            for topic in deletion.responses
            if topic.error_code not in (ErrorCode.none, ErrorCode.unknown_topic_or_partition)
        ]

    def _ask_broker(self, api: str, **fields: Any) -> Any:
        """Send a request in the newest version that both sides have.

        Raises:
            NotOfferedError: There is no such version.
        """
        lowest_version, highest_version = self.offered.get(api, (1, 0))
        version = min(highest_version, versions(API_KEYS[api])[-1])
        if version < lowest_version:
            raise NotOfferedError(api, lowest_version)
        for _ in range(ASK_ATTEMPTS_MAX):
            answer = self._connection.ask(API_KEYS[api], version, **fields)
            if not isinstance(answer, WireOutcome):
                return answer
            self._connection.close()
            self._connection = RawConnection(self._bootstrap)
        raise ClientError(f"{api} v{version}: {answer.value}")

    def close(self) -> None:
        self._connection.close()


def _features_of(versions: Any) -> Sequence[Any]:
    return getattr(versions, "finalized_features", None) or ()
