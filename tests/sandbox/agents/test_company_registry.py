"""`agent-dev install` from a company's registry over TLS, with the settings that the user's own npm and pip have."""

import base64
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness.agents.company_registry import CompanyRegistry
from tests.harness.program import AgentDev
from tests.sandbox.agents.test_install import PROFILES, write_profile

ONCE = ("--env", "NPM_CONFIG_FETCH_RETRIES=0", "--env", "PIP_RETRIES=0")
# How the certificate authority is named: in the lines of npmrc, of pip.conf, and in variables.
WAYS = {
    "path": ("cafile={home}/company.pem", "cert = {home}/company.pem", {}),
    "tilde": ("cafile=~/company.pem", "cert = ~/company.pem", {}),
    "home": ("cafile=${{HOME}}/company.pem", "cert = ~/company.pem", {}),
    "inline": ("ca={inline}", "cert = ~/company.pem", {}),
    "list": ("ca[]={inline}", "cert = ~/company.pem", {}),
    "variables": ("", "", {"npm_config_cafile": "~/company.pem", "REQUESTS_CA_BUNDLE": "{home}/company.pem"}),
    "unchecked": ("strict-ssl=false", "trusted-host = 127.0.0.1", {}),
}


class Company:
    """A user whose npm and pip use a company's registry only; `env` are the variables of the user's shell."""

    def __init__(self, user: AgentDev, registry: CompanyRegistry) -> None:
        self.user, self.registry = user, registry
        self.env: dict[str, str] = {}
        (user.home / "company.pem").write_bytes(registry.authority.read_bytes())
        for name in ("noder", "snake"):
            write_profile(user, name, PROFILES[name])

    def set_up(self, npm: str, pip: str, env: dict[str, str]) -> None:
        """Write `npmrc` and `pip.conf` with these lines about the authority."""
        home, url = self.user.home, self.registry.url
        folder = Path(self.user.env["XDG_CONFIG_HOME"], "pip")
        folder.mkdir(parents=True, exist_ok=True)
        inline = json.dumps(self.registry.authority.read_text())
        (home / ".npmrc").write_text(f"registry={url}/\n{npm.format(home=home, inline=inline)}\n")
        (folder / "pip.conf").write_text(f"[global]\nindex-url = {url}/simple\n{pip.format(home=home)}\n")
        self.env = {name: value.format(home=home) for name, value in env.items()}

    def install(self, *words: str, options: tuple[str, ...] = ()) -> str:
        """Run `agent-dev install`; return its messages."""
        done = self.user(*ONCE, *options, "install", *words, env=self.env)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stderr


@pytest.fixture
def company(agent_dev: AgentDev, tmp_path: Path) -> Iterator[Company]:
    keys = tmp_path / "keys"
    keys.mkdir()
    with CompanyRegistry(keys, {"noder": ["1.0.0", "1.2.0"]}, {"snake": ["2.0", "2.1"]}) as registry:
        yield Company(agent_dev, registry)


@pytest.mark.parametrize("way", WAYS)
def test_agents_come_from_the_registry_of_the_users_settings(company: Company, way: str) -> None:
    company.set_up(*WAYS[way])
    assert "noder 1.2.0 is installed" in company.install("noder")
    assert "snake 2.0 is installed" in company.install("snake", "--version", "2.0")
    assert {"/tarballs/noder/1.2.0.tgz", "/wheels/snake-2.0-py3-none-any.whl"} <= set(company.registry.paths)
    assert company.user("noder", "a").stdout == "--standing|a\n"
    assert company.user("snake", "b").stdout == "b\n"
    outdated = company.user("outdated", env=company.env).stdout.splitlines()
    assert ["snake", "2.0", "2.1"] in [row.split() for row in outdated]


def test_settings_files_elsewhere_are_read(company: Company, tmp_path: Path) -> None:
    company.set_up(*WAYS["path"])
    (company.user.home / ".npmrc").rename(tmp_path / "npmrc")
    Path(company.user.env["XDG_CONFIG_HOME"], "pip/pip.conf").rename(tmp_path / "pip.conf")
    company.env = {"NPM_CONFIG_USERCONFIG": str(tmp_path / "npmrc"), "PIP_CONFIG_FILE": str(tmp_path / "pip.conf")}
    company.install("noder")
    company.install("snake")


