"""Reads the descriptions of a function and its parameters from a docstring in the format of Google, NumPy or Sphinx."""

import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from protolink_grpc.tools.signature import strip_partials

_HAS_SECTIONS = re.compile(
    r"^[ \t]*+(?:[A-Z][A-Za-z ]{1,40}:[ \t]*+$|-{3,}+[ \t]*+$|:[a-z]++(?: [^:\n]++)?:)", re.MULTILINE
)


@dataclass(frozen=True, slots=True)
class Docstring:
    """The content of a docstring, without indentation.

    Args:
        description: The text, including notes and examples, with the description of the result at the end. Exceptions are left
            out. The first paragraph is one line.
        parameters: Descriptions by name; `*args` and `**kwargs` keep their stars.
    """

    description: str = ""
    parameters: dict[str, str] = field(default_factory=dict)


def read_docstring(fn: Callable[..., Any]) -> Docstring:
    """Read the docstring of a function or a callable object. Unknown sections are part of the text."""
    fn = strip_partials(fn)
    # getdoc is not used for `type(fn).__call__`, because it would return the docstring of `object.__call__`.
    text = inspect.getdoc(fn) if inspect.isroutine(fn) else type(fn).__call__.__doc__ or inspect.getdoc(type(fn))
    text = inspect.cleandoc(text or "")
    found = _parse(text) if _HAS_SECTIONS.search(text) else Docstring(text)
    summary, gap, rest = found.description.partition("\n\n")
    return Docstring(" ".join(summary.split()) + gap + rest, found.parameters)


def _parse(text: str) -> Docstring:
    import griffe  # takes 0.1 s to load, and simple docstrings do not need it

    docstring = griffe.Docstring(text)
    style, _ = griffe.infer_docstring_style(docstring)
    if style is None:
        return Docstring(text)
    one_value = {"returns_multiple_items": False, "returns_named_value": False} if style is griffe.Parser.google else {}
    paragraphs: list[str] = []
    returns: list[str] = []
    parameters: dict[str, str] = {}
    for section in docstring.parse(style, warnings=False, **one_value):
        match section:
            case griffe.DocstringSectionText():
                paragraphs.append(section.value)
            case griffe.DocstringSectionParameters() | griffe.DocstringSectionOtherParameters():
                parameters |= {each.name: each.description.strip() for each in section.value}
            case griffe.DocstringSectionReturns():
                returns += [each.description.strip() for each in section.value]
            case griffe.DocstringSectionAdmonition():
                paragraphs.append(f"{section.title}:\n{section.value.contents}")
            case griffe.DocstringSectionExamples():
                paragraphs += ["Examples:", *(example for _, example in section.value)]
            case _:
                continue
    if any(returns):
        paragraphs.append(f"Returns: {' '.join(filter(None, returns))}")
    return Docstring("\n\n".join(each.strip() for each in paragraphs if each.strip()), parameters)
