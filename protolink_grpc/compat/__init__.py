"""Protocols and names of other systems, for compatibility. No lower layer imports this package."""
