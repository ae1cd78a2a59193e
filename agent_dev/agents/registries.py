"""The user's package registries and certificate authorities, for an installation in the sandbox; never a token or password."""

import configparser
import os
from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import urlsplit

_NPM = {"registry": "NPM_CONFIG_REGISTRY", "cafile": "NPM_CONFIG_CAFILE"}
_PIP = {
    "index-url": "PIP_INDEX_URL",
    "extra-index-url": "PIP_EXTRA_INDEX_URL",
    "find-links": "PIP_FIND_LINKS",
    "cert": "PIP_CERT",
    "trusted-host": "PIP_TRUSTED_HOST",
}
_FILES = ("NPM_CONFIG_CAFILE", "PIP_CERT", "NODE_EXTRA_CA_CERTS", "SSL_CERT_FILE")
_LARGEST = 1 << 20  # bytes


@dataclass(frozen=True, slots=True)
class Registries:
    """Variables of npm and pip, the files that they name, and the variables left out because of a password."""

    env: tuple[str, ...]
    files: tuple[str, ...]
    left_out: tuple[str, ...]


def find_registries(home: str, environ: dict[str, str]) -> Registries:
    """Return the settings of the user's npmrc and pip.conf, and of the environment, which has precedence."""
    found = {**dict(_npm_settings(home)), **dict(_pip_settings(home, environ))}
    names = (*_NPM.values(), *_PIP.values(), *_FILES)
    found |= {name: environ[name] for name in names if environ.get(name)}
    left_out = tuple(name for name, value in found.items() if _has_password(value))
    kept = {name: value for name, value in found.items() if name not in left_out}
    files = tuple(dict.fromkeys(kept[name] for name in _FILES if os.path.isfile(kept.get(name, ""))))
    return Registries(tuple(f"{name}={value}" for name, value in kept.items()), files, left_out)


def _has_password(value: str) -> bool:
    return any("@" in urlsplit(word).netloc for word in value.split() if "://" in word)


def _npm_settings(home: str) -> Iterator[tuple[str, str]]:
    for line in _read(f"{home}/.npmrc").splitlines():
        name, separator, value = line.partition("=")
        if separator and name.strip() in _NPM and "${" not in value:
            yield _NPM[name.strip()], value.strip().strip("\"'")


def _pip_settings(home: str, environ: dict[str, str]) -> Iterator[tuple[str, str]]:
    folder = environ.get("XDG_CONFIG_HOME") or f"{home}/.config"
    parser = configparser.ConfigParser(interpolation=None)
    for path in (f"{home}/.pip/pip.conf", f"{folder}/pip/pip.conf"):
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
