"""Engines for tests that read in this process."""

from __future__ import annotations

from typing import NoReturn

from txnsim_spark.engine import Engine, EngineKind
from txnsim_spark.soundness.verify import VerificationPlan, verify
from txnsim_spark.soundness.violations import Violation


def no_session() -> NoReturn:
    raise AssertionError("Spark is not needed here")


def local_engine() -> Engine:
    return Engine(no_session, lambda _: None, is_alone=True)


def verify_here(verification_plan: VerificationPlan) -> list[Violation]:
    return list(verify(local_engine(), verification_plan, EngineKind.HERE))
