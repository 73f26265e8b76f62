"""A validator of event logs of the Agent Runtime contract: rules, and the facts of a log that they need.

It reads JSON only and knows nothing of this package's tasks, so it judges the logs of any runtime.
"""
