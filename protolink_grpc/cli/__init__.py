"""The command line. `app` has the commands and their options; each command is implemented in its own module."""
