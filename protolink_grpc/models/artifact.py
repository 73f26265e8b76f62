"""Artifacts: outputs of a run, and previews of its actions."""

from dataclasses import dataclass, field
from typing import Any, Self

from protolink_grpc.models.clock import utc_now
from protolink_grpc.models.ids import new_artifact_id
from protolink_grpc.models.json_form import JsonForm
from protolink_grpc.models.kinds import Time
from protolink_grpc.models.part import Part


@dataclass(slots=True)
class Artifact(JsonForm):
    """Output of a task. `kind` is any text; the runtime uses `result`, `preview`, `action_result`, `action_rejection`."""

    id: str = field(default_factory=new_artifact_id)
    parts: list[Part] = field(default_factory=list)
    metadata: dict[str, Any] = field(default_factory=dict)
    timestamp: Time = field(default_factory=utc_now)
    kind: str = "result"
    name: str | None = None
    uri: str | None = None
    media_type: str | None = None
    action_id: str | None = None

    def add_part(self, part: Part) -> Self:
        self.parts.append(part)
        return self

    def add_text(self, text: str) -> Self:
        self.parts.append(Part("text", text))
        return self

    def for_action(self, action_id: str) -> Self:
        """Set the id of the RunAction that this artifact belongs to."""
        self.action_id = action_id
        return self
