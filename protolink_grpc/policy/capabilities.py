"""Decides whether an action may run: by the agent's rules and the run's permissions, of which the stricter one applies.

The runtime calls `decide`. This module requests no approvals and records nothing.
"""

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from inspect import isawaitable
from typing import Any, Protocol, Self, TypeAlias

from protolink_grpc.errors import InvalidArgumentError
from protolink_grpc.logs import get_logger
from protolink_grpc.models import reader
from protolink_grpc.models.action import PolicyDecision, PolicyEffect, RunAction
from protolink_grpc.models.arguments import checks_arguments
from protolink_grpc.models.artifact import Artifact
from protolink_grpc.models.context import RunContext
from protolink_grpc.models.json_value import plain
from protolink_grpc.models.permissions import Permission, both, permissions_json, read_permissions
from protolink_grpc.models.rules import (
    EFFECT_KEYS,
    RULE_KEYS,
    STRENGTH,
    Rule,
    find_rule,
    read_effect,
    read_rule,
    read_seconds,
    rule_json,
    strictest,
)

log = get_logger(__name__)

RuleValue: TypeAlias = PolicyEffect | bool | str | Mapping[str, Any]
"""An effect (True allows, False denies), or an object with `effect`, `editable` and `expires_s`; rules of a policy may also have
`scopes`."""

POLICY_SOURCE, CONTEXT_SOURCE = "policy", "context"
"""The values of `metadata["sources"]` of a decision: the agent's policy, the run's context."""

DEFAULT_RULE = "default"
"""Name of the rule for all capabilities without a rule of their own."""


class Policy(Protocol):
    """Decides about actions. An application's own policy can use all fields of an action, not only its capabilities."""

    async def evaluate(self, action: RunAction, context: RunContext) -> PolicyDecision:
        """Decide about `action`. Both arguments are copies.

        For `require_approval`, `metadata` may contain `editable` (the approver may change the arguments) and `expires_s`. Its
        key `rule` may name the rule that decided.
        """
        ...


@checks_arguments
class CapabilityPolicy:
    """Rules by capability name: `records.write`, `records.*` for all names below it, `*` for all.

    The most specific rule applies to each capability of an action (the name, then the longest namespace, then `*`, then the
    default), and the strictest of these rules applies to the action. An action without capabilities is allowed. A canceled run
    may do nothing. A rule with `scopes`, for instance `{"effect": "allow", "scopes": ["pay"]}`, denies if the caller of the run
    does not have all of them.

    Args:
        rules: Capability or wildcard -> effect. Effects are read ignoring case and the difference between `-` and `_`.
        default_effect: The effect for capabilities without a rule.
        name: `policy_name` of the decisions.

    Raises:
        InvalidArgumentError: A rule is invalid; names it.
    """

    def __init__(
        self,
        rules: Mapping[str, RuleValue] | None = None,
        default_effect: RuleValue = "allow",
        name: str = "capability",
    ) -> None:
        if rules is not None and not isinstance(rules, Mapping):
            raise InvalidArgumentError("must be an object", field="rules")
        if not isinstance(name, str) or not name.strip():
            raise InvalidArgumentError("must be a non-empty string", field="name")
        self.name = name
        self._rules = {
            _check_rule_name(each): _parse_rule(value, f"rules.{each}") for each, value in (rules or {}).items()
        }
        self._default = _parse_rule(default_effect, "default_effect")

    async def evaluate(self, action: RunAction, context: RunContext) -> PolicyDecision:
        return self._decide(action, context)

    def _decide(self, action: RunAction, context: RunContext) -> PolicyDecision:
        if context.canceled:
            return _canceled_decision(self.name)
        verdicts = {each: self._verdict(each, context) for each in sorted(action.capabilities)}
        return _build_decision(verdicts, self.name, POLICY_SOURCE)

    def _verdict(self, capability: str, context: RunContext) -> "_Verdict":
        found = find_rule(self._rules, capability)
        own, origin = (found[1], f"rule '{found[0]}'") if found else (self._default, DEFAULT_RULE)
        name = found[0] if found else DEFAULT_RULE
        missing = own.scopes.difference(context.scopes)
        if missing:
            return _Verdict(_DENY, f"{origin}, which requires the scope {' '.join(sorted(missing))}", name)
        return _Verdict(own.rule, origin, name)

    def to_dict(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "default_effect": self._default.to_json(),
            "rules": {name: rule.to_json() for name, rule in self._rules.items()},
        }

    @classmethod
    def from_dict(cls, data: object) -> Self:
        source = reader.as_object(data)
        default = source.get("default_effect")
        return cls(
            rules=reader.mapping(source, "rules"),
            default_effect="allow" if default is None else default,
            name=reader.text(source, "name", "capability"),
        )


