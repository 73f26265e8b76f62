"""Notifies listeners that a server is shutting down."""

from collections.abc import Callable


class Drain:
    """The shutdown state of one server. It belongs to the server's event loop."""

    __slots__ = ("_watchers", "has_begun")

    def __init__(self) -> None:
        self.has_begun = False
        self._watchers: list[Callable[[], None]] = []

    def begin(self) -> None:
        """Call all watchers, once."""
        if not self.has_begun:
            self.has_begun = True
            for watcher in self._watchers:
                watcher()

    def clear(self) -> None:
        """Reset the state, when the server has started again."""
        self.has_begun = False

    def watch(self, watcher: Callable[[], None]) -> None:
        """Register a function to call at every shutdown. For objects that live as long as the server, not for single streams."""
        self._watchers.append(watcher)
