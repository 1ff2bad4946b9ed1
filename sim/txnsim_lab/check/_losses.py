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
    books = _Books(history)
    anomalies: list[Anomaly] = []
    for index, wrote in history.writes():
        if wrote.transaction is None and wrote.outcome is Outcome.OK:
            proof = books.proof_of_loss(index, wrote, since=None)
            if proof:
                anomalies.append(_lost_write(wrote, "", index, *proof))
    for transaction in history.transactions().values():
        anomalies += _of_transaction(transaction, books)
    return tuple(anomalies)


class _Books:
    """The fate of each record of a history."""

    def __init__(self, history: History) -> None:
        self._seen: Visibility = visibility(history)
        self._hanging: tuple[Hanging, ...] = hanging(history)

    def proof_of_loss(self, index: int, wrote: Wrote, *, since: int | None) -> tuple[int, ...]:
        """Indexes of observations which prove that no reader will see the record any more; empty if
        there is no proof.
        """
        if index in self._seen.misses:
            return (self._seen.misses[index],)
        if since is None or self._seen.sights_of(wrote):
            return ()
        for transaction in self._hanging:
            if transaction.holds(wrote) and transaction.evidence[-1] > since:
                return transaction.evidence
        return ()

    def deliveries(self, wrote: Wrote) -> tuple[int, ...]:
        """Index of the first delivery of the record; empty if there is none."""
        return tuple(sight.index for sight in self._seen.sights_of(wrote))[:1]


def _of_transaction(transaction: Transaction, books: _Books) -> list[Anomaly]:
    since = max(
        (index for index, end in transaction.ends if end.commit and end.outcome is Outcome.OK),
        default=None,
    )
    lost_writes = {}
    visible: dict[_Name, tuple[int, ...]] = {}
    for index, wrote in transaction.acknowledged:
        proof = books.proof_of_loss(index, wrote, since=since)
        if proof:
            lost_writes[index] = (wrote, proof)
        if sights := books.deliveries(wrote):
            visible[_name(index, wrote)] = sights
    if not lost_writes:
        return []
    proofs = [
        proof_index for index, (_, proof) in lost_writes.items() for proof_index in (index, *proof)
    ]
    ends = [index for index, _ in transaction.ends]
    anomalies = []
    names = {_name(index, wrote) for index, (wrote, _) in lost_writes.items()}
    if visible and len(names | visible.keys()) > 1:
        missing = ", ".join(_record_name(wrote) for wrote, _ in lost_writes.values())
        anomalies.append(
            convict(
                Kind.TORN_TRANSACTION,
                f"a part of {transaction.label} is visible, but not {missing}",
                *proofs,
                *(index for sights in visible.values() for index in sights),
                *ends,
            )
        )
    if since is None:
        return anomalies
    if not visible and len(lost_writes) == len(transaction.acknowledged) and len(names) > 1:
        because = f"{transaction.label} was acknowledged as committed, and nothing of it is there"
        return [convict(Kind.LOST_COMMIT, because, *proofs, *ends)]
    for index, (wrote, proof) in lost_writes.items():
        anomalies.append(_lost_write(wrote, f" of {transaction.label}", index, *proof, *ends))
    return anomalies


_Name = tuple[TopicPartition, str | int]


def _name(index: int, wrote: Wrote) -> _Name:
    """One name for all attempts to write a record; a tombstone is named by its index."""
    return wrote.place, index if wrote.value is None else wrote.value


def _lost_write(wrote: Wrote, owner: str, *evidence: int) -> Anomaly:
    because = f"{_record_name(wrote)}{owner} was acknowledged and committed, and no reader gets it"
    return convict(Kind.LOST_WRITE, because, *evidence)


def _record_name(wrote: Wrote) -> str:
    return f"{wrote.value!r} on {wrote.place}"
