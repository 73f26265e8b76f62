"""A2A's operations about push notifications: the webhooks of a task, and the notifications that they receive."""

from dataclasses import replace
from typing import Any

from protolink_grpc.a2a.approvals import answer_check, read_updates
from protolink_grpc.a2a.attempts import find_attempt
from protolink_grpc.a2a.json_codec import update_json
from protolink_grpc.a2a.listing import parse_page_token
from protolink_grpc.a2a.negotiation import owner_of_request, require_id
from protolink_grpc.a2a.options import A2AOptions
from protolink_grpc.a2a.v03.writing import push_body_v03
from protolink_grpc.a2a.values import MAX_PAGE_SIZE, PAGE_SIZE, V03, V1, CallerInfo, NotificationBatch, PushPage
from protolink_grpc.a2a.views import Updates, view_of
from protolink_grpc.errors import InvalidArgumentError, PushNotSupportedError, TaskNotFoundError
from protolink_grpc.models.fold import TaskFold
from protolink_grpc.models.json_value import to_json
from protolink_grpc.models.push_config import PushConfig
from protolink_grpc.net.page_tokens import token_from_cursor
from protolink_grpc.runtime.actions.approvals import Approvals
from protolink_grpc.runtime.service import TaskService
from protolink_grpc.wire.events import is_retry

FLUSH_S = 1.0
"""How long a blocking response waits for due notifications, in seconds at most."""

DEFAULT_CONFIG = "default"
"""Id of a push config that a v0.3 caller sets without an id."""

PIECE = 64
"""Number of events that are read from the log at a time for a webhook."""


