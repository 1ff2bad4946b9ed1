from __future__ import annotations

from txnsim_lab.check.anomaly import Kind, convict


def test_evidence_is_in_order_and_each_piece_once() -> None:
    anomaly = convict(Kind.DUPLICATE, "so it is", 9, 2, 9)
    assert anomaly.evidence == (2, 9)
    assert (anomaly.kind, anomaly.because) == (Kind.DUPLICATE, "so it is")
