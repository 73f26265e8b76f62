"""`session export`."""

from contextlib import aclosing

from protolink_grpc.cli import output
from protolink_grpc.cli.session_commands import call
from protolink_grpc.cli.settings import Settings
from protolink_grpc.client.agent_client import AgentClient


def export(settings: Settings, agent: str, session: str, *, after: int) -> None:
    """Print the records of a session up to its current end, one JSON object a line."""

    async def work(client: AgentClient, url: str) -> None:
        events = client.sessions.runtime_events(session, after=after, stop_at_end=True, agent_url=url)
        async with aclosing(events) as records:
            async for record in records:
                output.json_line(record)

    call(settings, agent, session, work)
