"""The hotel agent's bookings. No room is sold twice, also with concurrent requests."""

import sqlite3
import threading
from collections.abc import Sequence
from contextlib import closing
from datetime import date
from pathlib import Path

SCHEMA = """
CREATE TABLE IF NOT EXISTS bookings(
  order_id TEXT PRIMARY KEY, reference TEXT NOT NULL UNIQUE, hotel TEXT NOT NULL, rooms INTEGER NOT NULL, total REAL NOT NULL
);
CREATE TABLE IF NOT EXISTS nights(
  hotel TEXT NOT NULL, night TEXT NOT NULL, order_id TEXT NOT NULL, rooms INTEGER NOT NULL, PRIMARY KEY(hotel, night, order_id)
);
"""


class Bookings:
    """Bookings in one SQLite file, or in memory without a path. Usable from any thread."""

    def __init__(self, path: Path | None = None) -> None:
        self._lock = threading.Lock()
        self._db = sqlite3.connect(path or ":memory:", check_same_thread=False, isolation_level=None)
        self._db.executescript(SCHEMA)

    def close(self) -> None:
        self._db.close()

    def booked(self, hotel: str, night: date) -> int:
        """Return the number of booked rooms in that night."""
        with self._lock:
            return self._booked(hotel, night)

    def book(
        self, order_id: str, reference: str, hotel: str, nights: Sequence[tuple[date, int]], rooms: int, total: float
    ) -> str | None:
        """Take rooms for all nights or for none.

        Args:
            order_id: Idempotency key: a repeated order is booked once.
            nights: Each night with the maximum number of rooms that may be booked.

        Returns:
            The reference (of the first booking for a repeated order), or None if a night has too few rooms.
        """
        with self._lock:
            # Other processes wait here, so the values read below stay valid until the commit.
            self._db.execute("BEGIN IMMEDIATE")
            try:
                found = self._book(order_id, reference, hotel, nights, rooms, total)
                self._db.execute("COMMIT")
                return found
            except BaseException:
                self._db.execute("ROLLBACK")
                raise

    def _book(
        self, order_id: str, reference: str, hotel: str, nights: Sequence[tuple[date, int]], rooms: int, total: float
    ) -> str | None:
        with closing(self._db.execute("SELECT reference FROM bookings WHERE order_id = ?", (order_id,))) as rows:
            for known in rows:
                return str(known[0])
        if any(self._booked(hotel, night) + rooms > most for night, most in nights):
            return None
        self._db.execute("INSERT INTO bookings VALUES (?, ?, ?, ?, ?)", (order_id, reference, hotel, rooms, total))
        for night, _ in nights:
            self._db.execute("INSERT INTO nights VALUES (?, ?, ?, ?)", (hotel, night.isoformat(), order_id, rooms))
        return reference

    def _booked(self, hotel: str, night: date) -> int:
        statement = "SELECT coalesce(sum(rooms), 0) FROM nights WHERE hotel = ? AND night = ?"
        return int(self._db.execute(statement, (hotel, night.isoformat())).fetchone()[0])
