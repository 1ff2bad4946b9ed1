"""The aborted transactions of a segment, compared with its ``.txnindex``.

An entry stands in the segment of its marker. It has the last stable offset of that moment: the
first offset of the oldest transaction of another producer that was open then; without such a
transaction, the offset behind the marker. Kafka's counterparts: TransactionIndex,
ProducerStateManager.lastStableOffset.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

from txnsim.log.producer_state import NO_OFFSET
from txnsim.log.txn_index import AbortedTxn
from txnsim.pipeline.soundness.parts import AbortedStretch, ProducerStretch
from txnsim.pipeline.soundness.snapshot_rules import Known
from txnsim.pipeline.soundness.violations import Broken, Invariant


def true_entries(
    aborted: Iterable[AbortedStretch],
    known: Mapping[int, Known],
    producers: Iterable[ProducerStretch],
) -> Iterator[AbortedTxn]:
    """The entries that belong into the index for a stretch.

    Args:
        aborted: What ended in it.
        known: Producers by id, as they were in front of it.
        producers: What each did in it.
    """
    ends = {
        one.producer_id: one.first_marker.header.base_offset
        for one in producers
        if one.first_marker is not None
    }
    carried = sorted(
        (one.open_offset, producer_id)
        for producer_id, one in known.items()
        if one.open_offset != NO_OFFSET
    )
    for one in aborted:
        marker = one.marker_offset
        # Those that have ended are over for all later markers, too.
        while carried and ends.get(carried[0][1], marker + 1) < marker:
            del carried[0]
        others = (
            offset
            for offset, producer_id in carried
            if producer_id != one.producer_id and ends.get(producer_id, marker + 1) > marker
        )
        stable = next(others, one.others_since)
        before = known.get(one.producer_id)
        is_carried = (
            before is not None
            and before.open_offset != NO_OFFSET
            and ends[one.producer_id] == marker
        )
        first = before.open_offset if before is not None and is_carried else one.opened_at
        if first != NO_OFFSET:
            yield AbortedTxn(
                producer_id=one.producer_id,
                first_offset=first,
                last_offset=marker,
                last_stable_offset=marker + 1 if stable == NO_OFFSET else stable,
            )


def judge_aborted(
    index: Sequence[AbortedTxn],
    expected: Sequence[AbortedTxn],
    *,
    file: str,
    blind_below: int,
) -> Iterator[Broken]:
    """What the index of a segment says otherwise than its log.

    Args:
        index: Its entries.
        expected: Those that its log leads to.
        file: Its name.
        blind_below: What was open at this offset is not known, so entries that reach below it are
            taken as they are.
    """
    listed = {entry.last_offset: entry for entry in index}
    wanted = {entry.last_offset: entry for entry in expected}
    for marker in sorted(listed.keys() | wanted.keys()):
        entry, true = listed.get(marker), wanted.get(marker)
        if entry is None:
            assert true is not None
            yield _broken(Invariant.ABORTED_MISSING, file, true, "no entry", _told(true))
        elif min(entry.first_offset, entry.last_stable_offset) < blind_below:
            continue
        elif true is None:
            yield _broken(
                Invariant.ABORTED_EXTRA,
                file,
                entry,
                _told(entry),
                "no entry: no transaction was aborted there",
            )
        elif entry != true:
            yield _broken(Invariant.ABORTED_DIFFERS, file, true, _told(entry), _told(true))


def _broken(rule: Invariant, file: str, entry: AbortedTxn, found: str, expected: str) -> Broken:
    return Broken(
        rule=rule,
        file=file,
        offset=entry.last_offset,
        found=found,
        expected=expected,
        producer_id=entry.producer_id,
    )


def _told(entry: AbortedTxn) -> str:
    return ", ".join(f"{name} {value}" for name, value in msgspec.structs.asdict(entry).items())
