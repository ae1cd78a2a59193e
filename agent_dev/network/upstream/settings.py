"""The upstream proxy, from the settings or else from the environment, and the CA certificates of `upstream_ca`."""

import os

from agent_dev.config.profile import BUILT_IN, Profile, Settings
from agent_dev.config.upstream_proxy import parse_proxy, proxy_from_environment
from agent_dev.errors import CannotStart, Refused
from agent_dev.paths import expand, is_below

_MAX_SIZE = 4 << 20  # bytes of a file of certificates


def find_proxy(profile: Profile, environ: dict[str, str]) -> tuple[str, tuple[str, ...]]:
    """Return the URL of the proxy, "" for none, and its exceptions. Raises CannotStart for an unusable variable."""
    variable, url, exceptions = proxy_from_environment(environ)
    if profile.upstream_proxy:
        return profile.upstream_proxy, profile.no_proxy
    try:
        if url:
            parse_proxy(url)
    except ValueError as error:
        hint = "set `upstream_proxy:` to a proxy, or to none"
        raise CannotStart(message=f"{variable}: {error}", hint=hint) from None
    return url, (*exceptions, *profile.no_proxy)


def describe_proxy(settings: Settings, environ: dict[str, str]) -> tuple[str, str] | None:
    """Return the proxy without its password, and where it is set; None for none."""
    profile = settings.profile
    variable, url, _ = proxy_from_environment(environ)
    origin = settings.origins.get("upstream_proxy", BUILT_IN) if profile.upstream_proxy else f"your environment: {variable}"
    try:
        proxy = parse_proxy(profile.upstream_proxy or url or "none")
    except ValueError as error:
        return str(error), origin
    return (str(proxy), origin) if proxy else None


def read_authorities(profile: Profile, home: str, untrusted: tuple[str, ...]) -> tuple[str, bytes]:
    """Return the real path and the contents of `upstream_ca`. Raises Refused."""
    path = os.path.realpath(expand(profile.upstream_ca, home))
    if any(is_below(path, place) for place in untrusted):
        raise Refused(message=f"upstream_ca: {path} is in a directory that an agent can write to")
    try:
        with open(path, "rb", 0) as file:
            data = file.read(_MAX_SIZE)
    except OSError as error:
        raise Refused(message=f"upstream_ca: {path}: {error.strerror}") from None
    if b"-----BEGIN CERTIFICATE-----" not in data:
        raise Refused(message=f"upstream_ca: {path} has no certificate in PEM format")
    return path, data
