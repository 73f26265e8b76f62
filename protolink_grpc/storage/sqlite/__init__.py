"""Storage in SQLite files: one engine, and the statements over the tables of each kind of file."""
