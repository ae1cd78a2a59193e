"""Remove passwords and tokens from the files of a git directory that an agent gets.

Without `re`: every start reads a git directory (docs/decisions/0002-launch-path-imports.md).
"""

STASH = "refs/stash"

_MAX_SIZE = 8 << 20  # bytes; text files of git are smaller
_URL, _AT = b"://", b"@"
_URL_DELIMITERS = frozenset(b"/ \t\r\n\"'<>\\")  # end of a URL's authority
_PRIVATE_KEY = b" PRIVATE KEY-----"
# Files that contain nothing but logins: of curl (`http.cookieFile`), ftp, git-svn.
_LOGIN_FILES = frozenset((".netrc", "_netrc", "netrc", ".authinfo"))
_COOKIES = (b"# Netscape HTTP Cookie File", b"# HTTP Cookie File")
_SECRET_KEYS = frozenset(("extraheader", "pass", "smtppass", "passphrase"))
_SECRET_SUFFIXES = ("password", "passwd", "token", "secret", "apikey", "api-key", "accesskey")
_SECRET_PARAMETERS = ("token", "password", "api_key", "apikey", "secret", "key", "sig")  # ends of names in the query of a URL
_PASSWORD_OPTIONS = (b"sshpass -p", b"--password ", b"--password=", b"--token ", b"--token=")  # of a command
_TOKENS = (b"ghp_", b"gho_", b"ghs_", b"ghu_", b"github_pat_", b"glpat-", b"authorization:", b"private-token:")


def remove_secrets(name: str, data: bytes) -> tuple[bytes | None, tuple[str, ...]]:
    """Return a file of a git directory without its secrets, and the removed ones: names of settings, or the file's own name.

    The bytes are None if the file is nothing but a secret.
    """
    if len(data) > _MAX_SIZE or not data:
        return data, ()
    if _PRIVATE_KEY in data or _is_login_file(name, data):
        return None, (name,)
    if _is_config(data):
        return _strip_settings(data)
    cleaned = remove_userinfo(data)
    return cleaned, () if cleaned is data else (name,)


def remove_userinfo(data: bytes) -> bytes:
    """Return text without users and passwords in URLs; the user of an ssh URL is no secret and stays."""
    if _URL not in data or _AT not in data:
        return data
    parts, copied = [], 0
    scheme_end = data.find(_URL)
    while scheme_end >= 0:
        start = end = scheme_end + len(_URL)
        while end < len(data) and data[end] not in _URL_DELIMITERS:
            end += 1
        user, has_user, _ = data[start:end].rpartition(_AT)
        kept_user = user.partition(b":")[0] + _AT if data[:scheme_end].lower().endswith((b"ssh", b"ssh+git")) else b""
        if has_user and kept_user != user + _AT:
            parts += [data[copied:start], kept_user]
            copied = start + len(user) + len(_AT)
        scheme_end = data.find(_URL, end)
    return b"".join((*parts, data[copied:])) if parts else data


def remove_stash(packed: bytes) -> bytes:
    """Return packed-refs without the user's stash."""
    if b" refs/stash\n" not in packed:
        return packed
    return b"".join(line for line in packed.splitlines(keepends=True) if not line.endswith(b" refs/stash\n"))


def _is_login_file(name: str, data: bytes) -> bool:
    """Return whether a file is a netrc, a cookie jar, or a login of Subversion."""
    if name in _LOGIN_FILES or data.startswith(_COOKIES):
        return True
    fields = data[:4096].partition(b"\n")[0].split(b"\t")
    is_cookie = len(fields) == 7 and fields[1] in (b"TRUE", b"FALSE") and fields[3] in (b"TRUE", b"FALSE")
    return is_cookie or (data.startswith(b"K ") and b"\npassword\nV " in data)


def _is_config(data: bytes) -> bool:
    """Return whether a file is a git configuration: its first setting is a section header."""
    lines = (line.strip() for line in data[:4096].splitlines())
    return next((line.startswith(b"[") for line in lines if line and line[:1] not in b"#;"), False)


def _strip_settings(data: bytes) -> tuple[bytes, tuple[str, ...]]:
    lines: list[bytes] = []
    removed: list[str] = []
    section = ""
    for line in _logical_lines(data):
        text = line.lstrip()
        indent = line[: len(line) - len(text)]
        header = b""
        if text.startswith(b"["):
            end = _header_end(text)
            header, text = text[:end], text[end:]
            section = _section(header)
        key, _, value = text.partition(b"=")
        is_key = key.strip()[:1].isalpha()
        name = f"{section}.{_text(key).strip().lower()}" if is_key else section or "a comment"
        if is_key and _is_secret(name, value):
            removed.append(name)
            lines.append(indent + header + b"\n" if header else b"")
            continue
        cleaned = remove_userinfo(line)
        if cleaned != line:
            removed.append(name)
        lines.append(cleaned)
    return (b"".join(lines), tuple(dict.fromkeys(removed))) if removed else (data, ())


def _logical_lines(data: bytes) -> list[bytes]:
    """Return lines, joining those that end in a backslash with the next."""
    found: list[bytes] = []
    is_open = False
    for line in data.splitlines(keepends=True):
        if is_open:
            found[-1] += line
        else:
            found.append(line)
        content = line.rstrip(b"\r\n")
        is_comment = not is_open and content.lstrip()[:1] in (b"#", b";")
        is_open = not is_comment and (len(content) - len(content.rstrip(b"\\"))) % 2 == 1
    return found


def _header_end(text: bytes) -> int:
    is_quoted = False
    position = 1
    while position < len(text):
        letter = text[position : position + 1]
        if letter == b"\\":
            position += 1
        elif letter == b'"':
            is_quoted = not is_quoted
        elif letter == b"]" and not is_quoted:
            return position + 1
        position += 1
    return len(text)


def _section(header: bytes) -> str:
    name, quote, subsection = header.strip(b"[]").partition(b'"')
    section = _text(name).strip().lower()
    return f"{section}.{_text(remove_userinfo(subsection[:-1]))}" if quote else section


def _is_secret(name: str, value: bytes) -> bool:
    key = name.rpartition(".")[2]
    low = value.lower()
    if key in _SECRET_KEYS or key.endswith(_SECRET_SUFFIXES) or any(one in low for one in _TOKENS):
        return True
    is_inline = name.startswith("credential.") and key == "helper" and value.strip().startswith((b"!", b'"!'))
    if is_inline and (b"password" in low or b"token" in low):
        return True
    return _has_secret_parameter(low) or any(one in low for one in _PASSWORD_OPTIONS)


def _has_secret_parameter(value: bytes) -> bool:
    address, _, query = value.partition(b"?")
    names = [_text(one.partition(b"=")[0]) for one in query.split(b"&") if b"=" in one]
    return _URL in address and any(name.endswith(_SECRET_PARAMETERS) for name in names)


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")
