"""Evaluation cases: their ids, their JSON form, and errors that name file, line and field."""

from pathlib import Path
from typing import Any

import pytest

from protolink_grpc import EvaluationCase, InvalidArgumentError, Message, load_evaluation_cases


def test_a_case_without_an_id_has_a_digest_of_its_input() -> None:
    case = EvaluationCase("1 + 2", "3")
    assert case.id == EvaluationCase("1 + 2", "4").id != EvaluationCase("1 + 3", "3").id
    assert case.title == f"{case.id} 1 + 2"
    assert EvaluationCase("1 + 2", id="sum").title == "sum"


def test_a_message_as_input_is_a_new_message_in_each_task() -> None:
    case = EvaluationCase(Message.infer("hello"))
    first, second = case.new_task(), case.new_task()
    assert first.messages[0].parts == second.messages[0].parts
    assert first.messages[0].id != second.messages[0].id
    assert EvaluationCase.from_dict(case.to_dict()) == case
    assert EvaluationCase(Message.user("x")) == EvaluationCase(Message.user("x"))


def test_a_file_has_a_case_on_each_line_that_is_not_empty(tmp_path: Path) -> None:
    file = tmp_path / "cases.jsonl"
    file.write_text(
        '{"input": "a", "expected": {"n": 1}, "id": "one", "metadata": {"tools": ["add"]}}\n\n'
        '{"input": {"parts": [{"type": "text", "content": "b"}]}}\n'
    )
    first, second = load_evaluation_cases(file)
    assert (first.id, first.expected, first.metadata) == ("one", {"n": 1}, {"tools": ["add"]})
    assert isinstance(second.input, Message)
    assert second.input.text == "b"


@pytest.mark.parametrize(
    ("line", "error"),
    [
        ("nonsense", "cases.jsonl:2: must be a JSON object: Expecting value at column 1"),
        ('{"input": "b",}', "cases.jsonl:2: must be a JSON object: "),
        ("[]", "cases.jsonl:2: must be an object"),
        ("{}", "cases.jsonl:2: input: is required"),
        ('{"input": null}', "cases.jsonl:2: input: is required"),
        ('{"input": " "}', "cases.jsonl:2: input: must be a text that is not empty, or a message"),
        ('{"input": "b", "expcted": 1}', "cases.jsonl:2: expcted: is not one of input, expected, id, metadata"),
        ('{"input": "b", "id": 5}', "cases.jsonl:2: id: must be a string"),
        ('{"input": "b", "id": "a\\u001b"}', "cases.jsonl:2: id: must be at most 200 printable characters"),
        ('{"input": "b", "metadata": []}', "cases.jsonl:2: metadata: must be an object"),
        ('{"input": {"parts": [{"content": 1}]}}', "cases.jsonl:2: input.parts[0].type: "),
        ('{"input": "b", "id": "first"}', "cases.jsonl:2: id: line 1 has the same id 'first'"),
        ('{"input": "b"}\n{"input": "b"}', "cases.jsonl:3: id: line 2 has the same input; set an id"),
    ],
)
def test_an_error_names_file_line_and_field(tmp_path: Path, line: str, error: str) -> None:
    file = tmp_path / "cases.jsonl"
    file.write_text(f'{{"input": "a", "id": "first"}}\n{line}\n')
    with pytest.raises(InvalidArgumentError) as caught:
        load_evaluation_cases(file)
    assert str(caught.value).startswith(error)


def test_a_file_without_cases_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "cases.jsonl"
    file.write_text("\n")
    with pytest.raises(InvalidArgumentError, match=r"^cases.jsonl: has no cases$"):
        load_evaluation_cases(file)


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"input": 5}, "input: "),
        ({"input": Message()}, "input: must have parts"),
        ({"input": "a", "expected": object()}, "expected: must be a JSON value: object is not JSON serializable"),
        ({"input": "a", "id": "x" * 201}, "id: "),
    ],
)
def test_a_wrong_value_names_its_field(arguments: dict[str, Any], error: str) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        EvaluationCase(**arguments)
    assert str(caught.value).startswith(error)
