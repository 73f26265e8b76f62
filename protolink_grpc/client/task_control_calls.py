"""`AgentClient.tasks`: drafts, descriptions, links, pauses and retries of tasks, work outside of the agent, and snapshots."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from protolink_grpc.client.agent_access import AgentAccess
from protolink_grpc.client.port import AgentPort
from protolink_grpc.errors import InvalidArgumentError
from protolink_grpc.models.arguments import checks_arguments
from protolink_grpc.models.artifact import Artifact
from protolink_grpc.models.events import TaskProgress
from protolink_grpc.models.failure import Failure
from protolink_grpc.models.ids import new_request_id
from protolink_grpc.models.message import Message
from protolink_grpc.models.open_enum import OpenEnum
from protolink_grpc.models.snapshot import TaskSnapshot, TaskSnapshotPage
from protolink_grpc.models.task import Task
from protolink_grpc.models.task_control import CALLER_LINKS, LinkKind, TaskDescription, TaskLink, TaskStatus

E = TypeVar("E", bound=OpenEnum)


@checks_arguments
class TaskControlCalls:
    """The control of the caller's tasks with an agent, on the settings of a client.

    Each method returns the task after the call, as a snapshot. `agent_url` is as in AgentClient. Every method raises
    TaskNotFoundError if the caller has no such task. Agents of other systems have no task control: UnimplementedError.
    """

    def __init__(self, client: AgentAccess, open_agent: Callable[[str | None], AgentPort]) -> None:
        self._client = client
        self._open = open_agent

    async def create(
        self,
        message: Task | Message | str,
        *,
        description: TaskDescription | None = None,
        links: Sequence[TaskLink] = (),
        request_id: str | None = None,
        agent_url: str | None = None,
    ) -> TaskSnapshot:
        """Create a draft: a task that does not begin before `start`.

        Args:
            message: The input. A task must be new; its id and its session are kept.
            links: At most 100.
            request_id: Idempotency key. A repetition returns the task of the first call. None creates one for each call.

        Raises:
            InvalidArgumentError: The description or a link is beyond its limits; names the field.
            TaskAlreadyExistsError: The id of the given task exists.
            TaskNotFoundError: The caller has no task that a link names.
            LinkCycleError: A link leads back to the task.
            ResourceExhaustedError: The caller, or a task that a link names, has too many drafts and blocked tasks.
        """
        named = [
            replace(each, kind=_require_one_of(CALLER_LINKS, each.kind, f"links[{index}].kind"))
            for index, each in enumerate(links)
        ]
        agent = self._open(agent_url)
        return await agent.tasks.create(
            Task.of(message), description, named, request_id or new_request_id(), self._client.timeout
        )

    async def update(
        self,
        task_id: str,
        *,
        description: TaskDescription | None = None,
        metadata: dict[str, Any] | None = None,
        expected_sequence: int = 0,
        agent_url: str | None = None,
    ) -> TaskSnapshot:
        """Change the description, as a whole, or keys of the metadata. None leaves a value unchanged.

        Args:
            metadata: A None value removes its key.
            expected_sequence: The last event of the task that the caller has seen; 0 means any.

        Raises:
            InvalidArgumentError: The description or the metadata is beyond its limits; names the field.
            SequenceConflictError: The last event of the task is not `expected_sequence`.
            TaskFinishedError: The task has ended.
        """
        agent = self._open(agent_url)
        return await agent.tasks.update(task_id, description, metadata, expected_sequence, self._client.timeout)

    async def start(self, task_id: str, *, external: bool = False, agent_url: str | None = None) -> TaskSnapshot:
        """Start a draft. It waits if other tasks block it. A task that has been started is returned unchanged.

        Args:
            external: The work is done outside of the agent: no run begins, and `complete` or `fail` ends the task.

        Raises:
            TaskFinishedError: The draft has ended.
        """
        return await self._open(agent_url).tasks.start(task_id, self._client.timeout, external=external)

    async def report_progress(
        self,
        task_id: str,
        progress: float | None = None,
        message: str = "",
        *,
        request_id: str | None = None,
        agent_url: str | None = None,
    ) -> TaskSnapshot:
        """Add a progress report to a task that has not ended.

        Args:
            progress: In percent, from 0 to 100; None means unknown.
            message: For people, at most 1000 characters.
            request_id: As in `create`.

        Raises:
            TaskFinishedError: The task has ended.
        """
        agent, report = self._open(agent_url), TaskProgress(progress, message)
        return await agent.tasks.report_progress(task_id, report, request_id or new_request_id(), self._client.timeout)

    async def pause(self, task_id: str, *, reason: str = "", agent_url: str | None = None) -> TaskSnapshot:
        """Pause a task at the next point at which its run can wait: before an action, a model call or an emitted event.

        The returned task may still be running; its status is `paused` as soon as it waits. Repeating the call changes nothing.

        Args:
            reason: For people, at most 1000 characters.

        Raises:
            TaskFinishedError: The task has ended.
            InvalidTransitionError: The task is a draft, waits for input, is being canceled, or is worked on outside of the agent.
        """
        return await self._open(agent_url).tasks.pause(task_id, reason, self._client.timeout)

    async def resume(self, task_id: str, *, reason: str = "", agent_url: str | None = None) -> TaskSnapshot:
        """End the pause of a task, or withdraw the request for one. A task without such a request is returned unchanged.

        Args:
            reason: As in `pause`.

        Raises:
            TaskFinishedError: The task has ended.
        """
        return await self._open(agent_url).tasks.resume(task_id, reason, self._client.timeout)

    async def retry(
        self, task_id: str, *, reason: str = "", request_id: str | None = None, agent_url: str | None = None
    ) -> TaskSnapshot:
        """Begin another run in the log of an ended task, with the same input. The earlier runs stay in the log.

        Args:
            reason: As in `pause`.
            request_id: Idempotency key. A repetition is the same retry. None creates one for each call.

        Raises:
            InvalidTransitionError: The task has not ended, or was worked on outside of the agent.
            InvalidArgumentError: `request_id` was used for another task.
            ResourceExhaustedError: The agent has too many tasks.
        """
        agent = self._open(agent_url)
        return await agent.tasks.retry(task_id, reason, request_id or new_request_id(), self._client.timeout)

    async def complete(
        self,
        task_id: str,
        messages: Sequence[Message] = (),
        artifacts: Sequence[Artifact] = (),
        *,
        agent_url: str | None = None,
    ) -> TaskSnapshot:
        """End a task with success, for work outside of the agent. A completed task is returned unchanged.

        Args:
            messages, artifacts: Added to the task before its end; at most 1000 of each.

        Raises:
            TaskAlreadyRunningError: The agent works on the task, or is about to.
            TaskFinishedError: The task has ended in another state.
        """
        agent = self._open(agent_url)
        return await agent.tasks.complete(task_id, tuple(messages), tuple(artifacts), self._client.timeout)

    async def fail(self, task_id: str, failure: Failure | str, *, agent_url: str | None = None) -> TaskSnapshot:
        """End a task with a failure, for work outside of the agent. A failed task is returned unchanged. Raises as `complete`.

        Args:
            failure: The failure, or its message, which must not be empty.
        """
        given = Failure(message=failure) if isinstance(failure, str) else failure
        return await self._open(agent_url).tasks.fail(task_id, given, self._client.timeout)

    async def link(
        self, task_id: str, kind: LinkKind | str, target: str, *, reason: str = "", agent_url: str | None = None
    ) -> TaskSnapshot:
        """Add a link to a task, or change the reason of an existing one. A new parent replaces the one before.

        Args:
            kind: "parent", "blocked_by", "source", "artifact" or "evidence".
            target: Id of another task of the caller; an id or a URI for the last two.
            reason: For people, at most 1000 characters.

        Raises:
            InvalidArgumentError: The link is beyond its limits; names the field.
            LinkCycleError: The other task leads back to this one.
            TaskStartedError: A task that has been started cannot be blocked.
            TaskFinishedError: The task has ended.
            ResourceExhaustedError: The task has 100 links, the target blocks 1000 tasks, or too many links lead to the target.
        """
        link = TaskLink(_require_one_of(CALLER_LINKS, kind, "link.kind"), target, reason)
        return await self._open(agent_url).tasks.link(task_id, link, self._client.timeout)

    async def unlink(
        self, task_id: str, kind: LinkKind | str, target: str, *, agent_url: str | None = None
    ) -> TaskSnapshot:
        """Remove a link, if it exists. A started task without any other blocker begins.

        Raises:
            TaskFinishedError: The task has ended, and has such a link.
        """
        link = TaskLink(_require_one_of(CALLER_LINKS, kind, "link.kind"), target)
        return await self._open(agent_url).tasks.unlink(task_id, link, self._client.timeout)

    async def get(self, task_id: str, *, agent_url: str | None = None) -> TaskSnapshot:
        """Return a task with its status in detail, its attempts and its links."""
        return await self._open(agent_url).tasks.get(task_id, self._client.timeout)

    async def list(
        self,
        *,
        statuses: Sequence[TaskStatus | str] = (),
        session_id: str = "",
        page_size: int = 0,
        page_token: str = "",
        agent_url: str | None = None,
    ) -> TaskSnapshotPage:
        """Return one page of the caller's tasks without attempts and links, most recently changed first.

        A page may be shorter than `page_size`, or empty, although there are more.

        Args:
            statuses: Only tasks with one of these statuses; empty means any.
            session_id: Only tasks of this session; empty means any.
            page_size: At most 1000; 0 means 50.
            page_token: `next_page_token` of the page before; empty means the first page.
        """
        wanted = tuple(
            _require_one_of(tuple(TaskStatus), each, f"statuses[{index}]") for index, each in enumerate(statuses)
        )
        agent = self._open(agent_url)
        return await agent.tasks.list(wanted, session_id, page_size, page_token, self._client.timeout)


def _require_one_of(allowed: tuple[E, ...], value: str, field: str) -> E:
    """Return the allowed value with this text. Raises InvalidArgumentError, which names the field, if there is no such value."""
    for each in allowed:
        if each == value:
            return each
    raise InvalidArgumentError(f"must be one of {', '.join(allowed)}", field=field)
