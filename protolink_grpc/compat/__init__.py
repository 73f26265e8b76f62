"""Wires and names of other systems, kept for their users. Nothing below imports them."""
