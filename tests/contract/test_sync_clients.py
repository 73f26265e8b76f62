"""The type stubs of the synchronous classes agree with the asynchronous classes."""

import ast
import inspect
from pathlib import Path

import pytest

from protolink_grpc import AgentClient, RegistryClient
from protolink_grpc.llms.mock import MockLLM
from tests.contract.make_sync_stub import CLIENTS, LLMS, STUBS, stub

MADE = {
    "SyncAgentClient": (CLIENTS, lambda: AgentClient("grpc://127.0.0.1:1").sync),
    "SyncSessionCalls": (CLIENTS, lambda: AgentClient("grpc://127.0.0.1:1").sync.sessions),
    "SyncSnapshotCalls": (CLIENTS, lambda: AgentClient("grpc://127.0.0.1:1").sync.snapshots),
    "SyncTaskControlCalls": (CLIENTS, lambda: AgentClient("grpc://127.0.0.1:1").sync.tasks),
    "SyncRegistryClient": (CLIENTS, lambda: RegistryClient("grpc://127.0.0.1:1").sync),
    "SyncLLM": (LLMS, lambda: MockLLM().sync),
}


@pytest.mark.parametrize("path", STUBS, ids=lambda path: path.name)
def test_a_stub_is_what_the_asynchronous_classes_generate(path: Path) -> None:
    assert path.read_text() == stub(path), "run `PYTHONPATH=. python tests/contract/make_sync_stub.py`"


def methods_of(name: str) -> list[ast.FunctionDef]:
    """The methods that the stub lists, the constructor excepted."""
    tree = ast.parse(MADE[name][0].read_text())
    (found,) = [each for each in tree.body if isinstance(each, ast.ClassDef) and each.name == name]
    return [each for each in found.body if isinstance(each, ast.FunctionDef) and each.name != "__init__"]


@pytest.mark.parametrize("name", MADE)
def test_the_stub_has_the_methods_that_a_synchronous_object_has(name: str) -> None:
    made = MADE[name][1]()
    listed = {each.name for each in methods_of(name)}
    assert sorted(listed) == sorted(each for each in dir(made) if not each.startswith("_"))
    assert type(made).__name__ == name


@pytest.mark.parametrize("name", MADE)
def test_each_method_of_the_stub_takes_the_arguments_of_the_asynchronous_one(name: str) -> None:
    made = MADE[name][1]()
    listed: dict[str, set[str]] = {}
    for method in methods_of(name):
        if [ast.unparse(each) for each in method.decorator_list] == ["property"]:
            continue
        given, named = method.args, listed.setdefault(method.name, set())
        named |= {each.arg for each in (*given.posonlyargs, *given.args, *given.kwonlyargs)}
        named |= {each.arg for each in (given.vararg, given.kwarg) if each is not None}
    for method_name, named in listed.items():
        assert sorted(named) == sorted(["self", *inspect.signature(getattr(made, method_name)).parameters])
