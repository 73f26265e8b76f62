"""The conformance programs of all languages, built once for all tests that use them."""

import fcntl
import subprocess
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from languages import ROOT, Language, judged

Run = subprocess.CompletedProcess[str]


class Programs:
    """The conformance programs. One is built after the other, and each runs beside the builds of the next: it mostly waits."""

    def __init__(self, languages: list[Language], folder: str, lock: Path) -> None:
        self._folder, self._lock = folder, lock
        self._builds, self._runs = ThreadPoolExecutor(1), ThreadPoolExecutor(2)
        in_order = sorted(languages, key=lambda each: bool(each.tools))  # a program that needs no tool needs no build
        self._built = {each: self._builds.submit(self._build, each) for each in in_order}
        self._ran = {each: self._runs.submit(self._run, built) for each, built in self._built.items()}

    @contextmanager
    def alone(self) -> Iterator[None]:
        """No other process builds meanwhile, also none that shares the tests in another way."""
        with self._lock.open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def _build(self, language: Language) -> list[str]:
        own = Path(self._folder, language.name)
        own.mkdir()
        with self.alone():
            return language.built(own)

    def _run(self, built: Future[list[str]]) -> Run:
        command = judged(built.result())
        return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, encoding="utf-8", check=False)

    def build(self, language: Language) -> None:
        """Return when it is built. Raises RuntimeError: the build failed."""
        self._built[language].result()

    def example(self, language: Language) -> list[str]:
        """Return the command of its example, once it is built. Raises RuntimeError: the build failed."""
        assert language.example is not None
        self.build(language)
        return language.example(Path(self._folder, language.name))

    def run(self, language: Language) -> Run:
        """Return the finished run of its program. Raises RuntimeError: the build failed."""
        return self._ran[language].result()

    def end(self) -> None:
        self._builds.shutdown(cancel_futures=True)
        self._runs.shutdown(cancel_futures=True)
