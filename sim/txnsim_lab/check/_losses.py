"""Records that were acknowledged and committed, and that no reader will see.

A record is lost in two cases. A read_committed reader has read past its offset without getting it.
Or its transaction has ended, but the record is after the start of a transaction without an owner
(KIP-664: hanging), so the last stable offset hides it until that transaction is aborted.
"""

from __future__ import annotations

from txnsim.types import TopicPartition
from txnsim_lab.check._hanging import Hanging, hanging
from txnsim_lab.check._visibility import Visibility, visibility
from txnsim_lab.check.anomaly import Anomaly, Kind, convict
from txnsim_lab.check.history import History, Transaction
from txnsim_lab.check.observations import Outcome, Wrote


def losses(history: History) -> tuple[Anomaly, ...]:
    """Find lost writes, lost commits and torn transactions; together, because they exclude one
    another.

    Some acknowledged records of a transaction are gone:

    - part of it is visible: it is torn, committed or not; if it committed, the missing records are
      lost;
    - nothing of it is visible, it was committed and had several records: the commit is lost;
    - it was committed and had one record: that write is lost.
    """
    loss_proofs = _LossProofs(history)
    anomalies: list[Anomaly] = []
    for index, write in history.writes():
        if write.transaction is None and write.outcome is Outcome.OK:
            proof_of_loss = loss_proofs.proof_of_loss(index, write, end_index=None)
            if proof_of_loss:
                anomalies.append(_lost_write(write, "", index, *proof_of_loss))
    for transaction in history.transactions().values():
        anomalies += _losses_of_transaction(transaction, loss_proofs)
    return tuple(anomalies)


class _LossProofs:
    """The fate of each record of a history."""

    def __init__(self, history: History) -> None:
        self._visibility: Visibility = visibility(history)
        self._hanging: tuple[Hanging, ...] = hanging(history)

    def proof_of_loss(self, index: int, write: Wrote, *, end_index: int | None) -> tuple[int, ...]:
        """Indexes of observations which prove that no reader will see the record any more; empty if
        there is no proof.
        """
        if index in self._visibility.misses:
            return (self._visibility.misses[index],)
        if end_index is None or self._visibility.sights_of(write):
            return ()
        for transaction in self._hanging:
            if transaction.holds(write) and transaction.evidence[-1] > end_index:
                return transaction.evidence
        return ()

    def deliveries(self, write: Wrote) -> tuple[int, ...]:
        """Index of the first delivery of the record; empty if there is none."""
        return tuple(sight.index for sight in self._visibility.sights_of(write))[:1]


def _losses_of_transaction(transaction: Transaction, loss_proofs: _LossProofs) -> list[Anomaly]:
    end_index = max(
        (
            index
            for index, end_observation in transaction.ends
            if end_observation.commit and end_observation.outcome is Outcome.OK
        ),
        default=None,
    )
    lost_writes = {}
    sights_by_record: dict[_RecordKey, tuple[int, ...]] = {}
    for index, write in transaction.acknowledged:
        proof_of_loss = loss_proofs.proof_of_loss(index, write, end_index=end_index)
        if proof_of_loss:
            lost_writes[index] = (write, proof_of_loss)
        if sight_indexes := loss_proofs.deliveries(write):
            sights_by_record[_record_key(index, write)] = sight_indexes
    if not lost_writes:
        return []
    proof_indexes = [
        proof_index
        for index, (_, proof_of_loss) in lost_writes.items()
        for proof_index in (index, *proof_of_loss)
    ]
    end_indexes = [index for index, _ in transaction.ends]
    anomalies = []
    lost_names = {_record_key(index, write) for index, (write, _) in lost_writes.items()}
    if sights_by_record and len(lost_names | sights_by_record.keys()) > 1:
        missing_text = ", ".join(_record_name(write) for write, _ in lost_writes.values())
        anomalies.append(
            convict(
                Kind.TORN_TRANSACTION,
                f"a part of {transaction.label} is visible, but not {missing_text}",
                *proof_indexes,
                *(index for sight_indexes in sights_by_record.values() for index in sight_indexes),
                *end_indexes,
            )
        )
    if end_index is None:
        return anomalies
    if (
        not sights_by_record
        and len(lost_writes) == len(transaction.acknowledged)
        and len(lost_names) > 1
    ):
        reason = f"{transaction.label} was acknowledged as committed, and nothing of it is there"
        return [convict(Kind.LOST_COMMIT, reason, *proof_indexes, *end_indexes)]
    for index, (write, proof_of_loss) in lost_writes.items():
        anomalies.append(
            _lost_write(write, f" of {transaction.label}", index, *proof_of_loss, *end_indexes)
        )
    return anomalies


_RecordKey = tuple[TopicPartition, str | int]


def _record_key(index: int, write: Wrote) -> _RecordKey:
    """One name for all attempts to write a record; a tombstone is named by its index."""
    return write.place, index if write.value is None else write.value


def _lost_write(write: Wrote, owner_label: str, *evidence_indexes: int) -> Anomaly:
    reason = (
        f"{_record_name(write)}{owner_label} was acknowledged and committed, and no reader gets it"
    )
    return convict(Kind.LOST_WRITE, reason, *evidence_indexes)


def _record_name(write: Wrote) -> str:
    return f"{write.value!r} on {write.place}"
