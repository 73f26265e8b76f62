"""The output of a demo: a line for each important event, the model's text while it is produced, and tables."""

import json
import textwrap
from collections.abc import Mapping
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from protolink_grpc import (
    ActionEnded,
    ActionStarted,
    ApprovalDecided,
    ApprovalRequired,
    BudgetUsage,
    LlmCallCompleted,
    LlmCallStarted,
    RunBudget,
    RunEvent,
    RunReport,
    Task,
    TaskArtifactUpdated,
    TaskMessagesAdded,
    TaskProgress,
    TaskState,
    TaskStatusChanged,
    TextDelta,
)
from protolink_grpc.models.events import ActionPolicyEvaluated, BudgetReported, LlmCallFailed, LlmStep, TaskSubmitted

DIFF_COLORS = {"+++": "bold", "---": "bold", "@@": "cyan", "+": "green", "-": "red"}
"""Color of a diff's line by its beginning; the first one that fits."""

HIDDEN_TYPES = frozenset(
    {
        "context.prepared",
        "llm.call.started",
        "llm.stream",
        "action.requested",
        "action.policy",
        "action.peer_task",
        "task.error",
    }
)
"""Types of events that usually have no line, because other lines show the same, or because they are details."""


class EventLines:
    """Converts the events of a task to lines. They are the same for a live stream and for the log.

    Args:
        main: The agent of the task. Its actions are calls of other agents and of its own tools.
    """

    def __init__(self, main: str) -> None:
        self.main = main
        self._call_sequence = 0
        self._actions: dict[str, tuple[str, str]] = {}

    def line(self, event: RunEvent) -> str | None:
        """Return the line that this event completes, if any."""
        match event.payload:
            case LlmCallStarted():
                self._call_sequence = event.sequence or 0
                return None
            case LlmCallCompleted() as call:
                tools = f"calls {', '.join(each.tool_name for each in call.tool_calls)}" if call.tool_calls else ""
                return f"{self.opening(self._call_sequence)}{self.answer(call.text) or tools or '(nothing)'}"
        found = self._describe(event)
        return None if found is None else f"{event.sequence or 0:>3}  {found[0]:<12} {plain(found[1])}"

    def agent_of(self, event: RunEvent) -> str:
        """Return the name of the agent that works on the event's action."""
        return self._actions[event.action_id][0] if event.action_id in self._actions else self.main

    def opening(self, sequence: int) -> str:
        """Return the beginning of the line with a model's text."""
        return f"{sequence:>3}  {self.main:<12} > "

    # A demo overrides these for its own agents.

    def answer(self, text: str) -> str:
        """Return the text of a model on one line."""
        return plain(text)

    def result(self, tool: str, found: Any) -> str:
        """Return the result of a call on one line. `tool` is `agent.tool`."""
        return str(found) if isinstance(found, str | int | float) else "done"

    def task_name(self) -> str:
        """Return what another agent does in a task that the main agent's code sends now: the last tool of the main agent."""
        outer = [tool for agent, tool in self._actions.values() if agent == self.main]
        return outer[-1] if outer else "task"

    def _describe(self, event: RunEvent) -> tuple[str, str] | None:
        """Return the name of the agent and the text of the event's line; None for an event without a line."""
        match event.payload:
            case TaskSubmitted(task=task):
                text = f"receives the task: {task.messages[0].text if task.messages else task.id}"
            case TaskStatusChanged(new_state=state, reason=reason):
                text = f"is {state}{f': {reason}' if reason else ''}"
            case TaskProgress(progress=percent, message=message):
                text = message if percent is None else f"{percent:.0f} % {message}"
            case TaskArtifactUpdated(artifact=artifact):
                text = f"publishes {artifact.name or 'the answer'}"
            case TaskMessagesAdded(messages=messages):
                text = f"message: {messages[-1].text or 'an error'}"
            case ActionStarted() as started:
                return self._describe_start(event, started)
            case ActionEnded() as ended:
                return self._describe_end(event, ended)
            case ApprovalRequired(request=request):
                text = f"needs an approval for {request.action.name}"
            case ApprovalDecided():
                text = f"approval: {event.summary}"
            case ActionPolicyEvaluated(decision=decision) if str(decision.effect) == "deny":
                text = f"denied: {decision.reason}"
            case BudgetReported(decision=decision):
                text = f"budget: {decision.message}"
            case LlmCallFailed(failure=failure, will_retry=will_retry):
                text = f"the model call failed{' and is retried' if will_retry else ''}: {failure.message}"
            case LlmStep(kind="llm_parse_error" | "llm_retry" as kind, content=content):
                text = f"{kind.removeprefix('llm_').replace('_', ' ')}: {content}"
            case _ if event.type in HIDDEN_TYPES:
                return None
            case _:
                text = " ".join(filter(None, (event.type, event.summary)))
        return event.agent_name, text

    def _describe_start(self, event: RunEvent, started: ActionStarted) -> tuple[str, str]:
        values = started.arguments or {}
        if started.kind != "agent.call":
            agent, tool, arguments = event.agent_name, started.name, values
        else:
            agent, tool = started.name, values.get("tool") or self.task_name()
            arguments = values.get("args") or {}
        self._actions[event.action_id] = agent, tool
        return agent, f"{tool}({_format_arguments(arguments)})" if arguments else tool

    def _describe_end(self, event: RunEvent, ended: ActionEnded) -> tuple[str, str]:
        agent, tool = self._actions.get(event.action_id, (event.agent_name, ended.name))
        duration = f" ({ended.duration_micros / 1000:.0f} ms)" if ended.duration_micros else ""
        if ended.outcome == "completed":
            return agent, f"{tool} -> {self._show_result(agent, tool, ended.result)}{duration}"
        why = ended.error.get("message") if isinstance(ended.error, dict) else None
        if ended.outcome == "denied":
            return agent, str(why or event.summary)
        return agent, f"{tool} {ended.outcome}{f': {why}' if why else ''}{duration}"

    def _show_result(self, agent: str, tool: str, found: Any) -> str:
        if isinstance(found, dict) and found.keys() >= {"task_id", "state", "output"}:
            found = found["output"]
        return self.result(f"{agent}.{tool}", found)


