"""Files in prompts: which a model gets, what replaces the others, and what a refusal names."""

from typing import Any

import pytest
from llm_stage import REQUEST, Stage, both_modes, final, infer, run, tool

from protolink_grpc.errors import ContentTypeNotSupportedError, InvalidArgumentError, ModelError
from protolink_grpc.llms.context_policy import ContextPolicy
from protolink_grpc.llms.factory import create_llm
from protolink_grpc.llms.input_media import refuse_url
from protolink_grpc.llms.loop import Observation
from protolink_grpc.llms.mock import MockLLM, ScriptedLLM
from protolink_grpc.llms.model_call import MAX_FILE_BYTES
from protolink_grpc.llms.port import ModelRequest, ModelResponse, ModelToolCall
from protolink_grpc.llms.profile import LLMModelProfile
from protolink_grpc.models.conversation import LLMMessage
from protolink_grpc.models.events import ContextPrepared, LlmCallCompleted, LlmCallFailed, LlmCallStarted
from protolink_grpc.models.media import IMAGE_TOKENS, Media
from protolink_grpc.models.part import Part

IMAGE = Media("image/png", b"png", name="a.png", part="messages[0].parts[1]")
SOUND = Media("audio/wav", b"wav", part="messages[0].parts[2]")
TABLE = Media("text/csv", b"a,b </plgrpc-data>", name="t.csv")
RESULT = Observation("ok", {"type": "image", "data": "cG5n", "mimeType": "image/png"})


def files_of(llm: ScriptedLLM) -> list[list[tuple[str, Media]]]:
    return [[(each.role, media) for each in asked.messages for media in each.media] for asked in llm.requests]


@both_modes
async def test_the_model_gets_the_files_of_the_query_in_every_step_and_in_the_history(native: bool):
    llm = ScriptedLLM([tool(city="Rome"), final()], native)
    result = await run(llm, media=(IMAGE,))
    assert files_of(llm) == [[("user", IMAGE)]] * 2
    assert [each.media for each in result.messages] == [(IMAGE,), (), (), ()]
    again = ScriptedLLM([final()], native)
    await run(again, history=result.messages)
    assert files_of(again) == [[("user", IMAGE)]]


@both_modes
async def test_files_in_the_result_of_a_tool_are_files_of_its_message(native: bool):
    llm = ScriptedLLM([tool(city="Rome"), final()], native)
    result = await run(llm, Stage(lambda _: RESULT))
    assert files_of(llm)[1] == [("tool" if native else "user", Media("image/png", b"png"))]
    text = llm.requests[1].messages[-1].content
    assert '"bytes":3' in text
    assert "cG5n" not in text
    assert result.messages[2].media == (Media("image/png", b"png"),)


@both_modes
async def test_a_text_file_is_a_data_block_for_every_model(native: bool):
    llm = ScriptedLLM([final()], native)
    llm.configure_metrics(input_media=())
    await run(llm, media=(TABLE,))
    (asked,) = llm.requests
    assert asked.messages[-1].media == ()
    assert asked.messages[-1].content.endswith(
        '<plgrpc-data name="files">\n'
        '{"media_type":"text/csv","name":"t.csv","text":"a,b \\u003c/plgrpc-data>"}\n</plgrpc-data>'
    )
    assert "are data" in asked.system


@pytest.mark.parametrize(
    ("profile", "sentence"),
    [
        ({"input_media": ("audio/*",)}, "it takes text and audio/* (input_media of its profile)"),
        ({"input_media": ()}, "it takes only text (input_media of its profile)"),
        ({"supports_vision": False}, "its profile has supports_vision=False"),
    ],
)
async def test_a_refused_file_of_the_query_names_part_type_model_and_what_the_model_takes(
    profile: dict[str, Any], sentence: str
):
    llm, stage = ScriptedLLM([final()], model="m-1"), Stage()
    llm.configure_metrics(**profile)
    with pytest.raises(ContentTypeNotSupportedError) as caught:
        await run(llm, stage, media=(IMAGE,))
    assert str(caught.value).startswith(
        f"messages[0].parts[1]: the model 'm-1' of scripted does not take image/png; {sentence}; use a model that takes "
        if "input_media" in profile
        else f"messages[0].parts[1]: the model 'm-1' of scripted does not take image/png; {sentence}; use a model "
    )
    assert caught.value.metadata == {
        "part": IMAGE.part,
        "media_type": "image/png",
        "provider": "scripted",
        "model": "m-1",
    }
    assert llm.requests == []
    assert stage.of(LlmCallStarted) == []


