"""The execution of a whole flow for a task of a run."""

from collections.abc import Sequence

from protolink_grpc.flows.flow import Flow
from protolink_grpc.flows.record import STARTED, FlowRecord
from protolink_grpc.flows.results import Ending, Given, StepResult, copy_task, working_task
from protolink_grpc.flows.scope import FlowHost, FlowRun, Scope
from protolink_grpc.models.failure import Failure
from protolink_grpc.models.lifecycle import TaskState
from protolink_grpc.models.task import Task
from protolink_grpc.runtime.run import Run


async def run_flow(flow: Flow, task: Task, run: Run, host: FlowHost) -> Task:
    """Execute a flow as the handler of a run, and return the task in the state in which the flow ended or waits.

    Args:
        task: The task that the run gave to its handler.
    """
    record = await _read_record(run)
    base = record.task or working_task(copy_task(task))
    work = working_task(base)
    scope = Scope(FlowRun(run, host, record), host.connection(flow.client, flow.registry, None), node=flow.name)
    await scope.report(STARTED, flow=flow.describe().to_dict())
    ending = await flow.run(work, scope)
    if ending.is_waiting:
        await scope.report_waiting(ending)
    else:
        await scope.report("workflow.ended", state=ending.state.value)
    StepResult.of(base, work, given=Given(work, work.messages, work.artifacts)).apply(task)
    _settle(task, ending)
    return task


async def run_part(flow: Flow, task: Task, run: Run, host: FlowHost) -> Task:
    """Execute a flow as a part of the handler of a run, and return `task` with its results, in the state of the flow.

    Its messages and artifacts are recorded when the handler returns the task.
    """
    flow.check()
    # The same in every run of the task that executes the same flows in the same order.
    number = run.position("flow", flow.name, "").rpartition("/")[2]
    record = await _read_record(run)
    scope = Scope(FlowRun(run, host, record), host.connection(None, None, None), publishes=False)
    scope = scope.at(f"{flow.name}~{number}")
    base = working_task(copy_task(task))
    _keep(base, record.inputs.get(scope.path, ()))
    work = working_task(base)
    items = [*(each.id for each in base.messages), *(each.id for each in base.artifacts)]
    await scope.report(STARTED, flow=flow.describe().to_dict(), input=items)
    ending = await flow.run(work, scope)
    if ending.is_waiting:
        await scope.report_waiting(ending)
    StepResult.of(base, work, given=Given(work, work.messages, work.artifacts)).apply(task)
    if task.state is TaskState.SUBMITTED:
        task.begin()
    _settle(task, ending)
    return task


async def _read_record(run: Run) -> FlowRecord:
    return FlowRecord() if run.attempt == 1 else await FlowRecord.read(run.live.store, run.live.fold)


def _keep(task: Task, ids: Sequence[str]) -> None:
    """Remove the items that an earlier execution of the flow has added to its task.

    Args:
        ids: The items with which the flow began. A handler that creates them itself gives them other ids in each run.
    """
    messages = [each for each in task.messages if each.id in ids]
    artifacts = [each for each in task.artifacts if each.id in ids]
    if ids and len(messages) + len(artifacts) == len(ids):
        task.messages, task.artifacts = messages, artifacts


def _settle(task: Task, ending: Ending) -> None:
    match ending.state:
        case TaskState.FAILED:
            task.fail(ending.failure or Failure(message="the flow failed"))
        case TaskState.REJECTED:
            task.reject(ending.failure)
        case TaskState.CANCELED:
            task.cancel(ending.cancel_reason or None)
        case _:
            task.update_state(ending.state)
