"""Suggestions for a word that is neither a profile nor a subcommand."""

import shlex

from agent_dev.config import load, validators
from agent_dev.linux import users
from agent_dev.run.request import RunRequest

_SYNONYMS = {
    **dict.fromkeys(("review", "apply", "accept"), "merge"),
    "revert": "undo",
    **dict.fromkeys(("gc", "prune"), "clean"),
    **dict.fromkeys(("list", "ls"), "sessions"),
    "version": "--version",
}


def similar_word(word: str, known: tuple[str, ...]) -> str:
    """Return the word of the same meaning, else the most similar of `known`, or ""."""
    return _SYNONYMS.get(word) or validators.closest_match(word, known)


def unknown_word_hint(request: RunRequest, subcommands: tuple[str, ...]) -> str:
    """Return the hint for a word that is not run: a suggestion, and how to run a program of that name."""
    word, options = request.arguments[0], request.options
    program = f"agent-dev -- {shlex.quote(word)}" + " …" * (len(request.arguments) > 1)
    if options.profile_file:
        return program.replace("--", f"--profile {shlex.quote(options.profile_file)} --", 1)
    home = users.home_directory(request.environ)
    profiles = [name for name, _, _ in load.list_profiles(home, request.environ) if name != load.DEFAULT_PROFILE]
    similar = similar_word(word, (*subcommands, *profiles))
    return f"did you mean agent-dev {similar}? To run a program: {program}" if similar else f"to run a program: {program}"
