"""Streams: options, checkpoints, alerts, lag."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql.datasource import InputPartition

from tests.support.clusters import VirtualCluster, run_cluster
from tests.support.hanging_transaction import make_hanging
from tests.support.local_folder import LocalFolder
from tests.support.within_environment import within
from txnsim.client.admin import Admin
from txnsim.client.cluster import Cluster
from txnsim.client.errors import ConnectionLostError
from txnsim.client.producer import Producer
from txnsim.errors import BadInputError
from txnsim.runtime.wall_clock import wall_ms
from txnsim.txn.open_txn_verdict import OpenTxnStatus
from txnsim.types import TopicPartition
from txnsim_spark.streaming import lag_source
from txnsim_spark.streaming._alerts import compare_probe
from txnsim_spark.streaming._checkpoint import Checkpoint, read_offsets
from txnsim_spark.streaming._lag_probe import OldestOpenTxn, PartitionLag, probe_partitions
from txnsim_spark.streaming.lag_source import LAG_TABLE, LagReader
from txnsim_spark.streaming.options import PROBE_CLIENT_DEFAULTS, LagOptions, StreamOptions

# The probe on a simulated cluster: what holds readers back, and what could not be asked.


GHOSTLY = TopicPartition("orders", 0)


async def look(cluster: Cluster, *, older_than_ms: int = 900_000) -> dict[int, PartitionLag]:
    rows = await probe_partitions(
        Admin(cluster), ["orders"], now_ms=cluster.clock.now_ms() + 1, older_than_ms=older_than_ms
    )
    return {row.partition: row for row in rows if row.partition is not None}


@within(run_cluster)
async def test_a_hanging_transaction_is_named_and_what_it_withholds_counted(
    virtual_cluster: VirtualCluster,
) -> None:
    async with virtual_cluster.client() as cluster:
        assert {row.lag for row in (await look(cluster)).values()} == {0}
        ghost_identity = await make_hanging(Admin(cluster), GHOSTLY, "ghost")
        async with Producer(cluster, transactional_id="app") as producer:
            await producer.init_transactions()
            producer.begin()
            await producer.send("orders", 0, b"behind")
            await producer.send("orders", 1, b"free")
            await producer.commit()
        rows = await look(cluster)
        assert (rows[0].last_stable_offset, rows[0].high_watermark, rows[0].lag) == (0, 3, 3)
        (holding_txn,) = rows[0].held_by
        assert (holding_txn.verdict, holding_txn.start_offset) == (OpenTxnStatus.HANGING, 0)
        assert (holding_txn.producer_id, holding_txn.producer_epoch) == (
            ghost_identity.producer_id,
            ghost_identity.producer_epoch,
        )
        assert (holding_txn.transactional_id, holding_txn.state) == ("ghost", "Empty")
        assert (rows[1].lag, rows[1].held_by) == (0, ())


@within(run_cluster)
async def test_a_transaction_that_is_young_is_a_lag_and_nobody_is_accused(
    virtual_cluster: VirtualCluster,
) -> None:
    async with (
        virtual_cluster.client() as cluster,
        Producer(cluster, transactional_id="app") as producer,
    ):
        await producer.init_transactions()
        producer.begin()
        await producer.send("orders", 2, b"open")
        young_lag = (await look(cluster))[2]
        assert (young_lag.lag, young_lag.held_by) == (1, ())
        (holding_txn,) = (await look(cluster, older_than_ms=0))[2].held_by
        assert (holding_txn.verdict, holding_txn.transactional_id) == (OpenTxnStatus.ALIVE, "app")
        await producer.abort()


@within(run_cluster)
async def test_all_topics_but_those_of_kafka_itself(virtual_cluster: VirtualCluster) -> None:
    async with virtual_cluster.client() as cluster:
        async with Producer(cluster, transactional_id="app") as producer:
            await producer.init_transactions()
        rows = await probe_partitions(Admin(cluster), None, now_ms=0)
        assert {row.topic for row in rows} == {"orders"}


@within(run_cluster)
async def test_a_topic_that_is_not_there_is_a_row_with_its_reason(
    virtual_cluster: VirtualCluster,
) -> None:
    async with virtual_cluster.client() as cluster:
        rows = await probe_partitions(Admin(cluster), ["orders", "nothing"], now_ms=0)
        assert rows[0] == PartitionLag(topic="nothing", error="UNKNOWN_TOPIC_OR_PARTITION")
        assert {row.lag for row in rows[1:]} == {0}
        assert rows[0].lag is None


def test_who_did_not_answer_is_told_and_nothing_is_concluded() -> None:
    class DeafAdmin(Admin):
        """A client whose brokers don't answer ListTransactions."""

        async def list_transactions(self, *_: object, **__: object) -> dict[int, object]:  # type: ignore[override]
            raise ConnectionLostError("gone")

    async def story(virtual_cluster: VirtualCluster) -> None:
        async with virtual_cluster.client() as cluster:
            await make_hanging(Admin(cluster), GHOSTLY, "ghost")
            rows = await probe_partitions(
                DeafAdmin(cluster), ["orders"], now_ms=cluster.clock.now_ms()
            )
            (row,) = (row for row in rows if row.partition == 0)
            assert (row.lag, row.held_by, row.error) == (1, (), "gone")

    run_cluster(story)


