"""`xclip` and `wl-paste` of the sandbox: print an image of the user's clipboard, which a process outside passes on.

They take the options by which agents ask for images. Text, other selections and writing are refused, as if there were none.
"""

import os
import socket
import sys

_SOCKET = "/run/agent-dev/clipboard"
_LIST = "types"
_ONLY_IMAGES = "no selection: this sandbox gets only images of the clipboard"
_XCLIP_VALUES = ("selection", "target", "display", "loops")  # its options with a value
_MAX_HEADER = 512  # bytes of the first line of a reply


class NoImage(Exception):
    """There is no image to print, with the reason."""


def main() -> None:
    """Print what the options ask for; exit with 1 if there is none."""
    name = os.path.basename(sys.argv[0])
    try:
        request = (wl_paste_request if name == "wl-paste" else xclip_request)(sys.argv[1:])
        print_reply(request)
    except (NoImage, OSError) as error:
        sys.stderr.write(f"{name}: {error}\n")
        sys.exit(1)


def xclip_request(words: "list[str]") -> str:
    """Return the request for the options of xclip, which may be abbreviated. Raises NoImage."""
    values, is_output, rest = {"selection": "primary", "target": "STRING"}, False, iter(words)
    for word in rest:
        name = word.lstrip("-") if word.startswith("-") else ""
        option = next((one for one in _XCLIP_VALUES if name and one.startswith(name)), "")
        if option:
            values[option] = next(rest, "")
        is_output = is_output or (bool(name) and "out".startswith(name))
    if not is_output:
        raise NoImage("this sandbox cannot write the clipboard; terminals accept OSC 52")
    if not values["selection"] or not "clipboard".startswith(values["selection"]):
        raise NoImage(_ONLY_IMAGES)
    return _request(_LIST if values["target"] == "TARGETS" else values["target"])


def wl_paste_request(words: "list[str]") -> str:
    """Return the request for the options of wl-paste. Raises NoImage."""
    kind, rest = "", iter(words)
    for word in rest:
        if word in ("-l", "--list-types"):
            return _LIST
        if word in ("-p", "--primary", "-w", "--watch"):
            raise NoImage(_ONLY_IMAGES)
        if word in ("-t", "--type"):
            kind = next(rest, "")
        elif word.startswith("--type="):
            kind = word.partition("=")[2]
        elif word.startswith("-t"):
            kind = word[2:]
    return _request(kind)


def _request(kind: str) -> str:
    if kind != _LIST and not kind.startswith("image/"):
        raise NoImage(_ONLY_IMAGES)
    return kind


def print_reply(request: str) -> None:
    """Send a request and print the reply. Raises NoImage, OSError."""
    with socket.socket(socket.AF_UNIX) as server:
        server.connect(_SOCKET)
        server.sendall(f"{request}\n".encode("utf-8", "replace"))
        with server.makefile("rb") as reply:
            verdict, _, text = reply.readline(_MAX_HEADER).decode("utf-8", "replace").strip().partition(" ")
            if verdict != "ok":
                raise NoImage(text or "the clipboard cannot be read")
            data = reply.read()
    if len(data) != int(text):
        raise NoImage("the reply is incomplete")
    sys.stdout.buffer.write(data)
    sys.stdout.flush()


if __name__ == "__main__":
    main()
