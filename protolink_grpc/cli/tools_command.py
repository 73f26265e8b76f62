"""`tools`: lists the tools of an agent."""

from collections.abc import Iterator

from protolink_grpc.cli import output
from protolink_grpc.cli.connect import QUICK_S, agent_client, run, url_of
from protolink_grpc.cli.settings import Settings
from protolink_grpc.models.tool import ToolDescription


def tools(settings: Settings, agent: str) -> None:
    """Print all tools of an agent, ordered by name."""

    async def work() -> list[ToolDescription]:
        url = await url_of(settings, agent)
        client = agent_client(settings, QUICK_S)
        page = await client.list_tools(url)
        found = page.tools
        while page.next_page_token:
            page = await client.list_tools(url, page_token=page.next_page_token)
            found += page.tools
        return found

    found = run(work(), agent)
    if settings.json:
        output.document({"tools": [tool.to_dict() for tool in found]})
        return
    heads = ("TOOL", "TITLE", "HINTS", "NEEDS", "DESCRIPTION")
    rows = [
        (
            tool.name,
            tool.title,
            ", ".join(_hints(tool)),
            ", ".join(tool.capabilities),
            output.one_line(tool.description),
        )
        for tool in found
    ]
    output.columns_with_values(heads, rows)


def _hints(tool: ToolDescription) -> Iterator[str]:
    """Yield the declared effects of a tool."""
    if tool.read_only:
        yield "read-only"
    elif tool.idempotent:  # read-only includes idempotent
        yield "idempotent"
    if tool.destructive:
        yield "destructive"
