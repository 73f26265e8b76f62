"""One typed Python function as a tool: described by a schema, checked before each call, bounded in time.

Whether a call is allowed is decided elsewhere; which tools an agent has is `toolbox`'s business.
"""

import asyncio
import copy
import functools
import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, Self, runtime_checkable

from protolink_grpc.errors import ToolFailedError, ToolRejectedError, ToolTimeoutError, said
from protolink_grpc.logs import get_logger
from protolink_grpc.models import json_value
from protolink_grpc.models.arguments import checks_arguments
from protolink_grpc.models.card import AgentSkill
from protolink_grpc.models.json_schema import SchemaLike, json_schema_of
from protolink_grpc.models.payload import Payload
from protolink_grpc.models.tool import ToolDescription
from protolink_grpc.tools.context import ToolContext
from protolink_grpc.tools.docstring import read_docstring
from protolink_grpc.tools.runner import ToolRunner, checked_timeout
from protolink_grpc.tools.schema import ArgumentModel, CheckedArguments
from protolink_grpc.tools.signature import without_partials

log = get_logger(__name__)

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,127}")
"""Names that a URL and a log line take as they are; adapters translate those that their provider refuses."""

ActionBuilder = Callable[..., Any]
"""`(arguments, RunContext) -> RunAction`, sync or async. Untyped: only the runtime calls it and checks the answer."""


@runtime_checkable
class BaseTool(Protocol):
    """Anything that can be called by name with JSON arguments, wherever it runs."""

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
    """Around a tool's own code: what that raises becomes ToolFailedError; its refusals and cancellation pass.

    A class, and one object per tool, because a generator would take as long as the check of the arguments.
    """

    __slots__ = ("_tool",)

    def __init__(self, tool: str) -> None:
        self._tool = tool

    def __enter__(self) -> None:
        return

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        # SystemExit is among them: a tool must not end the server.
        if isinstance(error, Exception | SystemExit) and not isinstance(error, ToolRejectedError):
            name = type(error).__name__
            raise ToolFailedError(
                f"Tool '{self._tool}' failed: {name}: {said(error)}", tool=self._tool, error_type=name
            ) from error


def log_tool_failure(error: ToolFailedError, task_id: str = "", incident: str = "") -> None:
    """One ERROR record with the trace of what the tool's code raised; it says nothing of arguments, but a trace's text may."""
    log.error(
        "%stool '%s' failed%s",
        f"task {task_id}: " if task_id else "",
        error.metadata.get("tool", ""),
        f", incident {incident}" if incident else "",
        exc_info=error.__cause__ or error,
    )


