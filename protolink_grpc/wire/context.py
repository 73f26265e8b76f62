"""Run contexts and context manifests between the models and `plgrpc`. What a limit does is decided elsewhere.

Empty text on the wire is None in the models; points in time come back in the spelling of `models.clock`.
"""

from typing import Final

from plgrpc.v1 import context_pb2 as pb2
from plgrpc.v1 import task_input_pb2 as options_pb

from protolink_grpc.errors import InvalidArgumentError, MessageTooLargeError
from protolink_grpc.models.action import ContextItem, ContextManifest
from protolink_grpc.models.clock import utc_now
from protolink_grpc.models.context import RunBudget, RunContext, attach_plain_context
from protolink_grpc.models.ids import new_run_id
from protolink_grpc.models.reader import MAX_INTEGER
from protolink_grpc.models.task import Task
from protolink_grpc.wire.permissions import permissions_from_pb, permissions_to_pb
from protolink_grpc.wire.scalars import (
    json_object_from_pb,
    json_object_to_pb,
    timestamp_from_pb,
    timestamp_to_pb,
)
from protolink_grpc.wire.usage import budget_from_pb, budget_to_pb, count_from_pb

MAX_AGENT_CHAIN: Final = 64
"""Agents that one run may pass through. Source: the comment of RunContext.agent_chain in plgrpc/v1/context.proto."""

_NO_LIMITS = RunBudget()  # to compare with only: its metadata could be written to, so no context may share it


def context_to_pb(context: RunContext) -> pb2.RunContext:
    """What is empty is never touched. Whether the run is canceled is not in there: the task's state says it.

    Raises:
        InvalidArgumentError: A rule of `permissions` cannot be read; names its path.
        TypeError: `permissions` or `metadata` have no JSON form.
    """
    out = pb2.RunContext(run_id=context.run_id)
    _set_common(context, out)
    if context.session_id:
        out.session_id = context.session_id
    if context.principal:
        out.principal = context.principal
    if context.scopes:
        out.scopes.extend(context.scopes)
    return out


def context_from_pb(pb: pb2.RunContext, field: str = "context") -> RunContext:
    """The context of a message; a missing run_id or time is made.

    Raises:
        MessageTooLargeError: More than `MAX_AGENT_CHAIN` agents.
        InvalidArgumentError: A value that the contract does not allow; names its path below `field`.
    """
    chain = pb.agent_chain[:]
    if len(chain) > MAX_AGENT_CHAIN:
        raise MessageTooLargeError(f"must name at most {MAX_AGENT_CHAIN} agents", field=f"{field}.agent_chain")
    permissions, metadata = pb.permissions, pb.metadata_json
    # By position: naming twelve arguments costs a microsecond of every request.
    return RunContext(
        pb.run_id or new_run_id(),
        pb.session_id or None,
        pb.trace_id or None,
        pb.workspace_uri or None,
        pb.parent_run_id or None,
        chain,
        permissions_from_pb(permissions, f"{field}.permissions") if permissions else {},
        budget_from_pb(pb.budget, f"{field}.budget") if pb.HasField("budget") else RunBudget(),
        False,
        json_object_from_pb(metadata, f"{field}.metadata_json") if metadata else {},
        None,
        timestamp_from_pb(pb.create_time, f"{field}.create_time") if pb.HasField("create_time") else utc_now(),
        pb.principal or None,
        tuple(pb.scopes),
    )


def _set_common(context: RunContext, out: pb2.RunContext | options_pb.RunOptions) -> None:
    """What a caller says and the server records alike."""
    out.create_time.CopyFrom(timestamp_to_pb(context.created_at))  # half a microsecond less than as an argument
    if context.trace_id:
        out.trace_id = context.trace_id
    if context.workspace_uri:
        out.workspace_uri = context.workspace_uri
    if context.parent_run_id:
        out.parent_run_id = context.parent_run_id
    if context.agent_chain:
        out.agent_chain.extend(context.agent_chain)
    if context.permissions:
        permissions_to_pb(context.permissions, out.permissions)
    if context.budget != _NO_LIMITS:
        out.budget.CopyFrom(budget_to_pb(context.budget))
    if context.metadata:
        out.metadata_json = json_object_to_pb(context.metadata)


def options_to_pb(context: RunContext) -> options_pb.RunOptions:
    """What a caller says about a run. Its session has a field of its own; the rest of a context is the server's to say.

    Raises:
        InvalidArgumentError: A rule of `permissions` cannot be read; names its path.
        TypeError: `permissions` or `metadata` have no JSON form.
    """
    out = options_pb.RunOptions(run_id=context.run_id)
    _set_common(context, out)
    return out


