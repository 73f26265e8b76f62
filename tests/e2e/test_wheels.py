"""The wheels as users install them, and what `plgrpc gen` finds in them."""

import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from protolink_grpc import __version__

ROOT = Path(__file__).resolve().parents[2]
GEN = ROOT / "gen"
PROTOS = [path.stem for path in (ROOT / "proto/plgrpc/v1").glob("*.proto")]


def build_wheel(project: Path, place: Path) -> zipfile.ZipFile:
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(place)]
    subprocess.run(command, cwd=project, check=True, capture_output=True, timeout=120)
    (path,) = place.glob("*.whl")
    return zipfile.ZipFile(path)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    """The package as users install it."""
    return build_wheel(ROOT, tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def stubs_wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    """The package with the stubs in other languages."""
    return build_wheel(GEN, tmp_path_factory.mktemp("stubs"))


LEFTOVERS = r"/target/|node_modules|Cargo\.lock|\.class$|^gen/|^tests/"


def test_the_wheel_carries_the_contract_without_the_stubs_of_other_languages(wheel: zipfile.ZipFile) -> None:
    names = set(wheel.namelist())
    inside = "protolink_grpc/_contract"
    assert {f"{inside}/proto/plgrpc/v1/{name}.proto" for name in PROTOS} <= names
    assert {f"{inside}/tools/versions.toml", "plgrpc/v1/task_pb2.py"} <= names
    assert {name.split("/")[2] for name in names if name.startswith(inside)} == {"proto", "tools"}
    assert not [name for name in names if re.search(LEFTOVERS, name)]
    kinds = {Path(name).suffix for name in names if ".dist-info/" not in name}
    assert kinds == {".py", ".pyi", ".proto", ".toml", ".typed"}, "only Python and the contract"


def test_the_wheel_of_the_stubs_carries_every_other_language_and_nothing_that_builds_leave(
    stubs_wheel: zipfile.ZipFile,
) -> None:
    names = set(stubs_wheel.namelist())
    packages = ("go/go.mod", "ts/package.json", "java/pom.xml", "rust/Cargo.toml", "betterproto/pyproject.toml")
    assert {f"protolink_grpc_stubs/{each}" for each in packages} <= names
    assert {name.split("/")[0] for name in names} == {
        "protolink_grpc_stubs",
        f"protolink_grpc_stubs-{__version__}.dist-info",
    }
    assert not [name for name in names if re.search(LEFTOVERS, name)]


def generate_stubs(installed: Path, lang: str, out: Path) -> "subprocess.CompletedProcess[str]":
    """Run `plgrpc gen` of an installed package."""
    command = [sys.executable, "-m", "protolink_grpc.cli", "gen", "--lang", lang, "--out", str(out)]
    path = {**os.environ, "PYTHONPATH": str(installed)}
    return subprocess.run(command, cwd=installed, env=path, capture_output=True, text=True, check=False, timeout=60)


def is_committed(written: Path, committed: Path) -> bool:
    files = [file for file in written.rglob("*") if file.is_file()]
    return bool(files) and all(
        file.read_bytes() == (committed / file.relative_to(written)).read_bytes() for file in files
    )


def test_an_installed_package_hands_out_what_a_checkout_does(
    wheel: zipfile.ZipFile, stubs_wheel: zipfile.ZipFile, tmp_path: Path
) -> None:
    out, installed = tmp_path / "out", tmp_path / "installed"
    wheel.extractall(installed)
    assert generate_stubs(installed, "proto", out / "proto").returncode == 0
    assert is_committed(out / "proto", ROOT / "proto")

    refused = generate_stubs(installed, "rust", out / "rust")
    assert refused.returncode == 1
    assert refused.stderr == (
        "error: the rust stubs are in the package protolink-grpc-stubs, which is not installed\n"
        f"hint: pip install protolink-grpc-stubs=={__version__}; --lang python and --lang proto need no package\n"
    )

    stubs_wheel.extractall(installed)
    assert generate_stubs(installed, "rust", out / "rust").returncode == 0
    assert is_committed(out / "rust", GEN / "rust")

    info = installed / f"protolink_grpc_stubs-{__version__}.dist-info/METADATA"
    info.write_text(info.read_text().replace(f"Version: {__version__}", "Version: 9.9.9"))
    refused = generate_stubs(installed, "go", out / "go")
    assert refused.returncode == 1
    assert f"is installed in version 9.9.9, but this is protolink-grpc {__version__}" in refused.stderr


def test_a_users_proto_that_imports_ours_generates_python_that_works_beside_protolink(tmp_path: Path) -> None:
    (tmp_path / "acme.proto").write_text(
        'syntax = "proto3"; package acme.v1; import "plgrpc/v1/part.proto"; message Order { plgrpc.v1.Part what = 1; }'
    )
    plain = [
        sys.executable,
        "-m",
        "grpc_tools.protoc",
        f"-I{ROOT / 'proto'}",
        f"-I{tmp_path}",
        f"--python_out={tmp_path}",
    ]
    subprocess.run([*plain, "acme.proto"], check=True, timeout=60)
    program = """
import protolink.models
import acme_pb2
import protolink_grpc
print(acme_pb2.Order(what={"text": "soup"}).what.text, protolink.models.Task.__module__.split(".")[0])
"""
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout == "soup protolink\n"
