"""Headless Chromium opens the page of a hostile session: nothing in it runs, loads, navigates or changes the style."""

import os
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from agent_dev.review_page import html_page
from agent_dev.review_page.content import ReviewPage
from tests.conftest import find_chromium, lay_out_home
from tests.harness.html_audit import Audit
from tests.harness.program import PYTHON, AgentDev

pytestmark = [pytest.mark.only_chromium, pytest.mark.slow]

RAN = "OWNED"  # is written by a payload that runs; the payloads contain only its halves
RUN = "document.documentElement.append('OWN'+'ED')"
# A payload is shown as a name, a content, an author, a message, a branch, an argument and the repository's name.
PAYLOADS = (
    f"<script>{RUN}</script>",
    f"</style><script>{RUN}</script><style>body{{background:url(@/css)}}",
    f"</title></bdi></td></table></details><script>{RUN}</script>",
    f'"><img src=@/img onerror="{RUN}">',
    f"'><svg/onload={RUN}>",
    f'" autofocus onfocus="{RUN}" ontoggle="{RUN}" x="',
    f'<details open ontoggle="{RUN}">x</details>',
    f'<meta http-equiv="refresh" content="0;url=data:text/html,<script>{RUN}</script>">',
    '<meta http-equiv="refresh" content="0;url=@/refresh">',
    f'<a href="javascript:{RUN}" autofocus>x</a><iframe src="javascript:parent.{RUN}"></iframe>',
    f'<iframe srcdoc="<script>parent.{RUN}</script>"></iframe><iframe src=@/frame></iframe>',
    "<link rel=stylesheet href=@/link><style>*{background:url(@/style)}</style><p style='background:url(@/inline)'>x",
    '<base href="@/base/"><object data=@/object></object><embed src=@/embed><form action=@/form>',
    "}</style><style>@import '@/import';*{display:none}",
    f"--><!--><script>{RUN}</script>",
    f"<![CDATA[<script>{RUN}</script>",
)
AGENT = """
import os, subprocess, sys
git = ["git", "-c", "user.email=x@x"]
for number, text in enumerate(sys.argv[1:]):
    path = f"{number:02}" + text
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    with open(path + ".py", "w") as file:
        file.write(text + "\\n" + text)
    os.symlink("/outside/" + text, f"link{number}")
    subprocess.run([*git, "add", "-A"], check=True)
    author = ["-c", "user.name=" + text.replace("<", "'").replace(">", '"')]
    subprocess.run([*git, *author, "commit", "-qm", text, "-m", text], check=True)
    subprocess.run([*git, "branch", f"b{number}/<script>x=1</script>"], check=True)
"""


class Server(HTTPServer):
    """A server that records the paths of all requests."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.requests: list[str] = []

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        assert isinstance(self.server, Server)
        self.server.requests.append(self.path)
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(f"<p>{RAN}".encode())

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  (the name in http.server)
        """Print nothing."""


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as one:
        thread = threading.Thread(target=one.serve_forever, args=(0.05,))
        thread.start()
        yield one
        one.shutdown()
        thread.join()


def open_page(page: str, folder: Path) -> tuple[str, str]:
    """Open a page in Chromium; return the DOM after two seconds of its time, and its log."""
    (folder / "page.html").write_text(page)
    words = [find_chromium(), "--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr", "--no-first-run"]
    words += [f"--user-data-dir={folder}/browser", "--virtual-time-budget=2000", "--dump-dom", f"file://{folder}/page.html"]
    environ = {"PATH": os.environ["PATH"], "HOME": str(folder)}
    done = subprocess.run(words, capture_output=True, text=True, env=environ, timeout=120, check=True)
    assert "<html" in done.stdout, done.stderr
    return done.stdout, done.stderr


@pytest.fixture
def hostile_page(tmp_path: Path, server: Server) -> str:
    """Return the page of a session whose names, contents and commits are payloads."""
    texts = [text.replace("@/", f"{server.address}/") for text in PAYLOADS]
    home = lay_out_home(tmp_path)
    repo = home / "src" / '"><img src=x onerror=alert(1)>'
    repo.mkdir(parents=True)
    program = AgentDev(home, repo)
    program.git("init", "-q")
    program.git("commit", "-q", "--allow-empty", "-m", "Start")
    program.do("--no-merge", "--", PYTHON, "-c", AGENT, *texts)
    page = program.do("merge", "--html", "-")
    assert "&lt;script&gt;" in page
    return page


def test_nothing_of_a_hostile_session_runs(hostile_page: str, server: Server, tmp_path: Path) -> None:
    dom, log = open_page(hostile_page, tmp_path)
    audit, before = Audit(dom), Audit(hostile_page)

    assert RAN not in dom
    assert server.requests == []
    assert audit.wrong == []
    assert [one for one in audit.elements if one != "tbody"] == before.elements
    assert audit.text.strip() == before.text.strip()
    assert "Content Security Policy" not in log  # the policy allows the page's own style


def test_the_page_policy_stops_scripts_that_were_not_escaped(server: Server, tmp_path: Path) -> None:
    texts = [text for text in PAYLOADS if "http-equiv" not in text]  # a policy does not stop navigation
    dom, log = open_page(planted_page("".join(texts), server, has_policy=True), tmp_path)

    assert RAN not in dom
    assert server.requests == []
    assert "Content Security Policy" in log


@pytest.mark.parametrize("start", ["<script>", '"><img', "'><svg", "<details", "<link"])
def test_without_escapes_and_policy_a_payload_runs(server: Server, tmp_path: Path, start: str) -> None:
    text = next(text for text in PAYLOADS if text.startswith(start))
    dom, _ = open_page(planted_page(text, server, has_policy=False), tmp_path)

    assert RAN in dom or server.requests


def planted_page(text: str, server: Server, *, has_policy: bool) -> str:
    """Return a page with payloads that are not escaped."""
    page = "".join(html_page.render_page(ReviewPage("s", (), (), (), (), (), (), 0, 0)))
    page = page.replace("</body>", text.replace("@/", f"{server.address}/") + "</body>")
    return page if has_policy else page.replace("Content-Security-Policy", "x-none")
