"""Memory that ends with the process. It behaves like the storage in a file, down to what can be kept."""

from collections.abc import Callable
from typing import TypeVar

from protolink_grpc.models.arguments import checks_arguments
from protolink_grpc.storage.conversations import RecordStorage
from protolink_grpc.storage.memory_records import MemoryRecords
from protolink_grpc.storage.records import Records

T = TypeVar("T")

_shared = MemoryRecords()
"""The namespaces that were asked for by name, for the whole process."""


@checks_arguments
class InMemoryStorage(RecordStorage):
    """Memory of this process.

    Args:
        namespace: Storages made with the same name share what they hold until the process ends. Without one a storage shares
            nothing with any other, so that two agents never meet by accident.
    """

    def __init__(self, namespace: str | None = None) -> None:
        super().__init__(namespace)
        self._records = MemoryRecords() if namespace is None else _shared

    @property
    def _space(self) -> str:
        return self.namespace or ""

    async def _view(self, query: Callable[[Records], T]) -> T:
        return self._records.view(query)

    async def _change(self, work: Callable[[Records], T]) -> T:
        return self._records.change(work)

    def _change_now(self, work: Callable[[Records], T]) -> T:
        return self._records.change(work)
