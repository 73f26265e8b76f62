import pytest

from protolink_grpc.errors import InvalidArgumentError
from protolink_grpc.models import Message, Part, RouteDecision, from_json, to_json


def test_a_message_has_its_documented_json_shape():
    message = Message(id="m", role="user", timestamp="2023-01-01T00:00:00Z").add_text("Hello")
    assert message.to_dict() == {
        "id": "m",
        "role": "user",
        "parts": [{"type": "text", "content": "Hello"}],
        "timestamp": "2023-01-01T00:00:00Z",
    }
    assert Message.from_dict(from_json(to_json(message))) == message


@pytest.mark.parametrize("role", ["user", "agent", "assistant", "system"])
def test_each_role_has_a_constructor(role: str):
    message = getattr(Message, role)("hi")
    assert (message.role, message.text, message.parts) == (role, "hi", [Part.text("hi")])


def test_messages_have_ids_and_times_of_their_own():
    first, second = Message.user("a"), Message.user("a")
    assert first.id < second.id
    assert first.timestamp <= second.timestamp
    assert first.parts is not second.parts


def test_the_text_of_a_message_joins_its_text_parts_by_line():
    message = Message.user("a").add_part(Part.json({"b": 1})).add_text("c")
    assert message.text == "a\nc"


def test_executable_messages_carry_one_part():
    assert Message.infer(prompt="p").parts == [Part.infer("p")]
    assert Message.route("left", reason="r").parts[0].content == RouteDecision("left", "r")
    assert Message.tool_call("add", {"a": 1}, call_id="c").parts == [Part.tool_call("add", {"a": 1}, "c")]
    assert [Message.infer(prompt="p").role, Message.tool_call("t").role] == ["user", "user"]


def test_what_is_missing_or_null_is_made_and_unknown_keys_are_skipped():
    for data in ({}, {"id": None, "role": None, "parts": None, "timestamp": None, "new": 1}, {"id": ""}):
        message = Message.from_dict(data)
        assert message.id
        assert message.timestamp
        assert (message.role, message.parts) == ("user", [])


@pytest.mark.parametrize(
    ("data", "field"),
    [
        ([], ""),
        ({"role": "martian"}, "role"),
        ({"role": 1}, "role"),
        ({"id": 5}, "id"),
        ({"parts": {}}, "parts"),
        ({"parts": [None]}, "parts[0]"),
        ({"parts": [{"type": "text", "content": "x"}, {}]}, "parts[1].type"),
        ({"parts": [{"type": "json", "metadata": []}]}, "parts[0].metadata"),
        ({"timestamp": "soon"}, "timestamp"),
        ({"timestamp": 1.5}, "timestamp"),
    ],
)
def test_a_wrong_message_names_the_path(data: object, field: str):
    with pytest.raises(InvalidArgumentError) as caught:
        Message.from_dict(data)
    assert caught.value.field == field
