"""Parse the options before a command one by one: the same grammar for runs, for `tx` and for the commands inside the sandbox.

A part of the script that runs inside (`control/socket_file.py`): nothing of agent-dev is available there. The other subcommands
use argparse, which takes longer to import than the sandbox takes to start.
"""


class InvalidOption(Exception):
    """An option that is unknown, or that lacks its value (`is_known`)."""

    def __init__(self, option: str, *, is_known: bool) -> None:
        super().__init__(option)
        self.option, self.is_known = option, is_known


def next_option(arguments: "list[str]", takes_value: "dict[str, bool]") -> "tuple[str, str] | None":
    """Remove the next option from the arguments and return its name and value; None if there is no more.

    `takes_value` maps each option to whether it takes a value, given as `--name=value` or `--name value`; others have the value
    "". The first argument that is no option, `-` and `--` end the options. Raises InvalidOption after removing the option.
    """
    if not arguments or not arguments[0].startswith("-") or arguments[0] in ("-", "--"):
        return None
    argument = arguments.pop(0)
    name, has_value, value = argument.partition("=") if argument.startswith("--") else (argument, "", "")
    if name not in takes_value or (has_value and not takes_value[name]):
        raise InvalidOption(argument, is_known=False)
    if takes_value[name] and not has_value:
        if not arguments:
            raise InvalidOption(name, is_known=True)
        value = arguments.pop(0)
    return name, value
