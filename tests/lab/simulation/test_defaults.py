"""The instrument is tuned to no bug: nothing that a run is drawn from names one."""

from __future__ import annotations

import inspect
import re

from txnsim.releases.rules import Rules
from txnsim_lab.scenario.catalog import heads
from txnsim_lab.simulation import _client_behaviour as habits
from txnsim_lab.simulation import _curious_client as asking
from txnsim_lab.simulation import _curious_requests as curiosity
from txnsim_lab.simulation import _defaults as defaults
from txnsim_lab.simulation import _dice as dice
from txnsim_lab.simulation import _disturbances as disturbances
from txnsim_lab.simulation import _further_features as further_features
from txnsim_lab.simulation import drawing, plan, play

DRAWN_FROM = (
    *(
        asking,
        curiosity,
        defaults,
        dice,
        disturbances,
        drawing,
        habits,
        further_features,
        plan,
        play,
    ),
)
TICKET = re.compile(r"\b(?:KAFKA|KIP)-\d+|\bz\d\d\b", re.IGNORECASE)


def test_no_ticket_and_no_animal_is_named_where_runs_are_drawn() -> None:
    names = {name for head in heads() for name in (head["name"], *head.get("aliases", ()))}
    for module in DRAWN_FROM:
        source = inspect.getsource(module)
        assert TICKET.findall(source) == [], module.__name__
        assert [name for name in names if name in source] == [], module.__name__


def test_no_switch_is_named_where_acts_are_drawn() -> None:
    for module in (asking, curiosity, defaults, disturbances, habits, further_features):
        source = inspect.getsource(module)
        assert [field_name for field_name in Rules.documentation() if field_name in source] == [], (
            module.__name__
        )


def test_every_feature_is_drawn_for_something() -> None:
    sources = "".join(map(inspect.getsource, (habits, drawing, further_features)))
    for name in (*defaults.CLIENT_FEATURES, *defaults.FURTHER_FEATURES):
        assert f'"{name}"' in sources, name
    assert set(disturbances.DISTURBANCE_MAKERS) == set(defaults.CLUSTER_FEATURES)
