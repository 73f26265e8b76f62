"""The requester of MCP's tasks extension, over the extension interface of the official client."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Literal

from mcp.client.extension import ClaimContext, ClientExtension, ResultClaim
from mcp.types import CallToolResult, ElicitRequest, Request, RequestParams, Result

EXTENSION = "io.modelcontextprotocol/tasks"
POLL_S = 0.02

Answer = Callable[[str, dict[str, Any]], Awaitable[dict[str, Any]]]


class CreatedTask(Result):
    """CreateTaskResult."""

    result_type: Literal["task"] = "task"
    task_id: str
    status: str
    created_at: str
    last_updated_at: str
    ttl_ms: int | None
    poll_interval_ms: int | None = None


class TaskParams(RequestParams):
    task_id: str
    input_responses: dict[str, Any] | None = None


class TaskRequest(Request[TaskParams, str]):
    method: str
    params: TaskParams
    name_param = "taskId"


class AnyResult(Result, extra="allow"):
    """A result with all its fields."""


async def ask(session: Any, method: str, task_id: str, **more: Any) -> dict[str, Any]:
    """Send a request about a task. Returns its result as on the wire."""
    request = TaskRequest(method=method, params=TaskParams(task_id=task_id, **more))
    result = await session.send_request(request, AnyResult)
    return dict(result.model_dump(by_alias=True, mode="json"))


class Tasks(ClientExtension):
    """Polls tasks until they have ended, and answers their questions.

    Attributes:
        created: The tasks that calls became.
        statuses: The statuses that `tasks/get` has returned, oldest first.
        polled: Set with the first status.
    """

    identifier = EXTENSION

    def __init__(self, answer: Answer | None = None) -> None:
        self.created: list[CreatedTask] = []
        self.statuses: list[str] = []
        self.polled = asyncio.Event()
        self._answer = answer

    def claims(self) -> Sequence[ResultClaim[Any]]:
        return [ResultClaim(result_type="task", model=CreatedTask, resolve=self._resolve)]

    async def _resolve(self, created: CreatedTask, context: ClaimContext) -> CallToolResult:
        self.created.append(created)
        return CallToolResult.model_validate((await self.finish(context.session, created.task_id))["result"])

    async def finish(self, session: Any, task_id: str) -> dict[str, Any]:
        """Poll a task, and return its last state."""
        answered: set[str] = set()
        while True:
            task = await ask(session, "tasks/get", task_id)
            self.statuses.append(task["status"])
            self.polled.set()
            if task["status"] in ("completed", "failed", "cancelled"):
                return task
            for key, request in task.get("inputRequests", {}).items():
                if key not in answered and self._answer is not None:
                    answered.add(key)
                    ElicitRequest.model_validate(request)
                    response = await self._answer(key, request["params"])
                    await ask(session, "tasks/update", task_id, input_responses={key: response})
            await asyncio.sleep(POLL_S)
