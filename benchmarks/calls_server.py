"""``txnsim`` with a counter of calls: SIGUSR1 begins to count, SIGUSR2 writes the counts to a file.

``python -m benchmarks.calls_server FILE serve …``; the parent is ``benchmarks.calls``.
"""

from __future__ import annotations

import json
import signal
import sys
from pathlib import Path

from benchmarks.call_counts import count_calls_by_function, make_call_profile
from txnsim.cli.main import main


def serve_counting_calls(counts_file: Path, command_arguments: list[str]) -> int:
    """Serve under a profiler of calls."""
    profile = make_call_profile()

    def write_counts(*_: object) -> None:
        profile.disable()
        new_file = counts_file.with_suffix(".new")
        new_file.write_text(json.dumps(count_calls_by_function(profile)))
        new_file.rename(counts_file)

    signal.signal(signal.SIGUSR1, lambda *_: profile.enable())
    signal.signal(signal.SIGUSR2, write_counts)
    return main(command_arguments)


if __name__ == "__main__":
    sys.exit(serve_counting_calls(Path(sys.argv[1]), sys.argv[2:]))
