"""Requests for images of the clipboard, and what counts as an image."""

import pytest

from agent_dev.clipboard import images
from tests.harness.servers.clipboard import PNG

BMP = b"BM" + (10).to_bytes(4, "little") + bytes(4)
SAMPLES = {
    "image/png": PNG,
    "image/jpeg": b"\xff\xd8\xff\xe0rest",
    "image/gif": b"GIF89arest",
    "image/webp": b"RIFF\x04\0\0\0WEBPVP8 ",
    "image/bmp": BMP,
}


@pytest.mark.parametrize("kind", images.TYPES)
def test_an_image_is_one_of_its_own_type_alone(kind: str) -> None:
    assert [one for one, data in SAMPLES.items() if images.is_image(kind, data)] == [kind]


@pytest.mark.parametrize("data", [b"", b"password", b"BMW", b"BM 12345678", b"RIFF1234WAVE", b" \x89PNG\r\n\x1a\n", b"<svg/>"])
@pytest.mark.parametrize("kind", images.TYPES)
def test_text_and_other_files_are_no_images(kind: str, data: bytes) -> None:
    assert not images.is_image(kind, data)


@pytest.mark.parametrize("line", [images.LIST, *images.TYPES])
def test_a_request_is_the_list_or_a_type_of_images(line: str) -> None:
    assert images.parse_request(line.encode()) == line


@pytest.mark.parametrize(
    "line", [b"", b"text/plain", b"image/svg+xml", b"image/png ", b"IMAGE/PNG", b"TARGETS", b"image/png -i", b"\xff", b"-o"]
)
def test_any_other_request_is_refused(line: bytes) -> None:
    with pytest.raises(ValueError, match="only images"):
        images.parse_request(line)


def test_other_types_of_a_clipboard_are_not_listed() -> None:
    listing = b"TARGETS\nUTF8_STRING\nimage/png\nx-secret/name\nimage/tiff\n\xff\nimage/jpeg \n"
    assert images.offered_types(listing) == ("image/png", "image/jpeg")