def _check_rule_name(name: object) -> str:
    if not isinstance(name, str) or not name or name != name.strip():
        raise InvalidArgumentError(f"{name!r} is not a valid capability name", field="rules")
    namespace = name.removesuffix(".*")
    if name != "*" and ("*" in namespace or not namespace):
        raise InvalidArgumentError("a wildcard must be `*` or a namespace that ends with `.*`", field=f"rules.{name}")
    return name


@dataclass(frozen=True, slots=True)
class _PolicyRule:
    """A rule with required scopes. Permissions have no scopes, because they are passed on to agents with another caller."""

    rule: Rule
    scopes: frozenset[str] = frozenset()

    def to_json(self) -> str | dict[str, Any]:
        return {**self.rule.to_json(), "scopes": sorted(self.scopes)} if self.scopes else rule_json(self.rule)


def _parse_rule(value: object, field: str) -> _PolicyRule:
    """Parse a policy's rule. Unlike in permissions, unknown keys are errors."""
    scopes: frozenset[str] = frozenset()
    if isinstance(value, Mapping):
        scopes = _read_scopes(value, field)
        unknown = next((key for key in value if key not in RULE_KEYS and key != "scopes"), None)
        if unknown is not None:
            raise InvalidArgumentError(f"unknown key {unknown!r}", field=field)
        if sum(key in value for key in EFFECT_KEYS) > 1:
            raise InvalidArgumentError("must have only one effect", field=field)
    return _PolicyRule(read_rule(value, field=field), scopes)


def _read_scopes(value: Mapping[str, Any], field: str) -> frozenset[str]:
    entry = value.get("scopes")
    scopes: Sequence[object] = entry if isinstance(entry, list | tuple) else [entry] if entry is not None else []
    if not all(isinstance(each, str) and each for each in scopes):
        raise InvalidArgumentError("must be a list of names", field=f"{field}.scopes")
    return frozenset(map(str, scopes))


# Decisions about single capabilities, and their combination


@dataclass(frozen=True, slots=True)
class _Verdict:
    """The rule for one capability, and its name in the policy or the context."""

    rule: Rule
    origin: str
    name: str


def _build_decision(verdicts: Mapping[str, _Verdict], policy_name: str, source: str) -> PolicyDecision:
    if not verdicts:
        return PolicyDecision(
            PolicyEffect.ALLOW, "the action needs no capability", policy_name, (), _metadata({}, [source])
        )
    whole = strictest(verdict.rule for verdict in verdicts.values())
    matched = tuple(name for name, verdict in verdicts.items() if verdict.rule.effect == whole.effect)
    first = f"{_EFFECT_WORDS[whole.effect]} by {verdicts[matched[0]].origin}"
    reason = f"{', '.join(matched)}: {first}" if len(matched) == 1 else f"{', '.join(matched)}: {first} and others"
    effects = {name: str(verdict.rule.effect) for name, verdict in verdicts.items()}
    metadata = _metadata(effects, [source], whole) | _deciding_rule({verdicts[name].name for name in matched})
    return PolicyDecision(whole.effect, reason, policy_name, matched, metadata)


def _deciding_rule(names: set[str]) -> dict[str, Any]:
    """Return the metadata with the rule that has the effect of a decision; empty if several rules have it."""
    (name,) = names if len(names) == 1 else ("",)
    return {"rule": name} if name else {}


