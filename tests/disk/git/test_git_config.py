"""The object format read from a git configuration is the one that git reads."""

import subprocess
from pathlib import Path

import pytest

from agent_dev.git.config_file import is_sha256

FORMATS = {
    "none": "",
    "plain": "[extensions]\n\tobjectFormat = sha256\n",
    "capitals": "[EXTENSIONS]\n\tOBJECTFORMAT=sha256\n",
    "in one line": "[extensions] objectformat = sha256\n",
    "quoted": '[extensions]\n\tobjectformat = "sha256"\n',
    "partly quoted": '[extensions]\n\tobjectformat = sha"256" ; a comment\n',
    "comment": "[extensions]\n\tobjectformat = sha256 # it is\n",
    "continued": "[extensions]\n\tobjectformat = sha\\\n256\n",
    "a comment that ends in a backslash": "[extensions]\n# a \\\n\tobjectformat = sha256 ; b \\\n",
    "DOS": "[extensions]\r\n\tobjectformat = sha256\r\n",
    "the last one counts": "[extensions]\n\tobjectformat = sha256\n\tobjectformat = sha1\n",
    "commented out": "[extensions]\n#\tobjectformat = sha256\n;objectformat = sha256\n",
    "another section": "[core]\n\tobjectformat = sha256\n",
    "a subsection": '[extensions "objectformat"]\n\tobjectformat = sha256\n',
    "an address": '[remote "sha256"]\n\turl = https://example.invalid/sha256.git\n',
    "a section in a subsection's name": '[url "]\\"[extensions] objectformat = sha256"]\n\tinsteadOf = x\n',
    "a value that looks like one": '[user]\n\tname = "[extensions] objectformat = sha256"\n',
    "no value": "[extensions]\n\tobjectformat\n",
    "in capitals itself": "[extensions]\n\tobjectformat = SHA256\n",
    "two sections in a line": "[core] [extensions] objectformat = sha256\n",
}


@pytest.mark.parametrize("text", FORMATS.values(), ids=FORMATS.keys())
def test_values_match_those_of_git(tmp_path: Path, text: str) -> None:
    config = tmp_path / "config"
    config.write_bytes(text.encode())
    words = ("git", "config", "--file", str(config), "--get", "extensions.objectformat")
    printed = subprocess.run(words, capture_output=True, text=True, check=False)
    assert printed.returncode in (0, 1), printed.stderr

    assert is_sha256(text.encode()) is (printed.stdout.strip() == "sha256")


def test_an_invalid_configuration_is_parsed_to_its_end_and_is_not_sha256() -> None:
    for text in (b"[", b'["', b'[a "\\', b"=\n[]=", b"\xff\xfe[extensions", b"[extensions]\nobjectformat = \\"):
        assert not is_sha256(text)
