"""The calls of a client that control and inspect an agent: tools, state, webhooks, reports and exports."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import Any, Literal

from protolink_grpc.client.agent_access import AgentAccess
from protolink_grpc.client.backoff import Backoff, is_interruption
from protolink_grpc.errors import ProtolinkError
from protolink_grpc.models.arguments import checks_arguments
from protolink_grpc.models.conversation import CompactionStrategy, HistoryCompactionRequest, HistoryCompactionResult
from protolink_grpc.models.ids import new_request_id, new_task_id
from protolink_grpc.models.part import ToolCall
from protolink_grpc.models.push_config import PushConfig
from protolink_grpc.models.report import RunReport
from protolink_grpc.models.state import StateOperationRequest, StateOperationResult
from protolink_grpc.models.tool import ToolList
from protolink_grpc.models.tool_result import require_result


@checks_arguments
class ControlCalls(AgentAccess):
    """The methods of AgentClient that control and inspect an agent."""

    async def list_tools(self, agent_url: str | None = None, *, page_size: int = 0, page_token: str = "") -> ToolList:
        """Return one page of an agent's tools, ordered by name.

        Raises:
            UnimplementedError: The agent does not use this package. Its card may list its tools as skills.
        """
        return await self._agent(agent_url).list_tools(page_size, page_token, self.timeout)

    async def call_tool(
        self,
        agent_url: str | None,
        tool_name: str,
        arguments: Mapping[str, Any] | None = None,
        /,
        *,
        request_id: str | None = None,
        task_id: str | None = None,
        session_id: str | None = None,
        **more: Any,
    ) -> Any:
        """Call one tool of an agent, subject to the agent's policy, and return the result.

        The call is a task of its own: it may wait for an approval, and it continues if the caller stops waiting.

        Args:
            arguments: The tool's arguments. `more` are further arguments.
            request_id: Idempotency key, see `send_task`.
            task_id: Id of the call's task, for finding and canceling it; None creates one. Errors have it in their metadata.
            session_id: Session of the call; None means a new one.

        Raises:
            ToolRejectedError: The tool does not exist or the arguments are invalid. Nothing was executed.
            ToolFailedError, ToolTimeoutError: The tool ran and failed.
            ActionDeniedError, ApprovalDeniedError, ApprovalRequiredError, BudgetExceededError: The tool was not allowed to run.
            TaskExecutionError: The task was canceled.
        """
        call = ToolCall(tool_name, {**(arguments or {}), **more})
        agent, request = self._agent(agent_url), request_id or new_request_id()
        called = await agent.call_tool(call, request, task_id or new_task_id(), session_id or "", self.timeout)
        return require_result(called.output, called.task_id)

    async def describe_state(
        self,
        agent_url: str | None = None,
        request: StateOperationRequest | None = None,
        *,
        session_id: str | None = None,
        stores: Sequence[str] | None = None,
        include_data: bool = False,
    ) -> StateOperationResult:
        """Describe what the agent remembers of a session, or of all sessions of the caller.

        `request` replaces the other arguments.
        """
        wanted = request or StateOperationRequest(session_id, tuple(stores or ()), include_data)
        return await self._agent(agent_url).describe_state(wanted, self.timeout)

    async def reset_state(
        self,
        agent_url: str | None = None,
        request: StateOperationRequest | None = None,
        *,
        session_id: str | None = None,
        stores: Sequence[str] | None = None,
    ) -> StateOperationResult:
        """Delete what the agent remembers of a session, or of all sessions of the caller.

        `request` replaces the other arguments.
        """
        wanted = request or StateOperationRequest(session_id, tuple(stores or ()))
        return await self._agent(agent_url).reset_state(wanted, self.timeout)

    async def compact_state(
        self,
        agent_url: str | None = None,
        request: StateOperationRequest | HistoryCompactionRequest | None = None,
        *,
        session_id: str | None = None,
        strategy: CompactionStrategy | None = None,
        max_messages: int | None = None,
        max_tokens: int | None = None,
        preserve_recent: int | None = None,
        summary_max_tokens: int | None = None,
    ) -> StateOperationResult:
        """Compact the conversation of a session. Arguments take precedence over the fields of `request`."""
        wanted = StateOperationRequest.of(
            request,
            session_id=session_id,
            strategy=strategy,
            max_messages=max_messages,
            max_tokens=max_tokens,
            preserve_recent=preserve_recent,
            summary_max_tokens=summary_max_tokens,
        )
        return await self._agent(agent_url).compact_state(wanted, self.timeout)

    async def compact_history(
        self, agent_url: str | None, request: HistoryCompactionRequest | None = None, **fields: Any
    ) -> HistoryCompactionResult:
        """Compact the conversation of a session. `fields` are those of a HistoryCompactionRequest and replace `request`."""
        wanted = request or HistoryCompactionRequest(**fields)
        return await self._agent(agent_url).compact_history(wanted, self.timeout)

    async def set_push_config(self, agent_url: str | None, task_id: str, config: PushConfig) -> PushConfig:
        """Register a webhook to which the agent posts updates of the task. A webhook with the same id is replaced.

        This always uses A2A, also with agents of this package.

        Args:
            config: Its `task_id` is ignored. Without an `id` the agent creates one.

        Raises:
            PushNotSupportedError: The agent does not send notifications.
            InvalidArgumentError: The agent refuses the URL.
            TaskNotFoundError: The caller has no such task.
            UnimplementedError: The agent does not support A2A.
        """
        agent = self._over_a2a(agent_url)
        found: PushConfig = await agent.set_push(replace(config, task_id=task_id), self.timeout)
        return found

    async def get_push_config(self, agent_url: str | None, task_id: str, config_id: str) -> PushConfig:
        """Return one webhook of a task.

        Raises TaskNotFoundError if the task or the webhook does not exist, and otherwise like `set_push_config`.
        """
        found: PushConfig = await self._over_a2a(agent_url).get_push(task_id, config_id, self.timeout)
        return found

    async def list_push_configs(self, agent_url: str | None, task_id: str) -> list[PushConfig]:
        """Return all webhooks of a task. Raises like `set_push_config`."""
        return list(await self._over_a2a(agent_url).list_push(task_id, self.timeout))

    async def delete_push_config(self, agent_url: str | None, task_id: str, config_id: str) -> None:
        """Remove a webhook of a task. Raises like `set_push_config`."""
        await self._over_a2a(agent_url).delete_push(task_id, config_id, self.timeout)

    async def get_run_report(self, agent_url: str | None, task_id: str, run_id: str | None = None) -> RunReport:
        """Return the report of a run. The agent removes secrets from it.

        Args:
            run_id: One of the task's runs; None means the latest.

        Raises:
            TaskNotFoundError: The caller has no such task, or the task has no such run.
        """
        agent, backoff = self._agent(agent_url), Backoff(self.outage_s)
        while True:
            try:
                return await agent.report(task_id, run_id or "", self.timeout)
            except ProtolinkError as error:
                if not is_interruption(error):
                    raise
                await backoff.wait_after(error)

    async def export_task(
        self,
        agent_url: str | None,
        task_id: str,
        *,
        format: Literal["protolink", "agentruntime"] = "protolink",  # noqa: A002 -- the field's name
    ) -> AsyncGenerator[str, None]:
        """Yield the current log of a task as JSON lines: RunEvents, or events of the Agent Runtime contract."""
        agent, shown, backoff = self._agent(agent_url), 0, Backoff(self.outage_s)
        while True:
            again = shown  # a log only grows: the lines that were yielded before come first
            try:
                async with aclosing(agent.export(task_id, format, None)) as batches:
                    async for lines in batches:
                        for line in lines[again:]:
                            backoff.reset()
                            shown += 1
                            yield line
                        again = max(0, again - len(lines))
                return
            except ProtolinkError as error:
                if not is_interruption(error):
                    raise
                await backoff.wait_after(error)
