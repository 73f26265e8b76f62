"""Imports by name at the first use, which keep heavy libraries and upper layers out of `import protolink_grpc`."""

from functools import cache
from importlib import import_module
from typing import Any


@cache
def load(name: str) -> Any:
    """Import a module and return one of its attributes. `name` is `module:attribute`, for instance `"os.path:join"`."""
    module, _, attribute = name.partition(":")
    return getattr(import_module(module), attribute)
