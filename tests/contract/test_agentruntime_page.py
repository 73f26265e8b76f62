"""docs/agentruntime.md: every type of event that the export has, every one that it has not, and every rule of the validator."""

import inspect
import re

from protolink_grpc.agentruntime import calls, model_calls, state, tasks, view
from protolink_grpc.agentruntime.validator.event_types import FAMILIES, IDS_OF_TYPES
from tests.contract.make_agentruntime_rules import PAGE, page_with_rules


def types_in(text: str) -> set[str]:
    """The types in code marks, with all types of a family whose name is followed by a star."""
    found: set[str] = set()
    for name in re.findall(r"`([a-z_]+(?:\.[a-z_*]+)+)`", text):
        found |= {kind for kind in IDS_OF_TYPES if kind.startswith(name[:-1])} if name.endswith("*") else {name}
    return found & IDS_OF_TYPES.keys()


def named_types() -> set[str]:
    """The types of a family of the contract that the source of the export names."""
    modules = (view, calls, model_calls, state, tasks)
    sources = "".join(map(inspect.getsource, modules))
    return {each for each in re.findall(r'"([a-z_]+(?:\.[a-z_]+)+)"', sources) if each.split(".")[0] in FAMILIES}


def parts() -> tuple[str, str]:
    """The table of events, and the list of what is not recorded."""
    section = PAGE.read_text().partition("\n## Event by event\n")[2].partition("\n## ")[0]
    table, _, rest = section.partition("\n**Not recorded")
    return table, rest


def test_the_export_names_only_types_of_the_contract() -> None:
    assert len(named_types()) > 40
    assert named_types() <= IDS_OF_TYPES.keys()


def test_the_table_has_exactly_the_types_that_the_export_has() -> None:
    assert types_in(parts()[0]) == named_types()


def test_each_type_of_the_contract_is_in_the_table_or_named_as_not_recorded() -> None:
    table, rest = (types_in(part) for part in parts())
    assert table & rest == set()
    assert IDS_OF_TYPES.keys() - table - rest == set()


def test_the_table_of_rules_is_that_of_the_validator() -> None:
    page = PAGE.read_text()
    assert page == page_with_rules(page), "run `PYTHONPATH=. python tests/contract/make_agentruntime_rules.py`"
