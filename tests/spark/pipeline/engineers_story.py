"""``python -m tests.spark.pipeline.engineers_story --write``: outputs of engineers_story.md, from
the disks of fifty brokers in an S3 store of this machine. It needs Java 17, ``jq`` and moto, and
takes some minutes, most of them to fill the store. The programs of the page are run as they stand
there. Requests to the store are counted in the server's own log.
"""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from benchmarks.store_data import LogHours, make_directories
from tests.spark.pipeline.told_page import Desk, hand_over
from tests.support.store_servers import S3Store

PAGE: Final = Path(__file__).with_suffix(".md")
FIFTY: Final = LogHours(brokers=50, partitions=100)
PROGRAM: Final = re.compile(r"<!-- program: ([\w-]+) -->\n```python\n(.*?)```\n", re.DOTALL)
ASKED: Final = re.compile(r"GET /logs/(kafka/\S+\.log)")
DISKS: Final = "s3a://logs/kafka/broker-*"
FROM_MS, UNTIL_MS = 1_790_013_600_000, 1_790_017_200_000
"""18:00 and 19:00 of the day in the page."""
IN_THAT_HOUR: Final = f".start_timestamp_ms >= {FROM_MS} and .start_timestamp_ms < {UNTIL_MS}"
COLUMNS: Final = (
    "[.topic, .partition, .producer_id, .start_offset, (.start_timestamp_ms / 1000 | todate),"
    " .evidence.status, .evidence.replicas.seen[]] | @tsv"
)
CHOSEN: Final = f".findings[] | select({IN_THAT_HOUR}) | {COLUMNS}"


class Story:
    """Commands and programs that an operator and a data engineer run.

    Args:
        store: The store with the disks.
        scratch: Their working folder.
    """

    def __init__(self, store: S3Store, scratch_folder: Path) -> None:
        self._store = store
        self._desk = Desk(scratch_folder, {})
        self._told: dict[str, str] = {}

    def ask(self) -> dict[str, str]:
        """Run all commands of the story; return their outputs by name."""
        search = ("logs", "find-hanging", DISKS, "--as-of", "2026-09-22T00:00:00Z")
        self._count_segments("search", *search)
        self._filter("found.json")
        since = (*search, "--read-all", "--since", "hanging.state")
        self._count_segments("first", *since)
        self._count_segments("again", *since)
        for name, program in PROGRAM.findall(PAGE.read_text("utf-8")):
            self._play_program(name, program)
        return {**self._told, "times": self._desk.times()}

    def _count_segments(self, name: str, *arguments: str) -> None:
        """Run a search, and count the segments that it requested from the store."""
        count_before = len(self._requested_urls())
        full_command = [*arguments[:2], *self._store.settings, *arguments[2:], "--json"]
        output = self._desk.run(*full_command, title=f"find-hanging, {name}", status=3)
        (self._desk.scratch / "found.json").write_text(output.stdout)
        command_text = (
            shlex.join(["txnsim", *arguments[:2]]) + f" $STORE {shlex.join(arguments[2:])}"
        )
        command = f"$ {command_text} --json\n{output.stderr}"
        self._told[name] = command + self._count_requests(count_before)

    def _filter(self, file: str) -> None:
        process = subprocess.run(
            ["jq", "-r", CHOSEN, file],
            cwd=self._desk.scratch, capture_output=True, text=True, check=True,
        )  # fmt: skip
        query = CHOSEN.replace(" | select", " |\n    select").replace(" | [", " |\n    [")
        self._told["hour"] = f"jq -r '{query}' {file}\n\n{process.stdout}"

    def _play_program(self, name: str, program: str) -> None:
        """Run a program of the page, with the settings of this store in front."""
        settings_given = (
            setting_text.removeprefix("--spark-conf=") for setting_text in self._store.settings
        )
        # It needs no jar.
        settings = dict(
            setting_text.split("=", 1)
            for setting_text in settings_given
            if "fs.s3a" in setting_text
        )
        count_before = len(self._requested_urls())
        output = self._desk.run_program(
            f"SETTINGS = {settings!r}\n{program}", f"the program, {name}"
        )
        self._told[name] = f"{output.rstrip()}\n\n{self._count_requests(count_before)}"

    def _count_requests(self, count_before: int) -> str:
        urls = set(self._requested_urls()[count_before:])
        return f"segments that the store was asked for: {len(urls):,}\n"

    def _requested_urls(self) -> list[str]:
        return ASKED.findall(self._store.log.read_text())


def tell(hours: LogHours = FIFTY) -> dict[str, str]:
    """Make the store, and return the outputs of the page."""
    with tempfile.TemporaryDirectory(prefix="txnsim-story-") as scratch_path:
        folders = [Path(scratch_path) / file_name for file_name in ("disks", "store", "desk")]
        disks_directory, served_folder, desk_folder = folders
        for folder in (served_folder, desk_folder):
            folder.mkdir()
        make_directories(disks_directory, hours)
        with S3Store(served_folder) as store:
            store.upload(disks_directory, "kafka")
            return Story(store, desk_folder).ask()


if __name__ == "__main__":
    hand_over(PAGE, tell(), sys.argv[1:])
