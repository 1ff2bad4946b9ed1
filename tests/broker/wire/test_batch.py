from __future__ import annotations

from txnsim.wire import batch, batch_header, compression, control, records


def test_everything_named_can_be_had_from_one_place() -> None:
    origins = (batch_header, compression, control, records)
    for field_name in batch.__all__:
        assert any(
            getattr(origin_module, field_name, None) is getattr(batch, field_name)
            for origin_module in origins
        ), field_name


def test_a_produced_batch_becomes_one_of_the_log_and_is_read_back() -> None:
    produced_batch = batch.build_batch(
        [batch.Record(key=b"k", value=b"v")],
        timestamp_ms=1700000000123,
        producer_id=1000,
        producer_epoch=0,
        base_sequence=0,
        is_transactional=True,
    )
    stored_batch = batch.assign(produced_batch, base_offset=42, leader_epoch=3)
    marker = batch.control_batch(
        producer_id=1000,
        producer_epoch=0,
        is_commit=True,
        coordinator_epoch=5,
        base_offset=43,
        leader_epoch=3,
        timestamp_ms=1700000000200,
    )
    log = stored_batch + marker
    [(_, batch_header), (position, end_header)] = batch.iter_batches(log)
    assert (batch_header.base_offset, end_header.base_offset) == (42, 43)
    assert batch.crc_is_valid(log, batch_header)
    assert batch.crc_is_valid(log, end_header, position)
    assert batch.read_records(log)[0].offset == 42
    assert batch.read_control_record(log, position) == batch.ControlRecord(
        type=batch.COMMIT, version=0, coordinator_epoch=5
    )
