"""A storage for an agent's state in memory. It accepts and refuses the same values as the one in a file."""

from collections.abc import Callable
from typing import TypeVar

from protolink_grpc.models.arguments import checks_arguments
from protolink_grpc.storage.conversations import RecordStorage
from protolink_grpc.storage.memory_records import MemoryRecords
from protolink_grpc.storage.records import Records

T = TypeVar("T")

_shared = MemoryRecords()
"""The named namespaces of the process."""


@checks_arguments
class InMemoryStorage(RecordStorage):
    """A storage in the memory of this process.

    Args:
        namespace: Storages with the same name share their content until the process ends. Without a name, a storage shares nothing.
    """

    def __init__(self, namespace: str | None = None) -> None:
        super().__init__(namespace)
        self._records = MemoryRecords() if namespace is None else _shared

    @property
    def _space(self) -> str:
        return self.namespace or ""

    async def _view(self, query: Callable[[Records], T]) -> T:
        return self._records.view(query)

    async def _change(self, work: Callable[[Records], T], *, erases: bool = False) -> T:
        return self._records.change(work)

    def _change_now(self, work: Callable[[Records], T], *, erases: bool = False) -> T:
        return self._records.change(work)
