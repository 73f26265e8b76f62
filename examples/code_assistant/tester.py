"""The tester: an agent whose only tool runs the tests of the repository."""

from pathlib import Path
from typing import Any

from examples.code_assistant import checks
from examples.code_assistant.project import project_root
from examples.code_assistant.rights import CHECK
from examples.mesh.process import own_settings, serve
from protolink_grpc import Agent, AgentCard, CapabilityPolicy


class Tester(Agent):
    """Runs the tests of a repository with `command`."""

    def __init__(self, root: Path, command: tuple[str, ...] = checks.COMMAND, **options: Any) -> None:
        card = AgentCard(
            name="tester", description="Runs the tests of a repository.", url="grpc://127.0.0.1:0", tags=["code"]
        )
        super().__init__(card, policy=CapabilityPolicy({CHECK: "allow"}, default_effect="deny"), **options)
        self._root = root
        self._command = command
        self.tool(capabilities=[CHECK], idempotent=True, timeout_s=checks.TIMEOUT_S + 10)(self.run_checks)

    async def run_checks(self) -> checks.Checks:
        """Run all tests and return the failed ones with their messages."""
        return await checks.run_checks(self._root, self._command)


if __name__ == "__main__":
    serve(Tester(project_root(), **own_settings("tester")))
