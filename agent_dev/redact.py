"""Mask secrets in the arguments of a command before they are stored."""

import re

MASK = "***"
_WORDS = "token|secret|passw(?:or)?d|passphrase|(?:api|access|private)[_-]?key|credential"
_NAME = rf"(?:[A-Za-z0-9_.-]*(?:{_WORDS})[A-Za-z0-9_-]*)"
_ASSIGNED = re.compile(rf"(^|[\s;&?\"'{{,:])(-{{0,2}}{_NAME}[\"']?\s*[=:]\s*[\"']?)(?!\s)([^\s\"'&;,}}]+)", re.IGNORECASE)
_NAMED = re.compile(rf"-{{1,2}}{_NAME}", re.IGNORECASE)
# In a line for a shell, with the value as an argument of its own.
_NAMED_IN_LINE = re.compile(rf"(^|[\s;&|(\"'`])(-{{1,2}}{_NAME}\s+[\"']?)(?![-\s\"'])[^\s\"'&;|)`]+", re.IGNORECASE)
_SEPARATE_IN_LINE = re.compile(r"(\s(?:-u|--user)\s+[\"']?[^\s\"':]+:)[^\s\"'&;|)`]+")
_AUTHORISED = re.compile(r"((?:bearer|basic|token)\s+)[A-Za-z0-9._~+/=-]{6,}", re.IGNORECASE)
_ADDRESS = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*://)[^\s/@]+@")
# Prefixes of providers' keys, and of JSON web tokens.
_KNOWN = re.compile(
    r"(?:gh[pousr]_|github_pat_|glpat-|sk-|sk_live_|rk_live_|xox[abprs]-|npm_|pypi-|AKIA|ASIA|AIza|hf_|dop_v1_|ya29\.|eyJ)"
    r"[A-Za-z0-9_.+/=-]{10,}"
)
# Every match of a pattern above contains one of these, in lower case. Searching for them takes a fiftieth of the time.
_MARKERS = (
    *("token", "secret", "passw", "passphrase", "key", "credential", "bearer", "basic", "://", " -u ", " --user "),
    *("ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "glpat-", "sk-", "sk_live_", "rk_live_", "xox"),
    *("npm_", "pypi-", "akia", "asia", "aiza", "hf_", "dop_v1_", "ya29.", "eyj"),
)
_SEPARATE = ("-u", "--user")  # of curl; the next argument is name:password


def mask_secrets(argv: tuple[str, ...]) -> tuple[str, ...]:
    """Return the arguments with apparent secrets masked, found by name (`--token x`, `A_SECRET=x`) or by form."""
    if _is_plain("\n".join(argv)) and not any(argument in _SEPARATE for argument in argv):
        return tuple(argv)
    found: list[str] = []
    before = ""
    for argument in argv:
        if _NAMED.fullmatch(before) and not argument.startswith("-"):
            found.append(MASK)
        elif before in _SEPARATE and ":" in argument:
            found.append(argument.partition(":")[0] + ":" + MASK)
        else:
            found.append(_masked(argument))
        before = argument
    return tuple(found)


def _is_plain(text: str) -> bool:
    """Return whether a text cannot contain a secret. A non-ASCII letter may be a case variant of an ASCII one."""
    small = text.lower()
    return text.isascii() and not any(marker in small for marker in _MARKERS)


def _masked(argument: str) -> str:
    if _is_plain(argument):
        return argument
    argument = _ADDRESS.sub(rf"\g<1>{MASK}@", argument)
    argument = _ASSIGNED.sub(rf"\g<1>\g<2>{MASK}", argument)
    argument = _NAMED_IN_LINE.sub(rf"\g<1>\g<2>{MASK}", argument)
    argument = _SEPARATE_IN_LINE.sub(rf"\g<1>{MASK}", argument)
    argument = _AUTHORISED.sub(rf"\g<1>{MASK}", argument)
    return _KNOWN.sub(MASK, argument)
