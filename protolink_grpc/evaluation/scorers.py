"""The built-in scorers, and the call of a scorer. An exception of a scorer becomes a score with an error."""

import asyncio
import inspect
import json
import traceback
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from protolink_grpc.errors import InvalidArgumentError, ProtolinkError, error_text
from protolink_grpc.evaluation.samples import EvaluationSample, EvaluationScore, Scorer
from protolink_grpc.models.arguments import checks_arguments
from protolink_grpc.models.json_value import to_json

MAX_COMMENT_CHARS = 300


@checks_arguments
def exact_match(sample: EvaluationSample) -> EvaluationScore:
    """Whether the output equals the expected value. Texts are compared without white space at both ends.

    If the expected value is not a text and the output is one, the output is parsed as JSON.
    """
    expected = _expected(sample)
    output = sample.output.strip() if isinstance(sample.output, str) else sample.output
    wanted = expected.strip() if isinstance(expected, str) else expected
    if isinstance(output, str) and not isinstance(wanted, str):
        output = _parse(output)
    equal = output == wanted
    return EvaluationScore("exact_match", float(equal), comment="" if equal else _expectation(expected, sample.output))


@checks_arguments
def contains(sample: EvaluationSample) -> EvaluationScore:
    """The share of the expected texts that the output contains; passes if it contains all. Case is ignored.

    The expected value is a text or an array of texts. An output that is not a text is searched as JSON.
    """
    expected = _expected(sample)
    texts = expected if isinstance(expected, list) else [expected]
    if not texts or not all(isinstance(text, str) and text for text in texts):
        raise InvalidArgumentError("must be a text or an array of texts for contains", field="expected")
    output = _text(sample.output).casefold()
    missing = [text for text in texts if text.casefold() not in output]
    comment = f"missing: {_cut(', '.join(missing))}" if missing else ""
    return EvaluationScore("contains", 1 - len(missing) / len(texts), not missing, comment)


@checks_arguments
def json_match(sample: EvaluationSample) -> EvaluationScore:
    """The share of the values in the expected JSON that the output has at the same paths; passes if it has all.

    The output may have more keys than the expected object. Arrays are compared by index, and must have the same length.
    """
    expected, output = _expected(sample), sample.output
    if isinstance(output, str) and not isinstance(expected, str):
        output = _parse(output)
    wanted = list(_leaves(expected))
    wrong = [path for path, value in wanted if _at(output, path, _MISSING) != value]
    comment = f"differs at {_cut(', '.join(_path_text(path) for path in wrong))}" if wrong else ""
    return EvaluationScore("json_match", 1 - len(wrong) / len(wanted), not wrong, comment)


@checks_arguments
def tool_used(name: str = "", arguments: Mapping[str, Any] | None = None) -> Scorer:
    """Return a scorer that passes if a tool was executed without an error.

    Args:
        name: The tool. Empty means the tools in the metadata of the case, `{"tools": ["add"]}`, all of which must be executed.
        arguments: Arguments that the call must have, among others.

    The scorer needs the report of the run, so the agent must be one of this package.
    """

    def score(sample: EvaluationSample) -> EvaluationScore:
        if sample.report is None:
            raise InvalidArgumentError("the agent has no run reports", field="report")
        names = [name] if name else sample.case.metadata.get("tools")
        if not isinstance(names, list) or not names:
            raise InvalidArgumentError("must be an array with the names of tools for tool_used", field="metadata.tools")
        done = [each for each in sample.report.actions if each.outcome == "completed"]
        wanted = dict(arguments or {})
        missing = [
            tool
            for tool in names
            if not any(each.name == tool and wanted.items() <= _Items(each.arguments or {}) for each in done)
        ]
        called = ", ".join(dict.fromkeys(each.name for each in done)) or "no tool"
        comment = f"missing: {', '.join(map(str, missing))}; executed: {_cut(called)}" if missing else ""
        return EvaluationScore(score.__name__, 1 - len(missing) / len(names), not missing, comment)

    score.__name__ = f"tool_used:{name}" if name else "tool_used"
    return score


