"""The keys of `Task.metadata` that repeat typed facts, because ProtoLink's readers look there; all others are the user's."""

from collections.abc import Mapping
from typing import Any

from protolink_grpc.models.context import CONTEXT_KEYS

USAGE_KEY = "budget_usage"
"""Metadata key of a task's usage."""

HISTORY_KEY = "state_history"

DERIVED_KEYS = CONTEXT_KEYS | {HISTORY_KEY, "error", "reject_reason", USAGE_KEY}
"""Keys that are computed from typed facts; values that callers or agents write there are not kept."""


def own_metadata(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Return the metadata of a task without `DERIVED_KEYS`."""
    return {key: value for key, value in metadata.items() if key not in DERIVED_KEYS}
