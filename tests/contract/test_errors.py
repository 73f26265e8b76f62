"""Each error has one class, one reason and one rule, and the rules agree with the contract and the documents."""

import re
from collections.abc import Iterator
from http import HTTPStatus
from pathlib import Path

import grpc
import pytest
from plgrpc.v1.error_reason_pb2 import ErrorReason

from protolink_grpc import errors
from protolink_grpc.errors import RULES, InternalError, InvalidArgumentError, ProtolinkError

ROOT = Path(__file__).parents[2]
PROTOS = sorted((ROOT / "proto").rglob("*.proto"))


def tree(cls: type[ProtolinkError] = ProtolinkError) -> Iterator[type[ProtolinkError]]:
    for each in cls.__subclasses__():
        yield each
        yield from tree(each)


CLASSES = [cls for cls in tree() if cls.__module__.startswith("protolink_grpc")]


def test_every_error_has_exactly_one_rule() -> None:
    reasons = [cls.reason for cls in CLASSES]
    assert sorted(reasons) == sorted(RULES)
    assert errors.classes() == {cls.reason: cls for cls in CLASSES}
    assert [cls.__name__ for cls in CLASSES if "reason" not in vars(cls)] == []


@pytest.mark.parametrize("reason", RULES)
def test_a_rule_names_codes_that_exist(reason: str) -> None:
    rule = RULES[reason]
    assert grpc.StatusCode[rule.grpc] is not grpc.StatusCode.OK
    assert HTTPStatus(rule.http) >= 400
    # JSON-RPC keeps this range for itself and for servers; A2A's own codes lie in it.
    assert -32768 <= rule.jsonrpc <= -32000
    assert re.fullmatch(r"[A-Z][A-Z_]*[A-Z]", reason)


def test_what_is_worth_retrying_is_no_mistake_of_the_caller() -> None:
    for reason, rule in RULES.items():
        if rule.retryable:
            assert rule.http in (409, 429, 503, 504, 507), reason


def test_the_picture_of_the_tree_shows_every_class_under_its_parent() -> None:
    picture = re.findall(r"^    ([│├└─ ]*)(\w+Error)", errors.__doc__ or "", re.MULTILINE)
    parents = {name: "" for _, name in picture[:1]}
    path: list[str] = []
    for indent, name in picture:
        depth = len(indent) // 4
        path[depth:] = [name]
        parents[name] = path[depth - 1] if depth else ""
    assert parents.pop("ProtolinkError") == ""
    assert parents == {
        cls.__name__: next(base.__name__ for base in cls.__bases__ if issubclass(base, ProtolinkError))
        for cls in CLASSES
    }


def test_a_field_gains_its_path_on_the_way_out() -> None:
    error = InvalidArgumentError("must not be empty", field="[0].text", kind="x").within("parts").within("message")
    assert (error.field, str(error)) == ("message.parts[0].text", "message.parts[0].text: must not be empty")
    assert error.metadata == {"field": "message.parts[0].text", "kind": "x"}


def test_an_incident_is_all_that_an_internal_error_tells() -> None:
    error = InternalError("internal error, incident 1", incident="1")
    assert (error.rule.grpc, error.metadata) == ("INTERNAL", {"incident": "1"})


def test_the_contract_names_only_reasons_that_exist_with_their_code() -> None:
    text = "\n".join(path.read_text() for path in PROTOS)
    named = set(re.findall(r"\b([A-Z][A-Z_]+)/([A-Z][A-Z_]+)\b", text))
    known = {(rule.grpc, reason) for reason, rule in RULES.items()}
    assert len(named) > 10
    assert named - known == set()


def test_the_contract_has_every_reason_and_no_other() -> None:
    assert ErrorReason.keys()[0] == "ERROR_REASON_UNSPECIFIED"
    assert sorted(ErrorReason.keys()[1:]) == sorted(f"ERROR_REASON_{reason}" for reason in RULES)


def comments() -> dict[str, str]:
    """The comment of each reason in the contract, on one line."""
    text = next(path.read_text() for path in PROTOS if path.name == "error_reason.proto")
    found = re.findall(r"((?:  // .+\n)+)  ERROR_REASON_(\w+) = [1-9]\d*;", text)
    return {reason: " ".join(comment.replace("//", "").split()) for comment, reason in found}


def test_the_contract_names_the_code_of_each_reason() -> None:
    named = {reason: comment.rpartition(" gRPC code: ")[2].rstrip(".") for reason, comment in comments().items()}
    assert named == {reason: rule.grpc for reason, rule in RULES.items()}


def test_every_error_class_says_what_it_means() -> None:
    assert [cls.__name__ for cls in CLASSES if not vars(cls).get("__doc__")] == []


def test_the_page_about_errors_has_one_row_for_each_reason() -> None:
    rows = re.findall(r"^\| `([A-Z_]+)`<br>(.+) \|$", (ROOT / "docs/errors.md").read_text(), re.MULTILINE)
    classes, expected = errors.classes(), {}
    for reason, comment in comments().items():
        rule, meaning = RULES[reason], comment.rpartition(" gRPC code: ")[0]
        retry = "yes" if rule.retryable else "no"
        cells = (classes[reason].__name__, rule.grpc, str(rule.http), str(rule.jsonrpc), retry, meaning)
        expected[reason] = " | ".join(cells)
    assert len(rows) == len(expected)
    assert dict(rows) == expected
