"""Decide whether a request to a host with a credential is allowed, and which headers are sent to the host. Pure."""

import base64
import binascii
from collections.abc import Sequence
from urllib.parse import parse_qsl, quote, unquote

from agent_dev.config.credentials import INJECT, Credential
from agent_dev.network.access import Denied
from agent_dev.quick_dataclass import dataclass, field
from agent_dev.wildcard import matches_stars

Headers = list[tuple[bytes, bytes]]

# Headers that contain keys. A key in any other place is not found.
_KEY_HEADERS = frozenset(
    (b"authorization", b"x-api-key", b"api-key", b"x-goog-api-key", b"private-token", b"job-token", b"x-auth-token", b"x-token")
)
_KEY_PARAMETERS = frozenset(("key", "api_key", "apikey", "api-key", "access_token", "auth_token", "private_token", "job_token"))
_NOT_FORWARDED = frozenset(
    (
        *(b"connection", b"proxy-connection", b"keep-alive", b"te", b"upgrade", b"proxy-authorization", b"expect"),
        *(b"http2-settings", b"cookie"),  # a cookie could be the login of another account
    )
)
_SAFE_METHODS = ("GET", "HEAD", "OPTIONS")
_PUSH, _FETCH, _REFS, _LFS = "/git-receive-pack", "/git-upload-pack", "/info/refs", "/info/lfs/"
_AMBIGUOUS = ("/../", "/./", "//", "\\", ";")
OTHER_KEY = "this key is not the stand-in key of this session"


@dataclass(frozen=True, slots=True)
class BrokeredKey:
    """A credential with its real key and its stand-in; repr() shows neither."""

    credential: Credential
    real: bytes = field(repr=False)
    stand_in: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Request:
    """A request from inside: method, target and headers with names in lower case."""

    method: str
    target: str
    headers: Sequence[tuple[bytes, bytes]] = field(repr=False)

    @property
    def path(self) -> str:
        """The target without its query, which may contain a key."""
        return self.target.partition("?")[0]

    def values(self, name: bytes) -> list[bytes]:
        """Return the values of a header."""
        return [value for one, value in self.headers if one == name]

    @property
    def is_websocket(self) -> bool:
        """True if it is an upgrade to WebSocket."""
        return [value.lower() for value in self.values(b"upgrade")] == [b"websocket"]


def outside_request(key: BrokeredKey, request: Request, port: int) -> tuple[str, Headers]:
    """Return the target and the headers that are sent to the host. Raises Denied."""
    _check_form(key.credential, request, port)
    target, in_query = _with_real_key(key, request.target)
    headers, in_headers = _replace(key, request.headers)
    is_switch = request.is_websocket
    headers = [(name, value) for name, value in headers if name not in _NOT_FORWARDED or (is_switch and name in _SWITCH)]
    has_key = in_query or in_headers
    if not has_key and key.credential.without_key == INJECT and not _refuses_key(key.credential, request):
        headers.append(_key_header(key))
        has_key = True
    _check_use(key.credential, request, has_key=has_key)
    return target, headers


_SWITCH = (b"connection", b"upgrade")


def is_push(credential: Credential, request: Request) -> bool:
    """Return whether a request is a push whose branches are limited, so that its body must be checked."""
    return bool(credential.push) and request.method == "POST" and request.path.endswith(_PUSH)


def _check_form(credential: Credential, request: Request, port: int) -> None:
    """Refuse a request that is ambiguous, or for another host. Raises Denied."""
    if request.method in ("CONNECT", "TRACE") or not request.target.startswith("/"):
        raise Denied(f"{request.method} with this target is not allowed")
    hosts = [value.lower() for value in request.values(b"host")]
    name = credential.host.encode()
    if len(hosts) != 1 or hosts[0].removesuffix(b":%d" % port).removesuffix(b":80").removesuffix(b":443") != name:
        raise Denied(f"the request is for a host other than {credential.host}")
    if request.values(b"transfer-encoding") and request.values(b"content-length"):
        raise Denied("not a valid HTTP request: two lengths")


