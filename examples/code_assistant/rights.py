"""Who may do what: the capabilities of the tools, and the permissions that limit delegated work.

An agent's own policy and the permissions of a run both apply, and the stricter rule wins. Permissions are inherited by everything
that is delegated further.
"""

READ, WRITE, COMMIT, CHECK = "fs.read", "fs.write", "git.commit", "checks.run"

THINKING: dict[str, str] = {"*": "deny"}
"""For the planner and the reviewer: their models answer, and may use no tool and no other agent."""

READING: dict[str, str] = {"*": "deny", READ: "allow"}
CHECKING: dict[str, str] = {"*": "deny", CHECK: "allow"}
COMMITTING: dict[str, str] = {"*": "deny", COMMIT: "allow"}
"""For calls of the orchestrator's code. A commit still needs the approval that the coder's own policy requires."""
