"""What is wrong in an exploration file is told at its place in the file, and told once."""

from __future__ import annotations

from typing import Any

import pytest

from txnsim_lab.exploration._mistakes import mistakes_of
from txnsim_lab.exploration.model import ExplorationFile

SOUND: dict[str, Any] = {
    "name": "x",
    "title": "y",
    "topics": {"a": {"partitions": 1, "replication-factor": 1}},
    "actors": {"p": {"plays": "application", "transactional-id": "p"}},
    "before": [{"call": {"who": "p", "do": "begin"}}],
    "tracks": {"p": [{"do": "send", "partition": "a-0", "value": "v"}, {"do": "commit"}]},
    "disturbances": [
        {
            "name": "a broker dies and starts",
            "steps": [
                {"cluster": {"do": "kill", "broker": 2}},
                [
                    {"cluster": {"do": "start", "broker": 2}},
                    {"cluster": {"do": "heal", "broker": 2}},
                ],
            ],
        }
    ],
}


def mistakes(**changes: Any) -> list[tuple[Any, str]]:
    return list(mistakes_of(ExplorationFile.model_validate({**SOUND, **changes})))


def test_a_sound_file_has_none() -> None:
    assert mistakes() == []


def test_a_step_that_does_not_exist_is_told_where_it_stands() -> None:
    kill = {"cluster": {"do": "fly"}}
    for changes, field_path in (
        ({"before": [kill]}, ("before", 0)),
        ({"tracks": {"p": [{"do": "commit"}, {"do": "fly"}]}}, ("tracks", "p", 1)),
        ({"disturbances": [{"name": "d", "steps": [kill]}]}, ("disturbances", 0, "steps", 0)),
        (
            {
                "disturbances": [
                    {"name": "d", "steps": [[{"cluster": {"do": "heal", "broker": 2}}, kill]]}
                ]
            },
            ("disturbances", 0, "steps", 0, 1),
        ),
    ):
        found_mistakes = mistakes(**changes)
        assert found_mistakes, field_path
        assert {path[: len(field_path)] for path, _ in found_mistakes} == {field_path}


def test_an_actor_that_is_not_there_is_told_once() -> None:
    ((path, message),) = mistakes(tracks={"q": [{"do": "commit"}]})
    assert path == ("tracks", "q")
    assert "p" in message


@pytest.mark.parametrize(
    ("changes", "field_path"),
    [
        ({"twins": [["p", "q"]]}, ("twins", 0, 1)),
        ({"bounds": {"client-apis": ["None"]}}, ("bounds", "client-apis", 0)),
        ({"tracks": {}}, ("tracks",)),
        ({"tracks": {"p": []}}, ("tracks", "p")),
    ],
)
def test_names_that_are_not_there_are_told(
    changes: dict[str, Any], field_path: tuple[str | int, ...]
) -> None:
    assert [path for path, _ in mistakes(**changes)] == [field_path]
