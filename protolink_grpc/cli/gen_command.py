"""`plgrpc gen`: copies the contract's stubs for a language, or generates those of the user's own protos. It downloads nothing.

The protos and the Python stubs are in this package, the stubs in other languages in the package protolink-grpc-stubs, so copying
needs no toolchain. Generating starts protoc and the language's plugins, which the user installs; an error names a missing package
or program together with the command that installs it.
"""

import importlib.util
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from google.protobuf.descriptor_pb2 import FileDescriptorSet

from protolink_grpc import __version__
from protolink_grpc.cli import output
from protolink_grpc.cli.failure import CommandError, usage_error
from protolink_grpc.cli.gen_app import Lang
from protolink_grpc.typed.service_types import service_types

PACKED = Path(__file__).resolve().parent.parent / "_contract"
"""The folder of the protos and of the tools' versions in an installed package."""
CHECKOUT = PACKED.parent.parent
"""The root of a checkout, which has them and the stubs in `gen/` and `proto/`."""
STUBS_MODULE, STUBS_PACKAGE = "protolink_grpc_stubs", "protolink-grpc-stubs"
"""The package with the stubs in other languages than Python; its version must be this package's."""

LEFT_OUT = shutil.ignore_patterns("__pycache__", "*.pyc", "node_modules", "target", "Cargo.lock", "package-lock.json")
"""Build products in a checkout, which are not copied."""


@dataclass(frozen=True, slots=True)
class Tool:
    """A program that a language needs.

    Args:
        program: protoc, or a plugin of it. `--NAME_out` starts the plugin `protoc-gen-NAME`.
        pin: Its name in `versions.toml`, which contains the version used for the contract's stubs.
        install: Command that installs it.
        options: Options of the plugin, which include the location of the contract's stubs.
    """

    program: str
    pin: str
    install: str
    options: Sequence[str] = ()

    @property
    def name(self) -> str:
        return self.program.removeprefix("protoc-gen-")


COPIED = (Lang.GO, Lang.TS, Lang.JAVA, Lang.RUST, Lang.BETTERPROTO)
"""Languages whose stubs are copied as one folder."""

_GO = "go install {pin}@v{version}, and have $(go env GOPATH)/bin on the PATH"
_NPM = "npm install --global {pin}@{version}"
_MAVEN = (
    "mvn dependency:copy -Dartifact={pin}:{version}:exe:{platform} -DoutputDirectory=. -Dmdep.stripVersion=true"
    " && chmod +x {program}-{platform}.exe, and put it on the PATH"
)
_CARGO = "cargo install --locked {pin}@{version}"
_PIP = "pip install {pin}=={version}"

_BESIDE = ("paths=source_relative",)
_PACKAGE = ("target=ts", "import_extension=js", "rewrite_imports=./plgrpc/v1/*_pb.js:@protolink-grpc/protocol")
_EXTERN = ("extern_path=.plgrpc.v1=::plgrpc_protocol::v1",)

PLUGINS: Mapping[Lang, Sequence[Tool]] = {
    Lang.GO: (
        Tool("protoc-gen-go", "google.golang.org/protobuf/cmd/protoc-gen-go", _GO, _BESIDE),
        Tool("protoc-gen-go-grpc", "google.golang.org/grpc/cmd/protoc-gen-go-grpc", _GO, _BESIDE),
    ),
    Lang.TS: (Tool("protoc-gen-es", "@bufbuild/protoc-gen-es", _NPM, _PACKAGE),),
    Lang.JAVA: (Tool("protoc-gen-grpc-java", "io.grpc:protoc-gen-grpc-java", _MAVEN, ("@generated=omit",)),),
    Lang.RUST: (
        Tool("protoc-gen-prost", "protoc-gen-prost", _CARGO, _EXTERN),
        Tool("protoc-gen-tonic", "protoc-gen-tonic", _CARGO, _EXTERN),
    ),
    Lang.BETTERPROTO: (Tool("protoc-gen-python_betterproto2", "betterproto2-compiler", _PIP),),
}
GRPCIO_TOOLS = Tool("protoc", "grpcio-tools", _PIP)
GOOGLES_PROTOC = Tool("protoc", "com.google.protobuf:protoc", _MAVEN)
MACHINES = {"arm64": "aarch_64", "aarch64": "aarch_64", "AMD64": "x86_64"}
"""Processor names in the file names of Maven Central, by the system's names."""
DESCRIPTORS = "descriptors.binpb"
"""A temporary file beside the generated code: the descriptors of the protos."""

BUILT_IN = {Lang.PYTHON: ("python", "pyi", "grpc_python"), Lang.JAVA: ("java",)}
"""Languages with a generator built into protoc: grpcio-tools has the first, Google's protoc has both."""


