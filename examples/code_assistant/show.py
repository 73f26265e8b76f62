"""The code assistant's own output: results of its agents' tools, and the commit."""

import json
from typing import Any

from rich.table import Table

from examples.mesh.show import EventLines, plain, table
from protolink_grpc import Approval, RunEvent, TaskArtifactUpdated, TaskProgress

COLORS = {"orchestrator": "cyan", "planner": "magenta", "coder": "green", "tester": "yellow", "reviewer": "blue"}


class CodeLines(EventLines):
    """The lines of the orchestrator's task."""

    def __init__(self) -> None:
        super().__init__("orchestrator")
        self._announced = ""

    def line(self, event: RunEvent) -> str | None:
        match event.payload:
            case TaskProgress(message=message):
                # The orchestrator announces each task that its code sends: `agent: what`.
                self._announced = message.partition(": ")[2]
                return None
            case TaskArtifactUpdated(artifact=artifact) if not artifact.name:
                return None  # the model's answer, which has a line already
        return super().line(event)

    def task_name(self) -> str:
        return self._announced or super().task_name()

    def answer(self, text: str) -> str:
        try:
            edit = json.loads(text)
            return plain(f"{'Done' if edit['done'] else 'Not done'}: {edit['summary']}")
        except (ValueError, TypeError, KeyError):
            return plain(text)

    def result(self, tool: str, found: Any) -> str:
        match tool.partition(" ")[0], found:
            case "coder.list_files" | "coder.search", list():
                return f"{len(found)} found"
            case "coder.read_file", {"content": content}:
                return f"{len(content.splitlines())} lines"
            case "coder.write_file", {"version": version}:
                return f"version {version}"
            case "coder.diff", {"diff": diff}:
                return diff_size(diff)
            case "coder.commit", {"commit": commit}:
                return str(commit)[:7]
            case "tester.run_checks", {"passed": True, "ran": ran}:
                return f"{ran} tests passed"
            case "tester.run_checks", {"reason": reason, "failures": failures}:
                return ": ".join(filter(None, (reason, ", ".join(each["test"] for each in failures))))
            case "reviewer.review", {"accepted": accepted, "reason": reason}:
                return f"{'accepted' if accepted else 'refused'}: {reason}"
            case _:
                return super().result(tool, found)


def diff_size(diff: str) -> str:
    """Return the number of added and removed lines of a diff."""
    lines = [line for line in diff.splitlines() if not line.startswith(("+++", "---"))]
    added, removed = (sum(line.startswith(mark) for line in lines) for mark in "+-")
    return f"+{added} -{removed} lines"


def commit_table(commit: dict[str, Any], diff: str, root: str) -> Table:
    """Return a table of the commit."""
    rows = {
        "Commit": commit["commit"][:12],
        "Message": commit["message"],
        "Change": diff_size(diff),
        "Repository": root,
    }
    return table("Commit", rows)


def describe_approvals(approvals: list[Approval]) -> str:
    """Return each approved or denied tool with its decision."""
    return ", ".join(f"{each.request.action.name} {each.state}" for each in approvals) or "none"
