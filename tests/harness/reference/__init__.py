"""The reference of the command line, from the parsers of `--help`: the man page and the table of shell completion."""
