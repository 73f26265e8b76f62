"""The command line: what a person or a script does with agents. Signatures are in `app`, each command's work in its own module."""
