"""`agent-dev completion SHELL`, which prints a script, and `agent-dev __complete`, which the scripts ask."""

import os

from agent_dev.cli.console import write_stdout
from agent_dev.errors import SUCCESS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from agent_dev.cli.completion.grammar import Expected

SHELLS = ("bash", "zsh", "fish")
_FOLDER = os.path.dirname(__file__)
_BY_SHELL = ("files", "directories", "commands")  # sources that the shell lists itself
_SAFE = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-+/,@=")


def run(argv: list[str]) -> int:
    """Run `agent-dev completion ARGUMENTS` and return the exit code. Raises UsageError."""
    from agent_dev.cli.parser import make_parser  # argparse, which `complete` does without

    about = (
        "Print the completion script of a shell: for subcommands, options, profiles, sessions and merges.\n"
        "bash and zsh: add `source <(agent-dev completion bash)` to ~/.bashrc, or with `zsh` to ~/.zshrc after compinit.\n"
        "fish: agent-dev completion fish >~/.config/fish/completions/agent-dev.fish"
    )
    parser = make_parser("completion", about, "source <(agent-dev completion bash)")
    parser.add_argument("shell", choices=SHELLS, metavar="bash|zsh|fish", help="the shell")
    shell = parser.parse_args(argv).shell
    with open(f"{_FOLDER}/agent-dev.{shell}", encoding="utf-8") as file:
        write_stdout(file.read())
    return SUCCESS


def complete(typed: list[str], environ: dict[str, str]) -> int:
    """Print what can replace the last of the arguments after `agent-dev`; nothing if that fails.

    The first line is what the shell adds: `files`, `directories`, `commands`, or `-` for nothing. Each further line is a word, a
    tab and its description.
    """
    try:
        from agent_dev.cli.completion.grammar import find_expected

        found = find_expected(typed, _read_table())
        by_shell = next((source for source in found.sources if source in _BY_SHELL), "-")
        rows = [f"{word}\t{about}" for word, about in _matching(found, environ).items()]
        write_stdout("\n".join([by_shell, *rows]) + "\n")
    except Exception:  # noqa: BLE001  (an error must not disturb the line that the user types)
        return SUCCESS
    return SUCCESS


def _read_table() -> "dict[str, dict[str, object]]":
    from agent_dev.fs import fast_json

    with open(f"{_FOLDER}/table.json", "rb", 0) as file:
        return fast_json.loads(file.read())  # type: ignore[return-value]  # ours


def _matching(found: "Expected", environ: dict[str, str]) -> dict[str, str]:
    words = dict(found.words)
    if not found.text.startswith("-"):
        words |= {word: about for word, about in _listed(found, environ) if is_safe(word)}
    return {found.prefix + word: about for word, about in words.items() if word.startswith(found.text)}


def _listed(found: "Expected", environ: dict[str, str]) -> "list[tuple[str, str]]":
    """Return the words of this machine; none if its state or its settings cannot be read."""
    wanted = [source for source in found.sources if source not in _BY_SHELL]
    if not wanted:
        return []
    from agent_dev.cli.completion import sources  # only for words of this machine

    try:
        place = sources.find_place(found.options, environ)
        return [row for source in wanted for row in sources.list_words(source, place)]
    except Exception:  # noqa: BLE001  (an error must not disturb the line that the user types; the words of the table remain)
        return []


def is_safe(word: str) -> bool:
    """Return whether a shell takes a word literally and not as an option: no shell quotes any of its characters."""
    return bool(word) and not word.startswith(("-", "=")) and all(letter in _SAFE or _is_letter(letter) for letter in word)


def _is_letter(letter: str) -> bool:
    return not letter.isascii() and letter.isalnum() and letter.isprintable()
