"""Evaluation cases, from Python or from JSON lines."""

import hashlib
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Self

from protolink_grpc.errors import InvalidArgumentError
from protolink_grpc.models.arguments import checks_arguments
from protolink_grpc.models.ids import new_message_id
from protolink_grpc.models.json_value import canonical_json, json_error_text, plain
from protolink_grpc.models.kinds import check_object, check_text
from protolink_grpc.models.message import Message
from protolink_grpc.models.task import Task

MAX_ID_CHARS = 200


@dataclass(frozen=True, slots=True)
class EvaluationCase:
    """One input of an evaluation, and what is expected of the agent.

    Args:
        input: The text or the message that starts a task. A dict is read as a message.
        expected: What scorers compare the output with; any JSON value. None means that nothing is expected.
        id: Name of the case, unique in an evaluation. Empty means `case-` and a digest of the input.
        metadata: Further values for scorers, for instance `tools` for `tool_used`.

    Raises:
        InvalidArgumentError: A field is invalid; names it.
    """

    input: str | Message
    expected: Any = None
    id: str = ""
    metadata: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "input", _read_input(self.input))
        object.__setattr__(self, "expected", _read_json(self.expected))
        object.__setattr__(self, "metadata", _within("metadata", check_object, self.metadata))
        if len(_within("id", check_text, self.id)) > MAX_ID_CHARS or not self.id.isprintable():
            raise InvalidArgumentError(f"must be at most {MAX_ID_CHARS} printable characters", field="id")
        if not self.id:
            object.__setattr__(self, "id", self._default_id)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, EvaluationCase) and self.to_dict() == other.to_dict()

    def __hash__(self) -> int:
        return hash(self.id)

    @property
    def digest(self) -> str:
        """SHA-256 of the input and the expected value, as hex."""
        return _digest([self._input_json(), self.expected])

    @property
    def title(self) -> str:
        """The id for people: followed by the input if the id is a digest."""
        if self.id != self._default_id:
            return self.id
        return f"{self.id} {self.input if isinstance(self.input, str) else self.input.text}"

    @property
    def _default_id(self) -> str:
        return f"case-{_digest(self._input_json())[:8]}"

    def new_task(self) -> Task:
        """Return a task with the input. Each has an id and messages of its own."""
        if isinstance(self.input, str):
            return Task.create(self.input)
        return Task.create(replace(self.input, id=new_message_id()))

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form. A message has no id and no time, because each sample sends a new one."""
        return {"id": self.id, "input": self._input_json(), "expected": self.expected, "metadata": plain(self.metadata)}

    def _input_json(self) -> Any:
        if isinstance(self.input, str):
            return self.input
        whole = self.input.to_dict()
        return {key: whole[key] for key in ("role", "parts", "metadata") if key in whole}

    @classmethod
    def from_dict(cls, data: object) -> Self:
        """Read a JSON object.

        Raises:
            InvalidArgumentError: A value of the wrong type, or an unknown key; names the field.
        """
        given = check_object(data)
        known = [each.name for each in fields(cls)]
        for key in given:
            if key not in known:
                raise InvalidArgumentError(f"is not one of {', '.join(known)}", field=key)
        if given.get("input") is None:
            raise InvalidArgumentError("is required", field="input")
        return cls(**{key: value for key, value in given.items() if value is not None})


def _digest(value: Any) -> str:
    return hashlib.sha256(canonical_json(value).encode()).hexdigest()


def _read_input(given: object) -> str | Message:
    if isinstance(given, dict):
        given = _within("input", Message.from_dict, given)
    if isinstance(given, Message):
        if not given.parts:
            raise InvalidArgumentError("must have parts", field="input")
        return given
    if not isinstance(given, str) or not given.strip():
        raise InvalidArgumentError("must be a text that is not empty, or a message", field="input")
    return given


def _read_json(given: object) -> Any:
    try:
        return plain(given)
    except TypeError as error:
        raise InvalidArgumentError(f"must be a JSON value: {error}", field="expected") from None
    except InvalidArgumentError as error:
        raise error.within("expected") from None


def _within(name: str, read: Any, value: object) -> Any:
    try:
        return read(value)
    except InvalidArgumentError as error:
        raise error.within(name) from None


@checks_arguments
def load_evaluation_cases(path: str | os.PathLike[str]) -> list[EvaluationCase]:
    """Read a file with one JSON object per line: `input`, and optionally `expected`, `id` and `metadata`. Empty lines are skipped.

    Raises:
        InvalidArgumentError: A line is invalid, two cases have the same id, or there is no case; names file, line and field.
        OSError: The file cannot be read.
    """
    file = Path(path)
    lines: dict[str, int] = {}
    cases: list[EvaluationCase] = []
    with file.open("rb") as opened:
        for number, line in enumerate(opened, 1):
            if not line.strip():
                continue
            place = f"{file.name}:{number}"
            case = _read_line(line, place)
            if case.id in lines:
                is_named = case.title == case.id
                same = f"the same id {case.id!r}" if is_named else "the same input; set an id"
                raise InvalidArgumentError(f"line {lines[case.id]} has {same}", field=f"{place}: id")
            lines[case.id] = number
            cases.append(case)
    if not cases:
        raise InvalidArgumentError("has no cases", field=file.name)
    return cases


def _read_line(line: bytes, place: str) -> EvaluationCase:
    try:
        data = json.loads(line)
    except json.JSONDecodeError as error:
        raise InvalidArgumentError(f"must be a JSON object: {json_error_text(error)}", field=place) from None
    except (ValueError, RecursionError):  # not UTF-8; too many brackets
        raise InvalidArgumentError("must be a JSON object", field=place) from None
    try:
        return EvaluationCase.from_dict(data)
    except InvalidArgumentError as error:
        where = f"{place}: {error.field}" if error.field else place
        raise InvalidArgumentError(error.detail, field=where) from None


def check_cases(cases: Sequence[EvaluationCase]) -> None:
    """Check the cases of an evaluation.

    Raises:
        InvalidArgumentError: There are none, or two have the same id; names `cases`.
    """
    if not cases:
        raise InvalidArgumentError("must not be empty", field="cases")
    seen: set[str] = set()
    for index, case in enumerate(cases):
        if case.id in seen:
            raise InvalidArgumentError(f"two cases have the id {case.id!r}", field=f"cases[{index}].id")
        seen.add(case.id)
