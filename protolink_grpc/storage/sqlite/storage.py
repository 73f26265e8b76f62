"""A storage for an agent's state in a SQLite file that several processes of one machine may share."""

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from protolink_grpc.errors import InvalidArgumentError
from protolink_grpc.models.arguments import checks_arguments
from protolink_grpc.storage.conversations import KINDS, RecordStorage
from protolink_grpc.storage.records import Records
from protolink_grpc.storage.sqlite.engine import Engine
from protolink_grpc.storage.sqlite.file import Pragmas, Schema
from protolink_grpc.storage.sqlite.records import SQLiteRecords, tables_of

T = TypeVar("T")

SCHEMA = Schema(
    (None, ""),
    tables=tables_of(*KINDS),
    application_id=0x504C5354,
    advice="choose a new file, or use the version that wrote it",
    owner="the memory",
)


@checks_arguments
class SQLiteStorage(RecordStorage):
    """A storage in a SQLite file, which is created at the first use.

    Args:
        db_path: A file for this purpose only. Its directory must exist and be on a local disk, because SQLite's locks do not work
            on network file systems.
        table_name: Separates storages with the same namespace in one file, like a table of its own.
    """

    def __init__(
        self,
        db_path: str | os.PathLike[str] = "protolink_state.db",
        table_name: str = "protolink_state",
        namespace: str | None = None,
    ) -> None:
        super().__init__(namespace)
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", table_name):
            raise InvalidArgumentError("must be a name of letters, digits and underscores", field="table_name")
        self.path = Path(db_path)
        self.table_name = table_name
        # Deleted data is overwritten, not only unlinked.
        self._file = Engine(self.path, SCHEMA, name="plgrpc-state", pragmas=Pragmas(secure_delete=True), reopens=True)

    @property
    def _space(self) -> str:
        return f"{self.table_name}/{self.namespace or ''}"

    async def open(self) -> None:
        await self._file.open()

    async def close(self) -> None:
        await self._file.close()

    async def _view(self, query: Callable[[Records], T]) -> T:
        return await self._file.read(lambda db: query(SQLiteRecords(db)), snapshot=True)

    async def _change(self, work: Callable[[Records], T], *, erases: bool = False) -> T:
        return await self._file.write(lambda db: work(SQLiteRecords(db)), may_cancel=True, erases=erases)

    def _change_now(self, work: Callable[[Records], T], *, erases: bool = False) -> T:
        return self._file.write_now(lambda db: work(SQLiteRecords(db)), erases=erases)
