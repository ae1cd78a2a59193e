"""Programs that verify TLS themselves use a host with a credential: each trusts the authority of the session."""

import json
import shutil
from pathlib import Path

import pip
import pytest

from tests.harness.program import AgentDev
from tests.harness.servers.brokered_host import API, REAL
from tests.sandbox.network.test_credentials import configure, words

URL = f"https://{API}/v1"
NODE = f"""fetch("{URL}", {{headers: {{"x-api-key": process.env.API_KEY}}}}).then(r => r.text()).then(t => console.log(t))"""
PYTHON = f"""
import os, urllib.request
print(urllib.request.urlopen(urllib.request.Request("{URL}", headers={{"x-api-key": os.environ["API_KEY"]}})).read().decode())
"""
REQUESTS = f"""
import os
from pip._vendor import requests
print(requests.get("{URL}", headers={{"x-api-key": os.environ["API_KEY"]}}).text)
"""
JAVA = """
import java.net.URI; import java.net.http.*;
public class Ask {
  public static void main(String[] words) throws Exception {
    var request = HttpRequest.newBuilder(URI.create(words[0])).header("x-api-key", System.getenv("API_KEY")).build();
    System.out.println(HttpClient.newHttpClient().send(request, HttpResponse.BodyHandlers.ofString()).body());
  }
}
"""


def shown(program: AgentDev, *command: str | Path, options: tuple[str | Path, ...] = ()) -> str:
    configure(program)
    done = program(*options, "--", *command, env={"MY_KEY": REAL}, before=words(program.home), timeout=120)
    assert done.returncode == 0, done.stderr
    found: str = json.loads(done.stdout.strip().splitlines()[-1])["headers"]["x-api-key"]
    return found


def test_curl_python_pip_and_node_reach_it(agent_dev: AgentDev) -> None:
    with_pip = f"PYTHONPATH={Path(pip.__file__).parents[1]} exec /usr/bin/python3 -c '{REQUESTS}'"
    pip_options = ("--ro", Path(pip.__file__).parent)
    assert shown(agent_dev, "sh", "-c", with_pip, options=pip_options) == "(real)"
    assert shown(agent_dev, "sh", "-c", f'curl -sS {URL} -H "x-api-key: $API_KEY"') == "(real)"
    assert shown(agent_dev, "/usr/bin/python3", "-c", PYTHON) == "(real)"
    assert shown(agent_dev, "node", "-e", NODE) == "(real)"


@pytest.mark.skipif(not shutil.which("java", path="/usr/bin"), reason="Java is not installed")
def test_java_reaches_it_through_its_own_store(agent_dev: AgentDev) -> None:
    (agent_dev.repo / "Ask.java").write_text(JAVA)
    assert shown(agent_dev, "sh", "-c", f"java Ask.java {URL}") == "(real)"
