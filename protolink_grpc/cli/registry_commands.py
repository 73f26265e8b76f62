"""`agents list` and `agents watch`."""

from contextlib import aclosing
from datetime import UTC, datetime
from typing import Any, cast

from protolink_grpc.cli import output
from protolink_grpc.cli.connect import registry_client, run, within
from protolink_grpc.cli.settings import Settings
from protolink_grpc.wire.registry import AgentChange, AgentChangeKind, AgentFilter, RegisteredAgent


def list_agents(settings: Settings, wanted: AgentFilter) -> None:
    """Print the matching agents, sorted by name."""
    client = registry_client(settings)
    agents = run(client.list_agents(wanted), settings.registry)
    if settings.json:
        output.document({"agents": [_agent_dict(agent) for agent in agents]})
        return
    rows = [
        (
            agent.card.name,
            agent.card.url,
            agent.state.value,
            _load(agent),
            agent.card.role,
            ", ".join(agent.card.tags),
            ", ".join(skill.id for skill in agent.card.skills),
        )
        for agent in agents
    ]
    output.columns(("NAME", "URL", "STATE", "RUNS", "ROLE", "TAGS", "SKILLS"), rows)


def _load(agent: RegisteredAgent) -> str:
    """Format the number of working and waiting runs: `2` or `2+5`."""
    return f"{agent.running}+{agent.queued}" if agent.queued else str(agent.running)


def watch_agents(settings: Settings, wanted: AgentFilter) -> None:
    """Print the registered agents, then changes until interrupted."""

    async def work() -> None:
        client = registry_client(settings)
        # A watch retries during an outage, so check first that the registry is reachable at all.
        await client.list_agents(AgentFilter(name="-"))
        watch = cast(Any, client.watch(wanted))
        async with within(settings.timeout_s, "the watch", url=settings.registry), aclosing(watch) as changes:
            async for change in changes:
                _show_change(settings, change)

    run(work(), settings.registry)


def _show_change(settings: Settings, change: AgentChange) -> None:
    kind = change.kind.value
    if settings.json:
        output.json_line({"kind": kind, "revision": change.revision, "agent": _agent_dict(change.agent)})
        return
    if change.kind is AgentChangeKind.UP:
        kind = change.agent.state.value
    card = change.agent.card
    clock = datetime.now(UTC).astimezone().strftime("%H:%M:%S")
    output.line(output.one_line(f"{clock} {kind} {card.name} {card.url} {' '.join(card.tags)}", 200), word=kind)


def _agent_dict(agent: RegisteredAgent) -> dict[str, Any]:
    return {
        "card": agent.card.to_dict(),
        "revision": agent.revision,
        "register_time": _iso(agent.register_time),
        "expire_time": _iso(agent.expire_time),
        "instance_id": agent.instance_id,
        "owner": agent.owner,
        "state": agent.state.value,
        "running": agent.running,
        "queued": agent.queued,
    }


def _iso(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="microseconds")
