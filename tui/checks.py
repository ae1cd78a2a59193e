"""What a look at a risky change should check, by the rule that found it."""

_CHECKS = {
    "ci": "every command and action it names, its versions, what it may write, which secrets it can read",
    "hook": "each command: it runs with your rights at the next commit, checkout or merge",
    "leaves-root": "where the link really leads, and what would be written or read through it",
    "runs-on-install": "each script: it runs on every machine that installs the package",
}
_DEFAULT = "each line: what would run, where, with whose rights, and what it could read or send"


def what(rule: str) -> str:
    """Return what to look at."""
    return _CHECKS.get(rule, _DEFAULT)
