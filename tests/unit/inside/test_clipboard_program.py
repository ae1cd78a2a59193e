"""`xclip` and `wl-paste` inside: the options by which agents ask for images."""

import pytest

from agent_dev.inside.clipboard_program import NoImage, wl_paste_request, xclip_request

PNG = "image/png"


@pytest.mark.parametrize(
    ("options", "request_line"),
    [
        ("-selection clipboard -t TARGETS -o", "types"),
        ("-selection clipboard -o -t TARGETS", "types"),
        ("-selection clipboard -t image/png -o", PNG),
        ("-sel clip -target image/png -out", PNG),
        ("-o -sel c -display :0 -t image/png", PNG),
    ],
)
def test_xclip_asks_for_types_or_an_image(options: str, request_line: str) -> None:
    assert xclip_request(options.split()) == request_line


@pytest.mark.parametrize(
    ("options", "request_line"),
    [
        ("-l", "types"),
        ("--list-types", "types"),
        ("-t image/png", PNG),
        ("--type image/png --no-newline", PNG),
        ("--no-newline --type=image/png", PNG),
        ("-timage/png", PNG),
    ],
)
def test_wl_paste_asks_for_types_or_an_image(options: str, request_line: str) -> None:
    assert wl_paste_request(options.split()) == request_line


@pytest.mark.parametrize("options", ["", "-selection clipboard", "-selection clipboard -t image/png -i x.png", "-sel c file"])
def test_xclip_does_not_write(options: str) -> None:
    with pytest.raises(NoImage, match="cannot write"):
        xclip_request(options.split())


@pytest.mark.parametrize("options", ["-o", "-o -t image/png", "-sel p -t image/png -o", "-sel c -o", "-sel c -o -t UTF8_STRING"])
def test_xclip_refuses_text_and_other_selections(options: str) -> None:
    with pytest.raises(NoImage, match="no selection"):
        xclip_request(options.split())


@pytest.mark.parametrize("options", ["", "--no-newline", "-p -t image/png", "-t text/plain", "--watch cat", "-t"])
def test_wl_paste_refuses_text_and_other_selections(options: str) -> None:
    with pytest.raises(NoImage, match="no selection"):
        wl_paste_request(options.split())
