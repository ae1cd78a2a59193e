"""Parser for git configuration files (git-config(1), CONFIGURATION FILE), without running git and without includes."""

from collections.abc import Iterator

_ESCAPES = {"n": "\n", "t": "\t", "b": "\b"}


def is_sha256(config: bytes) -> bool:
    """Return whether a repository with this configuration uses SHA-256 object ids (`extensions.objectFormat`)."""
    return read_values(config, "extensions", "objectformat")[-1:] == ["sha256"]


def read_values(config: bytes, section: str, name: str) -> list[str]:
    """Return the values of a variable, both names in lower case; a section with any subsection has a space after its name."""
    return [value for *names, value in _variables(config) if names == [section, name]]


def _variables(config: bytes) -> Iterator[tuple[str, str, str]]:
    """Yield section, name and value of each variable; the name of a subsection is replaced by a space."""
    text = config.decode("utf-8", "surrogateescape").removeprefix("\ufeff").replace("\r\n", "\n")
    section, position = "", 0
    while position < len(text):
        if text[position].isspace():
            position += 1
        elif text[position] in "#;":
            position = _line_end(text, position)
        elif text[position] == "[":
            section, position = _section(text, position + 1)
        else:
            end = _line_end(text, position)
            equals = text.find("=", position, end)
            name = text[position : equals if equals >= 0 else end]
            value, position = _value(text, equals + 1) if equals >= 0 else ("true", end)
            yield section, name.strip().lower(), value


def _line_end(text: str, start: int) -> int:
    end = text.find("\n", start)
    return len(text) if end < 0 else end


def _section(text: str, position: int) -> tuple[str, int]:
    """Return a section's name, with a space if it has a subsection, and the position after the header."""
    start, is_quoted = position, False
    while position < len(text) and (is_quoted or text[position] != "]"):
        is_quoted ^= text[position] == '"'
        position += 2 if is_quoted and text[position] == "\\" else 1
    name, quote, _ = text[start:position].partition('"')
    return name.strip().lower() + (" " if quote else ""), position + 1


def _value(text: str, position: int) -> tuple[str, int]:
    """Return a value without quotes, escapes and comments, and the end of its last line."""
    found, is_quoted = [""], False
    while position < len(text) and text[position] != "\n":
        char = text[position]
        if char == "\\":
            position += 1
            found.append(
                ""
                if text[position : position + 1] == "\n"
                else _ESCAPES.get(text[position : position + 1], text[position : position + 1])
            )
        elif char == '"':
            is_quoted = not is_quoted
        elif char in "#;" and not is_quoted:
            position = _line_end(text, position) - 1
        else:
            found.append(char)
        position += 1
    return "".join(found).strip(), position
