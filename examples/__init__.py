"""Example programs. Each is started with `python examples/NAME.py`."""