@dataclass(slots=True, eq=False)
class Tool:
    """A function with what callers must know about it, made by `from_callable`; several tasks may call it at once.

    Args:
        fn: The function. Async ones run on the event loop, sync ones on a `ToolRunner`.
        arguments: The check of its arguments.
        input_schema: JSON Schema of the arguments, an object.
        output_schema: JSON Schema of the result, empty when nothing is promised.
        capabilities: Authority that a call needs, for policies.
        action_builder: Prepares the action that a policy and a person look at.
        timeout_s: Limit of one call in seconds, waiting for a thread included; None leaves it to the runner.
        read_only: The author's word that a call changes nothing.
        idempotent: The author's word that the same call twice is the same as once, so that one that a crash cut off is repeated.
        title: Name for people; empty means `name`.
        destructive: The author's word that a call may delete or overwrite something. Shown to callers; decides nothing.
    """

    name: str
    description: str
    fn: Callable[..., Any]
    arguments: ArgumentModel
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
    _is_async: bool = field(init=False, repr=False)
    _failures: _Failures = field(init=False, repr=False)
    _own_runner: ToolRunner | None = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        self._failures = _Failures(self.name)
        self._is_async = _is_any(inspect.iscoroutinefunction, self.fn)

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
        """A tool from a function: whatever is not given is read from its name, docstring and annotations.

        The docstring's text is the description, and its lines on parameters describe them in the schema, where their annotations do
        not (`tools.docstring`).

        Raises:
            TypeError: `fn` cannot be a tool; the text says why and names the parameter.
            ValueError: The name, the limit or `input_schema` is not valid; or the tool is said to be read-only and destructive.
        """
        chosen = _checked_name(fn, name)
        if read_only and destructive:
            raise ValueError(f"Tool '{chosen}': what is read-only destroys nothing; leave one of the two out")
        _refuse_uncallable(chosen, fn)
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
            tags=_words(chosen, "tags", tags),
            examples=list(examples or ()),
            capabilities=frozenset(_words(chosen, "capabilities", capabilities)),
            action_builder=action_builder,
            timeout_s=checked_timeout(timeout_s),
            read_only=read_only,
            idempotent=idempotent or read_only,
            title=title,
            destructive=destructive,
        )

    def validate(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Keyword arguments for the function, converted to its types; calls nothing but the validators of those types.

        Raises:
            ToolRejectedError: `invalid_arguments`.
            ToolFailedError: A validator of the tool's own types broke.
        """
        with self._failures:
            return self.arguments.validate(arguments)

    def check(self, arguments: Mapping[str, Any]) -> CheckedArguments:
        """Arguments as `run` takes them, with the form in which others see them. Raises like `validate`."""
        with self._failures:
            return self.arguments.check(arguments)

    async def call(
        self,
        arguments: Mapping[str, Any],
        *,
        context: ToolContext | None = None,
        runner: ToolRunner | None = None,
    ) -> Any:
        """Validate, run, and return the result as JSON values.

        Cancelling the wait cancels an async function; a sync one goes on unseen on its abandoned thread.

        Args:
            context: For parameters annotated with `ToolContext`; an empty one when absent.
            runner: Threads for a sync function; the tool's own, of the default size, when absent.

        Raises:
            ToolRejectedError: The arguments are wrong, or the function refused before it changed anything.
            ToolTimeoutError: The limit is over.
            ToolFailedError: The function raised, or its result is not of the type that it promises, or has no JSON form.
            ResourceExhaustedError: No thread is to be had; nothing was called.
        """
        return await self.run(self.validate(arguments), context=context, runner=runner)

    @checks_arguments
    async def run(
        self, keywords: dict[str, Any], *, context: ToolContext | None = None, runner: ToolRunner | None = None
    ) -> Any:
        """Like `call`, with the keyword arguments that a check of this tool has made."""
        keywords = dict(keywords)
        for name in self.arguments.context_names:
            keywords[name] = context or ToolContext()
        if runner is None:
            runner = self._own_runner = self._own_runner or ToolRunner()
        return self._as_json(await self._bounded(keywords, runner))

    async def __call__(self, /, **arguments: Any) -> Any:
        return await self.call(arguments)

    def skill(self) -> AgentSkill:
        """The entry of this tool in its agent's card; shares nothing with the tool."""
        return AgentSkill(
            id=self.name,
            description=self.description,
            input_schema=copy.deepcopy(self.input_schema),
            output_schema=copy.deepcopy(self.output_schema),
            tags=list(self.tags),
            examples=copy.deepcopy(self.examples),
        )

    def describe(self, timeout_s: float | None = None) -> ToolDescription:
        """What callers are told about this tool; shares nothing with it.

        Args:
            timeout_s: Limit of tools that set none themselves.
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

    async def _bounded(self, keywords: dict[str, Any], runner: ToolRunner) -> Any:
        limit = runner.timeout_s if self.timeout_s is None else self.timeout_s
        if limit is None:
            return await self._run(keywords, runner)
        # A task of its own: a function that ignores its cancellation is left behind, as a blocked thread is.
        work = asyncio.ensure_future(self._run(keywords, runner))
        try:
            done, _ = await asyncio.wait([work], timeout=limit)
        except asyncio.CancelledError:
            await _give_up(work)
            raise
        if done:
            return work.result()
        await _give_up(work)
        raise ToolTimeoutError(
            f"Tool '{self.name}' timed out after {limit:g} s", tool=self.name, timeout_s=f"{limit:g}"
        )

    async def _run(self, keywords: dict[str, Any], runner: ToolRunner) -> Any:
        if self._is_async:
            with self._failures:
                return await self.fn(**keywords)
        result = await runner.run(functools.partial(self._call_on_thread, keywords))
        if inspect.isawaitable(result):  # A sync function may hand out a coroutine, as many decorators do.
            with self._failures:
                return await result
        return result

    def _call_on_thread(self, keywords: dict[str, Any]) -> Any:
        with self._failures:
            return self.fn(**keywords)

    def _as_json(self, result: Any) -> Any:
        kind = type(result).__name__
        try:
            result = self.arguments.result.checked(result)
        except Exception as error:  # A type of the tool's may bring validators that raise others.
            raise ToolFailedError(
                f"Tool '{self.name}' returned a {kind} that {said(error)}", tool=self.name, result_type=kind
            ) from error
        if isinstance(result, Payload):
            return result
        try:
            return json_value.normalize(result)
        except Exception as error:  # A result may bring a `to_dict` of its own, which may raise anything.
            raise ToolFailedError(
                f"Tool '{self.name}' returned a {kind} that cannot become JSON: {said(error)}",
                tool=self.name,
                result_type=kind,
            ) from error


CLEANUP_S = 1.0
"""How long a canceled async function may take to let go of what it holds before it is left behind."""

# Calls that were given up and have not ended: a task that nobody refers to may be collected while it runs.
_left_behind: "set[asyncio.Task[Any]]" = set()


async def _give_up(work: "asyncio.Task[Any]") -> None:
    # Noted before the wait, which may be canceled itself.
    _left_behind.add(work)
    work.add_done_callback(_forget)
    work.cancel()
    await asyncio.wait([work], timeout=CLEANUP_S)


def _forget(work: "asyncio.Task[Any]") -> None:
    _left_behind.discard(work)
    if not work.cancelled():
        work.exception()  # asked for, so that the loop does not report it as lost


def _checked_name(fn: Callable[..., Any], name: str | None) -> str:
    if not callable(fn):
        raise TypeError(f"a tool must be callable, got {type(fn).__name__}")
    chosen = getattr(fn, "__name__", None) if name is None else name
    if not isinstance(chosen, str) or chosen == "<lambda>":
        raise TypeError("a lambda, a partial or a callable object has no name of its own: give the tool a name")
    if not NAME.fullmatch(chosen):
        raise ValueError(f"tool name {chosen[:128]!r} must match {NAME.pattern}")
    return chosen


def _refuse_uncallable(name: str, fn: Callable[..., Any]) -> None:
    if inspect.isclass(fn):
        raise TypeError(f"Tool '{name}': a class is not a tool; give a function or an object with __call__")
    if _is_any(inspect.isgeneratorfunction, fn) or _is_any(inspect.isasyncgenfunction, fn):
        raise TypeError(f"Tool '{name}': a generator is not a tool; return a list, or report with ToolContext.progress")


def _is_any(test: Callable[[Any], bool], fn: Callable[..., Any]) -> bool:
    """Whether `test` holds for `fn` or for the function that a person wrote under it, decorators excepted."""
    fn = without_partials(fn)
    return test(fn) or test(type(fn).__call__)


def _words(tool: str, what: str, words: Iterable[str] | None) -> list[str]:
    if isinstance(words, str):  # It is an iterable of its letters, and never meant so.
        raise TypeError(f"Tool '{tool}': {what} must be a list of texts, not one text")
    return list(words or ())
