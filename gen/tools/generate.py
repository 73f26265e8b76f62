"""Makes every language's stubs from `proto/`, and says whether the committed ones are what it would make.

The clients' constants for the reasons of errors come from `proto/`, too; among the languages they are `reasons`.

Here is how each language's code is made and where it lies; `versions.toml` has the versions. Nothing here knows what they mean.
Runs on the interpreter of .venv-gen:

    generate.py write [LANGUAGE...]    make the stubs
    generate.py check [LANGUAGE...]    compare; exit code 1 when something is stale
    generate.py requirements           Python's tools, one `name==version` a line
"""

import os
import platform
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import textwrap
import tomllib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
GEN = ROOT / "gen"
PROTO = ROOT / "proto"
TOOLS = ROOT / ".tools"
PINS = tomllib.loads(Path(__file__).with_name("versions.toml").read_text())


class MissingToolchainError(Exception):
    """A language's own toolchain is not here, or is too old to build the plugin."""


def run(*command: str | Path, cwd: Path | None = None, **environment: str) -> str:
    """The command's standard output; what it says goes to our standard error, but only when it fails."""
    done = subprocess.run(
        [str(word) for word in command],
        cwd=cwd,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}")
    return done.stdout


def toolchain(language: str, program: str, *version_arguments: str) -> str:
    """Where the language's `program` is, once it is new enough."""
    needed, path = PINS[language]["toolchain"], shutil.which(program)
    if path is None:
        raise MissingToolchainError(f"{program} is not installed ({needed} or newer is needed)")
    found = re.search(r"(\d+)\.(\d+)", run(path, *version_arguments))
    if found is None or tuple(map(int, found.groups())) < tuple(map(int, needed.split("."))):
        raise MissingToolchainError(f"{program} is {found and found[0]}, {needed} or newer is needed")
    return path


def installed(name: str, version: str, program: str, install: Callable[[Path], object]) -> Path:
    """`program` of the tool `name`, installed once per version into a folder of its own."""
    place = TOOLS / f"{name.rsplit('/', 1)[-1].replace(':', '-')}-{version}"
    if not (place / program).exists():
        print(f"gen: installing {name} {version} (once)", flush=True)
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir(parents=True)
        install(place)
    return place / program


# -- plugins, per toolchain ------------------------------------------------------------------------------------------------------


def go_plugin(package: str) -> Path:
    go = toolchain("go", "go", "version")
    version = PINS["go"][package]
    # GOFLAGS of a user could ask for a vendor folder; -trimpath keeps this machine's paths out of the program.
    return installed(
        package,
        version,
        Path(package).name,
        lambda place: run(go, "install", "-trimpath", f"{package}@v{version}", GOBIN=str(place), GOFLAGS=""),
    )


def npm_plugin(package: str) -> Path:
    toolchain("ts", "node", "--version")
    npm = shutil.which("npm")
    if npm is None:
        raise MissingToolchainError("npm is not installed")
    version = PINS["ts"][package]
    flags = (
        *("--no-save", "--no-package-lock", "--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error"),
        # A connection that says nothing is given up after 20 s, not after npm's 5 minutes.
        *("--prefer-offline", "--fetch-timeout=20000", "--fetch-retries=5"),
    )
    return installed(
        package,
        version,
        f"node_modules/.bin/{package.rsplit('/', 1)[-1]}",
        lambda place: run(npm, "install", *flags, "--prefix", place, f"{package}@{version}"),
    )


def maven_plugin(artifact: str) -> Path:
    """A program that Maven Central keeps per operating system and processor."""
    mvn = toolchain("java", "mvn", "--version")
    version = PINS["java"][artifact]
    system = {"Darwin": "osx", "Windows": "windows"}.get(platform.system(), "linux")
    machine = {"arm64": "aarch_64", "aarch64": "aarch_64", "AMD64": "x86_64"}.get(
        platform.machine(), platform.machine()
    )
    fetcher = "org.apache.maven.plugins:maven-dependency-plugin"

    def copy(place: Path) -> None:
        run(
            mvn,
            "-B",
            "-q",
            f"{fetcher}:{PINS['java'][fetcher]}:copy",
            f"-Dartifact={artifact}:{version}:exe:{system}-{machine}",
            f"-DoutputDirectory={place}",
            "-Dmdep.stripVersion=true",
            # As above; Maven would wait for half an hour.
            "-Dmaven.wagon.http.readTimeout=30000",
            "-Dmaven.wagon.http.retryHandler.count=5",
            cwd=place,
        )
        (place / program).chmod(0o755)

    program = f"{artifact.split(':')[1]}-{system}-{machine}.exe"
    return installed(artifact, version, program, copy)


