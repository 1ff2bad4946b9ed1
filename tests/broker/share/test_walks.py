"""What the class of Apache Kafka 4.4.0 has answered, step by step, our core answers too."""

from __future__ import annotations

from collections import Counter

from tests.support.share_walks import Player, recorded_answers
from txnsim.share.partition import Phase

STEP_NAMES = ("load", "fetch", "ack", "release", "time", "lso", "answer", "letter")


def test_every_recorded_answer() -> None:
    player = Player()
    met_counts: Counter[str] = Counter()
    for recorded_answer_index, (line, answer_text) in enumerate(recorded_answers()):
        assert player.play(line) == answer_text, f"line {recorded_answer_index + 1}: {line}"
        met_counts[line.partition(" ")[0]] += 1
        met_counts["refused"] += answer_text.startswith("!")
    assert player.partition.phase is Phase.ACTIVE
    assert min(met_counts[word] for word in (*STEP_NAMES, "refused")) > 0, met_counts