@within(run_cluster)
async def test_where_nobody_answers_one_row_says_so(virtual_cluster: VirtualCluster) -> None:
    async with virtual_cluster.client(api_timeout_ms=1_000) as cluster:
        for broker in sorted(virtual_cluster.sim.members):
            await virtual_cluster.sim.kill_broker(broker)
        (row,) = await probe_partitions(Admin(cluster), ["orders"], now_ms=0)
        assert (row.topic, row.partition, row.lag) == (None, None, None)
        assert row.error is not None


def test_the_probe_is_given_the_same_properties_as_the_connector() -> None:
    options = StreamOptions(
        client={"bootstrap.servers": "h:1", "client.id": "me"},
        topics=("a", "b"),
        sink="s",
        checkpoint="c",
        older_than_ms=5,
    )
    probed_options = LagOptions.of(options.lag_options)
    assert (probed_options.bootstrap, probed_options.topics, probed_options.settings.client_id) == (
        "h:1",
        ("a", "b"),
        "me",
    )
    assert (probed_options.older_than_ms, probed_options.interval_ms) == (5, 0)


SERVERS = {"kafka.bootstrap.servers": "h:1"}


def test_what_is_not_given_has_a_default() -> None:
    options = LagOptions.of(SERVERS)
    assert (options.bootstrap, options.topics, options.settings) == (
        "h:1",
        None,
        PROBE_CLIENT_DEFAULTS,
    )
    assert (options.older_than_ms, options.interval_ms) == (900_000, 10_000)


def test_options_are_those_of_the_connector_in_any_case() -> None:
    options = LagOptions.of(
        {
            **SERVERS,
            "SUBSCRIBE": "a, b",
            "olderthanms": "5",
            "intervalMs": "0",
            "kafka.request.timeout.ms": "7",
            "kafka.metrics.num.samples": "3",
        }
    )
    assert options.topics == ("a", "b")
    assert (options.older_than_ms, options.interval_ms) == (5, 0)
    assert options.settings.request_timeout_ms == 7


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "option kafka.bootstrap.servers is missing"),
        ({**SERVERS, "topic": "a"}, "option 'topic' is not known; there are subscribe,"),
        ({**SERVERS, "intervalMs": "soon"}, "intervalMs is 'soon', milliseconds are expected"),
        (
            {**SERVERS, "kafka.request.timeout.ms": "soon"},
            "kafka.request.timeout.ms: milliseconds are expected",
        ),
        (
            {**SERVERS, "kafka.security.protocol": "SASL_SSL"},
            "kafka.security.protocol: the mechanism GSSAPI",
        ),
    ],
)
def test_what_cannot_be_obeyed_is_refused(options: dict[str, str], message: str) -> None:
    with pytest.raises(BadInputError) as error_info:
        LagOptions.of(options)
    assert message in str(error_info.value)


