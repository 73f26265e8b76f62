"""The configuration of a webhook that receives the updates of a task."""

from dataclasses import dataclass, field


@dataclass(slots=True)
class PushConfig:
    """A webhook of a task. `scheme` and `credentials` form the Authorization header of each notification."""

    url: str
    id: str = ""
    task_id: str = ""
    token: str = field(default="", repr=False)
    scheme: str = ""
    credentials: str = field(default="", repr=False)
    tenant: str = ""
