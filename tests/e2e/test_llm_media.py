"""Files in prompts and answers over the wire formats of the providers, and through an agent over a socket."""

import base64
from collections.abc import AsyncIterator, Callable
from typing import Any

import httpx
import pytest
from llm_servers import Answer, Server, anthropic_answer, error, gemini_answer, openai_text, serving

from protolink_grpc import Agent, AgentCard, AgentClient, Artifact, Message, Part, Task, TaskState
from protolink_grpc.errors import ContentTypeNotSupportedError, ModelError, TaskExecutionError
from protolink_grpc.llms import LLM, Media, MockLLM, ModelResponse
from protolink_grpc.llms.factory import create_llm
from protolink_grpc.llms.model_call import MAX_FILE_BYTES
from protolink_grpc.llms.port import ModelRequest, ToolSpec
from protolink_grpc.models.conversation import LLMMessage
from protolink_grpc.models.events import ContextPrepared
from protolink_grpc.models.part import FileContent

PNG = b"\x89PNG\r\n\x1a\n" + bytes(16)
BASE64 = base64.b64encode(PNG).decode()
IMAGE = Media("image/png", PNG, part="messages[0].parts[1]")
LINK = Media("image/png", url="https://example.org/a.png?sig=1", part="messages[0].parts[1]")
PDF = Media("application/pdf", b"%PDF", part="messages[0].parts[1]")
ANTHROPIC_TEXT = anthropic_answer(({"type": "text", "text": ""}, [{"type": "text_delta", "text": "ok"}]))
ANSWERS = {"anthropic": ANTHROPIC_TEXT, "gemini": gemini_answer([{"text": "ok"}])}
SHOOT = ToolSpec("shoot", "Takes a picture.", {"type": "object", "properties": {}})

Connect = Callable[..., LLM]


@pytest.fixture(autouse=True)
def only_loopback(monkeypatch: pytest.MonkeyPatch) -> None:
    """A proxy in the environment must not see what the tests send."""
    for variable in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(variable, raising=False)
        monkeypatch.delenv(variable.lower(), raising=False)


@pytest.fixture
async def connect() -> AsyncIterator[Connect]:
    """Creates models of a server; their connections are closed at the end."""
    models: list[LLM] = []

    def create(server: Server, provider: str, **settings: Any) -> LLM:
        models.append(create_llm(provider, "a-model", base_url=server.url, api_key="sk-secret-key", **settings))
        return models[-1]

    yield create
    for each in models:
        await each.aclose()


async def ask(llm: LLM, *messages: LLMMessage, tools: tuple[ToolSpec, ...] = ()) -> ModelResponse:
    *_, response = [item async for item in llm.generate(ModelRequest("", messages, tools))]
    assert isinstance(response, ModelResponse)
    return response


def user(*media: Media, text: str = "Describe") -> LLMMessage:
    return LLMMessage("user", text, media=media)


def contents_of(provider: str, body: Any) -> Any:
    """The content of the last message of a request."""
    return body["contents"][-1]["parts"] if provider == "gemini" else body["messages"][-1]["content"]


