"""What a bug report shows of a user."""

import pytest

from agent_dev.bug_report.masking import Identity, mask_text

WHO = Identity("/home/ada", "/home/ada/src/shop", "ada", "analytical")


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("/home/ada/src/shop/secret.py: no", "REPOSITORY/…: no"),
        ("in /home/ada/src/shop", "in REPOSITORY"),
        ("/home/ada/notes.txt", "~/…"),
        ("/home/adam/notes.txt", "/…"),
        ("~/.ssh/id_ed25519 is masked", "~/… is masked"),
        ("/mnt/customers/acme (ext4)", "/… (ext4)"),
        ("/usr/bin/bwrap 0.8.0", "/usr/bin/bwrap 0.8.0"),
        ('File "/home/ada/x/agent_dev/cli/main.py", line 3', 'File "agent_dev/cli/main.py", line 3'),
        ("ada on analytical, adamant", "USER on HOST, adamant"),
        ("mail ada@example.org", "mail ADDRESS"),
        ("--token abc123secret", "--token ***"),
        ("https://ada:pw@example.org/x", "https://***@example.org/x"),
        ("API_KEY=s3cr3t", "API_KEY=***"),
        ("state directory: works", "state directory: works"),
    ],
)
def test_paths_names_and_secrets_are_masked(text: str, masked: str) -> None:
    assert mask_text(text, WHO) == masked


def test_the_names_of_root_are_not_masked() -> None:
    assert mask_text("run as root in /", Identity("/", "/", "root", "x")) == "run as root in /"
