"""What stands for a module is imported with the first attribute that is asked for."""

from __future__ import annotations

import sys

import pytest

from txnsim.on_demand import OnDemand

MODULE = "wsgiref.validate"


def test_a_module_is_imported_when_something_of_it_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, MODULE, raising=False)
    module = OnDemand(MODULE)
    assert MODULE not in sys.modules
    found = module.validator
    assert found is sys.modules[MODULE].validator
    assert vars(module)["validator"] is found, "asked for again it is an attribute"
    with pytest.raises(AttributeError, match="nothing"):
        _ = module.nothing