@pytest.mark.parametrize(
    ("provider", "expected"),
    [
        *(
            (
                name,
                [
                    {"type": "text", "text": "Describe"},
                    {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{BASE64}"}},
                ],
            )
            for name in ("openai", "ollama", "vllm", "lmstudio", "openai-compatible")
        ),
        (
            "anthropic",
            [
                {"type": "text", "text": "Describe"},
                {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": BASE64}},
            ],
        ),
        ("gemini", [{"text": "Describe"}, {"inlineData": {"data": BASE64, "mime_type": "image/png"}}]),
    ],
)
async def test_the_bytes_of_an_image_reach_the_provider(connect: Connect, provider: str, expected: Any):
    async with serving(ANSWERS.get(provider, openai_text("ok"))) as server:
        await ask(connect(server, provider), user(IMAGE))
    (asked,) = server.asked
    assert contents_of(provider, asked.body) == expected


async def test_a_document_reaches_anthropic_and_gemini(connect: Connect):
    data = base64.b64encode(PDF.data or b"").decode()
    async with serving(ANTHROPIC_TEXT) as server:
        await ask(connect(server, "anthropic"), user(PDF))
    source = {"type": "base64", "media_type": "application/pdf", "data": data}
    assert contents_of("anthropic", server.asked[0].body)[1] == {"type": "document", "source": source}
    async with serving(ANSWERS["gemini"]) as server:
        await ask(connect(server, "gemini"), user(PDF, Media("audio/wav", b"a"), Media("video/mp4", b"b")))
    types = [part["inlineData"]["mime_type"] for part in contents_of("gemini", server.asked[0].body)[1:]]
    assert types == ["application/pdf", "audio/wav", "video/mp4"]


@pytest.mark.parametrize(("provider", "kind"), [("openai", "image_url"), ("anthropic", "image")])
async def test_a_url_is_sent_as_a_url_to_a_server_that_downloads_it(connect: Connect, provider: str, kind: str):
    async with serving(ANSWERS.get(provider, openai_text("ok"))) as server:
        await ask(connect(server, provider, fetches_urls=True), user(LINK))
    (asked,) = server.asked
    part = contents_of(provider, asked.body)[1]
    assert part["type"] == kind
    assert LINK.url in str(part)


@pytest.mark.parametrize(
    ("provider", "media", "settings", "why"),
    [
        ("ollama", LINK, {}, "image/png by URL; send the bytes instead; this server does not download it"),
        ("gemini", LINK, {"fetches_urls": True}, "this server does not download it"),
        (
            "openai",
            Media("application/pdf", url="https://x.io/a.pdf"),
            {"fetches_urls": True},
            "send the bytes instead",
        ),
        ("vllm", Media("image/png", url="http://10.0.0.1/a.png"), {"fetches_urls": True}, "not on a public address"),
        ("anthropic", Media("image/png", url="https://a:pw@x.io/a"), {"fetches_urls": True}, "contains credentials"),
        (
            "anthropic",
            Media("audio/wav", b"a", part="messages[3].parts[0]"),
            {},
            "it takes text and image/*, application/pdf",
        ),
        ("openai", Media("video/mp4", b"a"), {}, "it takes text and image/*, "),
        ("openai", Media("application/zip", b"a"), {}, "does not take application/zip"),
        ("ollama", Media("audio/ogg", b"a"), {}, "image/*, audio/wav, audio/mpeg"),
    ],
)
async def test_a_file_that_a_model_does_not_take_is_refused_before_the_request(
    connect: Connect, provider: str, media: Media, settings: dict[str, Any], why: str
):
    async with serving(openai_text("never")) as server:
        with pytest.raises(ContentTypeNotSupportedError) as caught:
            await ask(connect(server, provider, **settings), user(media))
    assert server.asked == []
    assert why in str(caught.value)
    assert "pw" not in str(caught.value)
    assert caught.value.metadata == {
        "part": media.part,
        "media_type": media.media_type,
        "provider": provider,
        "model": "a-model",
    }


@pytest.mark.parametrize("provider", ["openai", "anthropic", "gemini"])
async def test_an_image_in_the_result_of_a_tool_reaches_the_model(connect: Connect, provider: str):
    calls = [{"id": "c1", "name": "shoot", "arguments": {}}]
    result = LLMMessage("tool", '{"bytes":24}', tool_name="shoot", tool_call_id="c1", media=(Media("image/png", PNG),))
    async with serving(ANSWERS.get(provider, openai_text("ok"))) as server:
        await ask(connect(server, provider), user(), LLMMessage("assistant", tool_calls=calls), result, tools=(SHOOT,))
    assert str(server.asked[0].body).count(BASE64) == 1


@pytest.mark.parametrize("provider", ["openai", "anthropic", "gemini"])
async def test_an_image_of_an_answer_goes_back_to_the_model_with_the_next_message(connect: Connect, provider: str):
    drawn = LLMMessage("assistant", "Here.", media=(Media("image/png", PNG),))
    async with serving(ANSWERS.get(provider, openai_text("ok"))) as server:
        await ask(connect(server, provider), user(text="Draw"), drawn, user(text="Make it blue"))
    assert BASE64 in str(contents_of(provider, server.asked[0].body))
    assert "Make it blue" in str(contents_of(provider, server.asked[0].body))


async def test_files_of_the_history_that_the_model_does_not_take_are_notes(connect: Connect):
    async with serving(ANTHROPIC_TEXT) as server:
        await ask(
            connect(server, "anthropic"), user(Media("audio/wav", b"a")), LLMMessage("assistant", "ok"), user(IMAGE)
        )
    assert "this model does not take it" in str(server.asked[0].body["messages"][0])


@pytest.mark.parametrize(
    ("provider", "refusal"),
    [
        ("ollama", error(400, {"error": {"message": "this model does not support image input"}})),
        ("vllm", error(400, {"error": {"message": "m is not a multimodal model", "code": 400}})),
        (
            "openai",
            error(400, {"error": {"message": "Invalid content type. image_url is only supported by certain models."}}),
        ),
        ("lmstudio", error(500, {"error": "image input is not supported - hint: provide the mmproj"})),
        (
            "anthropic",
            error(
                400, {"type": "error", "error": {"type": "invalid_request_error", "message": "Could not process image"}}
            ),
        ),
        (
            "gemini",
            error(
                400, {"error": {"code": 400, "message": "Unable to process input image", "status": "INVALID_ARGUMENT"}}
            ),
        ),
    ],
)
async def test_a_refusal_of_the_provider_names_the_files_and_what_to_do(
    connect: Connect, provider: str, refusal: Answer
):
    async with serving(refusal) as server:
        with pytest.raises(ContentTypeNotSupportedError) as caught:
            await ask(connect(server, provider), user(IMAGE))
    text = str(caught.value)
    assert text.startswith(f"messages[0].parts[1]: the model 'a-model' of {provider} does not take image/png (")
    assert "set its input_media" in text
    assert (caught.value.metadata["part"], caught.value.metadata["provider"]) == ("messages[0].parts[1]", provider)
    assert caught.value.metadata["url"].startswith(server.url)


async def test_another_refusal_of_a_request_with_files_stays_what_it_is(connect: Connect):
    refusal = error(400, {"error": {"message": "temperature must be 1"}})
    async with serving(refusal) as server:
        with pytest.raises(ModelError, match="temperature must be 1"):
            await ask(connect(server, "openai"), user(IMAGE))


async def test_images_in_an_answer_of_gemini_are_files(connect: Connect):
    drawn = [{"text": "Here: "}, {"inlineData": {"mimeType": "image/png", "data": BASE64}}]
    async with serving(gemini_answer(drawn)) as server:
        response = await ask(connect(server, "gemini"), user())
    assert (response.text, response.files) == ("Here: ", (Media("image/png", PNG),))


async def test_images_of_a_model_become_artifacts_of_the_task(connect: Connect):
    drawn = [{"text": "Here."}, {"inlineData": {"mimeType": "image/png", "data": BASE64}}]
    async with serving(gemini_answer(drawn)) as server:
        card = AgentCard("painter", "draws", "grpc://127.0.0.1:0")
        async with Agent(card, llm=connect(server, "gemini")) as agent:
            client = AgentClient(url=agent.card.url)
            task = await client.send_task(None, Task.create(Message.user("Draw")))
            (image, text) = task.artifacts
            log = [event async for event in client.subscribe(task.id)]
    assert task.state is TaskState.COMPLETED
    assert (image.name, image.media_type, image.parts[0].content.data) == ("image-1.png", "image/png", PNG)
    assert (text.parts[0].content, task.get_output()) == ("Here.", "Here.")
    assert sum(str(event.to_dict()).count(BASE64) for event in log) == 1


@pytest.mark.parametrize("native", [True, False], ids=["native", "json"])
async def test_files_of_message_and_artifacts_reach_the_model_of_an_agent(native: bool):
    llm = MockLLM(native_tools=native, input_media=("image/*", "application/pdf"))
    card = AgentCard("viewer", "looks", "grpc://127.0.0.1:0")
    async with Agent(card, llm=llm, state="conversation") as agent:
        client = AgentClient(url=agent.card.url)
        task = Task.create(Message.user("Compare").add_part(Part.image(PNG, name="a.png")), session_id="s")
        task.add_artifact(Artifact(parts=[Part.file(b"%PDF", name="b.pdf", media_type="application/pdf")]))
        sent = await client.send_task(None, task)
        only_image = Task.create(Message(parts=[Part.image(uri="https://example.org/a.png")]), session_id="s")
        again = await client.send_task(None, only_image)
        events = [event.payload async for event in client.subscribe(sent.id)]
    assert (sent.state, again.state) == (TaskState.COMPLETED, TaskState.COMPLETED)
    first, second = llm.requests
    found = [(each.media_type, each.name, each.part) for each in first.messages[-1].media]
    assert found == [
        ("application/pdf", "b.pdf", "artifacts[0].parts[0]"),
        ("image/png", "a.png", "messages[0].parts[1]"),
    ]
    # The second task continues the conversation of the session, files included.
    assert [len(each.media) for each in second.messages] == [2, 0, 1]
    (prepared,) = [each for each in events if isinstance(each, ContextPrepared)]
    (item,) = [each for each in prepared.manifest.context_items if each.name == "files"]
    assert [each["part"] for each in item.metadata["files"]] == [part for _, _, part in found]
    assert BASE64 not in str(prepared.to_dict())


async def test_a_refused_file_fails_the_task_with_its_part():
    card = AgentCard("reader", "reads", "grpc://127.0.0.1:0")
    async with Agent(card, llm=MockLLM(input_media=())) as agent:
        client = AgentClient(url=agent.card.url)
        task = await client.send_task(None, Task.create(Message.user("Look").add_part(Part.image(PNG))))
    assert task.state is TaskState.FAILED
    assert task.failure is not None
    assert (task.failure.reason, task.failure.details["part"]) == ("CONTENT_TYPE_NOT_SUPPORTED", "messages[0].parts[1]")


async def test_the_largest_file_of_a_model_is_one_event():
    card = AgentCard("painter", "draws", "grpc://127.0.0.1:0")
    image = Media("image/png", bytes(MAX_FILE_BYTES))
    async with Agent(card, llm=MockLLM(sequential_responses=[ModelResponse("Here.", files=(image,))])) as agent:
        task = await agent.run_task(Task.create(Message.user("Draw")))
    assert task.state is TaskState.COMPLETED
    assert len(task.artifacts[0].parts[0].content.data) == MAX_FILE_BYTES


async def test_a_tool_call_runs_beside_a_file_without_content():
    """The files of a message are read only for the model."""
    message = Message.tool_call("now", {})
    message.add_part(Part("file", FileContent(name="lost.png")))
    agent = Agent("clerk", llm=MockLLM())

    @agent.tool
    def now() -> str:
        return "noon"

    assert (await agent.run_task(Task.create(message))).get_output() == "noon"
    refused = await agent.run_task(
        Task.create(Message.user("Look").add_part(Part("file", FileContent(name="lost.png"))))
    )
    assert refused.failure is not None
    assert refused.failure.message.startswith("messages[0].parts[1]: the file has neither bytes nor a URL")


async def test_an_image_over_a2a_reaches_the_model():
    llm = MockLLM(input_media=["image/*"])
    card = AgentCard("viewer", "looks", "grpc://127.0.0.1:0", input_formats=["text/plain", "image/png"])
    parts = [{"text": "Look"}, {"raw": BASE64, "mediaType": "image/png", "filename": "a.png"}]
    call = {"message": {"messageId": "m", "role": "ROLE_USER", "parts": parts}}
    body = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": call}
    async with Agent(card, llm=llm, http=0) as agent, httpx.AsyncClient(trust_env=False) as http:
        response = await http.post(agent.http_url, json=body, headers={"A2A-Version": "1.0"})
    assert response.json()["result"]["task"]["status"]["state"] == "TASK_STATE_COMPLETED"
    (image,) = llm.requests[0].messages[-1].media
    assert (image.media_type, image.data, image.name, image.part) == ("image/png", PNG, "a.png", "messages[0].parts[1]")


async def test_the_error_of_a_question_names_an_answer_of_only_files():
    agent = Agent("painter", llm=MockLLM(sequential_responses=[ModelResponse(files=(Media("image/png", PNG),))]))
    with pytest.raises(TaskExecutionError, match="its answer has only files") as caught:
        await agent.ask("Draw a house")
    assert caught.value.task.artifacts[0].parts[0].content.data == PNG


async def test_parts_that_tools_return_are_files_for_the_model():
    calls = [{"type": "tool_call", "tool": name, "args": {}} for name in ("shoot", "list_shots")]
    llm = MockLLM(sequential_responses=[calls, "Seen."])
    agent = Agent("viewer", llm=llm)

    @agent.tool
    def shoot() -> Part:
        return Part.image(PNG, name="shot.png")

    @agent.tool
    def list_shots() -> list[Any]:
        return [{"time": "noon", "image": Part.image(PNG)}]

    assert (await agent.run_task("Look")).get_output() == "Seen."
    results = [each for each in llm.requests[-1].messages if each.role == "tool"]
    assert [[(media.media_type, media.data) for media in each.media] for each in results] == [[("image/png", PNG)]] * 2
    assert [BASE64 in each.content for each in results] == [False, False]
