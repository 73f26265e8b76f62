"""Rules for capabilities: reading them, the closest one for a name, and the strictest one of several."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from protolink_grpc.errors import InvalidArgumentError
from protolink_grpc.models.action import MAX_EXPIRES_S, PolicyEffect, is_lifetime

T = TypeVar("T")

EFFECT_KEYS = ("effect", "decision", "mode")
"""Keys of an object's effect; the first key that is present counts."""

RULE_KEYS = frozenset((*EFFECT_KEYS, "editable", "expires_s"))
"""The keys of a rule in an object. All other keys are the application's."""

STRENGTH = {PolicyEffect.ALLOW: 0, PolicyEffect.REQUIRE_APPROVAL: 1, PolicyEffect.DENY: 2}

_SPELLINGS = {
    "allow": PolicyEffect.ALLOW,
    "allowed": PolicyEffect.ALLOW,
    "deny": PolicyEffect.DENY,
    "denied": PolicyEffect.DENY,
    "require_approval": PolicyEffect.REQUIRE_APPROVAL,
    "approval": PolicyEffect.REQUIRE_APPROVAL,
    "approve": PolicyEffect.REQUIRE_APPROVAL,
    "ask": PolicyEffect.REQUIRE_APPROVAL,
}


@dataclass(frozen=True, slots=True)
class Rule:
    """The effect of a policy on a capability.

    Args:
        editable: The approver may change the arguments.
        expires_s: Seconds after which an undecided approval counts as denied, above 0, at most MAX_EXPIRES_S; None means never.
    """

    effect: PolicyEffect
    editable: bool = False
    expires_s: float | None = None

    def to_json(self) -> dict[str, Any]:
        found: dict[str, Any] = {"effect": str(self.effect)}
        if self.editable:
            found["editable"] = True
        if self.expires_s is not None:
            found["expires_s"] = self.expires_s
        return found


def rule_json(rule: Rule) -> str | dict[str, Any]:
    """Return the name of the effect if the rule has nothing else, otherwise an object."""
    whole = rule.to_json()
    return str(rule.effect) if len(whole) == 1 else whole


def read_effect(value: object) -> PolicyEffect | None:
    """Return the effect for a bool or a word; None for any other value."""
    if isinstance(value, bool):
        return PolicyEffect.ALLOW if value else PolicyEffect.DENY
    if isinstance(value, str):
        return _SPELLINGS.get(value.strip().lower().replace("-", "_"))
    return None


def read_rule(value: object, *, field: str) -> Rule:
    """Read a rule: an effect, or an object with an effect and optionally `editable` and `expires_s`. Other keys are skipped.

    Raises:
        InvalidArgumentError: Not a rule; names `field`.
    """
    if not isinstance(value, Mapping):
        return Rule(_require_effect(value, field))
    key = next((each for each in EFFECT_KEYS if each in value), None)
    if key is None:
        raise InvalidArgumentError(f"must say its {', '.join(EFFECT_KEYS[:-1])} or {EFFECT_KEYS[-1]}", field=field)
    editable = value.get("editable")
    if not isinstance(editable, bool | None):
        raise InvalidArgumentError("must be true or false", field=f"{field}.editable")
    expires_s = read_seconds(value.get("expires_s"), field=f"{field}.expires_s")
    return Rule(_require_effect(value[key], f"{field}.{key}"), editable or False, expires_s)


def _require_effect(value: object, field: str) -> PolicyEffect:
    effect = read_effect(value)
    if effect is None:
        raise InvalidArgumentError(f"must be true, false or one of {', '.join(_SPELLINGS)}", field=field)
    return effect


def read_seconds(value: object, *, field: str) -> float | None:
    """Read a number of seconds above 0, at most MAX_EXPIRES_S, or None.

    Raises:
        InvalidArgumentError: Any other value; names `field`.
    """
    if value is None:
        return None
    if not is_lifetime(value):
        raise InvalidArgumentError(f"must be a number of seconds above 0, at most {MAX_EXPIRES_S:.0f}", field=field)
    return value


def strictest(rules: Iterable[Rule]) -> Rule:
    """Return the rule that is as strict as all of them: deny before require_approval before allow.

    Among approvals, arguments are editable only if each allows it, and the shortest time counts.
    """
    ordered = sorted(rules, key=lambda rule: STRENGTH[rule.effect], reverse=True)
    alike = [rule for rule in ordered if rule.effect == ordered[0].effect]
    times = [rule.expires_s for rule in alike if rule.expires_s is not None]
    return Rule(ordered[0].effect, all(rule.editable for rule in alike), min(times, default=None))


def find_rule(rules: Mapping[str, T], capability: str) -> tuple[str, T] | None:
    """Return name and value of the closest rule: for the name itself, then the longest matching `namespace.*`, then `*`."""
    if capability in rules:
        return capability, rules[capability]
    end = capability.rfind(".")
    while end >= 0:
        name = capability[:end] + ".*"
        if name in rules:
            return name, rules[name]
        end = capability.rfind(".", 0, end)
    return ("*", rules["*"]) if "*" in rules else None
