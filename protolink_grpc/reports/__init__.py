"""What a run was: sinks, recorders, reports, replays and assertions over run events. Read only."""
