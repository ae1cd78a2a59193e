"""The user's package registries and certificate authorities, for an installation in the sandbox; no token, no password."""

import configparser
import os
import re
from collections.abc import Iterator
from urllib.parse import urlsplit

from agent_dev.paths import expand
from agent_dev.quick_dataclass import dataclass

_NPM = ("NPM_CONFIG_REGISTRY", "NPM_CONFIG_CAFILE", "NPM_CONFIG_STRICT_SSL")
# Of npmrc, besides the registry of each scope:
_NPM_LINES = ("registry", "cafile", "strict-ssl", "ca", "ca[]", "proxy", "https-proxy", "noproxy")
_NPM_SECRETS = ("_authToken", "_auth", "_password", "key", "keyfile")
_PIP = {
    "index-url": "PIP_INDEX_URL",
    "extra-index-url": "PIP_EXTRA_INDEX_URL",
    "find-links": "PIP_FIND_LINKS",
    "cert": "PIP_CERT",
    "trusted-host": "PIP_TRUSTED_HOST",
    "proxy": "PIP_PROXY",
}
_FILES = ("NPM_CONFIG_CAFILE", "PIP_CERT", "NODE_EXTRA_CA_CERTS", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")
_LARGEST = 1 << 20  # bytes
_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\??\}")  # `?`: empty if it is not set


@dataclass(frozen=True, slots=True)
class Registries:
    """The variables of npm and pip, the files that they name, a user's `npmrc`, and names of what is left out.

    `left_out`: variables, and settings of the npmrc, with a password or a variable in their value.
    """

    env: tuple[str, ...]
    files: tuple[str, ...]
    npmrc: str
    left_out: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _NpmSetting:
    """A setting of an npmrc, and its value as npm expands it."""

    name: str
    value: str
    text: str


def find_registries(home: str, environ: dict[str, str], shown: tuple[str, ...] = ()) -> Registries:
    """Return the settings of the user's npmrc and pip.conf, and of the environment, which has precedence.

    `shown`: paths that the sandbox has in any case. npm and pip read settings files among these themselves, secrets included.
    """
    visible_inside = {os.path.realpath(expand(path, home)) for path in shown}
    pip_files, npmrc = _pip_files(home, environ), _npmrc(home, environ)
    shown_pip = tuple(path for path in pip_files if os.path.realpath(path) in visible_inside)
    found = dict(_pip_rows(tuple(path for path in pip_files if path not in shown_pip)))
    for name in (*_NPM, *_PIP.values(), *_FILES):
        value = environ.get(name) or (name in _NPM and environ.get(name.lower()))
        found |= {name: value} if value else {}
    found |= {name: _expand_home(found[name], home) for name in _FILES if name in found}
    left_out = tuple(name for name, value in found.items() if _has_secret(value))
    kept = {name: value for name, value in found.items() if name not in left_out}
    lines = _npm_lines(npmrc, home)
    authorities = [kept.get(name, "") for name in _FILES]
    authorities += [line.value for line in lines if line.name == "cafile"]
    authorities += [_expand_home(value, home) for name, value in _pip_rows(shown_pip) if name == "PIP_CERT"]
    if os.path.realpath(npmrc) in visible_inside:
        kept, lines = kept | {"NPM_CONFIG_USERCONFIG": npmrc}, ()
    kept |= {"PIP_CONFIG_FILE": shown_pip[-1]} if shown_pip else {}
    return Registries(
        env=tuple(f"{name}={value}" for name, value in kept.items()),
        files=tuple(dict.fromkeys(filter(os.path.isfile, authorities))),
        npmrc="".join(f"{line.text}\n" for line in lines if not _has_secret(line.value)),
        left_out=(*left_out, *(f"{line.name} in npmrc" for line in lines if _has_secret(line.value))),
    )


def files_with_secrets(home: str, environ: dict[str, str], *, is_npm: bool) -> tuple[str, ...]:
    """Return the user's settings files with a token or password for npm's or pip's registries, which are not passed."""
    if is_npm:
        npmrc = _npmrc(home, environ)
        names = (line.partition("=")[0].strip() for line in _read(npmrc).splitlines())
        has_secret = any(name.rpartition(":")[2] in _NPM_SECRETS for name in names)
        return (npmrc,) if has_secret or any(_has_secret(line.value) for line in _npm_lines(npmrc, home)) else ()
    return tuple(path for path in _pip_files(home, environ) if any(_has_secret(value) for _, value in _pip_rows((path,))))


def variables_with_secrets(home: str, environ: dict[str, str], *, is_npm: bool) -> tuple[str, ...]:
    """Return the names of variables with a password for npm's or pip's registries, or named in an npmrc: they are not passed."""
    names = [*_NPM, *map(str.lower, _NPM)] if is_npm else list(_PIP.values())
    found = [name for name in names if _has_secret(environ.get(name, ""))]
    if is_npm:
        lines = (line for line in _read(_npmrc(home, environ)).splitlines() if not line.lstrip().startswith((";", "#")))
        found += (name for line in lines for name in _VARIABLE.findall(line) if name in environ and name != "HOME")
    return tuple(dict.fromkeys(found))


def _npmrc(home: str, environ: dict[str, str]) -> str:
    return environ.get("NPM_CONFIG_USERCONFIG") or f"{home}/.npmrc"


def _expand_home(path: str, home: str) -> str:
    """Expand what npm and pip expand in a path."""
    for form in ("~/", "${HOME}/"):
        if path.startswith(form):
            return f"{home}/{path.removeprefix(form)}"
    return path


def _has_secret(value: str) -> bool:
    """Return whether a value has a password in a URL, or a variable, which may be one and is not passed."""
    return "${" in value or any("@" in urlsplit(word).netloc for word in value.split() if "://" in word)


def _npm_lines(path: str, home: str) -> tuple[_NpmSetting, ...]:
    found = []
    for line in _read(path).splitlines():
        name, separator, value = (part.strip() for part in line.partition("="))
        if separator and (name in _NPM_LINES or (name.startswith("@") and name.endswith(":registry"))):
            expanded = _expand_home(value.strip("\"'"), home) if name == "cafile" else value.strip("\"'")
            found.append(_NpmSetting(name, expanded, f"{name}={expanded if name == 'cafile' else value}"))
    return tuple(found)


def _pip_files(home: str, environ: dict[str, str]) -> tuple[str, ...]:
    """Return the paths of the user's settings of pip, the last of which has precedence."""
    folder = environ.get("XDG_CONFIG_HOME") or f"{home}/.config"
    named = environ.get("PIP_CONFIG_FILE")
    return (f"{home}/.pip/pip.conf", f"{folder}/pip/pip.conf", *((named,) if named else ()))


def _pip_rows(paths: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    parser = configparser.ConfigParser(interpolation=None)
    for path in paths:
        try:
            parser.read_string(_read(path))
        except configparser.Error:
            continue  # pip will say so
    for section in ("global", "install"):
        for name, variable in _PIP.items():
            if parser.has_option(section, name):
                yield variable, " ".join(parser.get(section, name).split())


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read(_LARGEST)
    except OSError:
        return ""
