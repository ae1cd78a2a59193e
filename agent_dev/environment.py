"""Variables of the host's environment that programs in the sandbox may see."""

# Passed through to every agent if set.
BASE_ENV = (
    "TERM",
    "COLORTERM",
    "LANG",
    "LANGUAGE",
    "LC_ALL",
    "LC_COLLATE",
    "LC_CTYPE",
    "LC_MESSAGES",
    "LC_MONETARY",
    "LC_NUMERIC",
    "LC_TIME",
    "TZ",
    "NO_COLOR",
    *("TERM_PROGRAM", "TERM_PROGRAM_VERSION", "VTE_VERSION", "WT_SESSION", "SSH_TTY"),  # what the terminal can do
    "EDITOR",
    "VISUAL",
)
_PROXIES = ("http_proxy", "https_proxy", "ftp_proxy", "all_proxy", "no_proxy")
PROXY_ENV = (*_PROXIES, *(name.upper() for name in _PROXIES))
