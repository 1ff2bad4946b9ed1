"""Who acts in a story: applications, members, operators, readers, raw requests."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.stories import call, failure, observations_of, play_steps, sentences, transaction
from txnsim_lab.check.observations import (
    Aborted,
    Added,
    Described,
    Ended,
    Initialised,
    Listed,
    PositionsRead,
    Producers,
    Read,
    Searched,
    SentOffsets,
    Wrote,
)

# ``wire``


INIT = call("init-producer-id")


def test_sequences_and_epochs_go_on_as_those_of_a_client_do() -> None:
    steps = [INIT, *transaction("r1", "r2"), *transaction("r3"), *transaction("r4", end="abort")]
    old_sequences = [
        (observation.producer_epoch, observation.sequence)
        for observation in observations_of(play_steps(steps), Wrote)
    ]
    new_sequences = [
        (observation.producer_epoch, observation.sequence)
        for observation in observations_of(play_steps(steps, run_name="TV2"), Wrote)
    ]
    assert old_sequences == [(0, 0), (0, 1), (0, 2), (0, 3)]
    assert new_sequences == [(0, 0), (0, 1), (1, 0), (2, 0)]


@pytest.mark.slow
def test_partitions_are_added_only_where_a_client_does() -> None:
    steps = [INIT, *transaction("r1")]
    assert len(observations_of(play_steps(steps), Added)) == 1
    assert observations_of(play_steps(steps, run_name="TV2"), Added) == []
    always = [INIT, call("begin"), call("add-partitions", partitions=["t-0", "t-1"], always=True)]
    (addition,) = observations_of(play_steps([*always, call("abort")], run_name="TV2"), Added)
    assert len(addition.partitions) == 2


def test_an_identity_can_be_raised_and_a_producer_be_replaced() -> None:
    actors = {
        "P": {"plays": "wire", "transactional-id": "app"},
        "Q": {"plays": "wire", "transactional-id": "app", "transaction-timeout": "5s"},
    }
    steps = [
        INIT,
        call("init-producer-id", bump=True),
        call("init-producer-id", "Q"),
        call("begin"),
        call("add-partitions", partitions="t-0", once=True, error="PRODUCER_FENCED"),
        call("init-producer-id", producer_id=77, epoch=0, error="PRODUCER_FENCED"),
    ]
    result = play_steps(steps, actors=actors)
    assert result.as_declared, result.verdict
    identities = [
        (observation.producer_epoch, observation.timeout_ms)
        for observation in observations_of(result, Initialised)
    ]
    assert identities == [(0, 60_000), (1, 60_000), (2, 5_000), (-1, 60_000)]


def test_what_is_unusual_can_be_said() -> None:
    """A batch with another epoch and sequence; one outside of the transaction; a batch of two."""
    steps = [
        INIT,
        call("begin"),
        call("add-partitions", partitions="t-0"),
        call("produce", partition="t-0", values=["a", "b"], key={"hex": "0001"}, item="x"),
        call("produce", partition="t-0", value="c", epoch=-1, error="any"),
        call("produce", partition="t-0", value="d", sequence=9, error="any"),
        call("commit"),
        call("produce", partition="t-1", value="e", plain=True, sequence=0),
    ]
    result = play_steps(steps)
    write_by_value = {
        observation.value: observation for observation in observations_of(result, Wrote)
    }
    assert (write_by_value["a"].item, write_by_value["b"].key, write_by_value["b"].sequence) == (
        "x",
        "\x00\x01",
        1,
    )
    assert write_by_value["d"].error == "OUT_OF_ORDER_SEQUENCE_NUMBER"
    assert write_by_value["e"].transaction is None


def offsets(run_name: str) -> Any:
    steps = [
        INIT,
        call("begin", transaction="first"),
        call("add-offsets", group="g"),
        call("commit-offsets", group="g", offsets={"in-0": 7}),
        call("commit"),
        {"wait-until": {"transaction": {"id": "app", "is": "CompleteCommit"}}},
        call("read-positions", "reader", group="g", partitions="in-0", positions={"in-0": 7}),
    ]
    return play_steps(steps, run_name=run_name)


def test_positions_are_part_of_a_transaction() -> None:
    for run_name in ("V-", "TV2"):
        result = offsets(run_name)
        assert result.as_declared, result.verdict
        (sent_offsets,) = observations_of(result, SentOffsets)
        assert (sent_offsets.transaction, sent_offsets.group, sent_offsets.position) == (
            "first",
            "g",
            7,
        )
        assert len(observations_of(result, Added)) == (1 if run_name == "V-" else 0)


def test_what_is_never_answered_has_an_unknown_outcome() -> None:
    fault_rule = {
        "id": "lost",
        "point": "client.request",
        "api": "EndTxn",
        "action": {"do": "drop"},
    }
    steps = [
        INIT,
        call("begin"),
        call("add-partitions", partitions="t-0"),
        call("produce", partition="t-0", value="r1"),
        {"arm": fault_rule},
        call("commit", connection="b", background="end"),
        {"wait-until": {"struck": "lost"}},
    ]
    result = play_steps(steps)
    assert [end.outcome for end in observations_of(result, Ended)] == ["unknown"]


def test_who_commits_positions_as_a_member_is_checked_by_the_group() -> None:
    begin_steps = [call("init-producer-id"), call("begin"), call("add-offsets", group="g")]
    offset_fields = {"group": "g", "offsets": {"in-0": 10}}
    stranger = call(
        "commit-offsets", **offset_fields, member_id="m", generation=1, error="ILLEGAL_GENERATION"
    )
    nobody_step = call("commit-offsets", **offset_fields)
    result = play_steps([*begin_steps, stranger, nobody_step, call("commit")])
    assert result.as_declared, result.verdict


def test_an_output_of_an_input_that_was_only_polled_in_an_abort_is_missed() -> None:
    """The application does not go back behind the abort."""
    actors = {"P": {"plays": "wire"}, "eater": {"plays": "member", "group": "g"}}
    steps = [
        call("append", "bystander", partition="in-0", values=["a", "b"]),
        call("init-producer-id"),
        call("subscribe", "eater", topics="in", assigned="in-0"),
        call("poll", "eater", reads=["a", "b"], transaction="T1"),
        call("begin", transaction="T1"),
        call("add-partitions", partitions="t-0"),
        call("produce", partition="t-0", value="A", item="a", of="in-0@0"),
        call("abort"),
        call("begin", transaction="T2"),
        call("add-partitions", partitions="t-0"),
        call("produce", partition="t-0", value="B", item="b", of=["in-0@1"]),
        call("add-offsets", group="g"),
        call("commit-offsets", member="eater"),
        call("commit"),
    ]
    settings = {"group.initial.rebalance.delay.ms": 0}
    result = play_steps(steps, actors=actors, settings=settings)
    assert result.verdict.observed == ("skipped-input",)
    assert result.verdict.because[0].endswith("no member of the group has processed 0")
    second_produce = call("produce", partition="t-0", value="A again", item="a", of="in-0@0")
    steps.insert(10, second_produce)
    result = play_steps(steps, actors=actors, settings=settings)
    assert result.as_declared, result.verdict


def test_a_record_without_a_value_is_a_tombstone_for_everybody() -> None:
    actors = {"P": {"plays": "wire"}}
    steps = [
        call("append", "bystander", partition="t-0", value=None, key="k"),
        call("init-producer-id"),
        call("begin"),
        call("add-partitions", partitions="t-0"),
        call("produce", partition="t-0", values=["a", None], key="k"),
        call("commit"),
        call("read", "reader", partition="t-0", reads={"V-": [None, "a", None], "else": ["b"]}),
        {"expect": {"partition": "t-0", "committed": [None, "a", None]}},
    ]
    result = play_steps(steps, actors=actors)
    assert result.as_declared, result.verdict
    assert [observation.value for observation in observations_of(result, Wrote)] == [
        None,
        "a",
        None,
    ]
    (because,) = play_steps(steps, actors=actors, run_name="TV2").verdict.because
    assert "reads null, a, null from t-0, expected b" in because


@pytest.mark.parametrize(
    ("expectation", "complaint"),
    [
        ({"at-follower": 2}, "the leader answers, expected broker 2"),
        ({"stable-offset": 0}, "the last stable offset is 2, expected 0"),
        ({"aborted": [5]}, "the answers name aborted transactions at (0,), expected (5,)"),
        ({"aborted": [0], "stable-offset": 2, "at-follower": -1}, ""),
    ],
)
def test_what_a_reader_is_told_besides_records_may_be_expected(
    expectation: dict[str, Any], complaint: str
) -> None:
    steps = [
        INIT,
        call("begin"),
        call("produce", partition="t-0", value="r1"),
        call("abort"),
        {"wait-until": {"transaction": {"id": "app", "is": "CompleteAbort"}}},
        call("read", "reader", partition="t-0", reads=[], **expectation),
    ]
    assert complaint in "".join(play_steps(steps, run_name="TV2").verdict.because)
    assert play_steps(steps, run_name="TV2").as_declared == (not complaint)


@pytest.mark.parametrize("leaders", [(1, 1), (1, 2)])
def test_one_request_may_bring_records_to_several_partitions(leaders: tuple[int, int]) -> None:
    """If another broker leads a partition, the client asks that broker for this partition alone."""
    steps = [
        INIT,
        call("begin"),
        call("add-partitions", partitions=["t-0", "t-1"]),
        call("produce", partition="t-0", value="a", beside={"t-1": "b"}, item="x"),
        call("produce", partition="t-1", values=["c", "d"], beside={"t-0": "e"}),
        call("commit"),
    ]
    topics = {"t": {"partitions": 2, "leaders": [*leaders]}, "in": 1}
    for run_name in ("V-", "TV2"):
        result = play_steps(steps, run_name=run_name, topics=topics)
        assert result.as_declared, result.verdict
        writes = observations_of(result, Wrote)
        assert [
            (observation.value, observation.partition, observation.sequence, observation.offset)
            for observation in writes
        ] == [
            *(("a", 0, 0, 0), ("b", 1, 0, 0)),
            *(("c", 1, 1, 1), ("d", 1, 2, 2), ("e", 0, 1, 1)),
        ]
        assert [observation.item for observation in writes[:2]] == ["x", "b"]


def test_what_one_partition_refuses_is_no_word_about_the_other() -> None:
    steps = [
        INIT,
        call("begin"),
        call("produce", partition="t-1", value="a"),
        call("produce", partition="t-1", value="b", sequence=7, beside={"t-0": "c"}, error="any"),
        call("produce", partition="t-0", value="d", beside={"t-1": "e"}, background="late"),
        {"give-up": "late"},
        call("abort"),
    ]
    topics = {"t": {"partitions": 2, "leaders": [1, 1]}, "in": 1}
    writes = observations_of(play_steps(steps, run_name="V-", topics=topics), Wrote)
    told_of = {record.value: (record.error, record.outcome) for record in writes}
    assert told_of == {
        "a": ("", "ok"),
        "b": ("OUT_OF_ORDER_SEQUENCE_NUMBER", "failed"),
        "c": ("", "ok"),
        "d": ("REQUEST_TIMED_OUT", "unknown"),
        "e": ("REQUEST_TIMED_OUT", "unknown"),
    }


# ``operator``


GHOST = [
    call("init-producer-id"),
    *transaction("r1", end="commit"),
    call("produce", partition="t-0", value="ghost"),
]
"""In V- a record behind the end opens a transaction that nobody knows of."""


def operator_step(verb: str, **request_fields: object) -> dict[str, object]:
    return call(verb, "operator", **request_fields)


def test_a_hanging_transaction_is_found_and_aborted() -> None:
    cure = [
        operator_step("find-hanging", names="t-0"),
        operator_step("abort-found"),
        operator_step("find-hanging", names=[]),
    ]
    runs = {"V-": {"mode": "V-", "verdict": "healthy"}}
    result = play_steps(GHOST, runs=runs, cure=cure)
    assert "stuck-last-stable-offset" in result.verdict.observed
    assert result.cured is not None
    assert "stuck-last-stable-offset" not in result.cured.observed
    assert [len(observation.findings) for observation in observations_of(result, Searched)] == [
        1,
        0,
    ]
    (aborted,) = observations_of(result, Aborted)
    assert (aborted.start_offset, aborted.outcome) == (2, "ok")
    assert "find-hanging names t-0: producer 0, epoch 0, open since offset 2" in sentences(result)


def test_it_must_name_what_the_story_says() -> None:
    result = play_steps([*GHOST, operator_step("find-hanging", names="t-1")])
    assert failure(result) == "find-hanging names [], expected ['t-1']"


def test_a_transaction_is_aborted_by_its_start() -> None:
    steps = [
        *GHOST,
        operator_step("producers", partition="t-0"),
        operator_step("abort", partition="t-0", start_offset=2),
    ]
    assert "stuck-last-stable-offset" not in play_steps(steps).verdict.observed
    wrong_result = play_steps([*GHOST, operator_step("abort", partition="t-0", start_offset=1)])
    assert failure(wrong_result) == "no transaction is open on t-0 since 1"


def test_an_operator_describes_fences_and_deletes() -> None:
    steps = [
        call("init-producer-id"),
        call("begin"),
        call("add-partitions", partitions="t-0"),
        call("produce", partition="t-0", value="r1"),
        operator_step("describe", transactional_id="app", state="Ongoing"),
        operator_step("describe", transactional_id="nobody", error="TRANSACTIONAL_ID_NOT_FOUND"),
        operator_step("fence", transactional_id="app"),
        call("commit", error="PRODUCER_FENCED"),
        operator_step("delete-records", partition="t-0", before=1),
        operator_step("delete-records", partition="t-0", before=99, error="OFFSET_OUT_OF_RANGE"),
    ]
    result = play_steps(steps)
    assert result.as_declared, result.verdict
    assert "app is Ongoing with t-0" in sentences(result)
    assert [observation.who for observation in observations_of(result, Initialised)] == [
        "P",
        "operator",
    ]
    for observation_class in (Described, Listed, Producers):
        assert observations_of(result, observation_class)
    wrong_result = play_steps(
        [call("init-producer-id"), operator_step("describe", transactional_id="app", state="Dead")]
    )
    assert failure(wrong_result) == "app is Empty, expected Dead"


def test_an_operator_ends_exactly_the_transaction_that_a_producer_had_first() -> None:
    end_fields = {"transactional_id": "app", "first_identity_of": "P", "transaction": "P.T1"}
    steps = [
        call("init-producer-id"),
        call("begin"),
        call("add-partitions", partitions="t-0"),
        call("produce", partition="t-0", value="r1"),
        operator_step("end", **end_fields, decision="commit"),
        {"expect": {"partition": "t-0", "committed": ["r1"]}},
        operator_step("end", **end_fields, decision="commit"),  # it was ended so before
        operator_step("end", **end_fields, decision="abort", error="INVALID_TXN_STATE"),
    ]
    for run_name in ("V-", "TV2+"):
        result = play_steps(steps, run_name=run_name)
        assert result.as_declared, result.verdict
        assert [(end.who, end.commit, end.outcome) for end in observations_of(result, Ended)] == [
            ("operator", True, "ok"),
            ("operator", True, "ok"),
            ("operator", False, "failed"),
        ]
    nobody_result = play_steps([operator_step("end", **end_fields, decision="commit")])
    assert failure(nobody_result) == "P has no identity yet"


def test_a_fence_without_an_answer_is_noted() -> None:
    """A producer that it fences had to be fenced (seed 16054 of ``txnsim simulate``)."""
    lose = {"point": "client.request", "api": "InitProducerId", "client_id": "operator"}
    steps = [
        call("init-producer-id"),
        call("begin"),
        {"arm": {"id": "lost", **lose, "action": {"do": "drop-answer"}}},
        operator_step("fence", transactional_id="app", error="any"),
        call("add-partitions", partitions="t-0", error="any"),
        call("produce", partition="t-0", value="r1", error="INVALID_PRODUCER_EPOCH"),
    ]
    result = play_steps(steps, run_name="TV2+")
    assert result.verdict.observed == (), result.verdict
    assert [observation.outcome for observation in observations_of(result, Initialised)] == [
        "ok",
        "unknown",
    ]


def test_an_abort_may_name_each_field_of_the_identity() -> None:
    runs = {"V-": {"mode": "V-", "verdict": "healthy"}}
    wrong_step = operator_step(
        "abort", partition="t-0", start_offset=2, epoch=-1, error="UNKNOWN_SERVER_ERROR"
    )
    stale_step = operator_step(
        "abort", partition="t-0", start_offset=2, coordinator_epoch=0, error="any"
    )
    abort_of_other = operator_step(
        "abort", partition="t-0", producer_id=99, epoch=0, coordinator_epoch=0
    )
    wait_until_open = {"wait-until": {"open": "t-0"}}
    right_step = operator_step("abort", partition="t-0", start_offset=2, coordinator_epoch=3)
    result = play_steps(
        [
            *GHOST,
            wrong_step,
            wait_until_open,
            stale_step,
            abort_of_other,
            wait_until_open,
            right_step,
        ],
        runs=runs,
    )
    assert "stuck-last-stable-offset" not in result.verdict.observed, result.verdict
    assert "ABORT of producer 99, epoch 0, for t-0 is answered NONE" in sentences(result)


def test_an_operator_may_end_it_with_the_marker_that_was_decided() -> None:
    end = operator_step("abort", partition="t-0", start_offset=2, decision="commit")
    look = {"expect": {"partition": "t-0", "committed": ["r1", "ghost"]}}
    assert not failure_of([*GHOST, end, look])


def failure_of(steps: list[dict[str, object]]) -> str:
    result = play_steps(steps)
    return result.verdict.because[0] if "story-failed" in result.verdict.observed else ""


def test_a_named_replica_tells_of_its_producers() -> None:
    lag = {"cluster": {"do": "move-leader", "partition": "t-0", "to": 1}}
    step_elsewhere = operator_step(
        "producers", partition="t-0", broker=2, error="NOT_LEADER_OR_FOLLOWER"
    )
    looks = [
        operator_step("producers", partition="t-0", broker=1, open_since=[2]),
        operator_step("producers", partition="t-0", broker=2, open_since=[2]),
    ]
    assert not failure_of([*GHOST, lag, *looks])
    small_topics = {"t": {"partitions": 1, "replication-factor": 1, "leaders": [1]}}
    result_on_one = play_steps(
        [operator_step("producers", partition="t-0", broker=1), step_elsewhere], topics=small_topics
    )
    assert "story-failed" not in result_on_one.verdict.observed, result_on_one.verdict
    wrong_result = play_steps([*GHOST, operator_step("producers", partition="t-0", open_since=[0])])
    assert failure(wrong_result) == "the leader shows t-0 open since [2], expected [0]"


def test_an_operator_acts_in_the_background() -> None:
    hold = {"hold": {"id": "slow", "point": "client.request", "api": "InitProducerId"}}
    steps = [
        call("init-producer-id"),
        hold,
        operator_step("fence", transactional_id="app", background="fence"),
        {"wait-until": {"struck": "slow"}},
        *transaction("r1"),
        {"release": "slow"},
        {"await": "fence"},
        operator_step("find-hanging", names="t-0", background="search"),
        {"await": "search"},
    ]
    result = play_steps(steps)
    assert failure(result) == "find-hanging names [], expected ['t-0']"


def describe(**request_fields: object) -> dict[str, object]:
    return operator_step("describe", transactional_id="app", **request_fields)


def test_a_description_is_held_against_partitions_epoch_and_start() -> None:
    begin_steps = [
        call("init-producer-id"),
        describe(state="Empty", partitions=[], epoch=0, start="none"),
        call("begin"),
        call("add-partitions", partitions=["t-1", "t-0"]),
    ]
    description = describe(state="Ongoing", partitions=["t-0", "t-1"], epoch=0, start="known")
    result = play_steps([*begin_steps, description, call("abort")])
    assert result.as_declared, result.verdict
    for wrong_fields, because in (
        ({"partitions": "t-0"}, "app is with t-0, t-1, expected t-0"),
        ({"epoch": 3}, "app is at epoch 0, expected 3"),
        ({"start": "none"}, "app is begun at a time that is known, expected none"),
    ):
        assert failure(play_steps([*begin_steps, describe(**wrong_fields)])) == because


def test_an_operator_changes_features_and_deletes_groups() -> None:
    version = "transaction.version"
    steps = [
        operator_step("update-feature", name=version, level=0),
        operator_step("update-feature", name=version, level=2),
        operator_step("update-feature", name=version, level=9, error="INVALID_UPDATE_VERSION"),
        call("init-producer-id"),
        call("begin"),
        call("add-offsets", group="g", always=True),
        call("commit-offsets", group="g", offsets={"in-0": 1}),
        call("commit"),
        {"wait-until": {"transaction": {"id": "app", "is": "CompleteCommit"}}},
        {"expect": {"group": "g", "positions": {"in-0": 1}}},
        operator_step("delete-group", group="g"),
        {"expect": {"group": "g", "positions": {"in-0": -1}}},
        operator_step("delete-group", group="g", error="GROUP_ID_NOT_FOUND"),
    ]
    result = play_steps(steps)
    assert result.as_declared, result.verdict
    story = sentences(result)
    assert "operator: feature transaction.version is at level 2, it was at 0" in story
    assert "operator: group g is deleted" in story
    wrong_step = {"expect": {"group": "g", "positions": {"in-0": 7}}}
    assert failure(play_steps([wrong_step])) == "the position of group g on in-0 is -1, expected 7"


# ``member``


PROTOCOLS = ("classic", "consumer")
each_protocol = pytest.mark.parametrize("protocol", PROTOCOLS)


def story(steps: list[dict[str, Any]], protocol: str = "classic", **story_fields: Any) -> Any:
    """Play steps with two members of one group, which reads the two partitions of ``in``."""
    part = {"plays": "member", "group": "g", "group-protocol": protocol, **story_fields}
    actors = {"P": {"plays": "wire", "transactional-id": "app"}, "a": part, "b": part}
    settings = {"group.initial.rebalance.delay.ms": 0}
    return play_steps(steps, actors=actors, topics={"t": 1, "in": 2}, settings=settings)


def append(*record_values: str, partition: str = "in-0") -> list[dict[str, Any]]:
    return [
        call("append", "bystander", partition=partition, value=record_value)
        for record_value in record_values
    ]


ALL = ["in-0", "in-1"]
JOIN = call("subscribe", "a", topics="in", assigned=ALL)


@each_protocol
def test_a_member_reads_on_where_its_group_stands(protocol: str) -> None:
    steps = [
        *append("r1", "r2"),
        JOIN,
        call("poll", "a", reads=["r1", "r2"]),
        call("poll", "a", reads=[]),
        call("seek", "a", partition="in-0", from_=1),
        call("poll", "a", reads=["r2"]),
        call("commit-offsets", "a", offsets={"in-0": 1}),
        call("leave", "a"),
        JOIN,
        call("poll", "a", reads=["r2"]),
    ]
    result = story(steps, protocol)
    assert result.as_declared, result.verdict
    assert "a: polls r1, r2" in sentences(result)
    (sent_offsets,) = observations_of(result, SentOffsets)
    assert (sent_offsets.who, sent_offsets.transaction, sent_offsets.position) == ("a", None, 1)
    offsets = [
        observation.positions[0].offset
        for observation in observations_of(result, PositionsRead)
        if observation.who == "a"
    ]
    assert offsets == [-1, 1]
    assert {read.asked for read in observations_of(result, Read) if read.who == "a"} == {0, 1, 2}


@each_protocol
def test_positions_of_an_open_transaction_are_waited_for(protocol: str) -> None:
    steps = [
        *append("r1"),
        JOIN,
        call("init-producer-id"),
        call("poll", "a", reads=["r1"]),
        call("begin"),
        call("add-partitions", partitions="t-0"),
        call("produce", partition="t-0", value="out of r1"),
        call("add-offsets", group="g"),
        call("commit-offsets", member="a"),
        call("leave", "a"),
        call("subscribe", "b", topics="in", assigned=ALL),
        call("poll", "b", error="UNSTABLE_OFFSET_COMMIT"),
        call("poll", "b", background="polling", reads=[]),
        call("commit"),
        {"await": "polling"},
    ]
    result = story(steps, protocol)
    assert result.as_declared, result.verdict
    sent_positions = observations_of(result, SentOffsets)
    assert {(observation.who, observation.member) for observation in sent_positions} == {("P", "a")}
    assert sorted(observation.position for observation in sent_positions) == [0, 1]


@pytest.mark.slow
def test_what_a_member_may_not_do_fails_the_story() -> None:
    early_steps = [call("poll", "a")]
    assert failure(story(early_steps)) == "a is no member now: it has to subscribe"
    unknown_steps = [*transaction()[:2], call("commit-offsets", member="a")]
    assert failure(story([call("init-producer-id"), *unknown_steps])) == "a has not subscribed yet"
    wrong_steps = [*append("r1"), JOIN, call("poll", "a", reads=["r2"])]
    assert failure(story(wrong_steps)) == "a polls r1, expected r2"
    never_steps = [call("subscribe", "a", topics="in", assigned=["in-1"])]
    assert failure(story(never_steps)) == "a: assigned is in-0, in-1 after 60000 ms, expected in-1"
    dead_steps = [JOIN, call("die", "a"), call("commit-offsets", "a")]
    assert failure(story(dead_steps)) == "a is no member now: it has to subscribe"
    strange = [call("subscribe", "a", topics="in", error="GROUP_MAX_SIZE_REACHED")]
    assert "is answered NONE, expected GROUP_MAX_SIZE_REACHED" in failure(story(strange))


def test_a_member_that_is_taken_over_is_fenced() -> None:
    take_over = call("subscribe", "b", topics="in", assigned=ALL)
    steps = [
        JOIN,
        call("poll", "a"),
        take_over,
        call("commit-offsets", "a", error="FENCED_INSTANCE_ID"),
        call("poll", "a", error="FENCED_INSTANCE_ID"),
    ]
    result = story(steps, **{"instance-id": "one"})
    assert result.as_declared, result.verdict


@each_protocol
def test_a_generation_has_the_name_that_a_step_has_given_it(protocol: str) -> None:
    steps = [
        *append("r1"),
        call("init-producer-id"),
        call("subscribe", "a", topics="in", assigned=ALL, generation="alone"),
        call("poll", "a", reads=["r1"]),
        call("subscribe", "b", topics="in", background="joining"),
        call("poll", "a", assigned="in-0", generation="with b"),
        {"await": "joining"},
        call("begin"),
        call("add-offsets", group="g"),
        call(
            "commit-offsets",
            member="a",
            offsets={"in-1": 0},
            generation="alone",
            error="ILLEGAL_GENERATION",
        ),
        call("abort"),
        call("begin"),
        call("add-offsets", group="g"),
        call("commit-offsets", member="a", offsets={"in-0": 1}, generation="with b"),
        call("commit"),
    ]
    result = story(steps, protocol)
    assert result.as_declared, result.verdict


@each_protocol
def test_a_program_may_commit_for_what_a_member_was_before(protocol: str) -> None:
    steps = [
        *append("r1"),
        call("init-producer-id"),
        call("subscribe", "a", topics="in", assigned=ALL, generation="first life"),
        call("poll", "a", reads=["r1"]),
        call("leave", "a"),
        call("subscribe", "a", topics="in", assigned=ALL),
        call("begin"),
        call("add-offsets", group="g"),
        call(
            "commit-offsets",
            member="a",
            offsets={"in-0": 1},
            generation="first life",
            member_id="first life",
            error="UNKNOWN_MEMBER_ID",
        ),
        call("commit-offsets", member="a", offsets={"in-0": 1}),
        call("commit"),
    ]
    result = story(steps, protocol)
    assert result.as_declared, result.verdict


# ``reader``


OPEN = [
    call("init-producer-id"),
    *transaction("r1"),
    call("begin"),
    call("add-partitions", partitions="t-0"),
    call("produce", partition="t-0", value="r2"),
]


def reader_step(**step_fields: object) -> dict[str, object]:
    return call("read", "reader", partition="t-0", **step_fields)


def test_a_reader_goes_on_from_where_it_stands_and_sees_what_it_may() -> None:
    steps = [
        *OPEN,
        reader_step(reads=["r1"]),
        reader_step(reads=[]),
        reader_step(reads=["r1"], from_=0),
        reader_step(reads=["r1", "r2"], uncommitted=True),
        call("abort"),
    ]
    result = play_steps(steps)
    assert result.as_declared, result.verdict
    assert "gets r1, and then nothing more, though the high watermark is 3" in sentences(result)
    assert {observation.who for observation in observations_of(result, Read)} == {
        "reader",
        "onlooker",
    }


def test_a_reader_that_gets_something_else_fails_the_story() -> None:
    result = play_steps([*OPEN, reader_step(reads=["r2"])])
    assert failure(result) == "reader reads r1 from t-0, expected r2"
    result_beyond = play_steps(
        [*OPEN, call("abort"), reader_step(from_=77, error="OFFSET_OUT_OF_RANGE")]
    )
    assert result_beyond.as_declared, result_beyond.verdict


def test_a_group_that_never_committed_stands_nowhere() -> None:
    ask = {"group": "g", "partitions": ["in-0"]}
    result = play_steps([call("read-positions", "reader", **ask, positions={"in-0": -1})])
    assert result.as_declared, result.verdict
    (positions_read,) = observations_of(result, PositionsRead)
    assert [(position.place.topic, position.offset) for position in positions_read.positions] == [
        ("in", -1)
    ]
    wrong_result = play_steps([call("read-positions", "reader", **ask, positions={"in-0": 3})])
    assert "expected" in wrong_result.verdict.because[0]


def test_positions_that_an_open_transaction_may_change_are_unstable() -> None:
    group_fields = {"group": "g", "partitions": "in-0"}
    steps = [
        call("init-producer-id"),
        call("begin"),
        call("add-offsets", group="g"),
        call("commit-offsets", group="g", offsets={"in-0": 10}),
        call("read-positions", "reader", **group_fields, positions={"in-0": -1}),
        call("read-positions", "reader", **group_fields, require_stable=True,
             error="UNSTABLE_OFFSET_COMMIT"),
        call("commit"),
        {"wait-until": {"marker": "__consumer_offsets@g"}},
        call("read-positions", "reader", **group_fields, require_stable=True,
             positions={"in-0": 10}),
    ]  # fmt: skip
    assert play_steps(steps).as_declared


def test_a_reader_may_ask_for_few_bytes_at_a_time() -> None:
    steps = [call("init-producer-id"), *transaction("r1", "r2", "r3")]
    result = play_steps([*steps, reader_step(max_bytes=1, reads=["r1", "r2", "r3"])])
    assert result.as_declared, result.verdict
    records = [
        len(observation.records)
        for observation in observations_of(result, Read)
        if observation.who == "reader"
    ]
    assert records[:3] == [1, 1, 1]


# ``broker_calls``


MARKERS = {"id": "slow", "point": "peer.request", "api": "WriteTxnMarkers", "topic": "t"}
FIRST = [
    call("init-producer-id"),
    call("begin"),
    call("add-partitions", partitions="t-0"),
    call("produce", partition="t-0", value="r1"),
    {"arm": {**MARKERS, "action": {"do": "delay", "delay_ms": 300}}},
    call("commit"),
    call("begin"),
]


def test_what_passes_is_asked_again_unless_the_story_wants_the_first_answer() -> None:
    patient = [*FIRST, call("add-partitions", partitions="t-0"), call("abort")]
    assert play_steps(patient).as_declared
    add = {"partitions": "t-0", "error": "CONCURRENT_TRANSACTIONS"}
    assert play_steps([*FIRST, call("add-partitions", **add)]).as_declared
    add_once = call("add-partitions", partitions="t-0", once=True)
    result = play_steps([*FIRST, add_once])
    assert "CONCURRENT_TRANSACTIONS" in result.verdict.because[0]


def test_a_coordinator_that_can_t_write_does_not_say_what_became_of_an_end() -> None:
    """The next coordinator may find the record in its log, so the answer is no refusal."""
    moved_steps = [
        *FIRST[:4],
        {"cluster": {"do": "move-leader", "coordinator-of": "app", "to": 1}},
        call("commit", broker=2, error="NOT_COORDINATOR", once=True),
    ]
    ends = observations_of(play_steps(moved_steps), Ended)
    assert [(end.outcome, end.error) for end in ends] == [("unknown", "NOT_COORDINATOR")]
    late_steps = [*FIRST[:4], call("abort"), call("commit", error="INVALID_TXN_STATE")]
    assert [
        observation.outcome for observation in observations_of(play_steps(late_steps), Ended)
    ] == [
        "ok",
        "failed",
    ]


def test_a_request_is_aimed_at_a_broker_right_or_wrong() -> None:
    lead = {"cluster": {"do": "move-leader", "partition": "t-0", "to": 1}}
    steps = [
        call("init-producer-id"),
        lead,
        call("begin"),
        call("add-partitions", partitions="t-0"),
        call("produce", partition="t-0", value="r1", broker=2, error="NOT_LEADER_OR_FOLLOWER"),
        call("produce", partition="t-0", value="r2", broker=1, sequence=0, offset=0),
        {"cluster": {"do": "move-leader", "coordinator-of": "app", "to": 3}},
        call("commit", broker=2, error="NOT_COORDINATOR", once=True),
        call("commit", broker=3),
    ]
    result = play_steps(steps)
    assert result.as_declared, result.verdict


# ``base``


def test_everybody_is_a_client_of_a_name_of_its_own() -> None:
    """A rule tells them apart by it."""
    drop = {"id": "d", "point": "client.request", "api": "Produce", "client_id": "bystander",
            "action": {"do": "error", "error": "INVALID_RECORD"}}  # fmt: skip
    append = call("append", "bystander", partition="t-0", value="x", error="INVALID_RECORD")
    steps = [
        {"arm": drop},
        call("init-producer-id"),
        call("produce", partition="t-0", value="y", plain=True),
        append,
    ]
    result = play_steps(steps)
    assert result.as_declared, result.verdict
    assert [(write.who, write.outcome) for write in observations_of(result, Wrote)] == [
        ("P", "ok"), ("bystander", "failed"),
    ]  # fmt: skip
