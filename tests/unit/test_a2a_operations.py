"""The operations of A2A without a binding: the effects continue when the caller disconnects."""

import asyncio
from collections.abc import Callable
from typing import Any

from protolink_grpc.a2a.operations import Operations
from protolink_grpc.a2a.options import A2AOptions, PushOptions
from protolink_grpc.a2a.values import V1, CallerInfo, SendParams
from protolink_grpc.auth.principal import ANONYMOUS_PRINCIPAL
from protolink_grpc.models.card import AgentCard
from protolink_grpc.models.message import Message
from protolink_grpc.models.part import Part
from protolink_grpc.models.push_config import PushConfig
from protolink_grpc.models.task import Task
from protolink_grpc.runtime.limits import Limits
from protolink_grpc.runtime.run import Run
from protolink_grpc.runtime.service import TaskService
from protolink_grpc.storage.memory import MemoryStore
from protolink_grpc.storage.port import Append, RequestRecord
from protolink_grpc.storage.records import Records

PATIENCE_S = 20.0


class GatedStore(MemoryStore):
    """Holds a webhook back until the gate opens."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self.gate = asyncio.Event()
        self.kept = asyncio.Event()

    async def append(self, append: Append) -> RequestRecord | None:
        self.task_id = append.head.task_id
        return await super().append(append)

    async def change(self, work: Callable[[Records], Any]) -> Any:
        self.asked.set_result(self.task_id)
        await self.gate.wait()
        found = await super().change(work)
        self.kept.set()
        return found


async def never_done(task: Task, run: Run) -> Task | None:
    await asyncio.Event().wait()
    return None


async def test_a_caller_that_hangs_up_while_its_webhook_is_written_has_its_webhook() -> None:
    store = GatedStore()
    service = TaskService("agent", store, never_done, limits=Limits())
    card = AgentCard(name="agent", description="waits", url="runtime://agent")
    # The receiver is an address of this machine; nothing is sent to it before the task ends.
    options = A2AOptions(push=PushOptions(allow=("private",)))
    operations = Operations(service, lambda: card, list, options)
    await service.start()
    await operations.start()
    try:
        caller = CallerInfo(ANONYMOUS_PRINCIPAL, False, V1, frozenset())
        message = Message(role="user", parts=[Part.text("begin")])
        config = PushConfig(id="hook", url="http://127.0.0.1:9/hook")
        async with asyncio.timeout(PATIENCE_S):
            call = asyncio.create_task(operations.send(caller, SendParams(message, push=config)))
            task_id = await store.asked
            call.cancel()
            await asyncio.wait([call])
            assert call.cancelled()
            store.gate.set()
            await store.kept.wait()
            assert (await operations.push.get(caller, "", task_id, "hook")).url == config.url
    finally:
        await operations.stop(0)
        await service.stop(0)