OFFSETS = 'v1\n{"batchWatermarkMs":0}\n{"t":{"0":4,"1":2}}\n'


def test_what_has_not_begun_tells_nothing(tmp_path: Path) -> None:
    new_checkpoint = Checkpoint(LocalFolder(tmp_path / "none"))
    assert (
        new_checkpoint.query_id(),
        new_checkpoint.has_committed(),
        new_checkpoint.newest_offsets(),
    ) == (None, False, None)
    with pytest.raises(BadInputError, match="offsets/0 is missing"):
        new_checkpoint.offsets(0)


def test_whose_it_is_and_where_a_batch_ends(tmp_path: Path) -> None:
    folder = LocalFolder(tmp_path)
    folder.write("metadata", b'{"id":"q"}')
    folder.write("offsets/0", OFFSETS.encode())
    checkpoint = Checkpoint(folder)
    assert (checkpoint.query_id(), checkpoint.has_committed()) == ("q", False)
    assert checkpoint.offsets(0) == {"t": {"0": 4, "1": 2}}
    for batch in (9, 10):  # by number, not by name
        folder.write(f"offsets/{batch}", OFFSETS.replace("4", str(batch)).encode())
    assert checkpoint.newest_offsets() == {"t": {"0": 10, "1": 2}}
    folder.write("commits/.0.crc", b"")
    assert not checkpoint.has_committed()
    folder.write("commits/0", b"")
    assert checkpoint.has_committed()


@pytest.mark.parametrize("name", ["offsets", "commits"])
def test_what_is_left_of_a_first_batch_is_swept_away_and_no_batch_is(
    tmp_path: Path, name: str
) -> None:
    folder = LocalFolder(tmp_path)
    checkpoint = Checkpoint(folder)
    checkpoint.sweep()
    folder.write(f"{name}/.0.1f6b.tmp", b"v1")
    checkpoint.sweep()
    assert folder.names(name) == []
    folder.write(f"{name}/0", b"v1")
    folder.write(f"{name}/.1.1f6b.tmp", b"v1")
    checkpoint.sweep()
    assert folder.names(name) == [".1.1f6b.tmp", "0"]


@pytest.mark.parametrize("text", [OFFSETS.replace("v1", "v2"), OFFSETS + '{"t2":{}}\n', "v1\n{}\n"])
def test_what_is_written_in_a_way_that_is_not_known_is_refused(text: str) -> None:
    with pytest.raises(BadInputError, match=r"expected v1 with 2$"):
        read_offsets(text.encode(), file_name="offsets/0")


# The source of probes as Spark calls it, without Spark running.


def test_a_batch_that_is_repeated_after_a_crash_has_the_time_of_its_own_probe(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    began_ms = wall_ms()
    row = PartitionLag(
        topic="orders",
        partition=0,
        last_stable_offset=3,
        high_watermark=5,
        held_by=(
            OldestOpenTxn(
                producer_id=7,
                producer_epoch=0,
                start_offset=3,
                last_timestamp_ms=began_ms,
                verdict=OpenTxnStatus.HANGING,
                reason="no coordinator knows it",
            ),
        ),
    )

    async def probe(_options: LagOptions) -> tuple[PartitionLag, ...]:
        return (row,)

    monkeypatch.setattr(lag_source, "_probe", probe)
    reader = LagReader(LagOptions.of({"kafka.bootstrap.servers": "127.0.0.1:1"}))
    planned_ms = began_ms - 3_600_000  # the stream was down for an hour; the transaction is new
    (own_row,) = reader.read(InputPartition(planned_ms))
    at_ms = dict(zip(LAG_TABLE.names, own_row, strict=True))["probed_at_ms"]
    (raise_alert,) = compare_probe((), [row], probed_at_ms=at_ms, program="txnsim txns").events
    assert raise_alert.since_ms >= began_ms
