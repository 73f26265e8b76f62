"""ProtoLink's wire, as its version 0.8.3 speaks it: routes for its clients, and clients of its agents."""
