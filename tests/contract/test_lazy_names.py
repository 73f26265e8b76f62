"""The public names are loaded when they are first used: what type checkers are told is what is there."""

import ast
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import protolink_grpc

STUB = ast.parse(Path(protolink_grpc.__file__).with_suffix(".pyi").read_text())


def stubbed() -> dict[str, str]:
    """Names of the stub, each with the module that it comes from."""
    return {
        alias.name: node.module or "" for node in STUB.body if isinstance(node, ast.ImportFrom) for alias in node.names
    }


def stubbed_all() -> list[str]:
    (names,) = [node.value for node in STUB.body if isinstance(node, ast.Assign)]
    return list(ast.literal_eval(names))


def test_the_stub_and_the_package_offer_the_same_names() -> None:
    assert sorted(stubbed()) == sorted(protolink_grpc.__all__) == sorted(stubbed_all())


def test_each_name_is_what_its_home_says() -> None:
    for name, home in stubbed().items():
        assert getattr(protolink_grpc, name) is getattr(import_module(home), name)
        assert name in dir(protolink_grpc)


def test_an_unknown_name_is_an_attribute_error() -> None:
    assert not hasattr(protolink_grpc, "Agnet")


def test_the_package_alone_loads_no_grpc_and_no_pydantic_model() -> None:
    code = "import sys, protolink_grpc; print(sorted({'grpc', 'pydantic', 'google.protobuf'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
