"""Makes the shared vectors: `python tests/vectors/make_vectors.py` writes them, always the same. README.md says what they are.

Every message and every arm of every oneof is filled by a rule; what protobuf libraries disagree about is written by hand.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import EllipsisType
from typing import Any

from google.protobuf import json_format
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message
from plgrpc.v1 import (
    action_pb2,
    agent_card_pb2,
    agent_service_pb2,
    approval_pb2,
    control_service_pb2,
    event_pb2,
    part_pb2,
    payload_pb2,
    registry_service_pb2,
    task_input_pb2,
    task_pb2,
    usage_pb2,
)

from protolink_grpc.testing.vectors import CLASSES, value_at
from protolink_grpc.wire.scalars import tag, varint

HERE = Path(__file__).parent

DEPTH = 3
"""Levels of messages that the rule fills; below them it sets no further message."""

EXPECTED = 8
"""Values that the entry of a filled message names at most."""

Field = FieldDescriptor
WIDE = {Field.TYPE_INT64, Field.TYPE_UINT64}


@dataclass
class Vector:
    """One vector.

    Args:
        data: Its bytes where they are not what Python would write.
        output: Of a task, the text of its answer, None where it has none; JSON is JSON text.
        is_usual: What no encoder writes is not.
    """

    name: str
    message: Message
    expect: list[str] = field(default_factory=list)
    data: bytes | None = None
    unknown_fields: bool = False
    output: str | EllipsisType | None = ...
    is_usual: bool = True

    @property
    def bytes(self) -> bytes:
        return self.message.SerializeToString(deterministic=True) if self.data is None else self.data

    @property
    def decoded(self) -> Message:
        return type(self.message).FromString(self.bytes)

    def entry(self) -> dict[str, Any]:
        known = self.decoded
        known.DiscardUnknownFields()
        entry: dict[str, Any] = {
            "name": self.name,
            "message": self.message.DESCRIPTOR.full_name,
            "file": f"{self.name}.binpb",
            "json": f"{self.name}.json",
            "bytes_equal": self.is_usual and has_one_order(self.decoded),
            "expect": {path: value_at(known, path) for path in self.expect},
        }
        more = {"unknown_fields": True} if self.unknown_fields else {}
        return entry | more | ({} if self.output is ... else {"output": self.output})

    def json(self) -> str:
        known = self.decoded
        known.DiscardUnknownFields()
        return json_format.MessageToJson(known, indent=2, sort_keys=True) + "\n"


def has_one_order(message: Message) -> bool:
    """Whether every encoder writes the fields in the same order: by number, but some write what is in a oneof last."""
    plain, chosen = [0], [2**29]
    for of, value in message.ListFields():
        oneof = of.containing_oneof
        (chosen if oneof is not None and len(oneof.fields) > 1 else plain).append(of.number)
        if is_map(of):
            values = list(value.values()) if of.message_type.fields_by_name["value"].message_type else []
            if len(value) > 1 or not all(map(has_one_order, values)):
                return False
        elif of.message_type is not None and not all(map(has_one_order, value if of.is_repeated else [value])):
            return False
    return max(plain) < min(chosen)


# -- by rule -------------------------------------------------------------------------------------------------------------------


def scalar(of: FieldDescriptor, nth: int = 0) -> Any:
    """A value that no other field of its message has, and never the default."""
    match of.type:
        case Field.TYPE_STRING if of.name == "json" or of.name.endswith("_json"):
            return f'{{"{of.name}":9007199254740993,"nth":{nth}}}'
        case Field.TYPE_STRING:
            return f"{of.name}-{nth + 1}"
        case Field.TYPE_BYTES:
            return bytes((0, 255, of.number, nth))
        case Field.TYPE_BOOL:
            return True
        case Field.TYPE_DOUBLE:
            return of.number + 0.5
        case Field.TYPE_ENUM:
            values = of.enum_type.values
            return values[1 + (of.number + nth) % (len(values) - 1)].number
        case kind if kind in WIDE:
            return 2**53 + 1 + of.number
        case Field.TYPE_INT32:
            return 10 * of.number + nth
        case kind:
            raise TypeError(f"{of.full_name} has the type {kind}, for which there is no rule yet")


def is_map(of: FieldDescriptor) -> bool:
    return of.message_type is not None and of.message_type.GetOptions().map_entry


def fill(message: Message, depth: int, arms: dict[str, str] | None = None) -> None:
    """Set every field; of a oneof the arm that `arms` names, else its first."""
    for of in message.DESCRIPTOR.fields:
        oneof = of.containing_oneof
        is_optional = oneof is not None and len(oneof.fields) == 1
        if oneof is not None and not is_optional and (arms or {}).get(oneof.name, oneof.fields[0].name) != of.name:
            continue
        if of.message_type is None or is_map(of) or depth > 0 or of.message_type.full_name.startswith("google."):
            fill_field(message, of, depth)


def fill_field(message: Message, of: FieldDescriptor, depth: int) -> None:
    target, items = getattr(message, of.name), 2 if depth == DEPTH else 1
    if is_map(of):
        # One entry: the order of several is nobody's promise.
        value = of.message_type.fields_by_name["value"]
        if value.message_type is None:
            target[f"{of.name}-key"] = scalar(value)
        else:
            fill(target[f"{of.name}-key"], depth - 1)
    elif of.message_type is None:
        if of.is_repeated:
            target.extend(scalar(of, nth) for nth in range(items))
        else:
            setattr(message, of.name, scalar(of))
    elif of.is_repeated:
        for _ in range(items):
            fill(target.add(), depth - 1)
    elif of.message_type.full_name == "google.protobuf.Timestamp":
        target.seconds, target.nanos = 1_700_000_000 + of.number, 123_456_000
    elif of.message_type.full_name == "google.protobuf.Duration":
        target.seconds, target.nanos = 30, 500_000_000
    else:
        target.SetInParent()
        fill(target, depth - 1)


def snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])([A-Z])", r"_\1", name).lower()


def leaves(message: Message, prefix: str = "") -> Iterator[str]:
    """Paths of the values of a message, those of its own fields before those of its parts."""
    deeper: list[tuple[str, Message]] = []
    for oneof in message.DESCRIPTOR.oneofs:
        if len(oneof.fields) > 1 and message.WhichOneof(oneof.name):
            yield f"{prefix}{oneof.name}"
    for of, value in message.ListFields():
        path = f"{prefix}{of.name}"
        if is_map(of):
            key = next(iter(value))
            if isinstance(value[key], Message):
                deeper.append((f"{path}.{key}.", value[key]))
            else:
                yield f"{path}.{key}"
        elif of.is_repeated:
            yield f"{path}.size"
            if of.message_type is None:
                yield f"{path}.{len(value) - 1}"
            else:
                deeper.append((f"{path}.{len(value) - 1}.", value[-1]))
        elif of.message_type is None:
            yield path
        else:
            deeper.append((f"{path}.", value))
    for path, value in deeper:
        yield from leaves(value, path)


def filled(descriptor: Descriptor, name: str, arms: dict[str, str]) -> Vector:
    message = CLASSES[descriptor.full_name]()
    fill(message, DEPTH, arms)
    paths = list(leaves(message))
    # The beginning, and what lies deepest.
    wanted = paths if len(paths) <= EXPECTED else paths[: EXPECTED - 2] + paths[-2:]
    return Vector(name, message, wanted)


def by_rule() -> Iterator[Vector]:
    for full_name in sorted(CLASSES):
        descriptor = CLASSES[full_name].DESCRIPTOR
        choices = [oneof for oneof in descriptor.oneofs if len(oneof.fields) > 1]
        if not choices:
            yield filled(descriptor, snake(descriptor.name), {})
        for oneof in choices:
            for arm in oneof.fields:
                yield filled(descriptor, f"{snake(descriptor.name)}.{arm.name}", {oneof.name: arm.name})


# -- by hand -------------------------------------------------------------------------------------------------------------------

STRANGE = "héllo 世界 🦀 e\u0301 \u202eשלום\u202c \u0000 \ufeff \U0010ffff"  # noqa: RUF001 -- as strange as it can be
"""Accents, scripts, an emoji, a combining mark, right to left, NUL, a byte order mark, the last code point."""

BIG = "0123456789abcde\n" * 65_536
"""1 MiB."""


def said(text: str) -> task_pb2.Message:
    return task_pb2.Message(id="m-1", role=task_pb2.MESSAGE_ROLE_USER, parts=[part_pb2.Part(text=text)])


def at(seconds: int, nanos: int) -> task_pb2.Task:
    task = task_pb2.Task(id="t-1")
    task.create_time.seconds, task.create_time.nanos = seconds, nanos
    return task


def length_delimited(number: int, data: bytes) -> bytes:
    return tag(number) + varint(len(data)) + data


def empty_ones() -> Iterator[Vector]:
    yield Vector("empty.task", task_pb2.Task(), ["id", "state", "sequence", "messages.size", "context", "create_time"])
    yield Vector("empty.run_event", event_pb2.RunEvent(), ["event_type", "sequence", "last", "payload", "create_time"])
    yield Vector(
        "empty.send_task_request", agent_service_pb2.SendTaskRequest(), ["input", "request_id", "view", "wait_for"]
    )
    yield Vector("empty.list_agents_response", registry_service_pb2.ListAgentsResponse(), ["agents.size", "revision"])
    # Set, to what is the default: not the same as unset.
    budget = usage_pb2.Budget(max_steps=0, max_runtime={}, max_cost={})
    yield Vector("presence.budget", budget, ["max_steps", "max_llm_calls", "max_runtime.seconds", "max_cost.micros"])
    route = part_pb2.RouteDecision(route_key="r", confidence=0.0)
    yield Vector("presence.route_decision", route, ["confidence", "metadata_json"])
    certificate = agent_card_pb2.SecurityScheme(mutual_tls=agent_card_pb2.MutualTlsSecurity())
    yield Vector("presence.security_scheme", certificate, ["scheme", "description", "metadata_json"])
    target = registry_service_pb2.GetAgentRequest(url="")
    yield Vector("presence.get_agent_request", target, ["target", "url"])
    call = event_pb2.LlmCallCompleted(call_id="c-1", usage={})
    yield Vector("presence.llm_call_completed", call, ["usage.output_tokens", "usage.costs.size", "duration.seconds"])
    reported = usage_pb2.Usage(input_tokens=3, output_tokens=0)
    yield Vector("presence.usage", reported, ["input_tokens", "output_tokens", "reasoning_tokens", "llm_calls"])
    state = control_service_pb2.CompactStateRequest(preserve_recent=0)
    yield Vector("presence.compact_state_request", state, ["preserve_recent", "max_messages"])
    yield Vector("presence.part_text", part_pb2.Part(text=""), ["content", "text"])
    yield Vector("presence.part_infer", part_pb2.Part(infer=part_pb2.Infer()), ["content", "infer.prompt"])
    yield Vector("presence.file_data", part_pb2.FileContent(content={"data": b""}), ["content.value", "content.data"])
    custom = event_pb2.RunEvent(event_type="custom", custom=event_pb2.CustomEvent())
    yield Vector("presence.run_event_custom", custom, ["payload", "custom.payload"])
    deepest = agent_service_pb2.SendTaskRequest(input=task_input_pb2.TaskInput(messages=[task_pb2.Message()]))
    yield Vector("presence.empty_message_in_list", deepest, ["input.messages.size", "input.messages.0.id"])


def numbers() -> Iterator[Vector]:
    largest = event_pb2.RunEvent(event_type="task.progress", sequence=2**63 - 1)
    yield Vector("integers.int64_max", largest, ["sequence"])
    yield Vector("integers.int64_min", event_pb2.RunEvent(event_type="x", sequence=-(2**63)), ["sequence"])
    yield Vector("integers.beyond_double", event_pb2.RunEvent(event_type="x", sequence=2**53 + 1), ["sequence"])
    yield Vector("integers.int32_max", event_pb2.LlmCallStarted(call_id="k", step=2**31 - 1), ["step"])
    yield Vector("integers.int32_min", event_pb2.LlmCallStarted(call_id="k", step=-(2**31)), ["step"])
    budget = usage_pb2.Budget(max_input_tokens=2**53 + 1, max_cost={"micros": 2**62, "currency": "USD"})
    yield Vector("integers.optional_int64", budget, ["max_input_tokens", "max_output_tokens", "max_cost.micros"])
    for name, seconds, nanos in (("longest", 315_576_000_000, 0), ("micros", 1, 999_999_000), ("shortest", 0, 1000)):
        usage = usage_pb2.Usage(runtime={"seconds": seconds, "nanos": nanos})
        yield Vector(f"duration.{name}", usage, ["runtime.seconds", "runtime.nanos"])
    text = '{"big":9007199254740993,"bigger":123456789012345678901234567890,"negative":-9007199254740993,"pi":3.141592653589793}'
    yield Vector("integers.in_json_text", part_pb2.Part(data={"json": text}), ["content", "data.json"])
    call = part_pb2.ToolCall(tool_name="add", arguments={"json": '{"a": 9007199254740993, "b": 1e0}'}, call_id="call-1")
    yield Vector("integers.in_arguments", part_pb2.Part(tool_call=call), ["tool_call.arguments.json"])
    for name, value in (
        ("tenth", 0.1),
        ("largest", 1.7976931348623157e308),
        ("smallest", 5e-324),
        ("minus_zero", -0.0),
    ):
        yield Vector(f"doubles.{name}", event_pb2.TaskProgress(progress=value, message="m"), ["progress"])


def texts() -> Iterator[Vector]:
    yield Vector("text.strange", said(STRANGE), ["parts.0.text"])
    strange_json = part_pb2.Part(data={"json": json.dumps({STRANGE: STRANGE}, ensure_ascii=False)})
    yield Vector("text.strange_in_json", strange_json, ["data.json"])
    escaped = part_pb2.Part(data={"json": json.dumps({"lone": "\ud83e", "text": STRANGE})})
    yield Vector("text.escaped_in_json", escaped, ["data.json"])
    big = agent_service_pb2.SendTaskRequest(input=task_input_pb2.TaskInput(messages=[said(BIG)]))
    yield Vector("text.big", big, ["input.messages.0.id"])
    everything = part_pb2.FileContent(content={"data": bytes(range(256))}, name=STRANGE)
    yield Vector("bytes.all", everything, ["content.data", "name"])
    card = agent_card_pb2.AgentCard(name="世界", description=STRANGE, metadata={"ключ": "значение"})
    yield Vector("text.strange_map", card, ["name", "metadata.ключ"])
    several = agent_card_pb2.AgentCard(name="a", metadata={"c": "3", "a": "1", "b": "2", "": "empty"})
    yield Vector("map.several", several, ["metadata.size", "metadata.a", "metadata.b", "metadata.c"])


def times() -> Iterator[Vector]:
    paths = ["create_time.seconds", "create_time.nanos"]
    yield Vector("time.epoch", at(0, 0), paths)
    yield Vector("time.first", at(-62_135_596_800, 0), paths)
    yield Vector("time.last", at(253_402_300_799, 999_999_999), paths)
    yield Vector("time.before_epoch", at(-1, 999_999_000), paths)
    yield Vector("time.micros", at(1_700_000_000, 123_456_000), paths)
    yield Vector("time.leap_day", at(1_709_251_199, 1), paths)


def from_elsewhere() -> Iterator[Vector]:
    """What newer, older and stranger encoders send."""
    event = event_pb2.RunEvent(task_id="t-1", sequence=7, event_type="example.unheard_of", summary="From the future")
    base = event.SerializeToString()
    kind = length_delimited(1000, length_delimited(1, b"new"))
    paths = ["task_id", "sequence", "event_type", "summary", "payload"]
    yield Vector("unknown.event_kind", event, paths, data=base + kind, unknown_fields=True)
    later = varint(1001 << 3) + b"\x2a" + varint(1002 << 3 | 1) + bytes(8) + varint(1003 << 3 | 5) + bytes(4)
    yield Vector("unknown.fields", event, paths, data=base + later, unknown_fields=True)
    message = said("known").SerializeToString() + length_delimited(900, STRANGE.encode())
    task = task_pb2.Task(id="t-1")
    inside = task.SerializeToString() + length_delimited(3, message)
    yield Vector("unknown.inside", task, ["messages.0.parts.0.text"], data=inside, unknown_fields=True)
    scheme = agent_card_pb2.SecurityScheme(description="From the future")
    later_scheme = scheme.SerializeToString() + kind
    yield Vector("unknown.security_scheme", scheme, ["description", "scheme"], data=later_scheme, unknown_fields=True)
    yield Vector("unknown.only", part_pb2.Part(), ["content"], data=kind, unknown_fields=True)
    later = payload_pb2.Payload(preview="a map").SerializeToString() + length_delimited(40, b"new")
    paths = ["content", "data.value", "data.preview"]
    yield Vector("unknown.payload_form", part_pb2.Part(), paths, data=length_delimited(2, later), unknown_fields=True)
    yield Vector("unknown.enum_value", task_pb2.Task(id="t-1", state=99), ["state"])  # type: ignore[arg-type]  # on purpose
    states = agent_service_pb2.ListTasksRequest(states=[2, 99, 5])  # type: ignore[list-item]  # on purpose
    yield Vector("unknown.enum_values", states, ["states.size", "states.0", "states.1", "states.2"])
    parked = event_pb2.RunEvent(event_type="action.parked", action_ended={"name": "add", "outcome": 99})  # type: ignore[dict-item]  # on purpose
    yield Vector("unknown.outcome", parked, ["event_type", "payload", "action_ended.name", "action_ended.outcome"])
    unpacked = b"".join(varint(1 << 3) + varint(state) for state in (2, 3, 5))
    yield Vector(
        "wire.unpacked",
        agent_service_pb2.ListTasksRequest(),
        ["states.size", "states.2"],
        data=unpacked,
        is_usual=False,
    )
    backwards = b"".join((length_delimited(14, b"s"), length_delimited(5, b"x"), varint(2 << 3) + b"\x07"))
    yield Vector(
        "wire.backwards", event_pb2.RunEvent(), ["sequence", "event_type", "summary"], data=backwards, is_usual=False
    )
    twice = (
        length_delimited(1, b"first") + length_delimited(2, length_delimited(1, b"{}")) + length_delimited(1, b"last")
    )
    yield Vector("wire.last_arm_counts", part_pb2.Part(), ["content", "text"], data=twice, is_usual=False)
    # One message field in two pieces, which a reader puts together.
    pieces = (action_pb2.RunAction(action_id="a-1"), action_pb2.RunAction(name="book"))
    merged = b"".join(length_delimited(6, piece.SerializeToString()) for piece in pieces)
    paths = ["action.action_id", "action.name"]
    yield Vector("wire.merged", approval_pb2.Approval(), paths, data=merged, is_usual=False)
    zero = varint(2 << 3) + b"\x00" + length_delimited(5, b"")
    yield Vector("wire.defaults_written", event_pb2.RunEvent(), ["sequence", "event_type"], data=zero, is_usual=False)
    long_varint = varint(2 << 3) + b"\x87\x80\x80\x00"
    yield Vector("wire.long_varint", event_pb2.RunEvent(), ["sequence"], data=long_varint, is_usual=False)


def outputs() -> Iterator[Vector]:
    """Tasks as a server answers with them: `output_id` names the item whose last part of output is the answer."""
    text, data = part_pb2.Part(text="yes"), part_pb2.Part(data={"json": '{"rooms":[1,9007199254740993]}'})
    done = part_pb2.Part(tool_output=part_pb2.ToolOutput(call_id="c", result={"json": "3"}))
    failed = part_pb2.Part(tool_output=part_pb2.ToolOutput(call_id="c", failure={"message": "no"}))
    note = part_pb2.Part(custom=part_pb2.CustomContent(type="trace", content={"json": "1"}))
    answer = part_pb2.Part(infer_output=part_pb2.InferOutput(value={"json": "[1]"}))
    later = part_pb2.Part.FromString(b"\x72\x02{}")  # only what every part may have: a content that is not known
    for name, parts, output in (
        ("text", [text], "yes"),
        ("empty_text", [part_pb2.Part(text="")], ""),
        ("data", [text, data], data.data.json),
        ("tool_output", [text, done], "3"),
        ("failed_tool", [text, failed], "yes"),
        ("before_others", [text, note, later], "yes"),
        ("model", [answer], "[1]"),
    ):
        message = task_pb2.Message(id="m2", role=task_pb2.MESSAGE_ROLE_AGENT, parts=parts)
        asked = task_pb2.Message(id="m1", role=task_pb2.MESSAGE_ROLE_USER, parts=[text])
        yield Vector(
            f"output.{name}",
            task_pb2.Task(id="t", messages=[asked, message], output_id="m2"),
            ["output_id"],
            output=output,
        )
    for name, kind, output in (("artifact", "", "yes"), ("named_artifact", "result", "yes")):
        made = task_pb2.Artifact(id="a1", parts=[text], kind=kind)
        yield Vector(
            f"output.{name}", task_pb2.Task(id="t", artifacts=[made], output_id="a1"), ["output_id"], output=output
        )
    asked = task_pb2.Message(id="m1", role=task_pb2.MESSAGE_ROLE_USER, parts=[text])
    yield Vector("output.none", task_pb2.Task(id="t", messages=[asked]), ["output_id"], output=None)


def vectors() -> list[Vector]:
    """All of them, in the order of the index."""
    return [*by_rule(), *empty_ones(), *numbers(), *texts(), *times(), *outputs(), *from_elsewhere()]


def files() -> dict[str, bytes]:
    """Content by file name: what lies beside this program, apart from itself and README.md."""
    made: dict[str, bytes] = {}
    entries = []
    for vector in vectors():
        entry = vector.entry()
        made[entry["file"]], made[entry["json"]] = vector.bytes, vector.json().encode()
        entries.append(entry)
    # One entry a line: a change of one is a change of one line.
    lines = ",\n".join(json.dumps(entry) for entry in entries)
    made["index.json"] = f"[\n{lines}\n]\n".encode()
    return made


def main() -> None:
    made = files()
    for old in [*HERE.glob("*.binpb"), *HERE.glob("*.json")]:
        if old.name not in made:
            old.unlink()
    for name, data in made.items():
        Path(HERE, name).write_bytes(data)
    print(f"{len(made) // 2} vectors")


if __name__ == "__main__":
    main()
