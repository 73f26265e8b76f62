"""The text files of one directory: listed, read, searched and written, and nothing outside of it.

Every path is opened from the root, one folder after the other, without following symbolic links. A link that is created between a
check and its use therefore leads nowhere.
"""

import hashlib
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from protolink_grpc import ToolRejectedError

MAX_FILE_BYTES = 64 * 1024
"""Maximum size of a file that is read, searched or written, in bytes."""

MAX_FILES = 500
MAX_MATCHES = 50
MAX_LINE = 200
"""Maximum length of a line in the results of a search, in characters."""

TEMPORARY = ".write-tmp"
"""The end of the names of files that are being written. A process that is killed may leave one."""


@dataclass(frozen=True, slots=True)
class File:
    """A text file. `version` identifies its content; it is empty if the file does not exist."""

    path: str
    content: str
    version: str


@dataclass(frozen=True, slots=True)
class Match:
    """A line with the searched text; `line` counts from 1."""

    path: str
    line: int
    text: str


class Repository:
    """The files below `root`, without those of git. All methods raise ToolRejectedError for a path that is not allowed."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def paths(self) -> list[str]:
        """Return the paths of the regular files, sorted, at most MAX_FILES."""
        found: list[str] = []
        for folder, folders, names in os.walk(self.root, followlinks=False):
            folders[:] = sorted(each for each in folders if not _is_git(each))
            for name in sorted(names):
                path = Path(folder, name)
                is_hidden = _is_git(name) or name.endswith(TEMPORARY)
                if not is_hidden and path.is_file() and not path.is_symlink():
                    found.append(path.relative_to(self.root).as_posix())
                if len(found) == MAX_FILES:
                    return sorted(found)
        return sorted(found)

    def read(self, path: str) -> File:
        """Read a file, which must exist."""
        file = self.find(path)
        if not file.version:
            raise ToolRejectedError(f"{path} does not exist", code="not_found")
        return file

    def find(self, path: str) -> File:
        """Read a file; a file that does not exist is empty and has no version."""
        try:
            with self._folder_of(path) as (folder, name):
                opened = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=folder)
        except FileNotFoundError:
            return File(path, "", "")
        try:
            if not stat.S_ISREG(os.fstat(opened).st_mode):
                raise ToolRejectedError(f"{path} is not a regular file", code="not_a_file")
            with open(opened, "rb", closefd=False) as file:
                data = file.read(MAX_FILE_BYTES + 1)
        finally:
            os.close(opened)
        _check_size(path, len(data))
        try:
            return File(path, data.decode(), version_of(data))
        except UnicodeDecodeError:
            raise ToolRejectedError(f"{path} is not text", code="not_text") from None

    def search(self, text: str) -> list[Match]:
        """Return the lines that contain the text, at most MAX_MATCHES. Files that are not text or too large are skipped."""
        found: list[Match] = []
        for path in self.paths():
            with suppress(ToolRejectedError):
                lines = self.read(path).content.splitlines()
                hits = [(number, line) for number, line in enumerate(lines, 1) if text in line]
                found += [Match(path, number, line.strip()[:MAX_LINE]) for number, line in hits]
            if len(found) >= MAX_MATCHES:
                break
        return found[:MAX_MATCHES]

    def check(self, path: str, content: str, version: str) -> File:
        """Return the current file if it has this version or already this content.

        Raises:
            ToolRejectedError: The file has another version, or the content is too large.
        """
        current, data = self.find(path), content.encode()
        _check_size(path, len(data))
        if current.version not in (version, version_of(data)):
            raise ToolRejectedError(
                f"{path} is not at version {version or '(new)'}", code="changed", suggestion="Read the file again."
            )
        return current

    def write(self, path: str, content: str, version: str) -> str:
        """Replace a file, or create it if `version` is empty, and return the new version. Raises as `check`.

        Readers see the old content or the new one. A repeated write has no further effect.
        """
        current, data = self.check(path, content, version), content.encode()
        if current.version != version_of(data):
            with self._folder_of(path, create=True) as (folder, name):
                _replace(folder, name, data)
        return version_of(data)

    @contextmanager
    def _folder_of(self, path: str, *, create: bool = False) -> Iterator[tuple[int, str]]:
        """Open the folder of a path. Yields its file descriptor and the name of the file.

        Raises:
            FileNotFoundError: The folder does not exist.
        """
        *folders, name = _parts(path)
        opened = os.open(self.root, os.O_RDONLY | os.O_DIRECTORY)
        try:
            for each in folders:
                if create:
                    with suppress(FileExistsError):
                        os.mkdir(each, dir_fd=opened)
                inner = os.open(each, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=opened)
                os.close(opened)
                opened = inner
            yield opened, name
        except FileNotFoundError:
            raise
        except OSError as error:
            problem = f"{path!r} cannot be opened: {error.strerror}"
            raise ToolRejectedError(problem, code="path_not_allowed") from error
        finally:
            os.close(opened)


def version_of(data: bytes) -> str:
    """Return the version of a content: the beginning of its SHA-256."""
    return hashlib.sha256(data).hexdigest()[:16]


def _parts(path: str) -> tuple[str, ...]:
    """Return the names in a relative path; reject paths that lead out of the repository or into git's files."""
    parts = PurePosixPath(path).parts
    is_plain = bool(parts) and path.isprintable() and "\\" not in path
    if not is_plain or path.startswith("/") or ".." in parts or any(map(_is_git, parts)):
        raise ToolRejectedError(f"path {path!r} is not a path of a file in the repository", code="path_not_allowed")
    return parts


def _is_git(name: str) -> bool:
    """Return whether a name means git's folder, also on file systems that ignore case and trailing dots."""
    return name.casefold().rstrip(". ") == ".git"


def _check_size(path: str, size: int) -> None:
    if size > MAX_FILE_BYTES:
        raise ToolRejectedError(f"{path} has more than {MAX_FILE_BYTES} bytes", code="too_large")


def _replace(folder: int, name: str, data: bytes) -> None:
    """Write a new file beside the old one and rename it, so that a crash leaves one of the two complete."""
    temporary = f".{name}.{secrets.token_hex(4)}{TEMPORARY}"
    try:
        mode = stat.S_IMODE(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)
    except FileNotFoundError:
        mode = 0o644
    opened = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode, dir_fd=folder)
    try:
        with open(opened, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(opened)
        os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        os.unlink(temporary, dir_fd=folder)
        raise
    os.fsync(folder)
