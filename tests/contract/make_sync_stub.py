"""Writes `protolink_grpc/client/sync_clients.pyi` and `protolink_grpc/llms/sync_llm.pyi` from the asynchronous classes.

Run it as `PYTHONPATH=. python tests/contract/make_sync_stub.py`. A coroutine becomes a function with the same signature, an
asynchronous generator a function that returns a generator.
"""

import ast
import inspect
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from textwrap import indent

import protolink_grpc.client.agent_client as agent_client
import protolink_grpc.client.registry_client as registry_client
from protolink_grpc.client import session_calls, snapshot_calls, sync_clients, task_control_calls
from protolink_grpc.llms import base, sync_llm

CLIENTS = Path(sync_clients.__file__).with_suffix(".pyi")
LLMS = Path(sync_llm.__file__).with_suffix(".pyi")
STUBS = {
    CLIENTS: {
        "SyncSessionCalls": (session_calls.SessionCalls, "sessions"),
        "SyncSnapshotCalls": (snapshot_calls.SnapshotCalls, "snapshots"),
        "SyncTaskControlCalls": (task_control_calls.TaskControlCalls, "tasks"),
        "SyncAgentClient": (agent_client.AgentClient, "client"),
        "SyncRegistryClient": (registry_client.RegistryClient, "client"),
    },
    LLMS: {"SyncLLM": (base.LLM, "llm")},
}
"""By stub: the synchronous classes, each with its asynchronous class and the argument of its constructor."""

HEADER = '''"""Generated from the asynchronous classes by tests/contract/make_sync_stub.py. Do not edit."""

'''


def stub(path: Path) -> str:
    """The text of a stub, formatted."""
    classes, imports = [], set()
    for name, (kind, argument) in STUBS[path].items():
        body = ""
        imports.add((kind.__module__, kind.__name__))
        for part in (each for each in kind.__mro__ if each.__module__.startswith("protolink_grpc.")):
            tree = ast.parse(Path(inspect.getfile(part)).read_text())
            methods = [_synchronous(each) for each in _methods(tree, part.__name__)]
            used = {each.id for method in methods for each in ast.walk(method) if isinstance(each, ast.Name)}
            if "Generator" in used:
                imports.add(("collections.abc", "Generator"))
            imports |= {(module, each) for each, module in _origins(tree, part.__module__).items() if each in used}
            body += "".join(indent(f"{ast.unparse(method)}\n", "    ") for method in methods)
        own = ast.parse(path.with_suffix(".py").read_text())
        for method in _own_methods(own, name):
            used = {each.id for each in ast.walk(method) if isinstance(each, ast.Name)}
            imports |= {(module, each) for each, module in _origins(own, "").items() if module and each in used}
            body += indent(f"{ast.unparse(method)}\n", "    ")
        classes.append(f"class {name}:\n    def __init__(self, {argument}: {kind.__name__}) -> None: ...\n{body}")
    lines = [f"import {name}" if module == name else f"from {module} import {name}" for module, name in sorted(imports)]
    return _formatted(path, HEADER + "\n".join(lines) + "\n\n" + "\n".join(classes))


def _methods(tree: ast.Module, name: str) -> Iterator[ast.AsyncFunctionDef]:
    """The public coroutines and async generators that a class defines itself, in its order: overloads, or the function itself."""
    (found,) = [each for each in tree.body if isinstance(each, ast.ClassDef) and each.name == name]
    overloaded = set()
    for each in found.body:
        if isinstance(each, ast.AsyncFunctionDef) and not each.name.startswith("_"):
            if _is_overload(each):
                overloaded.add(each.name)
            elif each.name in overloaded:
                continue
            yield each


def _is_overload(method: ast.AsyncFunctionDef) -> bool:
    return any(ast.unparse(each) == "overload" for each in method.decorator_list)


def _own_methods(tree: ast.Module, name: str) -> Iterator[ast.FunctionDef]:
    """The public methods that the synchronous class defines itself, without their bodies."""
    (found,) = [each for each in tree.body if isinstance(each, ast.ClassDef) and each.name == name]
    for each in found.body:
        if isinstance(each, ast.FunctionDef) and not each.name.startswith("_"):
            each.body = [ast.Expr(ast.Constant(...))]
            yield each


def _synchronous(method: ast.AsyncFunctionDef) -> ast.FunctionDef:
    returns = method.returns
    if isinstance(returns, ast.Subscript) and ast.unparse(returns.value) == "AsyncGenerator":
        item = returns.slice.elts[0] if isinstance(returns.slice, ast.Tuple) else returns.slice
        returns = ast.Subscript(ast.Name("Generator"), item)
    arguments = method.args
    for defaults in (arguments.defaults, arguments.kw_defaults):
        for index, value in enumerate(defaults):
            if value is not None and not isinstance(value, ast.Constant):
                defaults[index] = ast.Constant(...)
    return ast.FunctionDef(
        name=method.name,
        args=arguments,
        body=[ast.Expr(ast.Constant(...))],
        decorator_list=[each for each in method.decorator_list if ast.unparse(each) == "overload"],
        returns=returns,
        lineno=0,
    )


def _origins(tree: ast.Module, home: str) -> dict[str, str]:
    """Names that a module has at its top, each with the module that it comes from."""
    found: dict[str, str] = {}
    for each in tree.body:
        match each:
            case ast.ImportFrom(module=str(module), names=names):
                found |= {alias.asname or alias.name: module for alias in names}
            case ast.Import(names=names):
                found |= {alias.name: alias.name for alias in names}
            case ast.ClassDef(name=name) | ast.FunctionDef(name=name):
                found[name] = home
            case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
                found[name] = home
    return found


def _formatted(path: Path, text: str) -> str:
    ruff = [sys.executable, "-m", "ruff"]
    name = ["--stdin-filename", str(path), "-"]
    for command in ([*ruff, "check", "-q", "--select", "I", "--fix", *name], [*ruff, "format", "-q", *name]):
        text = subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout
    return text


if __name__ == "__main__":
    for each in STUBS:
        each.write_text(stub(each))