class PushOperations:
    """The operations about webhooks of one agent. All of them raise PushNotSupportedError if it sends no notifications."""

    def __init__(self, service: TaskService, options: A2AOptions, approvals: Approvals | None) -> None:
        self._service = service
        self._options = options
        self._approvals = approvals
        self._webhooks: Any = None
        if options.push is not None:
            # Imported here: the push modules are a third of the code that A2A loads, and most agents send no notifications.
            from protolink_grpc.a2a.push import Webhooks

            self._webhooks = Webhooks(service, options.push, self.render)

    async def start(self) -> None:
        """Resume the pending notifications of earlier processes. Raises StoreError."""
        if self._webhooks is not None:
            await self._webhooks.start()

    async def stop(self, grace_s: float) -> None:
        """Send the due notifications, for `grace_s` seconds at most."""
        if self._webhooks is not None:
            await self._webhooks.stop(grace_s)

    async def flush(self, task_id: str) -> None:
        """Return when the due notifications of a task are sent, or after `FLUSH_S`."""
        if self._webhooks is not None:
            await self._webhooks.flush(task_id, FLUSH_S)

    async def set(self, caller: CallerInfo, config: PushConfig) -> PushConfig:
        """Register a webhook for a task and return it with its id. A webhook with the same id is replaced.

        Raises:
            PushNotSupportedError: The agent sends no notifications, or the id is that of a retry.
            InvalidArgumentError: The URL must not be called; names the field.
            TaskNotFoundError: The task is unknown or belongs to another caller.
        """
        self._require_webhooks()
        owner = owner_of_request(caller, config.tenant, self._options)
        fold = await find_attempt(self._service, require_id(config.task_id, "taskId"), owner)
        require_first_attempt(config.task_id, fold)
        return await self.add(caller, owner, config.task_id, config, fold.sequence)

    async def check(self, config: PushConfig) -> None:
        """Check that a webhook can be registered. Raises like `set`."""
        await self._require_webhooks().check(config)

    async def add(self, caller: CallerInfo, owner: str, task_id: str, config: PushConfig, after: int) -> PushConfig:
        """Register a webhook for the events of a task after the position `after`. Raises like `set`."""
        if not config.id and caller.version == V03:
            # As in v0.2, where a task had one config: a config without an id replaces the previous one without an id.
            config = replace(config, id=DEFAULT_CONFIG)
        added: PushConfig = await self._require_webhooks().add(
            owner, replace(config, task_id=task_id), after, caller.version or V1
        )
        return added

    async def get(self, caller: CallerInfo, tenant: str, task_id: str, config_id: str) -> PushConfig:
        """Return one webhook of a task. Raises TaskNotFoundError if the task or the config is unknown, else like `set`."""
        webhooks = self._require_webhooks()
        owner = owner_of_request(caller, tenant, self._options)
        require_id(config_id, "id")
        await self._service.head(require_id(task_id, "taskId"), owner)
        found: PushConfig | None = await webhooks.get(owner, task_id, config_id)
        if found is None:
            raise TaskNotFoundError(
                f"task {task_id} has no push config {config_id}", task_id=task_id, config_id=config_id
            )
        return found

    async def list(
        self, caller: CallerInfo, tenant: str, task_id: str, page_size: int | None = None, page_token: str = ""
    ) -> PushPage:
        """Return one page of a task's webhooks, oldest first. Raises like `set`."""
        webhooks = self._require_webhooks()
        owner = owner_of_request(caller, tenant, self._options)
        if page_size is not None and not 0 <= page_size <= MAX_PAGE_SIZE:
            raise InvalidArgumentError(f"must be 0 to {MAX_PAGE_SIZE}", field="pageSize")
        await self._service.head(require_id(task_id, "taskId"), owner)
        configs, following = await webhooks.page(owner, task_id, page_size or PAGE_SIZE, parse_page_token(page_token))
        return PushPage(configs, token_from_cursor(following))

    async def delete(self, caller: CallerInfo, tenant: str, task_id: str, config_id: str) -> None:
        """Delete a webhook. An unknown webhook is not an error. Raises like `set`."""
        webhooks = self._require_webhooks()
        owner = owner_of_request(caller, tenant, self._options)
        require_id(config_id, "id")
        await self._service.head(require_id(task_id, "taskId"), owner)
        await webhooks.remove(owner, task_id, config_id)

    def _require_webhooks(self) -> Any:
        if self._webhooks is None:
            raise PushNotSupportedError("this agent sends no push notifications")
        return self._webhooks

    async def render(self, version: str, owner: str, task_id: str, after: int) -> NotificationBatch:
        """Return the next notifications for a webhook of that version."""
        frames = await self._service.read_log(task_id, after, PIECE)
        if not frames:
            return NotificationBatch((), after)
        frames = _before_retry(frames)
        if not frames:
            return NotificationBatch((), after, is_last=True)  # the retry that follows is another task
        head = await self._service.head(task_id, owner)
        may_answer = answer_check(self._approvals, owner)
        converter = Updates(task_id, head.session_id, may_answer, after)
        updates, sequence = await read_updates(self._service, converter, frames), after + len(frames)
        while converter.holds_message and (
            frames := _before_retry(await self._service.read_log(task_id, sequence, PIECE))
        ):
            updates += await read_updates(self._service, converter, frames)
            sequence += len(frames)
        updates += converter.release_message()
        if not updates:
            return NotificationBatch((), sequence)
        if version == V03:
            # A v0.3 notification is the whole current task, so one is enough, also for the events after this piece.
            fold = await find_attempt(self._service, task_id, owner)
            sequence = max(sequence, fold.sequence)
            body = push_body_v03(view_of(fold, may_answer, history=None))
            return NotificationBatch([(sequence, to_json(body).encode())], sequence)
        return NotificationBatch([(each.sequence, to_json(update_json(each)).encode()) for each in updates], sequence)


def require_first_attempt(task_id: str, fold: TaskFold) -> None:
    """Check that the id is that of the task and not of a retry, which has no webhooks. Raises PushNotSupportedError."""
    if task_id != fold.task_id:
        raise PushNotSupportedError("a retry of a task has no push notifications")


def _before_retry(frames: list[bytes]) -> list[bytes]:
    """Return the events before the first one that begins a retry."""
    return frames[: next((index for index, frame in enumerate(frames) if is_retry(frame)), len(frames))]