class _Items:
    """The items of a dict whose values need not be hashable, for a comparison of subsets."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = values

    def __ge__(self, items: Any) -> bool:
        return all(key in self._values and self._values[key] == value for key, value in items)


def scorer_name(scorer: Scorer) -> str:
    """Return the name of a scorer in reports."""
    return str(getattr(scorer, "__name__", type(scorer).__name__))


def check_scorers(scorers: Sequence[Any]) -> list[str]:
    """Return the names of the scorers.

    Raises:
        InvalidArgumentError: There are none, one is not a function, or two have the same name; names `scorers`.
    """
    if not scorers:
        raise InvalidArgumentError("must not be empty", field="scorers")
    names: list[str] = []
    for index, scorer in enumerate(scorers):
        if not callable(scorer):
            raise InvalidArgumentError("must be a function", field=f"scorers[{index}]")
        if scorer is tool_used:
            raise InvalidArgumentError("must be called, as in tool_used('add')", field=f"scorers[{index}]")
        if scorer_name(scorer) in names:
            raise InvalidArgumentError(f"two scorers are named {scorer_name(scorer)!r}", field=f"scorers[{index}]")
        names.append(scorer_name(scorer))
    return names


async def score_with(scorer: Scorer, sample: EvaluationSample, timeout_s: float | None) -> EvaluationScore:
    """Score a sample. An exception, a result of another type and a timeout become a score with an error.

    A function that is not a coroutine function runs in a thread.
    """
    name = scorer_name(scorer)
    try:
        async with asyncio.timeout(timeout_s):
            result = await _call(scorer, sample)
        return _to_score(name, result)
    except TimeoutError as error:
        return EvaluationScore(name, error=error_text(error) or f"no score within {timeout_s:g} s")
    except Exception as error:
        return EvaluationScore(
            name, error=_cut(f"{type(error).__name__}: {error_text(error)}{_place_of(error, scorer)}")
        )


def _place_of(error: Exception, scorer: Scorer) -> str:
    """Return the last line in the scorer's file that an error passed, as ` (file:line)`; empty if the error passed none."""
    file = getattr(getattr(scorer, "__code__", None), "co_filename", "")
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == file]
    return f" ({Path(file).name}:{lines[-1]})" if lines and not isinstance(error, ProtolinkError) else ""


async def _call(scorer: Scorer, sample: EvaluationSample) -> Any:
    is_async = inspect.iscoroutinefunction(scorer) or inspect.iscoroutinefunction(getattr(scorer, "__call__", None))  # noqa: B004 -- its kind, not whether it exists
    result = scorer(sample) if is_async else await asyncio.to_thread(scorer, sample)
    return await result if inspect.isawaitable(result) else result


def _to_score(name: str, result: Any) -> EvaluationScore:
    if isinstance(result, EvaluationScore):
        return replace(result, name=name)
    if isinstance(result, bool | int | float):
        return EvaluationScore(name, float(result))
    raise TypeError(f"returned {type(result).__name__}, not a bool, a number from 0 to 1 or an EvaluationScore")


_MISSING: Any = object()


def _expected(sample: EvaluationSample) -> Any:
    if sample.case.expected is None:
        raise InvalidArgumentError("is required by this scorer", field="expected")
    return sample.case.expected


def _leaves(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[tuple[str | int, ...], Any]]:
    """Yield the path and the value of each scalar and each empty container. An array also has its length."""
    if isinstance(value, dict) and value:
        for key, item in value.items():
            yield from _leaves(item, (*path, key))
    elif isinstance(value, list) and value:
        yield (*path, "length"), len(value)
        for index, item in enumerate(value):
            yield from _leaves(item, (*path, index))
    else:
        yield path, value


def _at(value: Any, path: tuple[str | int, ...], default: Any) -> Any:
    for key in path:
        if isinstance(value, dict) and key in value:
            value = value[key]
        elif isinstance(value, list) and key == "length":
            value = len(value)
        elif isinstance(value, list) and isinstance(key, int) and key < len(value):
            value = value[key]
        else:
            return default
    return value


def _path_text(path: tuple[str | int, ...]) -> str:
    return "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in path).lstrip(".") or "the whole value"


def _parse(text: str) -> Any:
    """Return the value of a JSON text, also if it is in a fenced block; the text itself if it is not JSON."""
    inner = text.strip()
    if inner.startswith("```"):
        inner = inner.removeprefix("```json").removeprefix("```").removesuffix("```")
    try:
        return json.loads(inner)
    except (ValueError, RecursionError):
        return text


def _text(value: Any) -> str:
    return value if isinstance(value, str) else to_json(value)


def _expectation(expected: Any, output: Any) -> str:
    return f"expected {_cut(to_json(expected), 100)}, got {_cut(to_json(output), 100)}"


def _cut(text: str, limit: int = MAX_COMMENT_CHARS) -> str:
    return text if len(text) <= limit else text[: limit - 1] + "…"
