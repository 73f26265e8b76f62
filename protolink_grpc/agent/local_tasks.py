"""The control of tasks of an agent in the same process, with the same methods as over the network."""

from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from protolink_grpc.agent.local_sessions import OnItsLoop
from protolink_grpc.models.artifact import Artifact
from protolink_grpc.models.events import TaskProgress
from protolink_grpc.models.failure import Failure
from protolink_grpc.models.fold import copy_artifact, copy_message
from protolink_grpc.models.json_value import plain
from protolink_grpc.models.message import Message
from protolink_grpc.models.snapshot import TaskSnapshot, TaskSnapshotPage
from protolink_grpc.models.task import Task
from protolink_grpc.models.task_control import TaskDescription, TaskLink, TaskStatus
from protolink_grpc.net.page_tokens import cursor_from_token, page_size_of, token_from_cursor
from protolink_grpc.runtime.service import TaskService
from protolink_grpc.runtime.submission import Submission
from protolink_grpc.runtime.task_control import TaskControl
from protolink_grpc.wire.tasks import MAX_ARTIFACTS, MAX_MESSAGES, check_bounds, check_id


class LocalTasks:
    """The tasks of one principal with an agent in this process.

    Args:
        copy: Builds the submission of a new task with copies of its content, with a request id.
    """

    def __init__(self, principal: str, on_its_loop: OnItsLoop, copy: Callable[[Task, str], Submission]) -> None:
        self._principal = principal
        self._on_its_loop = on_its_loop
        self._copy = copy

    async def _change(
        self, task_id: str, work: Callable[[TaskControl], Coroutine[Any, Any, TaskSnapshot]], timeout_s: float | None
    ) -> TaskSnapshot:
        check_id(task_id, "task_id")

        async def on_service(service: TaskService) -> TaskSnapshot:
            return await work(service.control)

        return await self._on_its_loop(on_service, timeout_s)

    async def create(
        self,
        task: Task,
        description: TaskDescription | None,
        links: Sequence[TaskLink],
        request_id: str,
        timeout_s: float | None,
    ) -> TaskSnapshot:
        submission = self._copy(task, request_id)
        return await self._change(
            task.id,
            lambda control: control.create(submission, self._principal, description=description, links=links),
            timeout_s,
        )

    async def update(
        self,
        task_id: str,
        description: TaskDescription | None,
        metadata: dict[str, Any] | None,
        expected_sequence: int,
        timeout_s: float | None,
    ) -> TaskSnapshot:
        copy = None if metadata is None else plain(metadata)
        return await self._change(
            task_id,
            lambda control: control.update(
                task_id,
                self._principal,
                description=description,
                metadata=copy,
                expected_sequence=expected_sequence,
            ),
            timeout_s,
        )

    async def start(self, task_id: str, timeout_s: float | None, *, external: bool) -> TaskSnapshot:
        return await self._change(
            task_id, lambda control: control.start(task_id, self._principal, external=external), timeout_s
        )

    async def report_progress(
        self, task_id: str, report: TaskProgress, request_id: str, timeout_s: float | None
    ) -> TaskSnapshot:
        check_id(request_id, "request_id")
        return await self._change(
            task_id,
            lambda control: control.report_progress(task_id, self._principal, report, request_id),
            timeout_s,
        )

    async def pause(self, task_id: str, reason: str, timeout_s: float | None) -> TaskSnapshot:
        return await self._change(task_id, lambda control: control.pause(task_id, self._principal, reason), timeout_s)

    async def resume(self, task_id: str, reason: str, timeout_s: float | None) -> TaskSnapshot:
        return await self._change(task_id, lambda control: control.resume(task_id, self._principal, reason), timeout_s)

    async def retry(self, task_id: str, reason: str, request_id: str, timeout_s: float | None) -> TaskSnapshot:
        check_id(request_id, "request_id")
        return await self._change(
            task_id, lambda control: control.retry(task_id, self._principal, reason, request_id), timeout_s
        )

    async def complete(
        self, task_id: str, messages: Sequence[Message], artifacts: Sequence[Artifact], timeout_s: float | None
    ) -> TaskSnapshot:
        check_bounds(messages, MAX_MESSAGES, "messages", "messages")
        check_bounds(artifacts, MAX_ARTIFACTS, "artifacts", "artifacts")
        added = [copy_message(each) for each in messages]
        made = [copy_artifact(each) for each in artifacts]
        return await self._change(
            task_id, lambda control: control.complete(task_id, self._principal, added, made), timeout_s
        )

    async def fail(self, task_id: str, failure: Failure, timeout_s: float | None) -> TaskSnapshot:
        copy = failure.copy()
        return await self._change(task_id, lambda control: control.fail(task_id, self._principal, copy), timeout_s)

    async def link(self, task_id: str, link: TaskLink, timeout_s: float | None) -> TaskSnapshot:
        return await self._change(task_id, lambda control: control.links.add(task_id, self._principal, link), timeout_s)

    async def unlink(self, task_id: str, link: TaskLink, timeout_s: float | None) -> TaskSnapshot:
        return await self._change(
            task_id, lambda control: control.links.remove(task_id, self._principal, link.kind, link.target), timeout_s
        )

    async def get(self, task_id: str, timeout_s: float | None) -> TaskSnapshot:
        return await self._change(task_id, lambda control: control.get(task_id, self._principal), timeout_s)

    async def list(
        self,
        statuses: Sequence[TaskStatus],
        session_id: str,
        page_size: int,
        page_token: str,
        timeout_s: float | None,
    ) -> TaskSnapshotPage:
        after, limit = cursor_from_token(page_token), page_size_of(page_size)

        async def work(service: TaskService) -> TaskSnapshotPage:
            found, following = await service.control.snapshots.page(
                self._principal, statuses=statuses, session_id=session_id, after=after, limit=limit
            )
            return TaskSnapshotPage(tuple(snapshot for snapshot, _ in found), token_from_cursor(following))

        return await self._on_its_loop(work, timeout_s)
