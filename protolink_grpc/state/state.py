"""State: what an agent remembers from one task to the next, cut into modules over one storage."""

import difflib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

from protolink_grpc.errors import InvalidArgumentError
from protolink_grpc.models.arguments import checks_arguments
from protolink_grpc.state.conversation import ConversationMemory, check_window
from protolink_grpc.state.tool_memory import ToolMemory
from protolink_grpc.storage.agent_storage import Storage
from protolink_grpc.storage.in_memory_storage import InMemoryStorage

MODULES = ("conversation", "tools")

_ELSEWHERE = {
    "task": "a task's log is its state: the agent's store keeps it",
    "flow": "a flow's state travels in the task: see Task.flow_state",
}
"""Modules that ProtoLink names, and what does their job here."""


def check_module(name: str, field: str) -> str:
    """The name of a module.

    Raises:
        InvalidArgumentError: There is none of that name; says what does the job of `task` and `flow`.
    """
    if name in MODULES:
        return name
    if name in _ELSEWHERE:
        raise InvalidArgumentError(f"there is no module {name}: {_ELSEWHERE[name]}", field=field)
    near = difflib.get_close_matches(name, MODULES, n=1)
    hint = f"; did you mean {near[0]}?" if near else ""
    raise InvalidArgumentError(f"{name!r} is not one of {', '.join(MODULES)}{hint}", field=field)


@dataclass(frozen=True, slots=True)
class PrincipalState:
    """What an agent remembers of one principal; None for a module that is switched off."""

    conversation: ConversationMemory | None
    tools: ToolMemory | None


@checks_arguments
class State:
    """What one agent remembers, of each principal by itself: see `of`.

    Args:
        storage: Where it lies; by default memory of its own, which ends with the process.
        enabled: Modules to switch on: `conversation` for what was said, `tools` for what tools keep.
        window: How many messages of a conversation a turn gets to see, latest whole turns; None means all.

    Attributes:
        enabled: The modules that are switched on.

    Raises:
        InvalidArgumentError: A module that does not exist.
    """

    def __init__(
        self,
        storage: Storage | None = None,
        enabled: Iterable[str] = ("conversation",),
        *,
        window: int | None = None,
    ) -> None:
        names = (enabled,) if isinstance(enabled, str) else enabled
        self.enabled = frozenset(check_module(name, "enabled") for name in names)
        self._agent_name: str | None = None
        self._storage: Storage = storage if storage is not None else InMemoryStorage()
        self._window = check_window(window)

    def of(self, principal: str) -> PrincipalState:
        """What is remembered of one principal; a session of another one does not exist in it, whatever its id.

        A handler finds the owner of its task in `current_run().principal`, a tool in its context.
        """

        def storage() -> Storage:
            return self._storage.of(principal)

        return PrincipalState(
            ConversationMemory(storage, self._window) if ConversationMemory.name in self.enabled else None,
            ToolMemory(storage) if ToolMemory.name in self.enabled else None,
        )

    @property
    def storage(self) -> Storage:
        """Where it lies. Another one may be put in its place: every module uses it from then on."""
        return self._storage

    @storage.setter
    def storage(self, storage: Storage) -> None:
        self._storage = storage
        self._settle()

    def bind(self, agent_name: str) -> Self:
        """Make it the memory of an agent, which calls this: a storage without a namespace is used under the agent's name.

        So agents of different names may share a file, and replicas of one agent meet in it.

        Raises:
            InvalidArgumentError: It is another agent's.
        """
        if self._agent_name not in (None, agent_name):
            raise InvalidArgumentError(
                f"belongs to the agent {self._agent_name}; give each agent a State of its own, they may share a storage",
                field="state",
            )
        self._agent_name = agent_name
        self._settle()
        return self

    def _settle(self) -> None:
        if self._agent_name is not None and self._storage.namespace is None:
            self._storage = self._storage.within(self._agent_name)

    async def open(self) -> None:
        """Make sure that the storage works; raises StoreError and its subclasses."""
        await self._storage.open()

    async def close(self) -> None:
        """Let go of files and threads; the next use opens them again."""
        await self._storage.close()
