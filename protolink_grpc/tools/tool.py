"""A typed Python function as a tool: with a schema, checked arguments and a timeout.

It does not check whether a call is allowed.
"""

import asyncio
import copy
import functools
import inspect
import re
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, Self, runtime_checkable

from protolink_grpc.errors import ToolError, ToolFailedError, ToolRejectedError, ToolTimeoutError, error_text
from protolink_grpc.logs import get_logger
from protolink_grpc.models import json_value
from protolink_grpc.models.arguments import checks_arguments
from protolink_grpc.models.card import AgentSkill
from protolink_grpc.models.json_schema import SchemaLike, json_schema_of
from protolink_grpc.models.payload import Payload
from protolink_grpc.models.tool import ToolDescription
from protolink_grpc.tools.arguments import CheckedArguments, ToolArguments, item_schema
from protolink_grpc.tools.cancellation import cancel
from protolink_grpc.tools.context import ToolContext
from protolink_grpc.tools.docstring import read_docstring
from protolink_grpc.tools.generators import OnItem, drain, drain_on_thread
from protolink_grpc.tools.runner import ToolRunner, check_timeout
from protolink_grpc.tools.schema_arguments import SchemaArguments
from protolink_grpc.tools.signature import is_any, is_generator_function

log = get_logger(__name__)

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,127}")
"""Allowed names of tools: valid in URLs and log lines. Adapters of models translate names that a provider refuses."""

LOCAL_OWNER = "local"
"""The runtime owner of tools whose code runs in the process of the agent."""

PEER_OWNER = "agent:"
"""The runtime owner of a peer begins with this; its name follows."""

ActionBuilder = Callable[..., Any]
"""`(arguments, RunContext) -> RunAction`, sync or async. It is untyped, because only the runtime calls it and checks the result."""


@runtime_checkable
class BaseTool(Protocol):
    """The interface of tools: anything that can be called by name with JSON arguments."""

    @property
    def name(self) -> str: ...
    @property
    def description(self) -> str: ...
    @property
    def input_schema(self) -> dict[str, Any]: ...
    @property
    def output_schema(self) -> dict[str, Any]: ...
    @property
    def tags(self) -> list[str]: ...
    @property
    def examples(self) -> list[Any]: ...
    @property
    def capabilities(self) -> frozenset[str]: ...
    async def __call__(self, **arguments: Any) -> Any: ...


class _Failures:
    """Converts exceptions of a tool's code to ToolFailedError.

    Rejections, cancellation, and errors that already name this tool pass unchanged.

    This is a class with one object per tool, because a generator would take as long as checking the arguments.
    """

    __slots__ = ("_tool",)

    def __init__(self, tool: str) -> None:
        self._tool = tool

    def __enter__(self) -> None:
        return

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, ToolError) and error.metadata.get("tool") == self._tool:
            return
        # Includes SystemExit, because a tool must not end the server.
        if isinstance(error, Exception | SystemExit) and not isinstance(error, ToolRejectedError):
            name = type(error).__name__
            raise ToolFailedError(
                f"Tool '{self._tool}' failed: {name}: {error_text(error)}", tool=self._tool, error_type=name
            ) from error


def log_tool_failure(error: ToolFailedError, task_id: str = "", incident: str = "") -> None:
    """Log an exception of a tool's code as one ERROR record with its traceback, without the arguments."""
    log.error(
        "%stool '%s' failed%s",
        f"task {task_id}: " if task_id else "",
        error.metadata.get("tool", ""),
        f", incident {incident}" if incident else "",
        exc_info=error.__cause__ or error,
    )


