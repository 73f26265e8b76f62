"""The coordinator's model: the planner, or a provider's."""

import os

from examples.mesh.models import MODEL, PACE_S, Choice, provider_model
from examples.vacation.planner import Planner
from protolink_grpc import LLM

PLANNER = Choice("planner", "rules in place of a language model")


def thinker(name: str | None = None) -> LLM:
    """Create the model with that name, by default the one in the environment. Raises as `provider_model`."""
    name = name or os.environ.get(MODEL, PLANNER.name)
    return Planner(PACE_S) if name == PLANNER.name else provider_model(name)
