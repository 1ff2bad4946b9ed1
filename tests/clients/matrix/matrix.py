"""One run of the matrix: programs side by side, each check told as it comes."""

from __future__ import annotations

import sys
import textwrap
import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final

from tests.clients.matrix.bench import Bench
from tests.clients.matrix.client import Client
from tests.clients.matrix.program import Programs
from tests.clients.matrix.questions import Question
from tests.clients.matrix.verdicts import (
    CheckVerdict,
    Line,
    Output,
    Result,
    judge,
    report_in,
    result,
)
from tests.support.apache_kafka import ApacheKafkaError
from tests.support.foreign_clients import ForeignClientError
from tests.support.txnsim_server import TxnsimServerError

PATIENCE_FIRST_S: Final = 60.0
PATIENCE_CHECK_S: Final = 30.0
"""A program may take the first and, per check, the second."""
TAIL_LINES: Final = 60


class Matrix:
    """One run: the questions to each client, and the results so far."""

    def __init__(self, bench: Bench) -> None:
        self._bench = bench
        self._programs = Programs()
        self._lock = threading.Lock()
        self._locks: dict[str, threading.Lock] = {}
        self._run = f"{time.time_ns() // 1_000_000:x}"
        self.details: list[str] = []
        """For each program that failed, the end of what it said."""

    def ask(self, questions: Sequence[Question], *, lane_count: int) -> list[Result]:
        """Put all questions, side by side, and wait for all answers."""
        executor = ThreadPoolExecutor(lane_count)
        futures: list[Future[list[Result]]] = []
        try:
            futures += [executor.submit(self._ask, question) for question in questions]
            return [check_result for future in futures for check_result in future.result()]
        finally:
            for future in futures:
                future.cancel()
            self._programs.stop()
            executor.shutdown()

    def _ask(self, question: Question) -> list[Result]:
        try:
            command = self._command(question.client)
        except (ApacheKafkaError, ForeignClientError, OSError) as error:
            return self._same_result_for_all(question, CheckVerdict.MISSING, error)
        try:
            environment = self._bench.environment(question.level, question.checks)
        except (ApacheKafkaError, TxnsimServerError, OSError) as failure:
            return self._same_result_for_all(question, CheckVerdict.FAILED, failure)
        run_word = "".join(char if char.isalnum() else "-" for char in question.client.name.lower())
        environment["TXNSIM_RUN"] = f"{run_word}-{question.level}-{self._run}"
        output = self._programs.run(
            [*command, *question.checks],
            environment=environment,
            patience_s=PATIENCE_FIRST_S + PATIENCE_CHECK_S * len(question.checks),
            on_line=lambda line: self._report_line(question, line),
        )
        return self._judge(question, output)

    def _judge(self, question: Question, output: Output) -> list[Result]:
        results = judge(question, output)
        failed_results = [check_result for check_result in results if check_result.is_failure]
        printed_lines = {printed_line.text.rstrip() for printed_line in output.lines}
        for check_result in failed_results:
            if f"FAIL {check_result.check}: {check_result.reason}" not in printed_lines:
                say(f"FAIL {question.name} {check_result.check}: {check_result.reason}")
        if failed_results:
            tail = "\n".join(printed_line.text for printed_line in output.lines[-TAIL_LINES:])
            indented_tail = textwrap.indent(tail, "  ")
            with self._lock:
                self.details.append(f"{question.name}, exit status {output.code}:\n{indented_tail}")
        return results

    def _command(self, client: Client) -> list[str]:
        with self._lock:
            lock = self._locks.setdefault(client.name, threading.Lock())
        with lock:  # built once, though asked for at several levels
            return client.command()

    def _report_line(self, question: Question, line: Line) -> None:
        report = report_in(line.text)
        if report is not None:
            outcome = "PASS" if report.passed else "FAIL"
            reason = f": {report.reason}" if report.reason else ""
            say(f"{outcome} {question.name} {report.check}{reason} ({line.second:.1f} s)")

    def _same_result_for_all(
        self, question: Question, verdict: CheckVerdict, error: Exception
    ) -> list[Result]:
        reason = " ".join(str(error).split())
        say(f"FAIL {question.name} {verdict}: {reason}")
        return [result(question, check_name, verdict, reason) for check_name in question.checks]


_saying = threading.Lock()


def say(line: str) -> None:
    """Print a line at once."""
    with _saying:
        sys.stdout.write(f"{line}\n")
        sys.stdout.flush()
