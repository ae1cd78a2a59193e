"""The subcommands: their arguments, and the calls that execute them."""
