"""Secrets in the words of a command, masked before they are written down."""

import re

MASK = "***"
_WORDS = "token|secret|passw(?:or)?d|passphrase|(?:api|access|private)[_-]?key|credential"
_NAME = rf"(?:[A-Za-z0-9_.-]*(?:{_WORDS})[A-Za-z0-9_-]*)"
_ASSIGNED = re.compile(rf"(^|[\s;&?\"'{{,:])(-{{0,2}}{_NAME}[\"']?\s*[=:]\s*[\"']?)(?!\s)([^\s\"'&;,}}]+)", re.IGNORECASE)
_NAMED = re.compile(rf"-{{1,2}}{_NAME}", re.IGNORECASE)
# In a line for a shell, where the value is a word of its own.
_NAMED_IN_LINE = re.compile(rf"(^|[\s;&|(\"'`])(-{{1,2}}{_NAME}\s+[\"']?)(?![-\s\"'])[^\s\"'&;|)`]+", re.IGNORECASE)
_SEPARATE_IN_LINE = re.compile(r"(\s(?:-u|--user)\s+[\"']?[^\s\"':]+:)[^\s\"'&;|)`]+")
_AUTHORISED = re.compile(r"((?:bearer|basic|token)\s+)[A-Za-z0-9._~+/=-]{6,}", re.IGNORECASE)
_ADDRESS = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*://)[^\s/@]+@")
# What providers' keys begin with, and what JSON web tokens do.
_KNOWN = re.compile(
    r"(?:gh[pousr]_|github_pat_|glpat-|sk-|sk_live_|rk_live_|xox[abprs]-|npm_|pypi-|AKIA|ASIA|AIza|hf_|dop_v1_|ya29\.|eyJ)"
    r"[A-Za-z0-9_.+/=-]{10,}"
)
# One of these, in small letters, is in every word that any of the above meets. To look for them takes a fiftieth of the time.
_SIGNS = (
    *("token", "secret", "passw", "passphrase", "key", "credential", "bearer", "basic", "://", " -u ", " --user "),
    *("ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "glpat-", "sk-", "sk_live_", "rk_live_", "xox"),
    *("npm_", "pypi-", "akia", "asia", "aiza", "hf_", "dop_v1_", "ya29.", "eyj"),
)
_SEPARATE = ("-u", "--user")  # of curl: the word after it is name:password


def masked(argv: tuple[str, ...]) -> tuple[str, ...]:
    """Return the words with what looks like a secret replaced, by name (`--token x`, `A_SECRET=x`) or by form."""
    if _is_plain("\n".join(argv)) and not any(word in _SEPARATE for word in argv):
        return tuple(argv)
    found: list[str] = []
    before = ""
    for word in argv:
        if _NAMED.fullmatch(before) and not word.startswith("-"):
            found.append(MASK)
        elif before in _SEPARATE and ":" in word:
            found.append(word.partition(":")[0] + ":" + MASK)
        else:
            found.append(_masked(word))
        before = word
    return tuple(found)


def _is_plain(text: str) -> bool:
    """Whether nothing in a text can be a secret. A letter beyond ASCII may be one of it in another case."""
    small = text.lower()
    return text.isascii() and not any(sign in small for sign in _SIGNS)


def _masked(word: str) -> str:
    if _is_plain(word):
        return word
    word = _ADDRESS.sub(rf"\g<1>{MASK}@", word)
    word = _ASSIGNED.sub(rf"\g<1>\g<2>{MASK}", word)
    word = _NAMED_IN_LINE.sub(rf"\g<1>\g<2>{MASK}", word)
    word = _SEPARATE_IN_LINE.sub(rf"\g<1>{MASK}", word)
    word = _AUTHORISED.sub(rf"\g<1>{MASK}", word)
    return _KNOWN.sub(MASK, word)
