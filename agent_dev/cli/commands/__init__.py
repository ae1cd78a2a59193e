"""The subcommands: their arguments and the calls that carry them out."""
