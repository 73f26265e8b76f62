"""The prompts that a flow gives to the agents of its steps: who receives their output, and which routes there are."""

from protolink_grpc.flows.scope import Scope


async def prompt_for(scope: Scope) -> str:
    """Return the flow prompt for the step of a scope; empty if its receiver is not known yet."""
    if scope.receiver is not None:
        return await scope.receiver.introduce(scope)
    return LAST_STEP if scope.is_last else ""


LAST_STEP = (
    "You are the last step of a flow. Your output is returned to the caller. Make it complete and ready to be read."
)


def next_step_prompt(receiver: str) -> str:
    """Return the prompt for a step whose output goes to one receiver."""
    return f"You are a step of a flow. Your output is the input of the next step. The next step is {receiver}"


def branches_prompt(receivers: list[str]) -> str:
    """Return the prompt for a step whose output goes to several receivers at once."""
    listed = "\n".join(f"- {each}" for each in receivers)
    return f"You are a step of a flow. Your output is the input of these steps, which run at the same time:\n{listed}"


def routes_prompt(routing_prompt: str, routes: dict[str, str]) -> str:
    """Return the prompt for a step whose output must contain a route."""
    listed = "\n".join(f"- {key}: {receiver}" for key, receiver in routes.items())
    return (
        "You are a step of a flow, and your output decides which step is next. "
        f"Choose exactly one of these routes:\n{listed}\n"
        f"{routing_prompt}\n"
        "Give the route as a part of type route with the route_key. If you can only write text, end your answer with "
        "[ROUTE: key], for example [ROUTE: " + next(iter(routes)) + "]."
    )
