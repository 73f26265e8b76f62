"""Converts the permissions of a run between their JSON form and `plgrpc`. Rules are applied elsewhere."""

from collections.abc import Mapping
from typing import Any, Final

from google.protobuf.duration_pb2 import Duration
from plgrpc.v1 import policy_pb2 as pb2

from protolink_grpc.errors import InvalidArgumentError
from protolink_grpc.models.action import MAX_EXPIRES_S, PolicyEffect
from protolink_grpc.models.json_value import from_json, to_json
from protolink_grpc.models.permissions import Permission, check_permissions, own_terms, permissions_json
from protolink_grpc.models.rules import EFFECT_KEYS, Rule
from protolink_grpc.wire.compile import enum_numbers
from protolink_grpc.wire.scalars import duration_micros, micros_to_duration

EFFECTS: Final = enum_numbers(PolicyEffect, pb2.PolicyEffect.DESCRIPTOR, field="effect")

_EDITS: Final = frozenset(pb2.ApprovalEdit.values())


def permissions_to_pb(permissions: Mapping[str, Any], field: str = "permissions") -> dict[str, pb2.CapabilityRule]:
    """Convert the rules to the map of a message.

    Raises:
        InvalidArgumentError: A rule is not valid; names its path below `field`.
        TypeError: Terms of the application have no JSON form.
    """
    rules, default = check_permissions(permissions, field)
    # Sorted: equal permissions give equal bytes.
    found = sorted((rules if default is None else rules | {"default": default}).items(), key=_name)
    return {name: _rule_to_pb(permission) for name, permission in found}


def _name(item: tuple[str, Permission]) -> str:
    return item[0]


def _rule_to_pb(permission: Permission) -> pb2.CapabilityRule:
    out = pb2.CapabilityRule()
    rule, terms = permission.rule, permission.data
    if rule is not None:
        out.effect, terms = EFFECTS[rule.effect], own_terms(terms) or None
        if rule.editable:
            out.edit = pb2.APPROVAL_EDIT_ARGUMENTS
        if rule.expires_s is not None:
            out.approval_ttl.CopyFrom(lifetime_to_pb(rule.expires_s))
    if terms is not None:
        out.terms_json = to_json(terms)
    return out


def permissions_from_pb(pb: Mapping[str, pb2.CapabilityRule], field: str = "permissions") -> dict[str, Any]:
    """Convert to the JSON form. An unknown effect is read as a denial, and an unknown edit as none.

    Raises:
        InvalidArgumentError: A rule that the contract does not allow; names its path below `field`.
    """
    rules = {name: _rule_from_pb(rule, f"{field}.{name}") for name, rule in sorted(pb.items())}
    default = rules.pop("default", None)
    return permissions_json(rules, default)


def _rule_from_pb(pb: pb2.CapabilityRule, field: str) -> Permission:
    terms = from_json(pb.terms_json, field=f"{field}.terms_json") if pb.terms_json else None
    if not pb.effect:
        return Permission(None, _check_terms(terms, field))
    if terms is not None and not isinstance(terms, dict):
        raise InvalidArgumentError("must be a JSON object where there is an effect", field=f"{field}.terms_json")
    effect = EFFECTS.read(pb.effect)
    ttl = lifetime_from_pb(pb.approval_ttl, f"{field}.approval_ttl") if pb.HasField("approval_ttl") else None
    rule = Rule(effect if effect.is_named else PolicyEffect.DENY, pb.edit == pb2.APPROVAL_EDIT_ARGUMENTS, ttl)
    return Permission(rule, terms)


def _check_terms(terms: Any, field: str) -> Any:
    """Check terms without an effect, which must not look like a rule."""
    if terms is None:
        raise InvalidArgumentError("must be set, unless there are terms", field=f"{field}.effect")
    if isinstance(terms, bool | str) or (isinstance(terms, dict) and any(key in terms for key in EFFECT_KEYS)):
        raise InvalidArgumentError("must not say an effect; set `effect`", field=f"{field}.terms_json")
    return terms


def lifetime_to_pb(seconds: float) -> Duration:
    """Convert the lifetime of an approval, rounded to microseconds, but at least one: zero is not a valid lifetime."""
    return micros_to_duration(max(round(seconds * 1e6), 1))


def lifetime_from_pb(pb: Duration, field: str) -> float:
    """Convert the lifetime of an approval to seconds. Raises InvalidArgumentError if it is out of bounds; names `field`."""
    micros = duration_micros(pb, field)
    if not 0 < micros <= MAX_EXPIRES_S * 1e6:
        raise InvalidArgumentError(f"must be more than 0 and at most {MAX_EXPIRES_S:.0f} s", field=field)
    return micros / 1e6


def refuse_unknown_rules(pb: Mapping[str, pb2.CapabilityRule], field: str) -> None:
    """Raise for enum values that this version does not support: a request must be fully understood.

    Raises:
        InvalidArgumentError: There is such a value; names its path below `field`.
    """
    for name, rule in pb.items():
        if rule.effect:
            EFFECTS.read_request(rule.effect, f"{field}.{name}.effect")
        if rule.edit not in _EDITS:
            raise InvalidArgumentError(f"{rule.edit} is not known", field=f"{field}.{name}.edit")