_EFFECT_WORDS = {
    PolicyEffect.ALLOW: "allowed",
    PolicyEffect.DENY: "denied",
    PolicyEffect.REQUIRE_APPROVAL: "approval required",
}


def _metadata(effects: dict[str, str], sources: list[str], rule: Rule | None = None) -> dict[str, Any]:
    found: dict[str, Any] = {"capabilities": effects, "sources": sources}
    return found | _approval_terms(rule) if rule is not None else found


def _approval_terms(rule: Rule) -> dict[str, Any]:
    if rule.effect != PolicyEffect.REQUIRE_APPROVAL:
        return {}
    terms: dict[str, Any] = {"editable": rule.editable}
    if rule.expires_s is not None:
        terms["expires_s"] = rule.expires_s
    return terms


def _canceled_decision(policy_name: str) -> PolicyDecision:
    return PolicyDecision(
        PolicyEffect.DENY, "the run is canceled", policy_name, (), {"capabilities": {}, "sources": [CONTEXT_SOURCE]}
    )


# Permissions of a run


def permissions_effect(action: RunAction, permissions: Mapping[str, Any]) -> PolicyDecision | None:
    """The effect of a run's permissions on `action`, or None if they have no rule for it.

    They map names as in CapabilityPolicy to rules, at the top level, under `capabilities`, or both. `default` applies to all
    other names. An object of the application, such as `{"paths": [...]}`, allows and is not a rule. An unknown effect denies.
    """
    if not permissions or not action.capabilities:
        return None
    entries, default = read_permissions(permissions)
    verdicts: dict[str, _Verdict] = {}
    has_rule = False
    for capability in sorted(action.capabilities):
        found = find_rule(entries, capability)
        entry = found[1] if found else default
        has_rule = has_rule or (entry is not None and entry.rule is not None)
        name = found[0] if found else DEFAULT_RULE
        rule = _ALLOW if entry is None or entry.rule is None else entry.rule
        verdicts[capability] = _Verdict(rule, f"permission '{name}'", name)
    return _build_decision(verdicts, "permissions", CONTEXT_SOURCE) if has_rule else None


_ALLOW, _DENY = Rule(PolicyEffect.ALLOW), Rule(PolicyEffect.DENY)


def narrow(a: Mapping[str, Any], b: Mapping[str, Any]) -> dict[str, Any]:
    """Combine permissions, so that for every action the stricter of `a` and `b` applies.

    Of two application objects under one name, the keys of `a` take precedence: pass the granted permissions first, then the
    requested.
    """
    ours, our_default = read_permissions(a)
    theirs, their_default = read_permissions(b)
    found: dict[str, Permission | None] = {}
    for name in (*ours, *(each for each in theirs if each not in ours)):
        # A wildcard is looked up like a name: its most specific rule is also that of all names to which only the wildcard applies.
        one, other = find_rule(ours, name), find_rule(theirs, name)
        found[name] = both(one[1] if one else our_default, other[1] if other else their_default)
    return permissions_json(
        {name: entry for name, entry in found.items() if entry is not None}, both(our_default, their_default)
    )


# Both together


async def decide(policy: Policy | None, action: RunAction, context: RunContext) -> PolicyDecision:
    """Return the stricter of the decisions of `policy` and of the permissions of `context`.

    `metadata["sources"]` of the decision names those that it is based on. Without a policy, the permissions decide alone. A
    policy that raises denies. A canceled run may do nothing.

    Raises:
        TypeError: The policy returned something other than a valid PolicyDecision.
    """
    if context.canceled:
        return _canceled_decision(_policy_name(policy))
    ours = await _evaluate(policy if policy is not None else _ALLOW_ALL, action, context)
    theirs = permissions_effect(action, context.permissions)
    return _combine(ours, theirs)