class Screen:
    """Shows a task live: its lines, and between them the text that the model is producing.

    Args:
        colors: Color of each agent's name.
    """

    def __init__(self, console: Console, lines: EventLines, colors: Mapping[str, str]) -> None:
        self._console = console
        self._lines = lines
        self._colors = colors
        self._text = self._shown = ""
        self._is_open = False

    def show(self, event: RunEvent) -> None:
        """Show the next event of the task."""
        if isinstance(event.payload, TextDelta):
            self._text += event.payload.text
            self._write(plain(self._text))
            return
        line = self._lines.line(event)
        if isinstance(event.payload, LlmCallStarted):
            self.finish()
            self._begin(event.sequence or 0)
        elif isinstance(event.payload, LlmCallCompleted) and line is not None:
            self._write(line[len(self._lines.opening(0)) :])
            self.finish()
        elif line is not None:
            self.finish()
            self._print(line, self._lines.agent_of(event))

    def finish(self) -> None:
        """End the current line, if one is open."""
        if self._is_open:
            self._console.print()
        self._is_open = False

    def _begin(self, sequence: int) -> None:
        self._text = self._shown = ""
        self._is_open = True
        self._print(self._lines.opening(sequence), self._lines.main, end="")

    def _write(self, text: str) -> None:
        """Write the new part of the open line, whose text only grows."""
        if self._is_open and text.startswith(self._shown):
            self._console.print(Text(text[len(self._shown) :]), soft_wrap=True, end="")
            self._shown = text
            self._console.file.flush()

    def _print(self, line: str, agent: str, end: str = "\n") -> None:
        if self._console.is_terminal and end:
            line = textwrap.fill(line, self._console.width, subsequent_indent=" " * 18, break_on_hyphens=False)
        styled = Text(line)
        styled.stylize(self._colors.get(agent, ""), 5, 17)
        self._console.print(styled, soft_wrap=True, end=end)
        self._console.file.flush()


