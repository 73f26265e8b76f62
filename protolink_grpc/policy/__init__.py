"""What is allowed: capabilities, budgets, redaction. Pure decisions, without I/O; whoever acts on them lives above."""
