"""Reading of the permissions of a run from their JSON form. `policy` selects the permission that applies.

They map names of capabilities to rules, at the top level, under `capabilities`, or both; `default` applies to all other names. A
value that is neither a word nor an object with an effect, such as `{"paths": [...]}`, is a grant in the application's own format.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from protolink_grpc.errors import InvalidArgumentError
from protolink_grpc.models.action import PolicyEffect
from protolink_grpc.models.json_value import plain
from protolink_grpc.models.rules import EFFECT_KEYS, RULE_KEYS, Rule, read_effect, read_rule, rule_json, strictest


@dataclass(frozen=True, slots=True)
class Permission:
    """The permission for one name. Without a rule it is a grant in the application's own format, and allows."""

    rule: Rule | None
    data: Any = None


def read_permissions(permissions: Mapping[str, Any]) -> tuple[dict[str, Permission], Permission | None]:
    """Return the permissions by name, and the default permission. An invalid rule denies."""
    return _read(permissions, None)


def check_permissions(permissions: Mapping[str, Any], field: str) -> tuple[dict[str, Permission], Permission | None]:
    """The same, strictly.

    Raises:
        InvalidArgumentError: A rule cannot be read; names its path below `field`.
    """
    return _read(permissions, field)


def _read(permissions: Mapping[str, Any], field: str | None) -> tuple[dict[str, Permission], Permission | None]:
    nested = permissions.get("capabilities")
    parts: list[tuple[Mapping[str, Any], str | None]] = [(permissions, field)]
    if isinstance(nested, Mapping):
        rest = {name: value for name, value in permissions.items() if name != "capabilities"}
        parts = [(rest, field), (nested, field and f"{field}.capabilities")]
    found: dict[str, Permission] = {}
    for part, path in parts:
        for name, value in part.items():
            permission = both(found.get(name), _permission(value, path and f"{path}.{name}"))
            if permission is not None:
                found[name] = permission
    return found, found.pop("default", None)


def _permission(value: object, field: str | None) -> Permission | None:
    if value is None:
        return None
    own: Any = None
    if isinstance(value, Mapping):
        own = plain({key: each for key, each in value.items() if key not in RULE_KEYS})
        if not any(key in value for key in EFFECT_KEYS):
            return Permission(None, plain(value))
    elif not isinstance(value, bool | str):
        return Permission(None, plain(value))
    elif field is None:
        return Permission(Rule(read_effect(value) or PolicyEffect.DENY))
    try:
        return Permission(read_rule(value, field=field or ""), own)
    except InvalidArgumentError:
        if field is not None:
            raise
        return Permission(Rule(PolicyEffect.DENY), own)


def both(one: Permission | None, other: Permission | None) -> Permission | None:
    """The permission that is as strict as both; of the application's own data, the first has precedence."""
    if one is None or other is None:
        return other if one is None else one
    rules = [each.rule for each in (one, other) if each.rule is not None]
    data = other.data if one.data is None else one.data
    if isinstance(one.data, dict) and isinstance(other.data, dict):
        data = other.data | one.data
    return Permission(strictest(rules) if rules else None, data)


def permissions_json(permissions: Mapping[str, Permission], default: Permission | None) -> dict[str, Any]:
    """The inverse of `read_permissions`, in one form of the several that say the same."""
    values = {name: _json(each) for name, each in permissions.items()}
    if "capabilities" in values:  # at the top this name means the nested form
        values["capabilities"] = {"capabilities": values["capabilities"]}
    whole: dict[str, Any] = plain(values if default is None else values | {"default": _json(default)})
    return whole


def _json(permission: Permission) -> Any:
    if permission.rule is None:
        return permission.data
    own = own_terms(permission.data)
    return own | permission.rule.to_json() if own else rule_json(permission.rule)


def own_terms(data: Any) -> dict[str, Any]:
    """What the application's data may say beside a rule."""
    return {key: value for key, value in data.items() if key not in RULE_KEYS} if isinstance(data, dict) else {}
