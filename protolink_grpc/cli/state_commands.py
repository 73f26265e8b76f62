"""`state describe`, `state reset`, `state compact`."""

from collections.abc import Sequence

from protolink_grpc.cli import output
from protolink_grpc.cli.connect import QUICK_S, WAIT_S, agent_client, run, url_of
from protolink_grpc.cli.failure import CommandError
from protolink_grpc.cli.settings import Settings
from protolink_grpc.models.conversation import HistoryCompactionRequest, HistoryCompactionResult
from protolink_grpc.models.state import StateOperationRequest, StateOperationResult, StateStoreReport


def describe(settings: Settings, agent: str, session: str, stores: Sequence[str], *, include_data: bool) -> None:
    """Print what the agent remembers, store by store."""
    request = StateOperationRequest(session or None, tuple(stores), include_data)

    async def work() -> StateOperationResult:
        return await agent_client(settings, QUICK_S).describe_state(await url_of(settings, agent), request)

    result = run(work(), agent)
    _show(settings, result)
    if include_data and not settings.json:
        for store in result.stores:
            if store.data:
                output.block(store.name, output.pretty(store.data))
            if store.metadata.get("truncated"):
                output.note("note", f"{store.name} is too long and was truncated")
    _check_errors(result)


def reset(settings: Settings, agent: str, session: str, stores: Sequence[str]) -> None:
    """Delete what the agent remembers, and print what is left."""
    request = StateOperationRequest(session or None, tuple(stores))

    async def work() -> StateOperationResult:
        return await agent_client(settings, QUICK_S).reset_state(await url_of(settings, agent), request)

    result = run(work(), agent)
    _show(settings, result)
    _check_errors(result)


def compact(settings: Settings, agent: str, request: HistoryCompactionRequest) -> None:
    """Shorten a conversation, and print by how much."""

    async def work() -> HistoryCompactionResult:
        # A summary has to wait for a model.
        return await agent_client(settings, WAIT_S).compact_history(await url_of(settings, agent), request)

    done = run(work(), agent)
    if settings.json:
        output.document(done.to_dict())
        return
    output.field("Strategy", done.strategy)
    output.field("Messages", f"{done.before_messages} before, {done.after_messages} now")
    output.field("Tokens", f"about {done.before_tokens} before, {done.after_tokens} now")
    output.field("Summary", "yes" if done.summary_created else "no")


def _show(settings: Settings, result: StateOperationResult) -> None:
    if settings.json:
        output.document(result.to_dict())
        return
    output.columns(("STORE", "STATE", "ITEMS", "MESSAGES"), [_row(store) for store in result.stores])


def _row(store: StateStoreReport) -> tuple[str, str, str, str]:
    if not store.enabled:
        return store.name, "off", "-", "-"
    if store.error is not None:
        return store.name, "problem", "-", "-"
    # The metadata of a reset contains the previous sizes.
    report = StateStoreReport.from_dict(store.metadata["before"]) if store.cleared else store
    state = "cleared" if store.cleared and report.exists else "kept" if store.exists else "empty"
    return store.name, state, str(report.item_count), str(report.message_count)


def _check_errors(result: StateOperationResult) -> None:
    """Fail the command if any store has failed."""
    if result.errors:
        text = "; ".join(f"{each['store']}: {each['message']}" for each in result.errors)
        raise CommandError(text, hint="the agent's log has more details", code="STORE_UNAVAILABLE")
