"""Language models behind one port, and the inference loop that turns their answers into checked actions."""
