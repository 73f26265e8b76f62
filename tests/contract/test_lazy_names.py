"""Public names are imported at their first use, and the type stub declares the same names."""

import ast
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

import protolink_grpc
from protolink_grpc import storage


def stub_of(package: ModuleType) -> ast.Module:
    return ast.parse(Path(str(package.__file__)).with_suffix(".pyi").read_text())


def stubbed(package: ModuleType) -> dict[str, str]:
    """Names of the stub, each with the module that it comes from."""
    imports = [node for node in stub_of(package).body if isinstance(node, ast.ImportFrom)]
    return {alias.name: node.module or "" for node in imports for alias in node.names}


def stubbed_all(package: ModuleType) -> list[str]:
    (names,) = [node.value for node in stub_of(package).body if isinstance(node, ast.Assign)]
    return list(ast.literal_eval(names))


packages = pytest.mark.parametrize("package", [protolink_grpc, storage], ids=lambda package: package.__name__)


@packages
def test_the_stub_and_the_package_offer_the_same_names(package: ModuleType) -> None:
    assert sorted(stubbed(package)) == sorted(package.__all__) == sorted(stubbed_all(package))


@packages
def test_each_name_is_what_its_home_says(package: ModuleType) -> None:
    for name, home in stubbed(package).items():
        assert getattr(package, name) is getattr(import_module(home), name)
        assert name in dir(package)


def test_an_unknown_name_is_an_attribute_error() -> None:
    assert not hasattr(protolink_grpc, "Agnet")


def test_the_package_alone_loads_no_grpc_and_no_pydantic_model() -> None:
    code = "import sys, protolink_grpc; print(sorted({'grpc', 'pydantic', 'google.protobuf'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
