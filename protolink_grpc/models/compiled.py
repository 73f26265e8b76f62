"""Functions made from lines of source text, as `dataclasses` makes `__init__`: for codecs, which have one line for each field."""

from collections.abc import Callable
from typing import Any


def compile_function(name: str, arguments: str, lines: list[str], scope: dict[str, Any]) -> Callable[..., Any]:
    """The function `def name(arguments)` with these lines as its body.

    Args:
        lines: Source text made by this package from names of fields; nothing that a caller sends may be in it.
        scope: What the lines may use.
    """
    source = "\n".join([f"def {name}({arguments}):", *(f"    {line}" for line in lines)])
    exec(compile(source, f"<{name}>", "exec"), scope)  # noqa: S102 -- see `lines`
    made: Callable[..., Any] = scope[name]
    return made
