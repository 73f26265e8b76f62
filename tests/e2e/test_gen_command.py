"""`plgrpc gen`: stubs that a project can build with, and hints for missing tools."""

import json
import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from cli_world import END_S, environment, plgrpc

from protolink_grpc.cli import gen_command
from protolink_grpc.cli.gen_app import Lang

ROOT = Path(__file__).resolve().parents[2]
PINS = tomllib.loads((ROOT / "gen/tools/versions.toml").read_text())
COMMITTED = {
    "go": ("gen/go", "go.mod"),
    "ts": ("gen/ts", "package.json"),
    "java": ("gen/java", "pom.xml"),
    "rust": ("gen/rust", "Cargo.toml"),
    "betterproto": ("gen/betterproto", "pyproject.toml"),
    "python": ("gen/python", "plgrpc/v1/task_pb2.py"),
    "proto": ("proto", "plgrpc/v1/task.proto"),
}
ORDER = """
syntax = "proto3";
package acme.v1;
import "google/protobuf/timestamp.proto";
import "plgrpc/v1/task.proto";
option go_package = "example.com/acme/gen/acme/v1;acmev1";
option java_package = "com.acme.v1";
message Order {
  plgrpc.v1.Task task = 1;
  google.protobuf.Timestamp due = 2;
}
service OrderService {
  rpc Place(Order) returns (plgrpc.v1.Task);
}
"""


@pytest.fixture
def order(tmp_path: Path) -> Path:
    """A user's own proto, in a folder of its package."""
    path = tmp_path / "protos/acme/v1/order.proto"
    path.parent.mkdir(parents=True)
    path.write_text(ORDER)
    return path


@pytest.mark.parametrize("lang", COMMITTED)
def test_the_stubs_are_the_committed_ones(lang: str, tmp_path: Path) -> None:
    told = plgrpc("gen", "--lang", lang, "--out", str(tmp_path), "-o", "json")
    folder, package_file = COMMITTED[lang]
    assert told.code == 0, told.err
    assert package_file in told.document["files"]
    assert told.document["lang"] == lang
    for name in told.document["files"]:
        assert (tmp_path / name).read_bytes() == (ROOT / folder / name).read_bytes()


def test_every_language_is_among_these() -> None:
    assert COMMITTED.keys() == {*Lang}


def test_writing_twice_changes_nothing_and_other_files_are_kept(tmp_path: Path) -> None:
    own = tmp_path / "go.mod"
    own.write_text("module example.com/mine\n")
    refused = plgrpc("gen", "--lang", "go", "--out", str(tmp_path))
    assert refused.code == 2
    assert "go.mod exists and differs" in refused.err
    assert own.read_text() == "module example.com/mine\n"
    assert sorted(tmp_path.iterdir()) == [own]
    assert plgrpc("gen", "--lang", "go", "--out", str(tmp_path), "--force").code == 0
    assert plgrpc("gen", "--lang", "go", "--out", str(tmp_path)).code == 0
    assert own.read_bytes() == (ROOT / "gen/go/go.mod").read_bytes()


def test_a_users_proto_works_with_the_contracts_classes(order: Path, tmp_path: Path) -> None:
    done = plgrpc(
        "gen", "--lang", "python", "--out", str(tmp_path / "out"), "--proto", str(order), "-I", str(tmp_path / "protos")
    )
    assert done.code == 0, done.err
    code = (
        "from acme.v1 import order_pb2, order_pb2_grpc\n"
        "from plgrpc.v1 import task_pb2\n"
        "order = order_pb2.Order(task=task_pb2.Task(id='t1'))\n"
        "assert type(order_pb2.Order.FromString(order.SerializeToString()).task) is task_pb2.Task\n"
        "print(order_pb2_grpc.OrderServiceStub.__name__)\n"
    )
    path = os.pathsep.join((str(tmp_path / "out"), str(ROOT / "gen/python")))
    ran = subprocess.run(
        [sys.executable, "-c", code],
        env=environment({"PYTHONPATH": path}),
        capture_output=True,
        text=True,
        timeout=END_S,
        check=False,
    )
    assert (ran.stdout, ran.returncode) == ("OrderServiceStub\n", 0), ran.stderr


def test_without_includes_the_folder_of_a_proto_is_searched(order: Path, tmp_path: Path) -> None:
    done = plgrpc("gen", "--lang", "python", "--out", str(tmp_path / "out"), "--proto", str(order), "-o", "json")
    assert done.document["files"] == ["order_pb2.py", "order_pb2.pyi", "order_pb2_grpc.py", "order_pb2_grpc.pyi"]