def plain(text: str) -> str:
    """Return a text on one line, without control characters."""
    return " ".join("".join(each if each.isprintable() else " " for each in text).split())


def _format_arguments(arguments: Mapping[str, Any]) -> str:
    """Format arguments on one line, with only the size of lists and objects."""
    shown = []
    for key, value in arguments.items():
        match value:
            case None:
                continue
            case str() if "\n" in value:
                shown.append(f"{key}: {len(value.splitlines())} lines")
            case list() | dict():
                shown.append(f"{key}: {len(value)} {'fields' if isinstance(value, dict) else 'items'}")
            case _:
                shown.append(f"{key}={value if isinstance(value, str) else json.dumps(value)}")
    return ", ".join(shown)


def diff_text(diff: str) -> Text:
    """Return a unified diff in colors. Characters that a terminal would hide or act on are shown as escapes."""
    found = Text()
    for line in diff.removesuffix("\n").split("\n"):
        color = next((color for mark, color in DIFF_COLORS.items() if line.startswith(mark)), "")
        shown = (each if each.isprintable() else each.encode("unicode_escape").decode() for each in line.expandtabs(4))
        found.append("".join(shown) + "\n", color)
    return found


# -- Tables --------------------------------------------------------------------------------------------------------------


def table(title: str, rows: Mapping[str, Any]) -> Table:
    """Return a table of names and values, without empty values."""
    found = Table("", "", title=title, title_justify="left", show_header=False, box=box.ASCII)
    for name, value in rows.items():
        if value not in (None, ""):
            found.add_row(plain(name), plain(str(value)))
    return found


def artifact_of(task: Task, name: str) -> Any:
    """Return the JSON of the task's artifact with that name, or None."""
    for artifact in task.artifacts:
        if artifact.name == name:
            return artifact.parts[0].content
    return None


def report_table(report: RunReport, state: TaskState, approvals: str = "") -> Table:
    """Return a table of the run's actions and usage.

    Args:
        approvals: Describes the approvals of other agents; by default the run's own ones are shown.
    """
    totals = report.totals
    model = ", ".join(dict.fromkeys(f"{call.provider} {call.model}" for call in report.metrics))
    calls = [action for action in report.actions if action.starts]
    agents = sum(action.kind == "agent.call" for action in calls)
    rows = {
        "State": state,
        "Model": model,
        "Steps": totals.steps,
        "Model calls": f"{totals.llm_calls}, {_seconds(totals.llm_micros)}",
        "Agent calls": agents,
        "Tool calls": len(calls) - agents,
        "Tokens": f"{_amount(totals.input_tokens)} in, {_amount(totals.output_tokens)} out",
        "Cost": _cost(report),
        "Budget": _budget(report),
        "Approvals": approvals
        or "; ".join(
            f"{each.state}{f' by {each.decision.decided_by}' if each.decision else ''} after {_seconds(each.waited_micros)}"
            for each in report.approvals
        )
        or "none",
        "Time": f"{_seconds(totals.runtime_micros - totals.waited_micros)} of work, {_seconds(totals.waited_micros)} of waiting",
        "Events": len(report.events),
    }
    return table("Report", rows)


def _budget(report: RunReport) -> str:
    """Format the usage of each limit."""
    limits = report.context.budget if report.context is not None else RunBudget()
    totals = report.totals
    used = report.usage or BudgetUsage(totals.steps, totals.llm_calls, totals.tool_calls)
    pairs = (
        ("steps", used.steps, limits.max_steps),
        ("model calls", used.llm_calls, limits.max_llm_calls),
        ("tool calls", used.tool_calls, limits.max_tool_calls),
    )
    return ", ".join(f"{count} of {limit} {name}" for name, count, limit in pairs if limit is not None)


def _cost(report: RunReport) -> str:
    totals = report.totals
    return "unknown" if totals.cost_micros is None else f"{totals.currency} {totals.cost_micros / 1e6:.4f}".strip()


def _amount(value: int | None) -> str:
    return "unknown" if value is None else f"{value:,}"


def _seconds(micros: int | None) -> str:
    return "unknown" if micros is None else f"{micros / 1e6:.1f} s"
