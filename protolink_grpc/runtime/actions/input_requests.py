"""Questions of a running tool to a person, as approval requests whose edited arguments are the answer.

A question is an action of its own in the log, so it is listed, answered, expires and survives a crash like every other approval.
"""

from collections.abc import Callable
from typing import Any

from protolink_grpc.errors import ActionPolicyError, InvalidArgumentError, ToolRejectedError
from protolink_grpc.models.action import PolicyDecision, PolicyEffect, RunAction
from protolink_grpc.models.context import RunContext
from protolink_grpc.runtime.actions.action_context import ActionContext
from protolink_grpc.runtime.actions.gate import ActionResult, Gate, PreparedAction
from protolink_grpc.tools.context import InputAnswer
from protolink_grpc.tools.rejection import invalid_arguments_error

INPUT_REQUEST = "input.request"
"""Kind of the action. Its name is the tool that asks; its payload has `message`, `schema` and the answer as `arguments`."""


class InputRequests:
    """The questions of one call of a tool.

    Args:
        position: Position of the call; questions have positions below it. Empty if the call has none.
        expires_s: Lifetime of a question in seconds; None means no limit.
    """

    def __init__(self, action_context: ActionContext, tool: str, *, position: str, expires_s: float | None) -> None:
        self._action_context = action_context
        self._tool = tool
        self._position = position
        self._gate = Gate(_AskPerson(), expires_s)
        self._count = 0

    async def ask(self, message: str, schema: dict[str, Any] | None = None, *, url: str = "") -> InputAnswer:
        """As `tools.context.AskPerson`."""
        self._count += 1
        position = f"{self._position}/input/{self._count}" if self._position else ""
        payload = {"arguments": {}, "message": message, "schema": schema or {}, **({"url": url} if url else {})}
        action = RunAction(INPUT_REQUEST, self._tool, payload, description=message[:200])
        check = _checker(self._tool, schema)

        def edit(answer: dict[str, Any]) -> RunAction:
            check(answer)
            return action.with_payload({**payload, "arguments": answer})

        async def execute(answered: RunAction) -> ActionResult:
            answer = answered.payload["arguments"]
            check(answer)
            return ActionResult(answer)

        async def prepare() -> PreparedAction:
            return PreparedAction(action, execute, edit, idempotent=True, read_only=True, is_counted=False)

        try:
            outcome = await self._gate.perform(self._action_context, prepare, position=position)
        except (ActionPolicyError, ToolRejectedError) as error:
            return InputAnswer(False, {}, str(error))
        if outcome.exception is not None:
            return InputAnswer(False, {}, str(outcome.exception))
        return InputAnswer(True, outcome.result)


def check_answer(action: RunAction, answer: dict[str, Any]) -> None:
    """Check an answer before it is recorded.

    Raises:
        InvalidArgumentError: It does not satisfy the schema of the question.
    """
    try:
        _checker(action.name, action.payload.get("schema"))(answer)
    except ToolRejectedError as error:
        raise InvalidArgumentError(str(error)) from error


class _AskPerson:
    """The policy of questions: a person must answer, by editing the arguments."""

    async def evaluate(self, action: RunAction, context: RunContext) -> PolicyDecision:
        return PolicyDecision(
            PolicyEffect.REQUIRE_APPROVAL, "the tool asks for input", "input", metadata={"editable": True}
        )


def _checker(tool: str, schema: dict[str, Any] | None) -> Callable[[dict[str, Any]], None]:
    """Return a function that raises ToolRejectedError unless an answer satisfies the schema.

    Raises:
        InvalidArgumentError: The schema is invalid.
    """
    if not schema:
        return lambda answer: None
    from protolink_grpc.tools.json_schema import JsonSchema  # loads the validator, which most agents do not need

    try:
        compiled = JsonSchema(schema, bounded=True, allow_draft_7=True)
    except ValueError as error:
        raise InvalidArgumentError(str(error), field="schema") from None

    def check(answer: dict[str, Any]) -> None:
        if problems := compiled.problems(answer):
            raise invalid_arguments_error(tool, problems)

    return check
