"""A server with the stubs of `plgrpc.v1` only, of the version that is on its path. Its answers are fixed.

Prints its port, and runs until standard input is closed. What only a newer contract has is in its answers.
"""

import asyncio
import sys
from collections.abc import AsyncIterator

import grpc
from plgrpc.v1 import agent_card_pb2, event_pb2, task_input_pb2, task_pb2
from plgrpc.v1 import agent_service_pb2 as pb
from plgrpc.v1 import agent_service_pb2_grpc as rpc
from stub_client import told

NEWER = "future_kind" in event_pb2.RunEvent.DESCRIPTOR.fields_by_name


def artifact(text: str) -> task_pb2.Artifact:
    made = task_pb2.Artifact(id="a1", kind="file")
    made.parts.add(text=text)
    return made


def begun(given: task_input_pb2.TaskInput) -> task_pb2.Task:
    """The task that an input becomes."""
    return task_pb2.Task(id=given.task_id or "t1", messages=given.messages)


def answered(sent: task_pb2.Task) -> task_pb2.Task:
    done = task_pb2.Task()
    done.CopyFrom(sent)
    done.state = task_pb2.TASK_STATE_COMPLETED
    done.sequence = 4
    done.artifacts.append(artifact("a fixed answer"))
    done.message_count, done.artifact_count = len(done.messages), 1
    return done


def log(sent: task_pb2.Task) -> list[event_pb2.RunEvent]:
    """A task from its first event to its last."""
    submitted = event_pb2.RunEvent(event_type="task.submitted")
    submitted.task_submitted.task.CopyFrom(sent)
    submitted.task_submitted.task.state = task_pb2.TASK_STATE_SUBMITTED
    working = event_pb2.RunEvent(event_type="task.status")
    working.task_status.previous_state = task_pb2.TASK_STATE_SUBMITTED
    working.task_status.new_state = task_pb2.TASK_STATE_WORKING
    unheard = event_pb2.RunEvent(event_type="future.kind", summary="From the future")
    if NEWER:
        unheard.future_kind.future_note = "payload"  # type: ignore[attr-defined]  # only a newer contract has it
        unheard.severity = event_pb2.Severity.Value("SEVERITY_FUTURE")
    said = event_pb2.RunEvent(event_type="task.message")
    paused = event_pb2.RunEvent(event_type="task.status")
    if NEWER:
        message = said.task_messages.messages.add(id="m1", role=task_pb2.MessageRole.Value("MESSAGE_ROLE_FUTURE"))
        message.create_time.FromSeconds(1_800_000_000)
        message.parts.add(future_part="payload", fallback_text="A part from the future")  # type: ignore[call-arg]  # as above
        paused.task_status.previous_state = task_pb2.TASK_STATE_WORKING
        paused.task_status.new_state = task_pb2.TaskState.Value("TASK_STATE_FUTURE")
    made = event_pb2.RunEvent(event_type="task.artifact")
    made.task_artifact.artifact.CopyFrom(artifact("a fixed answer"))
    ended = event_pb2.RunEvent(event_type="task.status", last=True)
    ended.task_status.previous_state = task_pb2.TASK_STATE_WORKING
    ended.task_status.new_state = task_pb2.TASK_STATE_COMPLETED
    events = [submitted, working, *([unheard, said, paused] if NEWER else []), made, ended]
    for sequence, event in enumerate(events, 1):
        event.task_id, event.sequence = sent.id, sequence
        event.create_time.FromSeconds(1_800_000_000 + sequence)
        told(event)
    return events


class FixedAgent(rpc.AgentServiceServicer):
    async def GetAgentCard(self, request: pb.GetAgentCardRequest, context: object) -> pb.GetAgentCardResponse:
        card = agent_card_pb2.AgentCard(
            name="fixed", description="answers", interfaces=[{"url": "grpc://127.0.0.1:0", "transport": "grpc"}]
        )
        return pb.GetAgentCardResponse(card=told(card))

    async def SendTask(self, request: pb.SendTaskRequest, context: object) -> pb.SendTaskResponse:
        return pb.SendTaskResponse(task=told(answered(begun(request.input))))

    async def StreamTask(self, request: pb.StreamTaskRequest, context: object) -> AsyncIterator[pb.StreamTaskResponse]:
        for event in log(begun(request.input)):
            yield pb.StreamTaskResponse(events=[event])

    async def GetTask(self, request: pb.GetTaskRequest, context: object) -> pb.GetTaskResponse:
        return pb.GetTaskResponse(task=told(answered(task_pb2.Task(id=request.task_id))))


async def main() -> None:
    server = grpc.aio.server()
    rpc.add_AgentServiceServicer_to_server(FixedAgent(), server)
    print(server.add_insecure_port("127.0.0.1:0"), flush=True)
    await server.start()
    await asyncio.to_thread(sys.stdin.read)
    await server.stop(None)


if __name__ == "__main__":
    asyncio.run(main())