def cargo_plugin(crate: str) -> Path:
    cargo = toolchain("rust", "cargo", "--version")
    version = PINS["rust"][crate]
    # A debug build without symbols: quick to make, and quick enough. Both crates share what they depend on.
    return installed(
        crate,
        version,
        f"bin/{crate}",
        lambda place: run(
            cargo,
            "install",
            "--quiet",
            "--locked",
            "--debug",
            "--root",
            place,
            f"{crate}@{version}",
            CARGO_TARGET_DIR=str(TOOLS / "cargo-target"),
            CARGO_PROFILE_DEV_DEBUG="0",
        ),
    )


# -- languages -------------------------------------------------------------------------------------------------------------------


def protos() -> list[str]:
    return sorted(path.relative_to(PROTO).as_posix() for path in PROTO.rglob("*.proto"))


def well_known_protos() -> Path:
    return Path(sysconfig.get_path("purelib")) / "grpc_tools/_proto"


def protoc(*arguments: str, program: tuple[str | Path, ...] = (sys.executable, "-m", "grpc_tools.protoc")) -> None:
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ.get("PATH", "")))
    sources = (
        ()
        if any(each.startswith("--descriptor_set_in") for each in arguments)
        else (f"-I{PROTO}", f"-I{well_known_protos()}")
    )
    run(*program, *sources, *arguments, *protos(), PATH=path)


def plugin(program: Path, name: str) -> str:
    return f"--plugin=protoc-gen-{name}={program}"


def rewrite(files: Iterator[Path], *replacements: tuple[str, str]) -> None:
    for path in files:
        text = path.read_text()
        for pattern, replacement in replacements:
            text = re.sub(pattern, replacement, text, flags=re.MULTILINE)
        path.write_text(text)


def python(out: Path) -> None:
    protoc(f"--python_out={out}", f"--grpc_python_out={out}", f"--mypy_out=quiet:{out}", f"--mypy_grpc_out=quiet:{out}")
    made = out / "plgrpc"
    for path in made.rglob("*_pb2_grpc.py*"):
        if "_service_pb2_grpc" not in path.name:
            path.unlink()
    for name in ("__init__.py", "v1/__init__.py", "py.typed"):
        (made / name).touch()
    flatten(made, out)


def betterproto(out: Path) -> None:
    protoc(f"--python_betterproto2_out={out}")
    # `plgrpc_dataclasses.v1`, as `plgrpc.v1`: one level up, so imports go one level less.
    (out / "plgrpc/v1").rename(out / "v1")
    shutil.rmtree(out / "plgrpc")
    rewrite((out / "v1").glob("*.py"), (r"^from \.\.\.", "from .."))


def go(out: Path) -> None:
    messages = go_plugin("google.golang.org/protobuf/cmd/protoc-gen-go")
    services = go_plugin("google.golang.org/grpc/cmd/protoc-gen-go-grpc")
    relative = "paths=source_relative"
    protoc(
        plugin(messages, "go"),
        f"--go_out={relative}:{out}",
        plugin(services, "go-grpc"),
        f"--go-grpc_out={relative}:{out}",
    )
    flatten(out / "plgrpc", out)


def ts(out: Path) -> None:
    # JavaScript with declarations: what a package has to hold, so that nobody needs a build step to use it.
    es = npm_plugin("@bufbuild/protoc-gen-es")
    protoc(plugin(es, "es"), f"--es_out=target=js+dts,import_extension=js:{out}")
    flatten(out / "plgrpc", out)
    exports = "".join(f'export * from "./{path.name}";\n' for path in sorted(out.glob("v1/*_pb.js")))
    for name in ("index.js", "index.d.ts"):
        (out / "v1" / name).write_text(f"// Everything in plgrpc.v1.\n{exports}")


