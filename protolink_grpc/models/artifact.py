"""What a run produced, or shows before it acts. An artifact describes; it never performs anything."""

from dataclasses import dataclass, field
from typing import Any, Self

from protolink_grpc.models import reader
from protolink_grpc.models.clock import utc_now
from protolink_grpc.models.ids import new_artifact_id
from protolink_grpc.models.json_value import plain
from protolink_grpc.models.part import Part


@dataclass(slots=True)
class Artifact:
    """Output of a task. `kind` is free; the runtime writes `result`, `preview`, `action_result`, `action_rejection`."""

    id: str = field(default_factory=new_artifact_id)
    parts: list[Part] = field(default_factory=list)
    metadata: dict[str, Any] = field(default_factory=dict)
    timestamp: str = field(default_factory=utc_now)
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
        """Name the RunAction that this artifact belongs to."""
        self.action_id = action_id
        return self

    def to_dict(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "parts": [part.to_dict() for part in self.parts],
            "metadata": plain(self.metadata),
            "timestamp": self.timestamp,
            "kind": self.kind,
            "name": self.name,
            "uri": self.uri,
            "media_type": self.media_type,
            "action_id": self.action_id,
        }

    @classmethod
    def from_dict(cls, data: object) -> Self:
        """The artifact of a JSON object; a missing id or timestamp is made, unknown keys are skipped.

        Raises:
            InvalidArgumentError: A value of the wrong kind; names its path.
        """
        source = reader.as_object(data)
        return cls(
            id=reader.text(source, "id") or new_artifact_id(),
            parts=reader.items(source, "parts", Part.from_dict),
            metadata=reader.mapping(source, "metadata"),
            timestamp=reader.moment(source, "timestamp"),
            kind=reader.text(source, "kind") or "result",
            name=reader.optional_text(source, "name"),
            uri=reader.optional_text(source, "uri"),
            media_type=reader.optional_text(source, "media_type"),
            action_id=reader.optional_text(source, "action_id"),
        )
