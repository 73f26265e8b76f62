"""The protocol of ProtoLink 0.8.3: routes for its clients, and clients for its agents."""
