"""The synchronous clients: what type checkers are told about them is what the asynchronous ones have."""

import ast
import inspect

import pytest

from protolink_grpc import AgentClient, RegistryClient
from tests.contract.make_sync_stub import STUB, stub

CLIENTS = {
    "SyncAgentClient": lambda: AgentClient("grpc://127.0.0.1:1").sync,
    "SyncRegistryClient": lambda: RegistryClient("grpc://127.0.0.1:1").sync,
}


def test_the_stub_is_what_the_asynchronous_clients_generate() -> None:
    assert STUB.read_text() == stub(), "run `PYTHONPATH=. python tests/contract/make_sync_stub.py`"


@pytest.mark.parametrize("name", CLIENTS)
def test_the_stub_has_the_methods_that_a_synchronous_client_has(name: str) -> None:
    client = CLIENTS[name]()
    (found,) = [
        each for each in ast.parse(STUB.read_text()).body if isinstance(each, ast.ClassDef) and each.name == name
    ]
    listed = [each.name for each in found.body if isinstance(each, ast.FunctionDef) and each.name != "__init__"]
    assert sorted(listed) == sorted(each for each in dir(client) if not each.startswith("_"))
    assert type(client).__name__ == name


@pytest.mark.parametrize("name", CLIENTS)
def test_each_method_of_the_stub_takes_the_arguments_of_the_asynchronous_one(name: str) -> None:
    client = CLIENTS[name]()
    (found,) = [
        each for each in ast.parse(STUB.read_text()).body if isinstance(each, ast.ClassDef) and each.name == name
    ]
    for method in found.body:
        if isinstance(method, ast.FunctionDef) and method.name != "__init__":
            given = method.args
            listed = [each.arg for each in (*given.posonlyargs, *given.args, *given.kwonlyargs)]
            listed += [each.arg for each in (given.vararg, given.kwarg) if each is not None]
            signature = inspect.signature(getattr(client, method.name))
            assert sorted(listed) == sorted(["self", *signature.parameters])