def java(out: Path) -> None:
    compiler = maven_plugin("com.google.protobuf:protoc")
    services = maven_plugin("io.grpc:protoc-gen-grpc-java")
    protoc(
        f"--java_out={out}",
        plugin(services, "grpc-java"),
        f"--grpc-java_out=@generated=omit:{out}",
        program=(compiler,),
    )


def rust(out: Path) -> None:
    messages, services = cargo_plugin("protoc-gen-prost"), cargo_plugin("protoc-gen-tonic")
    described = out / "sorted.binpb"
    describe_sorted(described)
    protoc(
        f"--descriptor_set_in={described}",
        *(plugin(messages, "prost"), f"--prost_out={out}"),
        *(plugin(services, "tonic"), f"--tonic_out={out}"),
    )
    described.unlink()
    flatten(out / "plgrpc/v1", out)
    shutil.rmtree(out / "plgrpc")
    # For reflection, and for programs that read messages by the names of their fields.
    protoc(f"--descriptor_set_out={out / 'plgrpc.v1.binpb'}", "--include_imports")


def describe_sorted(place: Path) -> None:
    """What the protos say, comments in the order of their paths: protoc-gen-tonic looks for them by bisection."""
    from google.protobuf.descriptor_pb2 import FileDescriptorSet  # grpcio-tools brings it; `requirements` runs without

    protoc(f"--descriptor_set_out={place}", "--include_imports", "--include_source_info")
    described = FileDescriptorSet.FromString(place.read_bytes())
    for file in described.file:
        file.source_code_info.location.sort(key=lambda location: tuple(location.path))
    place.write_bytes(described.SerializeToString(deterministic=True))


def flatten(inner: Path, outer: Path) -> None:
    """Move what `inner` holds into `outer`, which holds nothing else of that name."""
    for path in list(inner.iterdir()):
        path.rename(outer / path.name)
    if inner.is_dir() and not any(inner.iterdir()):
        inner.rmdir()


# -- reasons of errors -----------------------------------------------------------------------------------------------------------

# TypeScript derives its type from the keys of the generated enum. The others want constants that a `switch` or `match` takes.


def read_reasons() -> list[tuple[str, str]]:
    """Text and comment of each reason of `ErrorReason`."""
    text = (PROTO / "plgrpc/v1/error_reason.proto").read_text()
    found = re.findall(r"((?: *// .+\n)+) *ERROR_REASON_(\w+) = [1-9]\d*;", text)
    return [(name, " ".join(re.findall("// (.+)", comment))) for comment, name in found]


def reasons(out: Path) -> None:
    """Write each client's constants, at their places in `clients/`."""
    known = read_reasons()
    package = "java/client/src/main/java/io/github/protolink_grpc/client"
    for place, text in (
        ("go/reasons.go", format_go(known)),
        (f"{package}/Reason.java", format_java(known)),
        ("rust/src/reason.rs", format_rust(known)),
    ):
        (out / place).parent.mkdir(parents=True)
        (out / place).write_text(text)


def wrap_comment(text: str, start: str) -> str:
    return textwrap.fill(text, 100, initial_indent=start, subsequent_indent=start, break_on_hyphens=False)


def format_go(known: list[tuple[str, str]]) -> str:
    start = "\t// "
    blocks = (
        f'{wrap_comment(text, start)}\n\tErr{name.title().replace("_", "")} Reason = "{name}"\n' for name, text in known
    )
    return (
        "// Code generated by make gen from proto/plgrpc/v1/error_reason.proto. DO NOT EDIT.\n\n"
        "package plgrpc\n\n"
        "// The reasons that this version knows. A later agent may send others.\n"
        "const (\n" + "\n".join(blocks) + ")\n"
    )


