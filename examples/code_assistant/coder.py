"""The coder: an agent with tools for the files of one repository and without a model. It decides nothing.

Reading is allowed. Writing and committing need an approval, whichever agent asks for it; the approver sees the diff. The tools work
on exactly the version that the caller has read, so nothing else can be written or committed than what the diff shows.
"""

import asyncio
import difflib
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from examples.code_assistant import git
from examples.code_assistant.project import project_root
from examples.code_assistant.repository import MAX_FILE_BYTES, File, Match, Repository
from examples.code_assistant.rights import COMMIT, READ, WRITE
from examples.mesh.process import own_settings, serve
from protolink_grpc import (
    Agent,
    AgentCard,
    Approvals,
    Artifact,
    CapabilityPolicy,
    Part,
    RunAction,
    RunContext,
)

POLICY = CapabilityPolicy({READ: "allow", WRITE: "require_approval", COMMIT: "require_approval"}, default_effect="deny")

DIFF = "text/x-diff"

SearchText = Annotated[str, Field(min_length=1, max_length=200)]
Content = Annotated[str, Field(max_length=MAX_FILE_BYTES)]
CommitMessage = Annotated[str, Field(min_length=1, max_length=500)]


class Coder(Agent):
    """Reads and changes the files of a git repository."""

    def __init__(self, root: Path, **options: Any) -> None:
        card = AgentCard(
            name="coder",
            description="Lists, reads, searches and writes the files of a repository, and commits them.",
            url="grpc://127.0.0.1:0",
            tags=["code"],
        )
        super().__init__(card, policy=POLICY, approvals=Approvals(remote=True), **options)
        self._root = root
        self._files = Repository(root)
        for reading in (self.list_files, self.read_file, self.search, self.diff):
            self.tool(capabilities=[READ], read_only=True)(reading)
        # Repeating a write or a commit has no further effect, so a call that a crash has interrupted is repeated.
        self.tool(capabilities=[WRITE], action_builder=self._preview_write, idempotent=True)(self.write_file)
        self.tool(capabilities=[COMMIT], action_builder=self._preview_commit, idempotent=True)(self.commit)

    def list_files(self) -> list[str]:
        """List the paths of all files."""
        return self._files.paths()

    def read_file(self, path: str) -> File:
        """Read a text file and its version."""
        return self._files.read(path)

    def search(self, text: SearchText) -> list[Match]:
        """Find the lines that contain a text, with the same case."""
        return self._files.search(text)

    def diff(self) -> git.Change:
        """Show the change since the last commit, as a unified diff, and the id of the tree with all files."""
        return git.change(self._root)

    def write_file(self, path: str, content: Content, version: str = "") -> dict[str, str]:
        """Replace the content of a file. `version` is that of the file that was read; empty for a new file."""
        return {"path": path, "version": self._files.write(path, content, version)}

    def commit(self, message: CommitMessage, tree: str) -> git.Commit:
        """Commit all files. `tree` is the id from `diff`, so exactly this change is committed."""
        return git.commit(self._root, message, tree)

    def _preview_write(self, arguments: dict[str, Any], context: RunContext) -> RunAction:
        path, content = arguments["path"], arguments["content"]
        before = self._files.check(path, content, arguments["version"])
        return _action("write_file", arguments, path, unified_diff(path, before.content, content))

    async def _preview_commit(self, arguments: dict[str, Any], context: RunContext) -> RunAction:
        change = await asyncio.to_thread(git.check_tree, self._root, arguments["tree"])
        return _action("commit", arguments, arguments["message"], change.diff)


def unified_diff(path: str, before: str, after: str) -> str:
    """Return the difference between two contents of a file in git's form, empty if they are equal."""
    return "\n".join(difflib.unified_diff(_lines(before), _lines(after), f"a/{path}", f"b/{path}", lineterm=""))


def _lines(text: str) -> list[str]:
    *lines, last = text.split("\n")
    return [*lines, f"{last}\n\\ No newline at end of file"] if last else lines


def _action(tool: str, arguments: dict[str, Any], title: str, diff: str) -> RunAction:
    preview = Artifact(kind="preview", name=title, media_type=DIFF, parts=[Part.text(diff)])
    return RunAction("tool.call", tool, {"arguments": arguments}, artifacts=(preview,))


agent = Coder(project_root(), **own_settings("coder"))

if __name__ == "__main__":
    serve(agent)
