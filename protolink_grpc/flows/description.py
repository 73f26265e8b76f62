"""A flow as data: its nodes and edges, and its Mermaid text."""

from dataclasses import dataclass, field
from typing import Any, Final

START: Final = "__START__"
END: Final = "__END__"


@dataclass(frozen=True, slots=True)
class Node:
    """A step. `id` is its path in the events of the flow, without the number of a visit.

    Args:
        kind: step, tool, agent or router.
        target: The agent, as a name or URL; empty for a function.
    """

    id: str
    name: str
    kind: str
    target: str = ""


@dataclass(frozen=True, slots=True)
class Edge:
    """A possible way from one node to another. `label` is the key of a decision; empty if the way is always taken."""

    source: str
    target: str
    label: str = ""


@dataclass(slots=True)
class FlowDescription:
    """The nodes and edges of a flow. The nodes `__START__` and `__END__` are implied."""

    name: str
    kind: str
    nodes: list[Node] = field(default_factory=list)
    edges: list[Edge] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form."""
        return {
            "name": self.name,
            "kind": self.kind,
            "nodes": [
                {"id": each.id, "name": each.name, "kind": each.kind, "target": each.target} for each in self.nodes
            ],
            "edges": [{"source": each.source, "target": each.target, "label": each.label} for each in self.edges],
        }

    def to_mermaid(self) -> str:
        """Return the flow as the text of a Mermaid flowchart."""
        ids = {START: "start", END: "end_"} | {node.id: f"n{index}" for index, node in enumerate(self.nodes)}
        lines = ["flowchart TD", "    start((start))", "    end_((end))"]
        for node in self.nodes:
            left, right = (
                ("{", "}") if node.kind == "router" else ("([", "])") if node.kind in ("agent", "tool") else ("[", "]")
            )
            lines.append(f'    {ids[node.id]}{left}"{_quoted(node.name)}"{right}')
        for edge in self.edges:
            label = f'|"{_quoted(edge.label)}"|' if edge.label else ""
            lines.append(f"    {ids[edge.source]} -->{label} {ids[edge.target]}")
        return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    return text.replace("&", "#amp;").replace('"', "#quot;").replace("\n", " ")


def join(path: str, name: str) -> str:
    """Return the path of a part. The path of the whole flow is empty."""
    name = name.replace("/", "-")
    return f"{path}/{name}" if path else name