def write_stubs(
    lang: Lang, out: Path, protos: Sequence[Path], includes: Sequence[Path], *, force: bool, as_json: bool
) -> None:
    """Write the contract's stubs, or those of `protos`, into `out`."""
    if includes and not protos:
        raise usage_error("-I requires --proto", "pass your own protos with --proto, or leave out -I")
    with tempfile.TemporaryDirectory() as aside:
        made = Path(aside)
        if protos:
            _generate(lang, made, protos, includes)
        else:
            _copy(lang, made)
        files = sorted(path.relative_to(made) for path in made.rglob("*") if path.is_file())
        # Generated code may be overwritten; other files may be the user's.
        if not protos and not force:
            _check_no_overwrite(made, out, files)
        _move(made, out, files)
    _report(lang, out, files, as_json)


def _move(made: Path, out: Path, files: Sequence[Path]) -> None:
    try:
        for path in files:
            (out / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(made / path, out / path)
    except OSError as error:
        raise CommandError(
            f"cannot write {error.filename}: {error.strerror}", hint="choose another folder with --out"
        ) from error


def _check_no_overwrite(made: Path, out: Path, files: Sequence[Path]) -> None:
    for path in files:
        existing = out / path
        if existing.exists() and not (existing.is_file() and existing.read_bytes() == (made / path).read_bytes()):
            raise usage_error(f"{existing} exists and differs", "choose an empty folder with --out, or use --force")


def _report(lang: Lang, out: Path, files: Sequence[Path], as_json: bool) -> None:
    if as_json:
        output.document({"lang": lang.value, "out": str(out), "files": [path.as_posix() for path in files]})
        return
    output.field("Wrote", f"{len(files)} file{'' if len(files) == 1 else 's'} for {lang.value}")
    output.field("Folder", str(out))
    if Path("README.md") in files:
        output.field("Read on", str(out / "README.md"))


# -- copying ---------------------------------------------------------------------------------------------------------------------


def _copy(lang: Lang, made: Path) -> None:
    match lang:
        case Lang.PYTHON:
            shutil.copytree(_module_folder("plgrpc"), made / "plgrpc", ignore=LEFT_OUT)
        case Lang.PROTO:
            shutil.copytree(contract(lang) / "plgrpc", made / "plgrpc")
        case _:
            shutil.copytree(contract(lang), made, ignore=LEFT_OUT, dirs_exist_ok=True)


def contract(name: str) -> Path:
    """Return the folder of the protos, of the tools or of a language's stubs, in an installed package or in a checkout."""
    inside = Path("proto") if name == Lang.PROTO else Path("gen") / name
    for folder in (PACKED / name, CHECKOUT / inside):
        if folder.is_dir():
            return folder
    if name not in COPIED:
        raise CommandError(
            f"{name} is missing in this installation", hint="install protolink-grpc again, from its wheel"
        )
    return _stubs_folder(name)


def _stubs_folder(name: str) -> Path:
    """Return the folder of a language's stubs in the package protolink-grpc-stubs.

    Raises:
        CommandError: The package is not installed, or has another version, and so perhaps another contract.
    """
    spec = importlib.util.find_spec(STUBS_MODULE)
    if spec is None or not spec.submodule_search_locations:
        problem = "is not installed"
    elif (found := version(STUBS_PACKAGE)) != __version__:
        problem = f"is installed in version {found}, but this is protolink-grpc {__version__}"
    else:
        return Path(spec.submodule_search_locations[0]) / name
    raise CommandError(
        f"the {name} stubs are in the package {STUBS_PACKAGE}, which {problem}",
        hint=f"pip install {STUBS_PACKAGE}=={__version__}; --lang python and --lang proto need no package",
        code="STUBS_MISSING",
        metadata={"package": STUBS_PACKAGE, "version": __version__},
    )


def _module_folder(module: str) -> Path:
    spec = importlib.util.find_spec(module)
    if spec is None or spec.origin is None:
        raise CommandError(f"module {module} not found", hint="install protolink-grpc again")
    return Path(spec.origin).parent


# -- generating ------------------------------------------------------------------------------------------------------------------


def _generate(lang: Lang, made: Path, protos: Sequence[Path], includes: Sequence[Path]) -> None:
    _check_arguments(lang, protos, includes)
    words = [*_compiler(lang), *(f"-I{folder}" for folder in _import_roots(protos, includes))]
    words += [f"--{name}_out={made}" for name in BUILT_IN.get(lang, ())]
    for plugin in PLUGINS.get(lang, ()):
        words += [f"--plugin={plugin.program}={_require_program(plugin)}", f"--{plugin.name}_out={made}"]
        words += [f"--{plugin.name}_opt={option}" for option in plugin.options]
    if lang is Lang.PYTHON:
        words += [f"--descriptor_set_out={made / DESCRIPTORS}", "--include_imports", "--include_source_info"]
    _protoc([*words, *map(str, protos)])
    if lang is Lang.PYTHON:
        _drop_empty_services(made)
        _write_service_types(made)


def _check_arguments(lang: Lang, protos: Sequence[Path], includes: Sequence[Path]) -> None:
    if lang is Lang.PROTO:
        raise usage_error("--lang proto generates nothing", "leave out --proto, or choose a language")
    for path in (*protos, *includes):
        if not path.exists():
            raise usage_error(f"{path} not found", _TAKES)
    for path in protos:
        if not path.is_file():
            raise usage_error(f"{path} is not a file", _TAKES)
    for path in includes:
        if not path.is_dir():
            raise usage_error(f"{path} is not a folder", _TAKES)


_TAKES = "--proto takes a file, -I a folder"


def _protoc(words: Sequence[str]) -> None:
    # Plugins start programs too: betterproto2's starts ruff, which is installed beside it.
    environment = {**os.environ, "PATH": _search_path()}
    done = subprocess.run(words, capture_output=True, text=True, check=False, env=environment)
    if done.returncode == 0:
        return
    text = "\n".join(line for line in done.stderr.splitlines() if not _LOG_LINE.match(line))
    raise CommandError(
        "protoc: " + (text or f"exit code {done.returncode}"),
        hint=next((hint for mark, hint in _PROTOC_HINTS.items() if mark in text), ""),
        code="PROTOC_FAILED",
    )


_LOG_LINE = re.compile(r"WARNING: All log messages before|[IWE]\d{4} ")
"""Lines of protoc's own log, which do not help the user."""
_PROTOC_HINTS = {
    "does not reside": "with -I, the protos themselves must be in one of its folders, too",
    "Go import path": 'the proto needs: option go_package = "example.com/shop/calculatorv1"; proto export takes it as --option',
    "File not found": "-I adds a folder to search for imports; plgrpc/v1 needs no -I",
}
"""Hints, by a part of protoc's message."""


def _import_roots(protos: Sequence[Path], includes: Sequence[Path]) -> Iterator[Path]:
    yield from includes or dict.fromkeys(path.parent for path in protos)
    yield contract(Lang.PROTO)
    if importlib.util.find_spec("grpc_tools") is not None:
        yield _module_folder("grpc_tools") / "_proto"  # google/protobuf, which a protoc on the PATH includes


def _compiler(lang: Lang) -> Sequence[str]:
    """Return the command for protoc: grpcio-tools', unless only Google's has the language's generator."""
    if lang is Lang.JAVA:
        return (_require_program(GOOGLES_PROTOC),)
    if importlib.util.find_spec("grpc_tools") is not None:
        return (sys.executable, "-m", "grpc_tools.protoc")
    found = None if lang is Lang.PYTHON else _which("protoc")
    if found is None:
        raise _missing_error(GRPCIO_TOOLS)
    return (found,)


def _require_program(tool: Tool) -> str:
    found = _which(tool.program)
    if found is None:
        raise _missing_error(tool)
    return found


def _which(program: str) -> str | None:
    """Find a program on the PATH or beside this interpreter, under its name or its name on Maven Central."""
    names = (program, f"{program}-{_maven_platform()}.exe")
    return next((found for name in names if (found := shutil.which(name, path=_search_path()))), None)


def _search_path() -> str:
    return os.pathsep.join((os.environ.get("PATH", os.defpath), str(Path(sys.executable).parent)))


def _missing_error(tool: Tool) -> CommandError:
    pins = tomllib.loads((contract("tools") / "versions.toml").read_text(encoding="utf-8"))
    version = next(section[tool.pin] for section in pins.values() if tool.pin in section)
    how = tool.install.format(pin=tool.pin, version=version, program=tool.program, platform=_maven_platform())
    return CommandError(
        f"{tool.program} is not on the PATH",
        hint=f"install it with: {how}",
        code="TOOL_MISSING",
        metadata={"tool": tool.program},
    )


def _maven_platform() -> str:
    system = {"Darwin": "osx", "Windows": "windows"}.get(platform.system(), "linux")
    machine = platform.machine()
    return f"{system}-{MACHINES.get(machine, machine)}"


def _drop_empty_services(made: Path) -> None:
    """Remove the service modules of protos that define no service."""
    for path in made.rglob("*_pb2_grpc.py"):
        if re.search(r"^class \w+Stub\b", path.read_text(encoding="utf-8"), flags=re.M) is None:
            path.unlink()


def _write_service_types(made: Path) -> None:
    """Write the types of the generated service modules, which grpcio's generator does not write, from the descriptors."""
    descriptors = made / DESCRIPTORS
    for each in service_types(FileDescriptorSet.FromString(descriptors.read_bytes())):
        path = made / each.path
        if path.with_suffix(".py").exists():  # not of an import
            path.write_text(each.text, encoding="utf-8")
    descriptors.unlink()
