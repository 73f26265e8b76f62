"""The one way to a side effect: tools, delegation, approvals and the gate that each action passes."""
