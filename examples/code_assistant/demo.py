"""The demo: creates a project with failing tests, starts the agents, and shows how they repair it. You approve each change.

`python -m examples.code_assistant.demo`
"""

import argparse
import asyncio
import sys
from collections import defaultdict
from collections.abc import Sequence
from contextlib import aclosing

from rich.console import Console

from examples.code_assistant.git import git
from examples.code_assistant.project import GOAL, create_project
from examples.code_assistant.script import ORCHESTRATOR, SCRIPT, create_model
from examples.code_assistant.show import COLORS, CodeLines, commit_table, describe_approvals
from examples.mesh import launch
from examples.mesh.ask import Approver
from examples.mesh.mesh import Mesh
from examples.mesh.show import Screen, artifact_of, plain, report_table
from protolink_grpc import (
    ActionStarted,
    AgentClient,
    Approval,
    ApprovalState,
    ProtolinkError,
    RunBudget,
    RunReport,
    Task,
)

AGENTS = ("planner", "coder", "tester", "reviewer", "orchestrator")

BUDGET = RunBudget(max_steps=40, max_llm_calls=40, max_tool_calls=80)
"""The budget for one goal, with the work of all agents: about three times the usage of the scripts."""

CANCEL_S = 3.0
"""How long the cancellation of the task may take after Ctrl-C, in seconds."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the demo. Returns the exit code: 0 committed, 1 not committed, 2 invalid arguments, 130 and 143 interrupted."""
    parser = argparse.ArgumentParser(
        prog="demo-code",
        description="Five agents and a registry, each its own process, repair a project with failing tests.",
    )
    parser.add_argument("--yes", action="store_true", help="approve every change and the commit without asking")
    parser.add_argument("--goal", default=GOAL, help="what the agents should do (the scripts know only the default)")
    launch.add_options(parser, lambda name: create_model(ORCHESTRATOR, name), SCRIPT)
    arguments = parser.parse_args(argv)
    return launch.run_demo(lambda console: _run(arguments, console))


async def _run(arguments: argparse.Namespace, console: Console) -> int:
    model = launch.chosen_model(arguments, SCRIPT)
    directory = launch.new_directory(arguments.dir)
    root = directory / "project"
    await asyncio.to_thread(create_project, root)
    console.print(f"Starting the registry and five agents, one process each; their files: {directory}/", soft_wrap=True)
    async with Mesh("examples.code_assistant", AGENTS, directory, launch.environment_of(arguments, model)) as mesh:
        await launch.print_processes(console, mesh)
        console.print(f"Models of orchestrator, planner and reviewer: {model.name} ({model.why}).")
        url = await mesh.url_of("orchestrator")
        client = AgentClient(url=url, outage_s=launch.OUTAGE_S)
        coder = AgentClient(url=await mesh.url_of("coder"), outage_s=launch.OUTAGE_S)
        approver = Approver(
            coder, console, approve_all=arguments.yes, question="May the coder do this?", effect="all changes"
        )
        work = Work(client, coder, Screen(console, CodeLines(), COLORS), approver)
        task, report = await mesh.while_running(work.run(Task.create(arguments.goal, budget=BUDGET)))
        commit = artifact_of(task, "commit")
        console.print()
        if commit is not None:
            console.print(commit_table(commit, git(root, "show", "--format=", commit["commit"]), str(root)))
        else:
            console.print(f"Not committed: {plain(task.reason or f'the task is {task.state}')}.", soft_wrap=True)
        console.print()
        console.print(report_table(report, task.state, describe_approvals(await work.approvals())))
        stop = launch.stop_event() if arguments.keep_running else None
        launch.print_next_steps(
            console,
            task,
            directory / "orchestrator.db",
            "examples.code_assistant.orchestrator:agent",
            url,
            registry_url=mesh.registry_url if stop is not None else None,
            approvals_url=coder.url or "",
            more=[f"Code  git -C {root} log --patch"],
        )
        if stop is not None:
            await mesh.while_running(stop.wait())
    if arguments.trace is not None:
        launch.print_traces(console, arguments.trace, task)
    return 0 if commit is not None else 1


class Work:
    """The task at the orchestrator, and the approvals that it needs at the coder."""

    def __init__(self, client: AgentClient, coder: AgentClient, screen: Screen, approver: Approver) -> None:
        self._client = client
        self._coder = coder
        self._screen = screen
        self._approver = approver
        # By the id of a task that the orchestrator has sent: set when the screen has shown that.
        self._shown: defaultdict[str, asyncio.Event] = defaultdict(asyncio.Event)

    async def run(self, task: Task) -> tuple[Task, RunReport]:
        """Send the task, show its events, and answer approvals. Return the task at its end and its report.

        If this is canceled, so is the task: down to the process that runs the tests.
        """
        approvals = asyncio.create_task(self._answer_approvals())
        work = asyncio.create_task(self._show(task))
        try:
            await asyncio.wait([work, approvals], return_when=asyncio.FIRST_COMPLETED)
            for done in (approvals, work):
                if done.done():
                    await done
        except asyncio.CancelledError:
            await self._cancel(task)
            raise
        finally:
            self._screen.finish()
            for each in (approvals, work):
                each.cancel()
            await asyncio.wait([approvals, work])
        return await self._client.get_task(task.id), await self._client.get_run_report(None, task.id)

    async def _show(self, task: Task) -> None:
        async with aclosing(self._client.send_task_streaming(None, task)) as events:
            async for event in events:
                self._screen.show(event)
                if isinstance(event.payload, ActionStarted):
                    arguments = event.payload.arguments or {}
                    self._shown[arguments.get("task_id", event.action_id)].set()

    async def _answer_approvals(self) -> None:
        """Answer the approvals of this task, until it is canceled."""
        answering: dict[str, asyncio.Task[None]] = {}
        async with asyncio.TaskGroup() as group, aclosing(self._coder.watch_approvals()) as approvals:
            async for approval in approvals:
                request = approval.request
                if approval.state is ApprovalState.PENDING:
                    answering[request.request_id] = group.create_task(self._answer(approval))
                elif request.request_id in answering:
                    # It was answered, perhaps in another terminal.
                    answering.pop(request.request_id).cancel()

    async def _answer(self, approval: Approval) -> None:
        # First the screen shows the call. An approval of another task, left by an earlier demo in this directory, has none.
        await self._shown[approval.request.task_id].wait()
        await self._approver.answer_approval(approval)

    async def approvals(self) -> list[Approval]:
        """Return the answered approvals of this task, oldest first."""
        answered = await self._coder.list_approvals(states=[ApprovalState.APPROVED, ApprovalState.DENIED])
        return [each for each in answered.approvals if each.request.task_id in self._shown]

    async def _cancel(self, task: Task) -> None:
        try:
            async with asyncio.timeout(CANCEL_S):
                await self._client.cancel_task(None, task.id, reason="interrupted by the user")
        except (TimeoutError, ProtolinkError):
            pass  # the agents are stopped anyway


if __name__ == "__main__":
    sys.exit(main())
