from __future__ import annotations

import msgspec

from txnsim.faults.plan import FaultRule
from txnsim.faults.rule_fields import RuleFields


def test_a_rule_declares_these_fields_and_no_other() -> None:
    assert FaultRule.__struct_fields__ == RuleFields.__struct_fields__


def test_what_a_rule_leaves_out_matches_everything() -> None:
    required = {field.name for field in msgspec.structs.fields(RuleFields) if field.required}
    assert required == {"id", "point", "action"}
