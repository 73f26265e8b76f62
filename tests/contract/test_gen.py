"""The generated folders: complete, of one version, and runnable with what their package files ask for."""

import importlib.util
import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from types import ModuleType

import pytest

from protolink_grpc import __version__

ROOT = Path(__file__).resolve().parents[2]
GEN = ROOT / "gen"
PINS = tomllib.loads((GEN / "tools/versions.toml").read_text())
PROTOS = {path.stem: path.read_text() for path in (ROOT / "proto/plgrpc/v1").glob("*.proto")}
SOURCES = {
    "python": "*.pyi",
    "betterproto": "*.py",
    "go": "*.go",
    "ts": "*.d.ts",
    "java": "*.java",
    "rust": "*.rs",
}
"""Which files of a language carry the comments."""


@pytest.fixture(scope="module")
def generate() -> ModuleType:
    """`gen/tools/generate.py`, which is a program and no part of a package."""
    spec = importlib.util.spec_from_file_location("generate", GEN / "tools/generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["generate"] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def words(language: str) -> str:
    """All that the language's stubs say, without the signs that comments are made of."""
    folder = GEN / language
    sources = (path for path in folder.rglob(SOURCES[language]) if not {"target", "node_modules"} & set(path.parts))
    text = " ".join(path.read_text() for path in sources)
    # Java and TypeScript write some signs as entities, prost escapes brackets.
    for escaped, sign in (("&#64;", "@"), ("&#42;", "*"), ("&lt;", "<"), ("&gt;", ">"), ("&amp;", "&"), ("\\", "")):
        text = text.replace(escaped, sign)
    return re.sub(r"\W+", " ", text)


@pytest.mark.parametrize("language", SOURCES)
def test_every_message_and_service_is_there_with_its_comment(language: str) -> None:
    said = words(language)
    told = [
        (name, re.sub(r"\W+", " ", comment))
        for text in PROTOS.values()
        for comment, name in re.findall(r"^// (.+)\n(?://.*\n)*(?:message|service|enum) (\w+)", text, re.MULTILINE)
    ]
    assert len(told) > 80
    assert [name for name, comment in told if comment.strip() not in said] == []


def test_every_language_has_a_readme_with_one_call() -> None:
    for language in SOURCES:
        text = (GEN / language / "README.md").read_text()
        assert "```" in text
        assert re.search("get_?agent_?card", text, re.IGNORECASE)


def test_every_package_has_the_projects_version() -> None:
    pom = (GEN / "java/pom.xml").read_text()
    found = {
        "ts": json.loads((GEN / "ts/package.json").read_text())["version"],
        "java": re.findall("<version>(.+?)</version>", pom)[0],
        "rust": tomllib.loads((GEN / "rust/Cargo.toml").read_text())["package"]["version"],
        "betterproto": tomllib.loads((GEN / "betterproto/pyproject.toml").read_text())["project"]["version"],
        "the wheel of the stubs": tomllib.loads((GEN / "pyproject.toml").read_text())["project"]["version"],
        "go, as its README asks for it": re.findall(r"/gen/go@v(\S+)", (GEN / "go/README.md").read_text())[0],
    }
    assert found == dict.fromkeys(found, __version__)


def test_no_runtime_that_a_package_asks_for_is_older_than_its_generator() -> None:
    package = json.loads((GEN / "ts/package.json").read_text())
    pom = (GEN / "java/pom.xml").read_text()
    minor = PINS["python"]["betterproto2-compiler"].rsplit(".", 1)[0]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    assert package["dependencies"]["@bufbuild/protobuf"] == f"^{PINS['ts']['@bufbuild/protoc-gen-es']}"
    assert f"<protobuf.version>{PINS['java']['com.google.protobuf:protoc']}<" in pom
    assert f"<grpc.version>{PINS['java']['io.grpc:protoc-gen-grpc-java']}<" in pom
    pinned = PINS["go"]["google.golang.org/protobuf/cmd/protoc-gen-go"]
    assert f"google.golang.org/protobuf v{pinned}" in (GEN / "go/go.mod").read_text()
    assert f"betterproto2[grpcio]>={minor}," in (GEN / "betterproto/pyproject.toml").read_text()
    assert f"grpcio>={PINS['python']['grpcio-tools'].removesuffix('.0')},<2" in project


def test_a_missing_toolchain_is_told_and_fails_nothing() -> None:
    command = [sys.executable, str(GEN / "tools/generate.py"), "check", "go", "rust", "java", "ts"]
    done = subprocess.run(command, env={"PATH": "/nowhere"}, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    for language, program in (("go", "go"), ("rust", "cargo"), ("java", "mvn"), ("ts", "node")):
        assert f"gen: {language} skipped: {program} is not installed" in done.stdout


def test_a_toolchain_that_is_too_old_is_a_missing_one(generate: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(generate.PINS, "go", {"toolchain": "99.1"})
    monkeypatch.setattr(generate.shutil, "which", lambda _program: sys.executable)
    with pytest.raises(generate.MissingToolchainError, match=r"go is 3\.\d+, 99\.1 or newer is needed"):
        generate.toolchain("go", "go", "--version")


def test_the_clients_have_the_contracts_reasons(generate: ModuleType) -> None:
    assert len(generate.read_reasons()) > 50
    assert generate.main("check", "reasons") == 0


def test_only_the_generated_files_of_a_shared_folder_are_compared_and_replaced(
    generate: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    toy = generate.Language(tmp_path / "toy", lambda out: (out / "a.txt").write_text("made"), is_shared=True)
    monkeypatch.setattr(generate, "ROOT", tmp_path)
    monkeypatch.setattr(generate, "LANGUAGES", {"toy": toy})
    toy.folder.mkdir()
    (toy.folder / "by_hand.txt").write_text("written")
    assert generate.main("check") == 1
    assert generate.main("write") == 0
    assert generate.main("check") == 0
    assert (toy.folder / "by_hand.txt").read_text() == "written"
    assert re.findall(r"toy is stale: toy/(.+)", capsys.readouterr().err) == ["a.txt"]


@pytest.mark.parametrize(
    ("change", "stale"),
    [
        (lambda folder: None, []),
        (lambda folder: (folder / "deep/a.txt").write_text("edited"), ["deep/a.txt"]),
        (lambda folder: (folder / "deep/a.txt").unlink(), ["deep/a.txt"]),
        (lambda folder: (folder / "left.txt").write_text("over"), ["left.txt"]),
    ],
)
def test_what_is_edited_missing_or_left_over_is_stale(
    generate: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    change,
    stale,
) -> None:
    def make(out: Path) -> None:
        (out / "deep").mkdir()
        (out / "deep/a.txt").write_text("made")

    monkeypatch.setattr(generate, "ROOT", tmp_path)
    monkeypatch.setattr(generate, "LANGUAGES", {"toy": generate.Language(tmp_path / "toy", make)})
    assert generate.main("write") == 0
    change(tmp_path / "toy")
    assert generate.main("check") == bool(stale)
    said = capsys.readouterr().err
    assert re.findall(r"toy is stale: toy/(.+)", said) == stale
