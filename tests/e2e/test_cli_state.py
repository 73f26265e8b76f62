"""`plgrpc state`: the state of an agent in the terminal."""

from collections.abc import Iterator

import pytest
from cli_world import Done, plgrpc

from protolink_grpc import Agent, AgentClient, Task, current_run
from protolink_grpc.errors import StoreError
from protolink_grpc.models.conversation import LLMMessage
from protolink_grpc.state import InMemoryStorage, State


class Fragile(InMemoryStorage):
    """Breaks when it is told to."""

    broken = False

    async def sessions(self, session_id: str | None = None) -> dict[str, int]:
        if self.broken:
            raise StoreError("the disk is gone")
        return await super().sessions(session_id)

    async def conversations(self, session_id: str) -> dict[str, int]:
        if self.broken:
            raise StoreError("the disk is gone")
        return await super().conversations(session_id)


class Listener(Agent):
    """Remembers what it is told."""

    async def handle_task(self, task: Task) -> Task:
        run = current_run()
        assert run is not None
        assert self.state is not None
        conversation = self.state.of(run.principal).conversation
        assert conversation is not None
        heard = [LLMMessage("user", task.messages[-1].text), LLMMessage("assistant", "I \x1b[31msee")]
        await conversation.remember(run.session_id, task.id, heard)
        return task.complete("I see")


@pytest.fixture
def url() -> Iterator[str]:
    """An agent that two sessions have spoken to: `s` twice, `r` once."""
    agent = Listener(name="listener", url="grpc://127.0.0.1:0", state=State(Fragile()))
    agent.start(background=True)
    caller = AgentClient(url=agent.card.url).sync
    for word, session_id in (("one", "s"), ("two", "s"), ("else", "r")):
        caller.send_task(None, Task.create(word, session_id=session_id)).raise_for_status()
    yield agent.card.url
    agent.stop()


def table(done: Done) -> list[list[str]]:
    return [line.split() for line in done.out.splitlines()]


def test_a_session_is_described_and_its_content_shown_on_request(url: str) -> None:
    done = plgrpc("state", "describe", url, "s")
    assert (done.code, done.err) == (0, "")
    assert table(done) == [
        ["STORE", "STATE", "ITEMS", "MESSAGES"],
        ["conversation", "kept", "4", "4"],
    ]
    shown = plgrpc("state", "describe", url, "s", "--data")
    assert '"content": "two"' in shown.out
    assert "\x1b" not in shown.out


def test_all_sessions_are_described_as_one_document(url: str) -> None:
    result = plgrpc("state", "describe", url, "--store", "conversation", "-o", "json").document
    (store,) = result["stores"]
    assert (result["operation"], result["session_id"]) == ("describe", None)
    assert (store["item_count"], store["message_count"], store["data"]) == (2, 6, None)


def test_a_reset_prints_what_it_deleted(url: str) -> None:
    assert table(plgrpc("state", "reset", url, "s"))[1] == ["conversation", "cleared", "4", "4"]
    assert table(plgrpc("state", "describe", url))[1] == ["conversation", "kept", "1", "2"]
    assert plgrpc("state", "reset", url, "--all", "-o", "json").document["cleared"] == ["conversation"]
    assert table(plgrpc("state", "describe", url))[1] == ["conversation", "empty", "0", "0"]


def test_a_compaction_prints_what_it_kept(url: str) -> None:
    done = plgrpc("state", "compact", url, "s", "--max-messages", "2")
    assert done.code == 0
    assert done.fields["Strategy"] == "recent"
    assert done.fields["Messages"] == "4 before, 2 now"
    assert done.fields["Summary"] == "no"
    document = plgrpc("state", "compact", url, "s", "--strategy", "tokens", "-o", "json").document
    assert (document["strategy"], document["changed"]) == ("tokens", False)


@pytest.mark.parametrize("arguments", [["s", "--all"], []], ids=["both", "neither"])
def test_a_reset_needs_a_session_or_all(arguments: list[str]) -> None:
    done = plgrpc("state", "reset", "grpc://127.0.0.1:1", *arguments)
    assert done.code == 2
    assert "a session or --all is required" in done.err


def test_an_impossible_request_is_refused_with_its_reason(url: str) -> None:
    done = plgrpc("state", "reset", url, "unknown", "-o", "json")
    assert (done.code, done.out) == (1, "")
    assert "SESSION_NOT_FOUND" in done.err
    assert "session unknown not found" in done.err
    done = plgrpc("state", "describe", url, "--store", "flow")
    assert done.code == 1
    assert "Task.flow_state" in done.err
    done = plgrpc("state", "compact", url, "s", "--strategy", "summary")
    assert done.code == 1
    assert "language model" in done.err


def test_a_store_that_fails_is_shown_and_is_a_failure(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Fragile, "broken", True)
    done = plgrpc("state", "describe", url, "s")
    assert done.code == 1
    assert table(done)[1] == ["conversation", "problem", "-", "-"]
    assert "the disk is gone" in done.err
