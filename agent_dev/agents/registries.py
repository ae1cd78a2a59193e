"""The user's package registries and certificate authorities, for an installation in the sandbox; no token, no password."""

import configparser
import os
from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import urlsplit

_NPM = {"registry": "NPM_CONFIG_REGISTRY", "cafile": "NPM_CONFIG_CAFILE", "strict-ssl": "NPM_CONFIG_STRICT_SSL"}
_PIP = {
    "index-url": "PIP_INDEX_URL",
    "extra-index-url": "PIP_EXTRA_INDEX_URL",
    "find-links": "PIP_FIND_LINKS",
    "cert": "PIP_CERT",
    "trusted-host": "PIP_TRUSTED_HOST",
}
_FILES = ("NPM_CONFIG_CAFILE", "PIP_CERT", "NODE_EXTRA_CA_CERTS", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")
_LARGEST = 1 << 20  # bytes


@dataclass(frozen=True, slots=True)
class Registries:
    """Variables of npm and pip, the files that they name, and the variables left out because of a password or a variable."""

    env: tuple[str, ...]
    files: tuple[str, ...]
    left_out: tuple[str, ...]


def find_registries(home: str, environ: dict[str, str]) -> Registries:
    """Return the settings of the user's npmrc and pip.conf, and of the environment, which has precedence."""
    found = {**dict(_npm_settings(home, environ)), **dict(_pip_settings(home, environ))}
    names = (*_NPM.values(), *_PIP.values(), *_FILES)
    for name in names:
        value = environ.get(name) or (name in _NPM.values() and environ.get(name.lower()))
        found |= {name: value} if value else {}
    found |= {name: _expand_home(found[name], home) for name in _FILES if name in found}
    left_out = tuple(name for name, value in found.items() if _has_password(value) or "${" in value)
    kept = {name: value for name, value in found.items() if name not in left_out}
    files = tuple(dict.fromkeys(kept[name] for name in _FILES if os.path.isfile(kept.get(name, ""))))
    return Registries(tuple(f"{name}={value}" for name, value in kept.items()), files, left_out)


def has_npm_token(home: str, environ: dict[str, str]) -> bool:
    """Return whether the user's npmrc has a token or password, which an installation does not get."""
    names = (line.partition("=")[0].strip() for line in _read(_npmrc(home, environ)).splitlines())
    return any(name.rpartition(":")[2] in ("_authToken", "_auth", "_password") for name in names)


def _npmrc(home: str, environ: dict[str, str]) -> str:
    return environ.get("NPM_CONFIG_USERCONFIG") or f"{home}/.npmrc"


def _expand_home(path: str, home: str) -> str:
    """Expand what npm and pip expand in a path."""
    for form in ("~/", "${HOME}/"):
        if path.startswith(form):
            return f"{home}/{path.removeprefix(form)}"
    return path


def _has_password(value: str) -> bool:
    return any("@" in urlsplit(word).netloc for word in value.split() if "://" in word)


def _npm_settings(home: str, environ: dict[str, str]) -> Iterator[tuple[str, str]]:
    for line in _read(_npmrc(home, environ)).splitlines():
        name, separator, value = line.partition("=")
        if separator and name.strip() in _NPM:
            yield _NPM[name.strip()], value.strip().strip("\"'")


def _pip_settings(home: str, environ: dict[str, str]) -> Iterator[tuple[str, str]]:
    folder = environ.get("XDG_CONFIG_HOME") or f"{home}/.config"
    parser = configparser.ConfigParser(interpolation=None)
    named = environ.get("PIP_CONFIG_FILE")
    for path in (f"{home}/.pip/pip.conf", f"{folder}/pip/pip.conf", *((named,) if named else ())):
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
