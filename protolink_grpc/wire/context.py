"""Converts run contexts and context manifests between the models and `plgrpc`. Limits are enforced elsewhere."""

from typing import Any, Final

from plgrpc.v1 import context_pb2 as pb2
from plgrpc.v1 import task_input_pb2 as options_pb

from protolink_grpc.errors import InvalidArgumentError, MessageTooLargeError
from protolink_grpc.models.action import ContextItem, ContextManifest, OmittedContext, OmittedItems
from protolink_grpc.models.context import RunBudget, RunContext
from protolink_grpc.models.reader import MAX_INTEGER
from protolink_grpc.wire.compile import Codec, Computed, LeftOut, Line, Special, enum_numbers
from protolink_grpc.wire.permissions import permissions_from_pb, permissions_to_pb
from protolink_grpc.wire.scalars import timestamp_from_pb
from protolink_grpc.wire.usage import BUDGET

MAX_AGENT_CHAIN: Final = 64
"""Agents that one run may pass through. Source: the comment of RunContext.agent_chain in plgrpc/v1/context.proto."""

STRATEGIES: Final = enum_numbers(str, pb2.CompactionStrategy.DESCRIPTOR, unset="", field="strategy")
"""Ways to shorten a conversation; recorded events may have none."""

_NO_LIMITS = RunBudget()  # for comparison only: its metadata is mutable, so no context may share it


def _write_budget(context: RunContext) -> Any:
    return None if context.budget == _NO_LIMITS else BUDGET.to_pb(context.budget)


def _write_permissions(context: RunContext) -> Any:
    return permissions_to_pb(context.permissions) if context.permissions else None


def _read_permissions(pb: pb2.RunContext | options_pb.RunOptions) -> dict[str, Any]:
    return permissions_from_pb(pb.permissions) if pb.permissions else {}


def _write_chain(context: RunContext) -> Any:
    return context.agent_chain


def _read_chain(pb: pb2.RunContext | options_pb.RunOptions) -> list[str]:
    chain = pb.agent_chain[:]
    if len(chain) > MAX_AGENT_CHAIN:
        raise MessageTooLargeError(f"must name at most {MAX_AGENT_CHAIN} agents", field="agent_chain")
    return chain


_COMMON: Final[dict[str, Line]] = {
    "created_at": "create_time",
    "agent_chain": Special("agent_chain", _write_chain, _read_chain),
    "permissions": Special("permissions", _write_permissions, _read_permissions),
    "budget": Special("budget", _write_budget),
    "canceled": LeftOut("It follows from the state of the task."),
    "cancel_reason": LeftOut("The task has it."),
}
"""Fields that the caller's options and the server's record have in common."""

CONTEXT: Final = Codec(RunContext, pb2.RunContext, **_COMMON)

OPTIONS: Final = Codec(
    RunContext,
    options_pb.RunOptions,
    **_COMMON,
    session_id=LeftOut("TaskInput has it."),
    principal=LeftOut("The server sets it, from the authenticated caller."),
    scopes=LeftOut("The server sets them, from the authenticated caller."),
)
"""The run options that a caller sends."""


def context_from_pb(pb: pb2.RunContext, field: str) -> RunContext:
    """Convert like `CONTEXT.from_pb`, with a fast path for the context that the server generates if the caller sent none."""
    if len(pb.agent_chain) == 1 and [each.number for each, _ in pb.ListFields()] == _PLAIN:
        created = timestamp_from_pb(pb.create_time, f"{field}.create_time")
        return RunContext(pb.run_id, pb.session_id, agent_chain=pb.agent_chain[:], created_at=created)
    return CONTEXT.from_pb(pb, field)


_PLAIN: Final = sorted(
    pb2.RunContext.DESCRIPTOR.fields_by_name[name].number
    for name in ("run_id", "session_id", "agent_chain", "create_time")
)
"""Numbers of the fields of such a context, in the order of `ListFields`."""


CONTEXT_ITEM: Final = Codec(ContextItem, pb2.ContextItem)
OMITTED: Final = Codec(OmittedContext, pb2.OmittedContext)
OMITTED_ITEMS: Final = Codec(OmittedItems, pb2.OmittedItems)


def _read_system_tokens(pb: pb2.ContextManifest) -> int:
    if pb.system_tokens < 0:
        raise InvalidArgumentError("must not be negative", field="system_tokens")
    system = pb.system_tokens + pb.tool_prompt_tokens
    if system > MAX_INTEGER:
        raise InvalidArgumentError("is too large beside tool_prompt_tokens", field="system_tokens")
    return system


MANIFEST: Final = Codec(
    ContextManifest,
    pb2.ContextManifest,
    created_at="create_time",
    system_tokens=Special(
        "system_tokens",
        lambda manifest: max(manifest.system_tokens - manifest.tool_prompt_tokens, 0),
        _read_system_tokens,
    ),
    # The sum of four numbers that each fit into an int64 may not fit.
    total_estimated_tokens=Computed(lambda manifest: min(manifest.total_estimated_tokens, MAX_INTEGER)),
)
"""The model counts tools as part of `system_tokens`, the contract counts them separately: writing splits them, reading adds them.

If a manifest's tool tokens exceed its system tokens, both are equal after reading, under the same total.
"""
