"""Keys that the gateway adds to requests, so that an agent uses them without seeing them: the values of `credentials:`. Pure."""

from agent_dev.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

FORWARD, INJECT = "forward", "inject"  # a request without a key: as it is, or with the real key
HTTPS = 443
_BEARER = "authorization: Bearer"
_MIN_LENGTH = 40


class Credential(Value):
    """A key of the user's for one host, where it comes from, and what it may be used for."""

    name: str
    host: str
    variable: str  # inside, it has the stand-in key
    base_url: str = ""  # the variable inside that leads a program to the host in plain HTTP
    base_path: str = ""  # the path of that URL
    env: str = ""  # where the real key is: a variable of the user's, a file, or the output of a command
    file: str = ""
    command: tuple[str, ...] = ()
    header: str = ""  # NAME or NAME: SCHEME; empty: the header that had the stand-in key
    user: str = ""  # for Basic authentication
    push: tuple[str, ...] = ()  # branches that git may push; with it, the key is for git alone
    methods: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    without_key: str = FORWARD

    @property
    def is_git(self) -> bool:
        """Return whether git uses the host."""
        return bool(self.user or self.push)

    @property
    def source(self) -> str:
        """Return in words where the real key comes from."""
        return f"$({self.command[0]} …)" if self.command else self.file or f"${self.env}"

    @property
    def default_header(self) -> str:
        """Return the header of a key that is added to a request without one."""
        return self.header or _kind(self.variable)[0]

    def __str__(self) -> str:
        limits = f", push {' '.join(self.push)}" if self.push else ""
        return f"{self.name}: {self.host}, ${self.variable} is a stand-in for {self.source}{limits}"


def parse_credentials(values: "Iterable[tuple[str, Any]]") -> tuple[Credential, ...]:
    """Return the credentials that checked values describe."""
    return tuple(_credential(name, dict(fields)) for name, fields in values)


def _credential(name: str, fields: "dict[str, Any]") -> Credential:
    values: dict[str, Any] = {key: tuple(value) if isinstance(value, list) else value for key, value in fields.items()}
    if not values.get("file") and not values.get("command"):
        values.setdefault("env", values["variable"])
    return Credential(name=name, **values)


def key_prefix(variable: str) -> tuple[str, int]:
    """Return how a stand-in key for a variable begins, and its length: programs look at the form of a key."""
    _, prefix, length = _kind(variable)
    return prefix, length


def hidden_variables(values: "Iterable[tuple[str, Any]]") -> frozenset[str]:
    """Return the variables of the user's that may hold a real key; they are not passed through."""
    found = parse_credentials(values)
    return frozenset(name for one in found for name in (one.variable, one.env) if name)


def inside_variables(
    credentials: "Iterable[Credential]", stand_ins: "Mapping[str, str]", before: "Mapping[str, str]"
) -> dict[str, str]:
    """Return the variables inside; `stand_ins` by variable, `before`: other variables, to which git's settings are added."""
    found: dict[str, str] = {}
    settings: list[tuple[str, str]] = []
    for one in credentials:
        found[one.variable] = stand_ins[one.variable]
        if one.base_url:
            found[one.base_url] = f"http://{one.host}{one.base_path}"
        if one.is_git:
            settings += _git_settings(one)
    count = before.get("GIT_CONFIG_COUNT", "")
    first = int(count) if count.isascii() and count.isdecimal() else 0
    for number, (key, value) in enumerate(settings, first):
        found |= {f"GIT_CONFIG_KEY_{number}": key, f"GIT_CONFIG_VALUE_{number}": value}
    return {**found, "GIT_CONFIG_COUNT": str(first + len(settings))} if settings else found


def _git_settings(credential: Credential) -> list[tuple[str, str]]:
    """Return settings of git: plain HTTP to the gateway, and the stand-in key for it alone."""
    plain = f"http://{credential.host}"
    user = credential.user or "git"
    answer = f"""printf 'username=%s\\npassword=%s\\n' '{user}' "${credential.variable}\""""
    return [
        (f"url.{plain}/.insteadOf", f"https://{credential.host}/"),
        (f"credential.{plain}.helper", ""),  # without those of other files
        (f"credential.{plain}.helper", f'!f() {{ test "$1" = get && {answer}; }}; f'),
    ]


# By variable: the header of the key, how keys begin, their length.
_KINDS = {
    "ANTHROPIC_API_KEY": ("x-api-key", "sk-ant-api03-", 108),
    "ANTHROPIC_AUTH_TOKEN": (_BEARER, "sk-ant-oat01-", 108),
    "CLAUDE_CODE_OAUTH_TOKEN": (_BEARER, "sk-ant-oat01-", 108),
    "OPENAI_API_KEY": (_BEARER, "sk-proj-", 164),
    "CODEX_API_KEY": (_BEARER, "sk-proj-", 164),
    "OPENROUTER_API_KEY": (_BEARER, "sk-or-v1-", 73),
    "GEMINI_API_KEY": ("x-goog-api-key", "AIzaSy", 39),
    "GOOGLE_API_KEY": ("x-goog-api-key", "AIzaSy", 39),
    "GH_TOKEN": (_BEARER, "ghp_", 40),
    "GITHUB_TOKEN": (_BEARER, "ghp_", 40),
    "GITLAB_TOKEN": ("private-token", "glpat-", 26),
    "NPM_TOKEN": (_BEARER, "npm_", 40),
}


def _kind(variable: str) -> tuple[str, str, int]:
    return _KINDS.get(variable, (_BEARER, "", _MIN_LENGTH))