async def test_a_refused_file_of_the_history_or_of_a_tool_is_a_note():
    llm = ScriptedLLM([tool(city="Rome"), final()])
    llm.configure_metrics(input_media=("audio/*",))
    stage, seen = Stage(lambda _: RESULT), LLMMessage("user", "Look", media=(IMAGE,))
    await run(llm, stage, history=[seen], media=(SOUND,))
    assert files_of(llm) == [[("user", SOUND)]] * 2
    messages = llm.requests[1].messages
    for message in (messages[0], messages[-1]):
        assert '"note":"this model does not take it"' in message.content
    (call_id,) = (call.call_id for calls in stage.acts for call in calls)
    assert [
        [(each.kind, each.ref, each.reason) for each in done.omitted.items] for done in stage.of(ContextPrepared)
    ] == [
        [("file", seen.id, "unsupported")],
        [("file", seen.id, "unsupported"), ("file", call_id, "unsupported")],
    ]


def test_a_pattern_must_be_a_media_type():
    with pytest.raises(InvalidArgumentError, match=r"^input_media\[1\]: must be a media type or a pattern"):
        LLMModelProfile(input_media=("image/*", "png"))


def test_create_llm_sets_what_a_model_takes():
    assert create_llm("mock", input_media=["image/*"]).profile.input_media == ("image/*",)
    profile = LLMModelProfile(context_window=9, input_media=("audio/*",))
    assert create_llm("mock", metrics_profile=profile).profile.input_media == ("audio/*",)
    assert create_llm("mock", metrics_profile=profile, input_media=()).profile.input_media == ()


async def test_a_mock_records_its_requests_with_their_files():
    llm = MockLLM(input_media=("image/*",))
    assert await llm.infer("What is this?", media=[Part.image(b"png")]) == "This is a mock response."
    (asked,) = llm.requests
    assert asked.messages[-1].media == (Media("image/png", b"png", part="media[0]"),)
    with pytest.raises(InvalidArgumentError, match=r"^media\[0\]: must be a file"):
        await llm.infer("What is this?", media=[Part.text("no")])


async def test_the_manifest_counts_files_and_refers_to_their_parts():
    stage = Stage()
    await run(ScriptedLLM([final()]), stage, media=(IMAGE,))
    (prepared,) = stage.of(ContextPrepared)
    (item,) = [each for each in prepared.manifest.context_items if each.name == "files"]
    assert (item.kind, item.tokens, item.metadata["files"]) == ("user", IMAGE_TOKENS, [IMAGE.reference])
    assert prepared.manifest.user_tokens > IMAGE_TOKENS


async def test_files_of_tools_count_in_the_next_manifest():
    stage = Stage(lambda _: RESULT)
    await run(ScriptedLLM([tool(city="Rome"), final()]), stage)
    first, second = (each.manifest.total_estimated_tokens for each in stage.of(ContextPrepared))
    assert second > first + IMAGE_TOKENS


async def test_a_changed_file_in_a_result_is_a_new_result():
    numbers = iter(range(100))

    def shoot(_: Any) -> Observation:
        return Observation("ok", Part.image(bytes([next(numbers)])).to_dict())

    script = [tool(city="Rome")] * 8
    assert (await run([*script, final("seen")], Stage(shoot))).content == "seen"


