"""A2A over the runtime: one set of operations for all bindings and both versions, independent of any transport."""
