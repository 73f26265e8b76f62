"""The shared vectors: equal to the output of their program, complete, and failing for wrong values."""

import importlib.util
import json
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from protolink_grpc.testing.vectors import CLASSES, check_vector, check_vectors, value_at

FOLDER = Path(__file__).parents[1] / "vectors"


@pytest.fixture(scope="module")
def maker() -> ModuleType:
    spec = importlib.util.spec_from_file_location("make_vectors", FOLDER / "make_vectors.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def made(maker: ModuleType) -> dict[str, bytes]:
    return maker.files()


@pytest.fixture(scope="module")
def index() -> list[dict[str, Any]]:
    return json.loads((FOLDER / "index.json").read_text(encoding="utf-8"))


def test_the_committed_files_are_those_of_the_program(made: dict[str, bytes]) -> None:
    committed = {each.name: each.read_bytes() for suffix in ("binpb", "json") for each in FOLDER.glob(f"*.{suffix}")}
    assert sorted(committed) == sorted(made), "run python tests/vectors/make_vectors.py"
    assert [name for name in made if made[name] != committed[name]] == []


def test_the_program_is_deterministic(maker: ModuleType, made: dict[str, bytes]) -> None:
    assert maker.files() == made


def test_python_reads_every_vector_as_expected_by_the_index(index: list[dict[str, Any]]) -> None:
    assert check_vectors(FOLDER) == len(index) > 150


def test_every_message_of_the_contract_has_a_vector(index: list[dict[str, Any]]) -> None:
    assert {entry["message"] for entry in index} == set(CLASSES)


def test_every_arm_of_every_oneof_has_a_vector(index: list[dict[str, Any]]) -> None:
    arms = {
        (name, arm.name)
        for name, kind in CLASSES.items()
        for oneof in kind.DESCRIPTOR.oneofs
        if len(oneof.fields) > 1
        for arm in oneof.fields
    }
    seen = set()
    for entry in index:
        message = CLASSES[entry["message"]].FromString((FOLDER / entry["file"]).read_bytes())
        for oneof in message.DESCRIPTOR.oneofs:
            seen.add((entry["message"], message.WhichOneof(oneof.name)))
    assert arms <= seen


def test_a_filled_message_has_every_field(made: dict[str, bytes]) -> None:
    task = CLASSES["plgrpc.v1.Task"].FromString(made["task.binpb"])
    assert {of.name for of, _ in task.ListFields()} == set(task.DESCRIPTOR.fields_by_name)


def test_names_are_unique_and_every_entry_expects_something(index: list[dict[str, Any]]) -> None:
    assert len({entry["name"] for entry in index}) == len(index)
    hollow = [entry["name"] for entry in index if not entry["expect"]]
    # Messages without fields have nothing to expect.
    assert all(not CLASSES[entry["message"]].DESCRIPTOR.fields for entry in index if entry["name"] in hollow)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"expect": {"sequence": "8"}}, "sequence is '7', not '8'"),
        ({"expect": {"summary": ""}}, "summary is"),
        ({"expect": {"last": 0}}, "last is False, not 0"),
        (
            {"file": "wire.backwards.binpb", "json": "wire.backwards.json", "bytes_equal": True},
            "bytes are not the same",
        ),
        ({"json": "empty.run_event.json"}, "JSON form is another value"),
    ],
)
def test_a_wrong_entry_fails(index: list[dict[str, Any]], change: dict[str, Any], said: str) -> None:
    (entry,) = [each for each in index if each["name"] == "unknown.event_kind"]
    check_vector(FOLDER, entry)
    with pytest.raises(AssertionError, match=said):
        check_vector(FOLDER, entry | change)


def test_a_vector_that_fails_is_named(tmp_path: Path) -> None:
    entry = {"name": "broken", "message": "plgrpc.v1.Task", "file": "x.binpb", "json": "x.json", "bytes_equal": True}
    (tmp_path / "index.json").write_text(json.dumps([entry | {"expect": {}}]))
    (tmp_path / "x.binpb").write_bytes(b"\xff")
    with pytest.raises(AssertionError, match="vector broken: "):
        check_vectors(tmp_path)


def test_paths_lead_into_lists_maps_oneofs_and_unset_fields() -> None:
    task = CLASSES["plgrpc.v1.Task"]()
    task.messages.add().parts.add(text="")
    card = CLASSES["plgrpc.v1.AgentCard"](metadata={"7": "seven"})
    assert value_at(task, "messages.size") == 1
    assert value_at(task, "messages.0.parts.0.content") == "text"
    assert value_at(task, "messages.0.parts.0.text") == ""
    assert value_at(task, "messages.0.parts.0.file") is None
    assert value_at(task, "context") is None
    assert value_at(task, "sequence") == "0"
    assert value_at(task, "state") == "TASK_STATE_UNSPECIFIED"
    assert value_at(card, "metadata.7") == "seven"