def _check_use(credential: Credential, request: Request, *, has_key: bool) -> None:
    """Refuse a request that the credential's limits do not allow. Raises Denied."""
    if credential.methods and request.method not in credential.methods:
        raise Denied(f"the method {request.method} is not allowed")
    path = unquote(request.path)
    if (credential.paths or credential.push) and any(part in f"{path}/" for part in _AMBIGUOUS):
        raise Denied("the path is ambiguous")
    if credential.paths and ("%" in path or not any(matches_stars(path, pattern) for pattern in credential.paths)):
        raise Denied("the path is not allowed")
    if credential.push:
        _check_git_use(request, path, has_key=has_key)


def _check_git_use(request: Request, path: str, *, has_key: bool) -> None:
    """Refuse requests that could change a repository without a push that is checked. Raises Denied."""
    is_plain = path == request.path
    if "git-receive-pack" in path.lower() and not (is_plain and path.endswith(_PUSH)):
        raise Denied("a push with an unusual path")
    if not is_plain or not _is_git(request.method, path):
        if has_key:
            raise Denied("this key is only for git")
        if request.method not in _SAFE_METHODS:
            raise Denied(f"only git may use {request.method}")


def _refuses_key(credential: Credential, request: Request) -> bool:
    return bool(credential.push) and not _is_git(request.method, request.path)


def _is_git(method: str, path: str) -> bool:
    if method == "POST":
        return path.endswith((_PUSH, _FETCH)) or _LFS in path
    if method == "PUT":
        return _LFS in path
    return method in ("GET", "HEAD") and (path.endswith((_REFS, "/HEAD")) or _LFS in path or "/objects/" in path)


def _with_real_key(key: BrokeredKey, target: str) -> tuple[str, bool]:
    """Return a target with the stand-in key replaced, and whether it had that key. Raises Denied for another key."""
    path, mark, query = target.partition("?")
    stand_in = key.stand_in.decode()
    for name, value in parse_qsl(query, keep_blank_values=True):
        if name.lower() in _KEY_PARAMETERS and value != stand_in:
            raise Denied(OTHER_KEY)
    if stand_in not in query:
        return target, False
    return path + mark + query.replace(stand_in, quote(key.real.decode(), safe="")), True


def _replace(key: BrokeredKey, headers: Sequence[tuple[bytes, bytes]]) -> tuple[Headers, bool]:
    """Return headers with the stand-in key replaced, and whether they had that key. Raises Denied for another key."""
    own = key.credential.header.partition(":")[0].encode()
    kept: Headers = []
    is_found = False
    for name, value in headers:
        if name not in _KEY_HEADERS and name != own:
            kept.append((name, value))
            continue
        is_found = True
        made = _real_value(key, name, value)
        if not own or _is_basic(value):
            kept.append((name, made))
    if is_found and own and not any(name in _KEY_HEADERS for name, _ in kept):
        kept.append(_key_header(key))
    return kept, is_found


def _real_value(key: BrokeredKey, name: bytes, value: bytes) -> bytes:
    """Return the value of a header with the real key. Raises Denied if it does not contain the stand-in key."""
    if name == b"authorization":
        scheme, space, word = value.partition(b" ")
        if _is_basic(value):
            return b"Basic " + base64.b64encode(_basic(key, word.strip()))
        if word.strip() == key.stand_in:
            return scheme + space + key.real
    elif value.strip() == key.stand_in:
        return key.real
    raise Denied(OTHER_KEY)


def _is_basic(value: bytes) -> bool:
    return value[:6].lower() == b"basic "


def _basic(key: BrokeredKey, word: bytes) -> bytes:
    try:
        user, _, password = base64.b64decode(word, validate=True).partition(b":")
    except binascii.Error:
        raise Denied(OTHER_KEY) from None
    if password == key.stand_in:
        return (key.credential.user.encode() or user) + b":" + key.real
    if user == key.stand_in and password in (b"", b"x-oauth-basic"):
        return key.credential.user.encode() + b":" + key.real if key.credential.user else key.real + b":" + password
    raise Denied(OTHER_KEY)


def _key_header(key: BrokeredKey) -> tuple[bytes, bytes]:
    credential = key.credential
    if credential.user:
        return b"authorization", b"Basic " + base64.b64encode(credential.user.encode() + b":" + key.real)
    name, _, scheme = credential.default_header.partition(":")
    return name.encode(), (scheme.strip().encode() + b" " if scheme.strip() else b"") + key.real
