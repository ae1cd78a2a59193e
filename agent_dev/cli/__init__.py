"""The command line: options, help, one module per group of subcommands, and the sources behind the screen."""
