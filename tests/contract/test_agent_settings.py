"""The settings of an agent: groups, and the same settings by their flat names."""

from dataclasses import fields
from typing import Any, Unpack, get_args, get_origin, get_type_hints

import pytest

from protolink_grpc import (
    Agent,
    InvalidArgumentError,
    MemoryConfig,
    RunBudget,
    SafetyConfig,
    ServingConfig,
    UnimplementedError,
)
from protolink_grpc.agent.config import GROUP_OF, GROUPS, LATER, MEANINGLESS, FlatSettings

CONSTRUCTOR = get_type_hints(Agent.__init__)
FLAT = get_type_hints(FlatSettings)


def test_type_checkers_know_every_argument_of_the_constructor() -> None:
    assert get_origin(CONSTRUCTOR["settings"]) is Unpack
    assert get_args(CONSTRUCTOR["settings"]) == (FlatSettings,)


def test_each_flat_name_has_the_type_of_its_setting() -> None:
    settings = {name: hint for kind in GROUPS.values() for name, hint in get_type_hints(kind).items()}
    by_place = {name: CONSTRUCTOR[name] for name in settings if name in CONSTRUCTOR}
    known = {name: hint for name, hint in FLAT.items() if name not in LATER | MEANINGLESS}
    assert not by_place.keys() & known.keys()
    assert by_place | known == settings


def test_no_two_groups_have_a_setting_of_one_name() -> None:
    assert sum(len(fields(kind)) for kind in GROUPS.values()) == len(GROUP_OF)


def test_the_constructor_takes_every_group() -> None:
    assert {name: CONSTRUCTOR[name] for name in GROUPS} == {name: kind | None for name, kind in GROUPS.items()}


def test_a_setting_is_the_same_in_its_group_and_by_its_flat_name() -> None:
    budget = RunBudget(max_steps=3)
    grouped = Agent(
        "a", serving=ServingConfig(grace_s=2.0), safety=SafetyConfig(budget=budget), memory=MemoryConfig(state="tools")
    )
    flat = Agent("a", grace_s=2.0, budget=budget, state="tools")
    for agent in (grouped, flat):
        assert agent.grace_s == 2.0
        assert agent.state is not None
        assert agent.state.enabled == {"tools"}
        assert agent._components.controls.budget == budget


def test_flat_names_complete_a_group() -> None:
    agent = Agent("a", serving=ServingConfig(http=0), grace_s=2.0)
    assert agent.grace_s == 2.0
    assert agent._edge_settings.http is not None


@pytest.mark.parametrize(
    ("settings", "field"),
    [
        ({"safety": SafetyConfig(budget=RunBudget()), "budget": RunBudget(max_steps=1)}, "budget"),
        ({"memory": MemoryConfig(state="tools"), "state": "conversation"}, "state"),
        ({"serving": ServingConfig(grace_s=1.0), "grace_s": 2.0}, "grace_s"),
    ],
)
def test_a_setting_that_is_given_twice_is_refused(settings: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidArgumentError, match="is given twice") as caught:
        Agent("a", **settings)
    assert caught.value.field == field


def test_a_mistyped_name_is_refused() -> None:
    with pytest.raises(TypeError, match="unexpected keyword argument 'polcy'"):
        Agent("a", polcy=None)
    with pytest.raises(TypeError, match="unexpected keyword argument 'htp'"):
        ServingConfig(htp=None)


@pytest.mark.parametrize("name", sorted(LATER))
def test_a_name_of_protolink_that_is_not_implemented_is_accepted_as_none_only(name: str) -> None:
    Agent("a", **{name: None})
    with pytest.raises(UnimplementedError):
        Agent("a", **{name: object()})
