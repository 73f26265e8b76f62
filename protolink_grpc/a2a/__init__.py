"""A2A over the runtime: one set of operations for all of its bindings and both of its versions. No transport is known here."""
