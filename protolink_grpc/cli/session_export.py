"""`session export`."""

from contextlib import aclosing

from protolink_grpc.cli import output
from protolink_grpc.cli.session_commands import call
from protolink_grpc.cli.settings import Settings
from protolink_grpc.client.agent_client import AgentClient
from protolink_grpc.models.redaction import RedactionPolicy
from protolink_grpc.reports import SessionExport
from protolink_grpc.reports.export import check_cursor


def export(settings: Settings, agent: str, session: str, *, after: int) -> None:
    """Print the records of a session up to its current end, one JSON object a line."""

    async def work(client: AgentClient, url: str) -> None:
        known = (await client.sessions.get(session, page_size=1, agent_url=url)).session
        check_cursor(after, known)
        card = await client.get_agent_card(url)
        export = SessionExport(session, card.name, after, RedactionPolicy())
        async with aclosing(client.sessions.subscribe(session, agent_url=url)) as items:
            async for item in items:
                for record in export.records((item,)):
                    output.json_line(record)
                if item.position >= known.position:
                    break

    call(settings, agent, session, work)
