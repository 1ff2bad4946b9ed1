from __future__ import annotations

import json

import jsonschema
import pytest

from txnsim.cli.main import main
from txnsim_lab.cli._schema import KINDS


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_what_is_printed_is_a_json_schema(kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["schema", kind]) == 0
    schema = json.loads(capsys.readouterr().out)
    jsonschema.Draft202012Validator.check_schema(schema)
    assert schema["title"].startswith("txnsim ")


def test_a_kind_that_is_none_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["schema", "story"]) == 2
    assert "story" in capsys.readouterr().err
