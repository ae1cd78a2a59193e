"""What an installation gets of the user's settings of npm and pip."""

from pathlib import Path

import pytest

from agent_dev.agents.registries import files_with_secrets, find_registries, variables_with_secrets


def write(home: Path, npm: str = "", pip: str = "") -> tuple[Path, Path]:
    npmrc, settings = home / ".npmrc", home / ".config/pip/pip.conf"
    settings.parent.mkdir(parents=True)
    npmrc.write_text(npm)
    settings.write_text(f"[global]\n{pip}")
    return npmrc, settings


@pytest.mark.parametrize(
    ("line", "passed"),
    [
        ("registry=https://npm.example/", "registry=https://npm.example/"),
        ("@a:registry = https://npm.example/", "@a:registry=https://npm.example/"),
        ('ca="-----BEGIN\\nx=="', 'ca="-----BEGIN\\nx=="'),
        ("ca[]=x", "ca[]=x"),
        ("cafile=~/a.pem", "cafile={home}/a.pem"),
        ("https-proxy=http://proxy.example", "https-proxy=http://proxy.example"),
        ("//npm.example/:_authToken=canary", ""),
        ("_auth=canary", ""),
        ("ignore-scripts=true", ""),
        ("; registry=https://npm.example/", ""),
    ],
)
def test_settings_of_npm_are_passed_without_secrets(tmp_path: Path, line: str, passed: str) -> None:
    write(tmp_path, f"{line}\n")
    found = find_registries(str(tmp_path), {})
    assert (found.npmrc.strip(), found.left_out) == (passed.format(home=tmp_path), ())


@pytest.mark.parametrize("value", ["https://me:canary@npm.example/", "https://${TOKEN}.example/"])
@pytest.mark.parametrize("name", ["registry", "@a:registry", "proxy"])
def test_values_with_a_password_or_a_variable_are_left_out(tmp_path: Path, name: str, value: str) -> None:
    npmrc, settings = write(tmp_path, f"{name}={value}\n", f"extra-index-url = {value}\n")
    found = find_registries(str(tmp_path), {})
    assert (found.npmrc, found.env) == ("", ())
    assert found.left_out == ("PIP_EXTRA_INDEX_URL", f"{name} in npmrc")
    assert files_with_secrets(str(tmp_path), {}, is_npm=True) == (str(npmrc),)
    assert files_with_secrets(str(tmp_path), {}, is_npm=False) == (str(settings),)


def test_files_that_are_shown_are_read_inside(tmp_path: Path) -> None:
    (tmp_path / "a.pem").touch()
    url = "https://me:canary@example/"
    npmrc, settings = write(tmp_path, f"registry={url}\ncafile=~/a.pem\n", f"index-url = {url}\ncert = ~/a.pem\n")
    found = find_registries(str(tmp_path), {}, ("~/.npmrc", str(settings)))
    assert found.env == (f"NPM_CONFIG_USERCONFIG={npmrc}", f"PIP_CONFIG_FILE={settings}")
    assert (found.files, found.npmrc, found.left_out) == ((str(tmp_path / "a.pem"),), "", ())


def test_the_environment_has_precedence(tmp_path: Path) -> None:
    write(tmp_path, pip="index-url = https://file.example\n")
    assert find_registries(str(tmp_path), {"PIP_INDEX_URL": "https://own.example"}).env == ("PIP_INDEX_URL=https://own.example",)


@pytest.mark.parametrize("name", ["//x/:_authToken", "_auth", "//x/:_password", "//x/:keyfile", "key"])
def test_secrets_of_npm_are_found_by_name(tmp_path: Path, name: str) -> None:
    npmrc, _ = write(tmp_path, f"registry=https://npm.example/\n{name}=canary\n")
    assert files_with_secrets(str(tmp_path), {}, is_npm=True) == (str(npmrc),)
    assert files_with_secrets(str(tmp_path), {}, is_npm=False) == ()


def test_secrets_in_variables_are_found_by_name(tmp_path: Path) -> None:
    lines = ("//a/:_authToken=${TOKEN}", "//b/:_auth=${OTHER?}", "//c/:_auth=${UNSET}", "cafile=${HOME}/x", "; ${NOTE}")
    write(tmp_path, "\n".join(lines))
    secret, plain = "https://me:canary@example/", "https://example/"
    environ = dict.fromkeys(("TOKEN", "OTHER", "NOTE", "HOME", "MORE"), "x")
    environ |= {"npm_config_registry": secret, "NPM_CONFIG_REGISTRY": plain}
    environ |= {"PIP_INDEX_URL": secret, "PIP_EXTRA_INDEX_URL": plain}
    assert variables_with_secrets(str(tmp_path), environ, is_npm=True) == ("npm_config_registry", "TOKEN", "OTHER")
    assert variables_with_secrets(str(tmp_path), environ, is_npm=False) == ("PIP_INDEX_URL",)
