"""A client with the stubs of `plgrpc.v1` only, of the version that is on its path: `stub_client.py HOST:PORT`.

Prints what it saw as one JSON document. Fields that only a newer contract has are set wherever they are.
"""

import json
import sys
from collections.abc import Iterable

import grpc
from google.protobuf.message import Message
from plgrpc.v1 import agent_service_pb2 as pb
from plgrpc.v1 import agent_service_pb2_grpc as rpc
from plgrpc.v1 import event_pb2, task_input_pb2, task_pb2


def told(message: Message) -> Message:
    """The message with `future_note` set in all of it."""
    for field, value in message.ListFields():
        if field.message_type is not None:
            for each in value if isinstance(value, Iterable) else (value,):
                told(each)
    if "future_note" in message.DESCRIPTOR.fields_by_name:
        message.future_note = "from later"  # type: ignore[attr-defined]  # only a newer contract has it
    return message


def task(text: str) -> task_input_pb2.TaskInput:
    message = task_pb2.Message(role=task_pb2.MESSAGE_ROLE_USER)
    message.parts.add(text=text)
    return task_input_pb2.TaskInput(messages=[message])


def shown(event: event_pb2.RunEvent) -> dict[str, object]:
    return {
        "sequence": event.sequence,
        "type": event.event_type,
        "kind": event.WhichOneof("payload"),
        "summary": event.summary,
        "final": event.last,
    }


def text_of(done: task_pb2.Task) -> list[str]:
    return [part.text for artifact in done.artifacts for part in artifact.parts if part.HasField("text")]


def main(target: str) -> None:
    with grpc.insecure_channel(target) as channel:
        agent = rpc.AgentServiceStub(channel)
        card = agent.GetAgentCard(pb.GetAgentCardRequest(), timeout=30).card
        request = told(pb.SendTaskRequest(input=task("send"), request_id="sent"))
        sent = agent.SendTask(request, timeout=30).task
        again = agent.SendTask(request, timeout=30).task
        request = told(pb.StreamTaskRequest(input=task("stream")))
        events = [event for answer in agent.StreamTask(request, timeout=30) for event in answer.events]
        read = agent.GetTask(told(pb.GetTaskRequest(task_id=events[0].task_id)), timeout=30).task
        document = {
            "card": card.name,
            "sent": [task_pb2.TaskState.Name(sent.state), text_of(sent)],
            "same": sent.id == again.id,
            "events": [shown(event) for event in events],
            "read": [task_pb2.TaskState.Name(read.state), text_of(read)],
        }
    print(json.dumps(document))


if __name__ == "__main__":
    main(sys.argv[1])