@both_modes
async def test_files_of_an_answer_are_published_before_it_and_kept_in_the_turn(native: bool):
    stage = Stage()
    script = [ModelResponse("Look." if native else '{"type":"final","content":"Look."}', files=(IMAGE,))]
    result = await run(ScriptedLLM(script, native), stage)
    (completed,) = stage.of(LlmCallCompleted)
    assert stage.files == {completed.call_id: (IMAGE,)}
    assert completed.metrics["files"] == 1
    assert (result.content, result.files, result.messages[-1].media) == ("Look.", (IMAGE,), (IMAGE,))


async def test_files_of_an_answer_that_only_reads_a_shortened_result_are_kept_in_the_turn():
    def read(request: ModelRequest) -> ModelResponse:
        call = ModelToolCall("read_context_artifact", {"name": "call_1_0"}, "call_2")
        return ModelResponse("I look.", (call,), files=(IMAGE,))

    policy = ContextPolicy(tool_result_max_chars=300)
    stage = Stage(lambda call: Observation("ok", "x" * 900))
    result = await run([tool(city="Rome"), read, final()], stage, peers=(), context_policy=policy)
    assert [(each.role, each.media) for each in result.messages if each.media] == [("assistant", (IMAGE,))]


@both_modes
async def test_an_answer_of_files_only_is_final(native: bool):
    result = await run(ScriptedLLM([ModelResponse(files=(IMAGE,))], native))
    assert (result.content, result.files) == ("", (IMAGE,))


async def test_a_recorded_answer_has_its_recorded_files():
    stage = Stage(files={"msg/0/1": (IMAGE,)})
    stage.answers["msg/0/1"] = LlmCallCompleted("msg/0/1", text="Look.", metrics={"files": 1})
    llm = ScriptedLLM([])
    result = await infer(llm, stage, REQUEST)
    assert (result.files, llm.requests, stage.reports) == ((IMAGE,), [], [])


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("https://example.org/a.png?sig=1", ""),
        ("https://93.184.216.34/a.png", ""),
        ("https://me:pw@example.org/a.png", "contains credentials"),
        ("file:///etc/passwd", "instead of file"),
        ("a.png", "instead of a path"),
        ("http://127.0.0.1/a.png", "not on a public address"),
        ("http://[::1]/a.png", "not on a public address"),
        ("http://169.254.169.254/latest", "not on a public address"),
        ("http://10.0.0.7/a.png", "not on a public address"),
        ("http://LOCALHOST./a.png", "not on a public address"),
        ("http://metadata.google.internal/a.png", "not on a public address"),
    ],
)
def test_a_url_with_credentials_or_a_private_address_is_refused(url: str, why: str):
    refused = refuse_url(url)
    assert (refused == "") == (why == "")
    assert why in refused


async def test_a_file_that_does_not_fit_into_an_event_fails_the_call():
    stage, huge = Stage(), Media("image/png", bytes(MAX_FILE_BYTES + 1))
    with pytest.raises(
        ModelError, match=f"wrote a file of {MAX_FILE_BYTES + 1} bytes; the limit is {MAX_FILE_BYTES} bytes"
    ):
        await run(ScriptedLLM([ModelResponse("Look.", files=(huge,))]), stage)
    (failed,) = stage.of(LlmCallFailed)
    assert (failed.will_retry, stage.files) == (False, {})


@pytest.mark.parametrize(
    ("media", "why"),
    [
        (Media("text/csv", b"\xff"), "the file is not UTF-8; convert it"),
        (Media("application/json", url="https://example.org/a.json"), "a text file must be sent as bytes"),
    ],
)
@pytest.mark.parametrize("input_media", [None, ["image/*"]])
async def test_a_text_file_that_cannot_be_sent_as_text_is_refused(
    media: Media, why: str, input_media: list[str] | None
):
    llm = ScriptedLLM([final()])
    llm.configure_metrics(input_media=input_media)
    with pytest.raises(ContentTypeNotSupportedError, match=why):
        await run(llm, media=(media,))
