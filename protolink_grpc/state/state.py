"""State: what an agent remembers across tasks, in modules over one storage."""

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
    "task": "a task's state is its log, in the agent's store",
    "flow": "a flow's state is in the task: see Task.flow_state",
}
"""Modules of ProtoLink that do not exist here, and what replaces them."""


def check_module(name: str, field: str) -> str:
    """Return the name of a module if it exists.

    Raises:
        InvalidArgumentError: There is no such module. For `task` and `flow`, the error names the replacement.
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
    """The state of one principal. A disabled module is None."""

    conversation: ConversationMemory | None
    tools: ToolMemory | None


@checks_arguments
class State:
    """The state of one agent, separate for each principal: see `of`.

    Args:
        storage: The storage; by default one in memory, which ends with the process.
        enabled: The enabled modules: `conversation` for messages, `tools` for values of tools.
        window: Maximum number of messages that a turn reads, in whole turns; None means all.

    Attributes:
        enabled: The enabled modules.

    Raises:
        InvalidArgumentError: A module does not exist.
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
        """Return the state of one principal. It contains no sessions of other principals.

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
        """The storage. It can be replaced; every module then uses the new one."""
        return self._storage

    @storage.setter
    def storage(self, storage: Storage) -> None:
        self._storage = storage
        self._set_namespace()

    def bind(self, agent_name: str) -> Self:
        """Bind the state to an agent. A storage without a namespace gets the agent's name as its namespace.

        Agents with different names can therefore share a file, and replicas of one agent share their state.

        Raises:
            InvalidArgumentError: It is bound to another agent.
        """
        if self._agent_name not in (None, agent_name):
            raise InvalidArgumentError(
                f"belongs to the agent {self._agent_name}; each agent needs its own State, and they may share a storage",
                field="state",
            )
        self._agent_name = agent_name
        self._set_namespace()
        return self

    def _set_namespace(self) -> None:
        if self._agent_name is not None and self._storage.namespace is None:
            self._storage = self._storage.within(self._agent_name)

    async def open(self) -> None:
        """Open the storage. Raises StoreError and its subclasses."""
        await self._storage.open()

    async def close(self) -> None:
        """Close files and threads. The next use opens them again."""
        await self._storage.close()
