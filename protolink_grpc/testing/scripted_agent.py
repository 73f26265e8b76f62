"""An agent that follows the directives of its messages, for tests of clients. It is not for production."""

import asyncio
import inspect
import json
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import asdict, replace
from typing import Any, TypeAlias, cast

from protolink_grpc.agent import Agent
from protolink_grpc.agent.identity import ANY_PORT
from protolink_grpc.edges.grpc.app import ServerOptions
from protolink_grpc.errors import ActionDeniedError
from protolink_grpc.models.artifact import Artifact
from protolink_grpc.models.card import AgentCapabilities, AgentCard
from protolink_grpc.models.events import RunEvent
from protolink_grpc.models.message import Message
from protolink_grpc.models.part import Part
from protolink_grpc.models.task import Task
from protolink_grpc.policy.capabilities import CapabilityPolicy
from protolink_grpc.runtime.actions.approvals import Approvals
from protolink_grpc.runtime.limits import Limits
from protolink_grpc.runtime.run import current_run
from protolink_grpc.runtime.service import TaskService
from protolink_grpc.testing.directives import VERBS, Directive, latest_text, parse_directive
from protolink_grpc.testing.faults import (
    UNKNOWN_EVENT_TYPE,
    FaultyService,
    Script,
    Scripts,
    Tally,
    received,
    remember_metadata,
)
from protolink_grpc.testing.hostile_proxy import HostileProxy
from protolink_grpc.testing.priced_model import PricedModel

Answers: TypeAlias = Mapping[str, str] | Callable[[str], str | Awaitable[str]]

DESCRIPTION = "Follows the directives of its messages, faults included."

MANY = 64
"""Maximum number of concurrent tasks: some of them wait until they are canceled."""

MAX_RECEIVED = 1000
"""How many received texts an agent remembers."""

APPROVAL_TOOL, ECHO_TOOL, HOLD_TOOL = "stamp", "echo", "hold"
"""The names of its tools."""


