"""The corpus, made once per digest of its sources below ``.cache``."""

from __future__ import annotations

import hashlib
import os
import shutil
from pathlib import Path
from typing import NamedTuple

from tests.spark.pipeline.corpus.make import make
from tests.spark.pipeline.corpus.truth import FILE, Stage, Truth, read_truth
from tests.support.apache_kafka import CACHE, KAFKA_VERSION, hold_lock

SOURCE_FOLDER = Path(__file__).parent


class Corpus(NamedTuple):
    """The directories and the truth of a corpus."""

    directory: Path
    truth: Truth

    def stage(self, stage_name: str) -> Stage:
        return self.truth.stages[stage_name]

    def brokers(self, file_name: str) -> tuple[Path, ...]:
        """The log directories of a stage, in order of broker ids."""
        return tuple(
            self.directory / file_name / f"broker-{broker}" for broker in self.truth.brokers
        )


def corpus() -> Corpus:
    """The corpus, made now if it does not exist; its files must not be changed."""
    sources = sorted(SOURCE_FOLDER.glob("*.py"))
    digest = hashlib.sha256(b"\0".join(path.read_bytes() for path in sources)).hexdigest()[:12]
    directory = CACHE / "corpus" / f"{KAFKA_VERSION}-{digest}"
    with hold_lock(CACHE / "corpus.lock"):
        if not (directory / FILE).is_file():
            new_folder = directory.with_name(f"partial-{os.getpid()}")
            shutil.rmtree(new_folder, ignore_errors=True)
            try:
                make(new_folder)
                new_folder.rename(directory)
            finally:
                shutil.rmtree(new_folder, ignore_errors=True)
    return Corpus(directory, read_truth(directory))
