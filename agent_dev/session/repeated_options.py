"""The arguments of an agent's first run that `resume` gives again: the options that its profile names, never a prompt."""

from agent_dev.sanitize import visible

_LONGEST_COMMAND = 100  # characters


def repeated_arguments(arguments: tuple[str, ...], options: tuple[str, ...]) -> tuple[str, ...]:
    """Return the arguments that are these options. Each name in `options` ends in `=` if the option has a value.

    A word that no option takes as its value may be a prompt or a task, which must not be done twice: it is left out.
    """
    return tuple(word for word, is_repeated in _marked(arguments, options) if is_repeated)


def omission_notice(session: str, arguments: tuple[str, ...], options: tuple[str, ...]) -> str:
    """Return a line about the options of the first run that are not given again; empty if there are none."""
    before = arguments[: arguments.index("--")] if "--" in arguments else arguments
    omitted = [word for word, is_repeated in _marked(before, options) if not is_repeated]
    names = [visible(word.partition("=")[0]) for word in omitted if word.startswith("-") and word != "-"]
    if not names:
        return ""
    if not arguments[0].startswith("-"):  # a subcommand, or a prompt before the options
        return f"not given again: {', '.join(names)}; to repeat the first run: agent-dev resume --fresh {session}"
    import shlex  # deferred: rarely needed

    command = visible(shlex.join(arguments))
    shown = command if len(command) <= _LONGEST_COMMAND else "ARGUMENTS"
    return f"not given again: {', '.join(names)}; to give arguments: agent-dev resume {session} -- {shown}"


def _marked(arguments: tuple[str, ...], options: tuple[str, ...]) -> list[tuple[str, bool]]:
    """Return each argument, and whether it is one of the options or the value of one."""
    marked: list[tuple[str, bool]] = []
    words = list(arguments)
    while words:
        word = words.pop(0)
        if word == "--":  # operands follow
            return [*marked, *((one, False) for one in (word, *words))]
        if f"{word}=" in options and words:
            marked += [(word, True), (words.pop(0), True)]
        else:
            name, separator, _ = word.partition("=")
            marked.append((word, f"{name}{separator}" in options))
    return marked
