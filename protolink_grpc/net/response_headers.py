"""Headers that a servicer adds to the HTTP response of its call."""

import re
from collections import UserDict
from typing import Final

NAME: Final = re.compile("[0-9a-z_.-]+")

RESERVED_PREFIXES: Final = ("access-control-", "connect-", "content-", "grpc-", "proxy-", "trailer-")
RESERVED: Final = frozenset(
    {"connection", "date", "keep-alive", "server", "te", "trailer", "transfer-encoding", "upgrade"}
)
"""Headers of HTTP and of the protocols above it. Only the server sets them."""


class ResponseHeaders(UserDict[str, str]):
    """The headers that the code of a call adds to its response, by lower-case name. Values are printable ASCII.

    Headers that are set after the first message of a stream are sent as trailers. Setting an invalid header raises ValueError.
    """

    def __init__(self) -> None:
        self._begun: dict[str, str] | None = None
        super().__init__()

    def __setitem__(self, name: str, value: str) -> None:
        if not NAME.fullmatch(name) or name in RESERVED or name.startswith(RESERVED_PREFIXES):
            raise ValueError(f"{name!r} is not a lower-case name of a header that a servicer may set")
        if not (value.isascii() and value.isprintable()):
            raise ValueError(f"the value of {name} must be printable ASCII: {value!r}")
        self.data[name] = value

    def begin(self) -> dict[str, str]:
        """Return the headers for the start of the response."""
        self._begun = dict(self.data)
        return self._begun

    @property
    def trailers(self) -> dict[str, str]:
        """The headers that were set or changed after `begin`."""
        begun = self._begun
        return {} if begun is None else {name: value for name, value in self.items() if begun.get(name) != value}