class ScriptedAgent(Agent):
    """An agent that follows the directives in its messages, including simulated faults.

    Examples are `echo TEXT`, `count N`, `wait`, `fail REASON` and `cut 40 count 100`; VERBS lists all. A client that passes `cut`
    and `flaky` resumes its streams without gaps and retries its requests without a second run.

    Args:
        answers: The answers to texts, as a mapping of exact texts or a function of the text. Texts that are not in the mapping are
            read as directives.
        proxy: A proxy in front of the agent whose connections it can break, for `outage`, `reset` and `down`.
        options: As Agent; by default its name is `conformance` and it listens on a free port of the loopback address.

    Within the process (`run_task` and `runtime://`) there are no faults, because there are no connections.
    """

    def __init__(self, *, answers: Answers | None = None, proxy: HostileProxy | None = None, **options: Any) -> None:
        if "card" not in options:
            options = {"name": "conformance", "description": DESCRIPTION, "url": ANY_PORT} | options
        server = options.pop("server", None) or ServerOptions()
        super().__init__(
            server=replace(server, interceptors=(remember_metadata, *server.interceptors)),
            policy=options.pop("policy", None) or CapabilityPolicy({"conformance.stamp": "require_approval"}),
            approvals=options.pop("approvals", None) or Approvals(),
            limits=options.pop("limits", None) or Limits(max_concurrency=MANY),
            llm=options.pop("llm", None) or PricedModel(),
            **options,
        )
        self._answers = answers
        self._proxy = proxy
        self._scripts = Scripts()
        self._received: deque[str] = deque(maxlen=MAX_RECEIVED)
        self.tool(ECHO_TOOL, "Returns a text.", title="Echo", read_only=True, tags=["scripted"])(_echo)
        self.tool(HOLD_TOOL, "Waits until it is canceled.")(_hold)
        self.tool(APPROVAL_TOOL, "Puts a stamp on something.", capabilities=["conformance.stamp"])(_stamp)

    @property
    def received(self) -> list[str]:
        """The last thousand received texts, in the order of their runs."""
        return list(self._received)

    async def _open_ports(self, service: TaskService) -> None:
        # It has every attribute that the ports use, including those of the service.
        await super()._open_ports(cast(TaskService, FaultyService(service, self._scripts, self._proxy)))

    async def handle_task_streaming(self, task: Task) -> AsyncIterator[Any]:
        """Follow the directive of the last message."""
        text = latest_text(task.messages)
        self._received.append(text)
        answer = await self._answer(text)
        if answer is not None:
            task.complete(answer)
            return
        if _is_reply(task):
            task.complete(text)
            return
        directive = parse_directive(text)
        if directive is None:
            task.reject(f"unknown directive; known ones: {'; '.join(VERBS.values())}")
            return
        await self._begin(directive, task.id)
        async for item in self._follow(directive, task):
            yield item

    async def _begin(self, directive: Directive, task_id: str) -> None:
        if directive.word:
            self._scripts.tallies[directive.word].runs += 1
        if directive.word or directive.fault is not None or directive.verb == "future":
            script = self._scripts.tasks[task_id] = Script(directive)
            if directive.fault is not None and directive.fault.kind == "idle":
                await script.over.wait()

    async def _answer(self, text: str) -> str | None:
        if self._answers is None:
            return None
        if isinstance(self._answers, Mapping):
            return self._answers.get(text)
        answer = self._answers(text)
        return await answer if inspect.isawaitable(answer) else answer

    async def _follow(self, directive: Directive, task: Task) -> AsyncIterator[Any]:
        match directive:
            case Directive("count", rest):
                for number in range(1, int(rest) + 1):
                    yield Artifact(parts=[Part.text(str(number))])
            case Directive("future"):
                yield RunEvent(type=UNKNOWN_EVENT_TYPE, summary="From the future")
                yield Artifact(parts=[Part.text("rewritten on the way")])
                task.complete("that was the future")
            case Directive("wait" | "hold" | "flap" | "down"):
                await asyncio.Event().wait()
            case Directive("ask", rest):
                task.require_input(Message.agent(rest))
            case Directive("fail", rest):
                task.fail(rest)
            case Directive("spend" | "ponder"):
                async for event in super().handle_task_streaming(task):
                    yield event
            case _:
                task.complete(await self._answer_verb(directive))

    async def _answer_verb(self, directive: Directive) -> str:
        """The text for a verb that only requests a text."""
        match directive:
            case Directive("count-runs", token):
                tally = self._scripts.tallies[token]
                tally.runs += 1
                return f"{token} ran {tally.runs} times"
            case Directive("calls", word):
                return json.dumps(asdict(self._scripts.tallies.get(word) or Tally()))
            case Directive("approve"):
                return await self._request_stamp()
            case Directive("whoami"):
                run = current_run()
                return run.principal if run is not None else ""
            case Directive("header", name):
                return (received.get() or {}).get(name.lower(), "") if name.lower() not in SECRETS else ""
            case _:
                return directive.rest

    async def _request_stamp(self) -> str:
        try:
            await self.call_tool(APPROVAL_TOOL)
        except ActionDeniedError:
            return "refused"
        return "approved"


SECRETS = frozenset({"authorization", "x-api-key"})
"""Headers that are never part of an answer, because answers are stored."""


async def _echo(text: str) -> str:
    return text


async def _hold() -> None:
    await asyncio.Event().wait()


def _stamp() -> str:
    return "stamped"


def _is_reply(task: Task) -> bool:
    first = parse_directive(task.messages[0].text) if len(task.messages) > 1 else None
    return first is not None and first.verb == "ask"


def conformance_card(name: str = "conformance") -> AgentCard:
    """The agent's card, with the tag `scripted`."""
    return AgentCard(
        name=name,
        description=DESCRIPTION,
        url=ANY_PORT,
        tags=["scripted"],
        capabilities=AgentCapabilities(max_concurrency=MANY),
    )
