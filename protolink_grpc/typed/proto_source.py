"""Reads .proto files: compiles them with protoc, in this process, to descriptors."""

import contextlib
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path

from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet

from protolink_grpc.errors import InvalidArgumentError


def compile_proto(path: Path, includes: Sequence[Path] = ()) -> list[FileDescriptorProto]:
    """Compile a .proto file. Returns its descriptor and those of its imports, imports first.

    Args:
        includes: Folders of imported files. The folder of the file's package, or else its own folder, is always included.

    Raises:
        InvalidArgumentError: The file does not exist or is not valid; the text has the compiler's messages.
    """
    if not path.is_file():
        raise InvalidArgumentError(f"{path} is not a file", field="proto")
    root = _root_of(path)
    return _run_protoc(path.resolve().relative_to(root.resolve()), [root, *includes])


def _root_of(path: Path) -> Path:
    """Return the folder below which the file has the path of its package: `proto` for `proto/acme/v1/a.proto` of `acme.v1`."""
    package = ""
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        if line.startswith("package ") and line.rstrip().endswith(";"):
            package = line.removeprefix("package ").strip().rstrip(";").strip()
            break
    folder = path.parent
    parts = package.split(".") if package else []
    if parts and list(folder.parts[-len(parts) :]) == parts:
        for _ in parts:
            folder = folder.parent
    return folder


def _run_protoc(name: Path, roots: Sequence[Path]) -> list[FileDescriptorProto]:
    # Loaded here: it takes as long as all of grpc, and most agents have no typed service.
    import grpc_tools
    from grpc_tools import protoc

    known = Path(next(iter(grpc_tools.__path__))) / "_proto"
    with tempfile.TemporaryDirectory() as folder:
        out, messages = Path(folder) / "descriptors", Path(folder) / "messages"
        arguments = ["protoc", *(f"-I{each}" for each in roots), f"-I{known}", "--include_imports"]
        with messages.open("wb") as file, _stderr_to(file.fileno()):
            code = protoc.main([*arguments, f"--descriptor_set_out={out}", name.as_posix()])
        if code:
            text = messages.read_text(encoding="utf-8", errors="replace").strip()
            raise InvalidArgumentError(f"{name} is not valid: {text}", field="proto")
        return list(FileDescriptorSet.FromString(out.read_bytes()).file)


@contextlib.contextmanager
def _stderr_to(descriptor: int):  # type: ignore[no-untyped-def]  # a generator for one use
    """Redirect the error output of the whole process: protoc is C++ and writes to it directly."""
    kept = os.dup(2)
    try:
        os.dup2(descriptor, 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
