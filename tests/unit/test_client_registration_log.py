"""Log records of the renewal of a registration while the registry is unavailable."""

import asyncio
import logging
from collections.abc import Iterable

import pytest

from protolink_grpc import AgentCard, RegistryClient, UnavailableError

CARD = AgentCard("echo", "Echo", "grpc://127.0.0.1:1")


class Scripted(RegistryClient):
    """A registry whose answers are scripted; the last one is repeated, and `ended` is set with it.

    Args:
        answers: Whether each call succeeds.
    """

    def __init__(self, answers: Iterable[bool]) -> None:
        super().__init__("grpc://127.0.0.1:2")
        self._answers = list(answers)
        self.ended = asyncio.Event()

    async def _answer(self) -> float:
        here = self._answers.pop(0)
        if not self._answers:
            self.ended.set()
            await asyncio.Event().wait()
        if not here:
            raise UnavailableError("the registry is away")
        return 0.003

    async def register(self, *_: object, **__: object) -> float:
        return await self._answer()

    async def heartbeat(self, *_: object, **__: object) -> float:
        return await self._answer()


async def logged(caplog: pytest.LogCaptureFixture, *answers: bool) -> list[str]:
    """What is logged, from INFO on, until a last call after these."""
    client = Scripted([*answers, True])
    with caplog.at_level(logging.INFO, "protolink_grpc"):
        keeping = asyncio.create_task(client.keep_registered(lambda: CARD))
        await asyncio.wait_for(client.ended.wait(), 20)
        keeping.cancel()
        await asyncio.wait([keeping])
    return [record.getMessage().partition(" at ")[0] for record in caplog.records]


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("protolink_grpc.client.registry_client.FIRST_PAUSE_S", 0.001)
    monkeypatch.setattr("protolink_grpc.client.registry_client.LONGEST_PAUSE_S", 0.001)


@pytest.mark.parametrize(
    ("answers", "records"),
    [
        pytest.param([True, True], ["echo registered"], id="there"),
        pytest.param([False, False, False], ["echo is not registered"], id="away"),
        pytest.param([False, False, True], ["echo is not registered", "echo registered"], id="away first"),
        pytest.param(
            [True, False, False, True, False, True],
            ["echo registered", *["echo is not registered", "echo is registered"] * 2],
            id="away twice",
        ),
    ],
)
async def test_an_outage_of_the_registry_is_logged_once_and_so_is_its_end(
    caplog: pytest.LogCaptureFixture, answers: list[bool], records: list[str]
) -> None:
    assert await logged(caplog, *answers) == records