@dataclass(slots=True, eq=False)
class Tool:
    """A function with its schema and properties, created by `from_callable` or `from_schema`. It can be called concurrently.

    Args:
        fn: The function. Async functions run on the event loop, sync ones on a `ToolRunner`. A generator function, sync or async,
            is a tool whose result is the list of its items.
        arguments: The check of its arguments.
        input_schema: JSON Schema of the arguments, an object.
        output_schema: JSON Schema of the result; empty if there is none.
        capabilities: Capabilities that a call needs, for policies.
        action_builder: Prepares the action for policy and approval.
        timeout_s: Timeout of a call in seconds, including the wait for a thread; None means the runner's default.
        read_only: Whether a call has no effects, as declared by the author.
        idempotent: Whether repeating a call has no further effect, as declared by the author. An interrupted call is then repeated.
        title: Display name; empty means `name`.
        destructive: Whether a call may delete or overwrite data, as declared by the author. Shown to callers, without other
            effects.
        runtime_owner: Where its code runs: `local`, `mcp:NAME` for an MCP server, or `agent:NAME` for a peer.

    Attributes:
        streams: The function is a generator function: `run` passes its items on while it works.
    """

    name: str
    description: str
    fn: Callable[..., Any]
    arguments: ToolArguments
    input_schema: dict[str, Any]
    output_schema: dict[str, Any]
    tags: list[str]
    examples: list[Any]
    capabilities: frozenset[str]
    action_builder: ActionBuilder | None
    timeout_s: float | None
    read_only: bool
    idempotent: bool
    title: str
    destructive: bool
    runtime_owner: str = LOCAL_OWNER
    streams: bool = field(init=False)
    _is_async: bool = field(init=False, repr=False)
    _failures: _Failures = field(init=False, repr=False)
    _own_runner: ToolRunner | None = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        self._failures = _Failures(self.name)
        self.streams = is_generator_function(self.fn)
        self._is_async = is_any(inspect.isasyncgenfunction if self.streams else inspect.iscoroutinefunction, self.fn)

    @classmethod
    @checks_arguments
    def from_callable(
        cls,
        fn: Callable[..., Any],
        *,
        name: str | None = None,
        description: str | None = None,
        input_schema: SchemaLike | None = None,
        output_schema: SchemaLike | None = None,
        tags: Iterable[str] | None = None,
        examples: Iterable[Any] | None = None,
        capabilities: Iterable[str] | None = None,
        action_builder: ActionBuilder | None = None,
        timeout_s: float | None = None,
        read_only: bool = False,
        idempotent: bool = False,
        title: str = "",
        destructive: bool = False,
    ) -> Self:
        """Create a tool from a function. Missing arguments are derived from its name, docstring and annotations.

        The text of the docstring is the description. Its descriptions of parameters are used in the schema, unless an annotation
        has one (`tools.docstring`).

        Raises:
            TypeError: `fn` cannot be a tool; the message contains the reason and the parameter.
            ValueError: The name, the timeout or `input_schema` is invalid, or the tool is both read-only and destructive.
        """
        # Imported here: it loads pydantic, which an agent without tools does not need.
        from protolink_grpc.tools.schema import ArgumentModel

        chosen = _choose_name(fn, name)
        if read_only and destructive:
            raise ValueError(f"Tool '{chosen}': read_only and destructive exclude each other")
        _check_callable(chosen, fn)
        documented = read_docstring(fn)
        given = None if input_schema is None else json_schema_of(input_schema, field="input_schema")
        arguments = ArgumentModel(chosen, fn, given, documented.parameters)
        return cls(
            name=chosen,
            description=documented.description if description is None else description,
            fn=fn,
            arguments=arguments,
            input_schema=arguments.input_schema,
            output_schema=(
                arguments.result.output_schema
                if output_schema is None
                else json_schema_of(output_schema, field="output_schema")
            ),
            tags=_to_list(chosen, "tags", tags),
            examples=list(examples or ()),
            capabilities=frozenset(_to_list(chosen, "capabilities", capabilities)),
            action_builder=action_builder,
            timeout_s=check_timeout(timeout_s),
            read_only=read_only,
            idempotent=idempotent or read_only,
            title=title,
            destructive=destructive,
        )

    @classmethod
    @checks_arguments
    def from_schema(
        cls,
        call: Callable[[dict[str, Any], ToolContext], Awaitable[Any]],
        *,
        name: str,
        input_schema: Mapping[str, Any],
        output_schema: Mapping[str, Any] | None = None,
        description: str = "",
        tags: Iterable[str] = (),
        capabilities: Iterable[str] = (),
        timeout_s: float | None = None,
        read_only: bool = False,
        idempotent: bool = False,
        title: str = "",
        destructive: bool = False,
        runtime_owner: str = LOCAL_OWNER,
    ) -> Self:
        """Create a tool of another system, whose arguments are checked against its own JSON Schema and not converted.

        Args:
            call: Called as `call(arguments=..., context=...)`.

        Raises:
            ValueError: The name, the timeout or `input_schema` is invalid.
        """
        if not NAME.fullmatch(name):
            raise ValueError(f"tool name {name[:128]!r} must match {NAME.pattern}")
        arguments = SchemaArguments(name, input_schema, output_schema or {})
        return cls(
            name=name,
            description=description,
            fn=call,
            arguments=arguments,
            input_schema=arguments.input_schema,
            output_schema=arguments.result.output_schema,
            tags=list(tags),
            examples=[],
            capabilities=frozenset(capabilities),
            action_builder=None,
            timeout_s=check_timeout(timeout_s),
            read_only=read_only,
            idempotent=idempotent or read_only,
            title=title,
            destructive=destructive and not read_only,
            runtime_owner=runtime_owner,
        )

    def validate(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Convert arguments to the function's types. This calls only the validators of these types.

        Raises:
            ToolRejectedError: `invalid_arguments`.
            ToolFailedError: A validator of the tool's own types failed.
        """
        with self._failures:
            return self.arguments.validate(arguments)

    def check(self, arguments: Mapping[str, Any]) -> CheckedArguments:
        """Convert arguments for `run`, together with the form for policies and logs. Raises as `validate`."""
        with self._failures:
            return self.arguments.check(arguments)

    async def call(
        self,
        arguments: Mapping[str, Any],
        *,
        context: ToolContext | None = None,
        runner: ToolRunner | None = None,
    ) -> Any:
        """Check the arguments, call the function, and return the result as JSON values.

        Canceling the wait cancels an async function; a sync one continues in its abandoned thread. A generator is closed: an async
        one at once, a sync one when it yields.

        Args:
            context: Value of parameters annotated with `ToolContext`; by default an empty one.
            runner: Threads for a sync function; by default the tool's own, with the default size.

        Raises:
            ToolRejectedError: The arguments are invalid, or the function rejected the call before it had effects.
            ToolTimeoutError: The timeout has passed.
            ToolFailedError: The function raised an exception, or its result has another type or no JSON form.
            ResourceExhaustedError: There is no free thread; the function was not called.
        """
        return await self.run(self.validate(arguments), context=context, runner=runner)

    @checks_arguments
    async def run(
        self,
        keywords: dict[str, Any],
        *,
        context: ToolContext | None = None,
        runner: ToolRunner | None = None,
        on_item: OnItem | None = None,
    ) -> Any:
        """As `call`, with arguments that `check` has converted.

        Args:
            on_item: Called with each item of a generator. Its exceptions end the call and are raised unchanged.
        """
        keywords = dict(keywords)
        for name in self.arguments.context_names:
            keywords[name] = context or ToolContext()
        if runner is None:
            runner = self._own_runner = self._own_runner or ToolRunner()
        if self.streams:
            return await self._collect(keywords, runner, on_item)
        return self._to_json(await self._run_with_timeout(functools.partial(self._run, keywords, runner), runner))

    async def __call__(self, /, **arguments: Any) -> Any:
        return await self.call(arguments)

    def skill(self) -> AgentSkill:
        """Return a new skill for the agent's card."""
        return AgentSkill(
            id=self.name,
            description=self.description,
            input_schema=copy.deepcopy(self.input_schema),
            output_schema=copy.deepcopy(self.output_schema),
            tags=list(self.tags),
            examples=copy.deepcopy(self.examples),
        )

    def contract_schemas(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the JSON Schemas of the arguments and of the result, or of each item, of a generator.

        They have what only typed services need, such as the names of enum members.
        """
        result = self.arguments.result
        if self.output_schema == result.output_schema:
            promised = result.contract_schema()
        else:
            promised = item_schema(self.output_schema) if self.streams else self.output_schema
        return self.arguments.contract_schema(), promised

    def describe(self, timeout_s: float | None = None) -> ToolDescription:
        """Return a new description of this tool for callers.

        Args:
            timeout_s: Default timeout of tools.
        """
        return ToolDescription(
            name=self.name,
            title=self.title,
            description=self.description,
            input_schema=copy.deepcopy(self.input_schema),
            output_schema=copy.deepcopy(self.output_schema),
            read_only=self.read_only,
            idempotent=self.idempotent,
            destructive=self.destructive,
            capabilities=tuple(sorted(self.capabilities)),
            timeout_s=timeout_s if self.timeout_s is None else self.timeout_s,
            tags=tuple(self.tags),
        )

    async def _run_with_timeout(self, call: Callable[[], Coroutine[Any, Any, Any]], runner: ToolRunner) -> Any:
        limit = runner.timeout_s if self.timeout_s is None else self.timeout_s
        if limit is None:
            return await call()
        # In an asyncio task of its own: a function that ignores its cancellation is abandoned, like a blocked thread.
        work = asyncio.ensure_future(call())
        try:
            done, _ = await asyncio.wait([work], timeout=limit)
        except asyncio.CancelledError:
            await cancel(work)
            raise
        if done:
            return work.result()
        await cancel(work)
        raise ToolTimeoutError(
            f"Tool '{self.name}' timed out after {limit:g} s", tool=self.name, timeout_s=f"{limit:g}"
        )

    async def _run(self, keywords: dict[str, Any], runner: ToolRunner) -> Any:
        if self._is_async:
            with self._failures:
                return await self.fn(**keywords)
        result = await runner.run(functools.partial(self._call, keywords))
        if inspect.isawaitable(result):  # A sync function may return a coroutine, as many decorators do.
            with self._failures:
                return await result
        return result

    def _call(self, keywords: dict[str, Any]) -> Any:
        with self._failures:
            return self.fn(**keywords)

    async def _collect(self, keywords: dict[str, Any], runner: ToolRunner, on_item: OnItem | None) -> list[Any]:
        """Return the items of a generator, and pass each to `on_item`."""
        items: list[Any] = []
        is_over = False

        async def take(item: Any) -> None:
            if is_over:  # a generator that ignored its cancellation and was abandoned
                raise asyncio.CancelledError
            value = self._to_json(item, "yielded")
            items.append(value)
            if on_item is not None:
                await on_item(value)
            if len(items) % ITEMS_IN_A_ROW == 0:
                await asyncio.sleep(0)  # a generator that never awaits must not block the event loop

        begin = functools.partial(self._call, keywords)
        if self._is_async:
            work = functools.partial(drain, begin, take, self._failures)
        else:
            work = functools.partial(drain_on_thread, begin, take, self._failures, runner)
        try:
            await self._run_with_timeout(work, runner)
        finally:
            is_over = True
        return items

    def _to_json(self, result: Any, verb: str = "returned") -> Any:
        kind = type(result).__name__
        try:
            result = self.arguments.result.convert(result)
        except Exception as error:  # The tool's own types may have validators that raise other exceptions.
            raise ToolFailedError(
                f"Tool '{self.name}' {verb} a value of type {kind} that {error_text(error)}",
                tool=self.name,
                result_type=kind,
            ) from error
        if isinstance(result, Payload):
            return result
        try:
            return json_value.normalize(result)
        except Exception as error:  # A result may have its own `to_dict`, which may raise anything.
            raise ToolFailedError(
                f"Tool '{self.name}' {verb} a value of type {kind} that cannot become JSON: {error_text(error)}",
                tool=self.name,
                result_type=kind,
            ) from error


ITEMS_IN_A_ROW = 64
"""Number of items after which a generator lets the event loop do other work."""


def _choose_name(fn: Callable[..., Any], name: str | None) -> str:
    if not callable(fn):
        raise TypeError(f"a tool must be callable, got {type(fn).__name__}")
    chosen = getattr(fn, "__name__", None) if name is None else name
    if not isinstance(chosen, str) or chosen == "<lambda>":
        raise TypeError("a lambda, a partial or a callable object has no name: pass a name")
    if not NAME.fullmatch(chosen):
        raise ValueError(f"tool name {chosen[:128]!r} must match {NAME.pattern}")
    return chosen


def _check_callable(name: str, fn: Callable[..., Any]) -> None:
    if inspect.isclass(fn):
        raise TypeError(f"Tool '{name}': a class is not a tool; give a function or an object with __call__")


def _to_list(tool: str, what: str, words: Iterable[str] | None) -> list[str]:
    if isinstance(words, str):  # A string would be a list of its letters.
        raise TypeError(f"Tool '{tool}': {what} must be a list of texts, not one text")
    return list(words or ())