def test_an_unknown_authority_is_refused(company: Company) -> None:
    company.set_up("", "", {})
    done = company.user(*ONCE, "install", "noder", env=company.env)
    assert done.returncode == 1
    assert "noder is not installed" in done.stderr
    assert company.registry.paths == []


def test_a_token_is_used_only_if_its_file_is_shown(company: Company) -> None:
    company.set_up(*WAYS["path"])
    company.registry.require("Bearer canary")
    npmrc = company.user.home / ".npmrc"
    npmrc.write_text(f"{npmrc.read_text()}{company.registry.url.removeprefix('https:')}/:_authToken=canary\n")
    done = company.user(*ONCE, "install", "noder")
    assert done.returncode == 1
    assert "E401" in done.stderr
    assert "--ro ~/.npmrc" in done.stderr
    company.install("noder", options=("--ro", str(npmrc)))
    assert "canary" not in company.user("--", "sh", "-c", "env; cat ~/.npmrc").stdout


def test_a_scope_may_have_a_registry_of_its_own(company: Company) -> None:
    company.set_up(*WAYS["path"])
    npmrc = company.user.home / ".npmrc"
    npmrc.write_text(f"@company:{npmrc.read_text()}registry=https://127.0.0.1:1/\n")
    company.registry.npm["@company/noder"] = ["3.0.0"]
    write_profile(company.user, "noder", PROFILES["noder"].replace("npm: noder", "npm: '@company/noder'"))
    assert "noder 3.0.0 is installed" in company.install("noder")


def test_a_password_for_pip_is_used_if_its_file_is_shown(company: Company) -> None:
    company.set_up(*WAYS["path"])
    settings = Path(company.user.env["XDG_CONFIG_HOME"], "pip/pip.conf")
    settings.write_text(settings.read_text().replace("https://", "https://me:canary@"))
    company.registry.require(f"Basic {base64.b64encode(b'me:canary').decode()}")
    assert "not passed" not in company.install("snake", options=("--ro", str(settings)))
    assert "canary" not in company.user("--", "sh", "-c", f"env; cat {settings}").stdout


def test_a_token_in_a_variable_is_used_if_both_are_passed(company: Company) -> None:
    company.set_up(*WAYS["path"])
    company.registry.require("Bearer canary")
    npmrc = company.user.home / ".npmrc"
    npmrc.write_text(f"{npmrc.read_text()}{company.registry.url.removeprefix('https:')}/:_authToken=${{NPM_TOKEN}}\n")
    company.env = {"NPM_TOKEN": "canary"}
    hint = "hint: if your registry needs your token or password: agent-dev --ro ~/.npmrc --env NPM_TOKEN install noder\n"
    for options in ((), ("--ro", str(npmrc))):
        failed = company.user(*ONCE[:2], *options, "install", "noder", env=company.env).stderr
        assert hint.replace("--env", "--env NPM_CONFIG_FETCH_RETRIES=… --env") in failed
    company.install("noder", options=("--ro", str(npmrc), "--env", "NPM_TOKEN"))


@pytest.mark.slow
def test_a_password_in_a_variable_is_used_if_it_is_passed(company: Company) -> None:
    company.set_up(*WAYS["path"])
    company.registry.require(f"Basic {base64.b64encode(b'me:canary').decode()}")
    company.env = {"PIP_INDEX_URL": f"{company.registry.url}/simple".replace("https://", "https://me:canary@")}
    done = company.user(*ONCE, "install", "snake", env=company.env)
    assert (done.returncode, "canary" in done.stdout + done.stderr) == (1, False)
    assert "not passed, because they contain passwords or variables: PIP_INDEX_URL\n" in done.stderr
    assert (
        "your token or password: agent-dev --env NPM_CONFIG_FETCH_RETRIES=… --env PIP_RETRIES=… --env PIP_INDEX_URL "
        in done.stderr
    )
    assert "not passed" not in company.install("snake", options=("--env", "PIP_INDEX_URL"))


@pytest.mark.slow
def test_a_setting_of_an_option_precedes_those_of_files(company: Company) -> None:
    company.set_up(*WAYS["path"])
    settings = Path(company.user.env["XDG_CONFIG_HOME"], "pip/pip.conf")
    settings.write_text(settings.read_text().replace("/simple", "/missing"))
    company.install("snake", options=("--env", f"PIP_INDEX_URL={company.registry.url}/simple"))
