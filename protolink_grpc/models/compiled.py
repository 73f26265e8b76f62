"""Compiles functions from source text, as `dataclasses` does for `__init__`. Codecs use it, with a line for each field."""

from collections.abc import Callable
from typing import Any


def compile_function(name: str, arguments: str, lines: list[str], scope: dict[str, Any]) -> Callable[..., Any]:
    """Return the function `def name(arguments)` with these lines as its body.

    Args:
        lines: Source text that this package made of the names of fields. It must contain no text of a caller.
        scope: The global names of the lines.
    """
    source = "\n".join([f"def {name}({arguments}):", *(f"    {line}" for line in lines)])
    exec(compile(source, f"<{name}>", "exec"), scope)  # noqa: S102 -- see `lines`
    made: Callable[..., Any] = scope[name]
    return made
