"""The orchestrator: turns a goal into a reviewed commit, with the help of the other agents.

The code decides the order: plan, edit, check, review, commit. The model makes the edits, by calling the coder. Only a commit counts
as success, and only after checks that passed and a review of exactly the committed tree.
"""

import json
from dataclasses import asdict, dataclass
from typing import Any

from examples.code_assistant.checks import Checks
from examples.code_assistant.git import Change, Commit
from examples.code_assistant.repository import File
from examples.code_assistant.rights import CHECKING, COMMITTING, READING, THINKING
from examples.code_assistant.script import ORCHESTRATOR, create_model
from examples.mesh.process import own_settings, serve
from protolink_grpc import (
    LLM,
    Agent,
    AgentCard,
    Artifact,
    InferSettings,
    Message,
    Part,
    PolicyDecision,
    PolicyEffect,
    RunAction,
    RunContext,
    Task,
    TaskExecutionError,
    current_run,
)

MAX_ROUNDS = 3
"""How often the model may edit before the orchestrator gives up."""

MAX_FILES = 20
"""How many files the planner gets."""

INSTRUCTIONS = """\
You change a small project according to a goal and a plan, with the tools of the agent coder, one call at a time:
1. read_file each file that you change; the result has its version.
2. write_file with the complete new content and that version. The user may refuse it.
Before each call, say in one short sentence what you do. Change nothing that the goal does not need.
Answer with `done` and a `summary`: one sentence that can be the message of a commit. If the user refused a change or the goal
cannot be reached, `done` is false and the summary says why. Tests and commits are made after your answer."""


@dataclass(frozen=True, slots=True)
class Edit:
    """The model's answer after its edits."""

    done: bool
    summary: str


@dataclass(frozen=True, slots=True)
class Verdict:
    """The reviewer's answer."""

    accepted: bool
    reason: str


class EditsOnly:
    """The policy of the orchestrator: its model may not commit, because a commit follows the checks and the review."""

    async def evaluate(self, action: RunAction, context: RunContext) -> PolicyDecision:
        if action.payload.get("tool") == "commit":
            return PolicyDecision(PolicyEffect.DENY, "the model does not commit", "edits-only")
        return PolicyDecision(PolicyEffect.ALLOW, policy_name="edits-only")


class Orchestrator(Agent):
    """Reaches a goal, sent as text, by changing the coder's repository."""

    def __init__(self, *, llm: LLM, **options: Any) -> None:
        card = AgentCard(
            name="orchestrator",
            description="Changes a project with the help of its peers.",
            url="grpc://127.0.0.1:0",
            role="orchestrator",
            tags=["code"],
        )
        super().__init__(
            card,
            llm=llm,
            system_prompt=INSTRUCTIONS,
            policy=EditsOnly(),
            infer=InferSettings(max_tool_corrections=5),
            # After a crash the handler runs again and finds the finished work in the log.
            recovery="resume",
            **options,
        )

    async def handle_task(self, task: Task) -> Task:
        goal = task.messages[-1].text
        files = await self._read_files()
        checks = await self._run_checks()
        plan = (await self._ask("planner", "plan", prompt(goal, files=files, checks=checks))).get_output()
        objection: Checks | Verdict | None = None
        for _ in range(MAX_ROUNDS):
            edit = await self._edit(task, prompt(goal, plan=plan, objection=objection))
            if not edit.done:
                return task.reject(edit.summary)
            checks = await self._run_checks()
            if not checks.passed:
                objection = checks
                continue
            change = (await self._call("coder", "diff", READING)).get_output_as(Change)
            if not change.diff:
                return task.reject("nothing was changed")
            question = prompt(goal, checks=checks, diff=change.diff)
            verdict = (await self._ask("reviewer", "review", question, Verdict)).get_output_as(Verdict)
            if verdict.accepted:
                return await self._commit(task, edit.summary, change.tree)
            objection = verdict
        return task.reject(f"no accepted change after {MAX_ROUNDS} rounds")

    async def _read_files(self) -> list[File]:
        paths = (await self._call("coder", "list_files", READING)).get_output()
        reads = [await self._call("coder", "read_file", READING, path=path) for path in paths[:MAX_FILES]]
        return [read.get_output_as(File) for read in reads]

    async def _run_checks(self) -> Checks:
        return (await self._call("tester", "run_checks", CHECKING)).get_output_as(Checks)

    async def _edit(self, task: Task, text: str) -> Edit:
        """Let the model edit files, in the run of this task: its calls are in this log, and its context is that of the user."""
        message = Message.infer(text, output_type=Edit)
        answer = await self.execute_task(Task(id=task.id, messages=[message], state=task.state))
        return answer.get_output_as(Edit)

    async def _commit(self, task: Task, message: str, tree: str) -> Task:
        try:
            answer = await self._call("coder", "commit", COMMITTING, message=message, tree=tree)
        except TaskExecutionError as error:
            return task.reject(f"the commit was not made: {error.task.reason if error.task is not None else error}")
        commit = answer.get_output_as(Commit)
        task.add_artifact(Artifact(name="commit", parts=[Part.json(asdict(commit))]))
        return task.complete(f"Committed {commit.commit[:7]}: {commit.message}")

    async def _call(self, agent: str, tool: str, permissions: dict[str, str], **arguments: str) -> Task:
        """Call a tool of another agent with these permissions at most. Raises as `_send`."""
        call = Task.create_tool_call(tool, arguments, context=RunContext(permissions=permissions))
        return await self._send(agent, f"{tool} {arguments['path']}" if "path" in arguments else tool, call)

    async def _ask(self, agent: str, what: str, text: str, answer: type | None = None) -> Task:
        """Ask the model of another agent, which may use no tools for its answer. Raises as `_send`."""
        context = RunContext(permissions=THINKING)
        return await self._send(agent, what, Task.create_infer(text, output_type=answer, context=context))

    async def _send(self, agent: str, what: str, task: Task) -> Task:
        """Announce a task, send it, and return it when it has ended.

        Raises:
            TaskExecutionError: It failed, or was denied.
        """
        run = current_run()
        if run is not None:
            await run.progress(None, f"{agent}: {what}")
        return (await self.call_agent(agent, task)).raise_for_status()


def prompt(goal: str, **facts: Any) -> str:
    """Return the goal, followed by one line of JSON for each fact."""
    known = (f"{name}: {json.dumps(value, default=asdict)}" for name, value in facts.items() if value)
    return "\n".join([f"Goal: {goal}", *known])


agent = Orchestrator(llm=create_model(ORCHESTRATOR), **own_settings("orchestrator"))

if __name__ == "__main__":
    serve(agent)
