"""Whether a server is going down, and who wants to know. What they do then is theirs."""

from collections.abc import Callable


class Drain:
    """The going down of one server. Belongs to the loop that runs it."""

    __slots__ = ("_watchers", "has_begun")

    def __init__(self) -> None:
        self.has_begun = False
        self._watchers: list[Callable[[], None]] = []

    def begin(self) -> None:
        """Tell everybody who watches, once."""
        if not self.has_begun:
            self.has_begun = True
            for watcher in self._watchers:
                watcher()

    def clear(self) -> None:
        """The server is up again."""
        self.has_begun = False

    def watch(self, watcher: Callable[[], None]) -> None:
        """Call `watcher` whenever it begins: for what lives as long as the server, not for each stream."""
        self._watchers.append(watcher)