def test_a_single_file_is_reported_in_the_singular(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    gen_command._report(Lang.TS, tmp_path, [Path("note_pb.ts")], as_json=False)
    assert "Wrote: 1 file for ts" in capsys.readouterr().out


def test_a_plugin_finds_programs_beside_the_interpreter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    look = "import os, sys; sys.exit(sys.argv[1] not in os.environ['PATH'].split(os.pathsep))"
    gen_command._protoc([sys.executable, "-c", look, str(Path(sys.executable).parent)])


def plugin_folders() -> str:
    """Where plugins are on this machine: where `make gen` has put them, and on the PATH."""
    places = ("*/protoc*", "*/bin/protoc*", "*/node_modules/.bin/protoc*")
    found = (program.parent for place in places for program in (ROOT / ".tools").glob(place) if program.is_file())
    return os.pathsep.join((*map(str, dict.fromkeys(found)), os.environ["PATH"]))


@pytest.mark.parametrize(
    ("lang", "programs", "file", "imports"),
    [
        (
            "go",
            ["protoc-gen-go", "protoc-gen-go-grpc"],
            "acme/v1/order_grpc.pb.go",
            '"github.com/protolink-grpc/protolink-grpc/gen/go/plgrpc/v1"',
        ),
        (
            "ts",
            ["protoc-gen-es", "node"],
            "acme/v1/order_pb.ts",
            'from "@protolink-grpc/protocol/plgrpc/v1/task_pb.js"',
        ),
        ("rust", ["protoc-gen-prost", "protoc-gen-tonic"], "acme/v1/acme.v1.rs", "::plgrpc_protocol::v1::Task"),
    ],
)
def test_a_users_proto_imports_the_contract_from_its_package(
    lang: str, programs: list[str], file: str, imports: str, order: Path, tmp_path: Path
) -> None:
    path = plugin_folders()
    missing = [program for program in programs if shutil.which(program, path=path) is None]
    if missing:
        pytest.skip(f"{missing[0]} is not installed; make gen installs it where the language's toolchain is")
    words = ("--out", str(tmp_path / "out"), "--proto", str(order), "-I", str(tmp_path / "protos"))
    done = plgrpc("gen", "--lang", lang, *words, env={"PATH": path})
    assert done.code == 0, done.err
    assert imports in (tmp_path / "out" / file).read_text()


@pytest.mark.parametrize(
    ("lang", "tool", "command"),
    [
        (
            "go",
            "protoc-gen-go",
            "go install google.golang.org/protobuf/cmd/protoc-gen-go@v{version}, and have $(go env GOPATH)/bin on the PATH",
        ),
        ("ts", "protoc-gen-es", "npm install --global @bufbuild/protoc-gen-es@{version}"),
        ("rust", "protoc-gen-prost", "cargo install --locked protoc-gen-prost@{version}"),
    ],
)
def test_a_missing_plugin_is_named_with_the_command_that_installs_it(
    lang: str, tool: str, command: str, order: Path, tmp_path: Path
) -> None:
    done = plgrpc(
        "gen",
        "--lang",
        lang,
        "--out",
        str(tmp_path / "out"),
        "--proto",
        str(order),
        "-o",
        "json",
        env={"PATH": "/nowhere"},
    )
    assert done.code == 1
    error = json.loads(done.err)["error"]
    assert error["code"] == "TOOL_MISSING"
    assert error["message"] == f"{tool} is not on the PATH"
    (version,) = (version for pin, version in PINS[lang].items() if pin.endswith(tool))
    assert error["hint"] == "install it with: " + command.format(version=version)
    assert error["metadata"] == {"tool": tool}
    assert not (tmp_path / "out").exists()


def test_every_tool_has_a_version_and_a_command() -> None:
    for tool in (*(each for tools in gen_command.PLUGINS.values() for each in tools), gen_command.GOOGLES_PROTOC):
        hint = gen_command._missing_error(tool).hint
        version = next(section[tool.pin] for section in PINS.values() if tool.pin in section)
        assert version in hint
        assert "{" not in hint


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("--lang", "cobol"), 2, "'cobol'"),
        (("--lang", "python", "--proto", "nowhere.proto"), 2, "nowhere.proto not found"),
        (("--lang", "proto", "--proto", __file__), 2, "--lang proto generates nothing"),
        (("--lang", "python", "--proto", __file__), 1, "test_gen_command.py:1:1: Expected top-level"),
        (("--lang", "python", "--proto", "/"), 2, "/ is not a file"),
        (("--lang", "python", "--proto", __file__, "-I", __file__), 2, "test_gen_command.py is not a folder"),
        (("--lang", "python", "--proto", __file__, "-I", "/dev"), 1, "the protos themselves must be in one of"),
        (("--lang", "python", "-I", "/"), 2, "-I requires --proto"),
    ],
)
def test_an_impossible_request_is_refused_with_its_cause(
    words: tuple[str, ...], code: int, said: str, tmp_path: Path
) -> None:
    done = plgrpc("gen", "--out", str(tmp_path / "out"), *words)
    assert done.code == code
    assert said in done.err
    assert not (tmp_path / "out").exists()


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = plgrpc("gen", "--lang", "proto", "--out", str(tmp_path / "file/out"))
    assert done.code == 1
    assert "cannot write" in done.err