def static_effect(policy: Policy | None, capabilities: frozenset[str], context: RunContext) -> PolicyEffect | None:
    """Return the effect of a policy and of the permissions of `context` on all actions with exactly these capabilities.

    None if it depends on the action. Without a policy, the permissions decide alone.
    """
    action = RunAction("action", "any", capabilities=capabilities)
    theirs = permissions_effect(action, context.permissions)
    ours = _ALLOW_ALL if policy is None else policy
    if type(ours) is not CapabilityPolicy:
        return PolicyEffect.DENY if theirs is not None and theirs.effect is PolicyEffect.DENY else None
    return _combine(ours._decide(action, context), theirs).effect


_ALLOW_ALL = CapabilityPolicy()


def _policy_name(policy: Policy | None) -> str:
    if policy is None or isinstance(policy, CapabilityPolicy):
        return (policy or _ALLOW_ALL).name
    return type(policy).__name__


async def _evaluate(policy: Policy, action: RunAction, context: RunContext) -> PolicyDecision:
    # This package's own policy does not change or keep its arguments, so it needs no copies.
    if type(policy) is CapabilityPolicy:
        return policy._decide(action, context)
    name = _policy_name(policy)
    copies = _copy(action), context.copy()
    try:
        answer: object = policy.evaluate(*copies)
        if isawaitable(answer):
            answer = await answer
    except Exception:
        incident = uuid.uuid4().hex
        log.exception("policy %s failed, incident %s", name, incident)
        reason = f"the policy {name} failed, incident {incident}"
        return PolicyDecision(PolicyEffect.DENY, reason, name, (), {"incident": incident})
    return _check_decision(answer, name)


def _copy(action: RunAction) -> RunAction:
    artifacts = tuple(Artifact.from_dict(each.to_dict()) for each in action.artifacts)
    return replace(action, payload=plain(action.payload), metadata=plain(action.metadata), artifacts=artifacts)


def _check_decision(answer: object, name: str) -> PolicyDecision:
    if not isinstance(answer, PolicyDecision):
        raise TypeError(f"the policy {name} must return a PolicyDecision, not {type(answer).__name__}")
    effect = read_effect(answer.effect)
    if effect is None:
        raise TypeError(f"the policy {name} must return a valid effect, not {answer.effect!r}")
    metadata = plain(answer.metadata)
    if effect == PolicyEffect.REQUIRE_APPROVAL:
        metadata |= _approval_terms(_read_terms(metadata, name))
    return replace(answer, effect=effect, policy_name=answer.policy_name or name, metadata=metadata)


def _read_terms(metadata: Mapping[str, Any], name: str) -> Rule:
    """The approval terms of a decision."""
    editable = metadata.get("editable", False)
    if not isinstance(editable, bool):
        raise TypeError(f"`editable` of the policy {name} must be true or false")
    try:
        expires_s = read_seconds(metadata.get("expires_s"), field="expires_s")
    except InvalidArgumentError:
        raise TypeError(f"`expires_s` of the policy {name} must be a number of seconds above 0") from None
    return Rule(PolicyEffect.REQUIRE_APPROVAL, editable, expires_s)


def _combine(ours: PolicyDecision, theirs: PolicyDecision | None) -> PolicyDecision:
    difference = 1 if theirs is None else STRENGTH[ours.effect] - STRENGTH[theirs.effect]
    if theirs is None or difference > 0:
        if ours.sources == (POLICY_SOURCE,):
            return ours
        return replace(ours, metadata=ours.metadata | {"sources": [POLICY_SOURCE]})
    if difference < 0:
        return theirs
    metadata = theirs.metadata | ours.metadata | {"sources": [POLICY_SOURCE, CONTEXT_SOURCE]}
    metadata.pop("rule", None)
    metadata |= _deciding_rule({ours.rule, theirs.rule})
    if ours.effect == PolicyEffect.REQUIRE_APPROVAL:
        for key in ("editable", "expires_s"):
            metadata.pop(key, None)
        both = (_read_terms(each.metadata, each.policy_name) for each in (ours, theirs))
        metadata |= _approval_terms(strictest(both))
    matched = tuple(sorted({*ours.matched_capabilities, *theirs.matched_capabilities}))
    return replace(ours, matched_capabilities=matched, metadata=metadata)