def format_java(known: list[tuple[str, str]]) -> str:
    comments = (wrap_comment(re.sub("`(.+?)`", r"{@code \1}", text), "   * ") for _, text in known)
    constants = (f'  public static final String {name} = "{name}";\n\n' for name, _ in known)
    blocks = (f"  /**\n{said}\n   */\n{constant}" for said, constant in zip(comments, constants, strict=True))
    return (
        "// Generated by make gen from proto/plgrpc/v1/error_reason.proto. Do not edit.\n"
        "package io.github.protolink_grpc.client;\n\n"
        "/** The reasons of {@link ProtolinkException} that this version knows. A later agent may send others. */\n"
        f"public final class Reason {{\n\n{''.join(blocks)}  private Reason() {{}}\n}}\n"
    )


def format_rust(known: list[tuple[str, str]]) -> str:
    blocks = (f'{wrap_comment(text, "/// ")}\npub const {name}: &str = "{name}";\n' for name, text in known)
    return (
        "// Generated by make gen from proto/plgrpc/v1/error_reason.proto. Do not edit.\n\n"
        "//! The reasons of [`Error::reason`](crate::Error::reason) that this version knows. A later agent may send others.\n\n"
        + "\n".join(blocks)
    )


@dataclass(frozen=True, slots=True)
class Language:
    """What is generated into one folder.

    Args:
        folder: Where it lies.
        make: Writes it into an empty folder.
        is_shared: Whether the folder has other files, too. Otherwise everything in it is generated.
    """

    folder: Path
    make: Callable[[Path], None]
    is_shared: bool = False


# The slowest to set up come first: they overlap with the others.
LANGUAGES = {
    "rust": Language(GEN / "rust/src/generated", rust),
    "java": Language(GEN / "java/src/main/java", java),
    "go": Language(GEN / "go/plgrpc", go),
    "ts": Language(GEN / "ts/plgrpc", ts),
    "python": Language(GEN / "python/plgrpc", python),
    "betterproto": Language(GEN / "betterproto/plgrpc_dataclasses", betterproto),
    "reasons": Language(ROOT / "clients", reasons, is_shared=True),
}


# -- commands --------------------------------------------------------------------------------------------------------------------


def contents(folder: Path) -> dict[str, bytes]:
    files = (path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


def compare(name: str, made: Path) -> bool:
    """Whether the committed folder is what was just made; says what differs."""
    folder = LANGUAGES[name].folder
    fresh = contents(made)
    if LANGUAGES[name].is_shared:
        committed = {path: (folder / path).read_bytes() for path in fresh if (folder / path).exists()}
    else:
        committed = contents(folder)
    stale = sorted(path for path in committed.keys() | fresh.keys() if committed.get(path) != fresh.get(path))
    for path in stale:
        print(f"gen: {name} is stale: {(folder / path).relative_to(ROOT)}", file=sys.stderr)
    return not stale


def replace(name: str, made: Path) -> bool:
    folder = LANGUAGES[name].folder
    if not LANGUAGES[name].is_shared:
        shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(made, folder, dirs_exist_ok=True)
    return True


def make(name: str, finish: Callable[[str, Path], bool]) -> bool:
    """Make one language aside and hand it to `finish`; a missing toolchain is said, and is no failure."""
    with tempfile.TemporaryDirectory() as aside:
        try:
            LANGUAGES[name].make(Path(aside))
        except MissingToolchainError as error:
            print(f"gen: {name} skipped: {error}", flush=True)
            return True
        return finish(name, Path(aside))


def main(command: str = "", *names: str) -> int:
    if command == "requirements":
        print("\n".join(f"{name}=={version}" for name, version in PINS["python"].items()))
        return 0
    finish = {"write": replace, "check": compare}.get(command)
    if finish is None or not LANGUAGES.keys() >= set(names):
        print(__doc__, file=sys.stderr)
        return 2
    # Threads wait for compilers and downloads; one per core is what a machine of two cores bears.
    with ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
        good = list(pool.map(lambda name: make(name, finish), names or LANGUAGES))
    if not all(good):
        print("gen: run make gen and commit", file=sys.stderr)
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