def options_from_pb(pb: options_pb.RunOptions, session_id: str, field: str = "options") -> RunContext:
    """The context that a caller asks for, in that session; a missing run_id or time is made. Raises as `context_from_pb`."""
    chain = pb.agent_chain[:]
    if len(chain) > MAX_AGENT_CHAIN:
        raise MessageTooLargeError(f"must name at most {MAX_AGENT_CHAIN} agents", field=f"{field}.agent_chain")
    permissions, metadata = pb.permissions, pb.metadata_json
    return RunContext(
        run_id=pb.run_id or new_run_id(),
        session_id=session_id or None,
        trace_id=pb.trace_id or None,
        workspace_uri=pb.workspace_uri or None,
        parent_run_id=pb.parent_run_id or None,
        agent_chain=chain,
        permissions=permissions_from_pb(permissions, f"{field}.permissions") if permissions else {},
        budget=budget_from_pb(pb.budget, f"{field}.budget") if pb.HasField("budget") else RunBudget(),
        metadata=json_object_from_pb(metadata, f"{field}.metadata_json") if metadata else {},
        created_at=timestamp_from_pb(pb.create_time, f"{field}.create_time")
        if pb.HasField("create_time")
        else utc_now(),
    )


def attach_context(pb: pb2.RunContext, task: Task, field: str) -> None:
    """`context_from_pb(pb, field).attach_to_task(task)`, faster where the context is that of a run whose caller sent none."""
    if len(pb.agent_chain) == 1 and [each.number for each, _ in pb.ListFields()] == _PLAIN:
        created = timestamp_from_pb(pb.create_time, f"{field}.create_time")
        attach_plain_context(task.metadata, pb.run_id, pb.session_id, pb.agent_chain[:], created)
    else:
        context_from_pb(pb, field).attach_to_task(task)


_PLAIN: Final = sorted(
    pb2.RunContext.DESCRIPTOR.fields_by_name[name].number
    for name in ("run_id", "session_id", "agent_chain", "create_time")
)
"""Fields of such a context; `ListFields` is in this order."""


def context_item_to_pb(item: ContextItem) -> pb2.ContextItem:
    return pb2.ContextItem(
        kind=item.kind, name=item.name, tokens=item.tokens, metadata_json=json_object_to_pb(item.metadata)
    )


def context_item_from_pb(pb: pb2.ContextItem, field: str = "context_item") -> ContextItem:
    """Raises InvalidArgumentError for negative tokens or metadata that is no JSON object; names its path."""
    return ContextItem(
        kind=pb.kind,
        name=pb.name,
        tokens=count_from_pb(pb.tokens, f"{field}.tokens"),
        metadata=json_object_from_pb(pb.metadata_json, f"{field}.metadata_json"),
    )


def context_manifest_to_pb(manifest: ContextManifest) -> pb2.ContextManifest:
    """The model counts tools inside `system_tokens`, the contract beside them: they part here and meet again on the way in.

    A manifest whose tools outweigh its system prompt comes back with the two equal, under the same total.
    """
    return pb2.ContextManifest(
        run_id=manifest.run_id or "",
        session_id=manifest.session_id or "",
        agent_name=manifest.agent_name or "",
        provider=manifest.provider or "",
        model=manifest.model or "",
        system_tokens=max(manifest.system_tokens - manifest.tool_prompt_tokens, 0),
        tool_prompt_tokens=manifest.tool_prompt_tokens,
        history_tokens=manifest.history_tokens,
        user_tokens=manifest.user_tokens,
        # Four numbers that each fit into an int64 may have a sum that does not.
        total_estimated_tokens=min(manifest.total_estimated_tokens, MAX_INTEGER),
        context_window=manifest.context_window,
        context_items=[context_item_to_pb(item) for item in manifest.context_items],
        estimated=manifest.estimated,
        metadata_json=json_object_to_pb(manifest.metadata),
        create_time=timestamp_to_pb(manifest.created_at),
    )


def context_manifest_from_pb(pb: pb2.ContextManifest, field: str = "context_manifest") -> ContextManifest:
    """The inverse of `context_manifest_to_pb`; the total is computed, never read.

    Raises:
        InvalidArgumentError: A number out of range, or metadata that is no JSON object; names its path below `field`.
    """
    tools = count_from_pb(pb.tool_prompt_tokens, f"{field}.tool_prompt_tokens")
    system = count_from_pb(pb.system_tokens, f"{field}.system_tokens") + tools
    if system > MAX_INTEGER:
        raise InvalidArgumentError("is too large beside tool_prompt_tokens", field=f"{field}.system_tokens")
    return ContextManifest(
        run_id=pb.run_id or None,
        session_id=pb.session_id or None,
        agent_name=pb.agent_name or None,
        provider=pb.provider or None,
        model=pb.model or None,
        system_tokens=system,
        history_tokens=count_from_pb(pb.history_tokens, f"{field}.history_tokens"),
        tool_prompt_tokens=tools,
        user_tokens=count_from_pb(pb.user_tokens, f"{field}.user_tokens"),
        context_items=tuple(
            context_item_from_pb(item, f"{field}.context_items[{index}]") for index, item in enumerate(pb.context_items)
        ),
        context_window=count_from_pb(pb.context_window, f"{field}.context_window")
        if pb.HasField("context_window")
        else None,
        estimated=pb.estimated,
        metadata=json_object_from_pb(pb.metadata_json, f"{field}.metadata_json"),
        created_at=(
            timestamp_from_pb(pb.create_time, f"{field}.create_time") if pb.HasField("create_time") else utc_now()
        ),
    )
