"""agent-dev in a rootless podman container, and a CI job in one. The image is imported; it shows the programs of this machine."""

import os
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import has_cgroups_of_version_2
from tests.harness.program import PROGRAM, AgentDev
from tests.sandbox.recipes.test_recipes import RECIPES, run_recipe

pytestmark = pytest.mark.only_rootless_podman
IMAGE = "localhost/agent-dev:1"
FLAGS = ("--security-opt seccomp=unconfined", "--security-opt unmask=ALL")
ENGINE = """\
#!/bin/sh
exec /usr/bin/podman --root {folder}/store --runroot {runroot} --cgroup-manager cgroupfs {runtime} "$@"
"""


class Engine:
    """podman with a store of the test's own, and an image whose programs are those of this machine."""

    def __init__(self, folder: Path, runroot: str, agent_dev: AgentDev) -> None:
        self.folder, self.agent_dev = folder, agent_dev
        runtime = "" if has_cgroups_of_version_2() else "--runtime runc"  # crun refuses both versions together
        self.program = folder / "bin/podman"
        self.program.parent.mkdir()
        self.program.write_text(ENGINE.format(folder=folder, runroot=runroot, runtime=runtime))
        self.program.chmod(0o755)
        shown = (("/usr", "/usr"), (os.path.dirname(PROGRAM.parent), "/opt/agent-dev"), *((path, path) for path in _sources()))
        mounts = " ".join(f"--volume {source}:{target}:ro" for source, target in dict.fromkeys(shown))
        self.options = f"--network host --env PATH={PROGRAM.parent}:/usr/bin:/bin {mounts}"
        (folder / "run-time").mkdir(mode=0o700)
        self._import()

    def environment(self, options: str) -> dict[str, str]:
        env = self.agent_dev.environment({"XDG_RUNTIME_DIR": str(self.folder / "run-time"), "PODMAN_OPTIONS": options})
        return {**env, "PATH": f"{self.program.parent}:{env['PATH']}"}

    def _import(self) -> None:
        path = self.folder / "image.tar"
        with tarfile.open(path, "w") as tar:
            for name in ("tmp", "var/tmp", "proc", "sys", "dev", "run", "etc", "usr"):
                entry = tarfile.TarInfo(name)
                entry.type, entry.mode = tarfile.DIRTYPE, 0o1777 if name.endswith("tmp") else 0o755
                tar.addfile(entry)
            for name in ("bin", "sbin", "lib", "lib64"):
                entry = tarfile.TarInfo(name)
                entry.type, entry.linkname = tarfile.SYMTYPE, f"usr/{name}"
                tar.addfile(entry)
            for name in ("passwd", "group", "nsswitch.conf", "ld.so.cache"):
                tar.add(f"/etc/{name}", f"etc/{name}")
        self.podman("import", "-q", str(path), IMAGE)

    def podman(self, *words: str) -> None:
        subprocess.run([self.program, *words], env=self.environment(""), check=True, capture_output=True, timeout=120)

    def run(
        self, *words: str | Path, options: str = "", recipe: Path = RECIPES / "container.sh"
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["/bin/sh", recipe, IMAGE, *words],
            cwd=self.agent_dev.repo,
            env=self.environment(f"{self.options} {options}"),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )


def _sources() -> tuple[str, ...]:
    """Return the folders of the environment and of the checkout, which the program needs."""
    return (sys.prefix, str(Path(__file__).parents[3]))


@pytest.fixture
def engine(agent_dev: AgentDev, tmp_path: Path) -> Iterator[Engine]:
    """Yield the engine; its store holds files of other user IDs and is removed by podman."""
    with tempfile.TemporaryDirectory(prefix="ad-") as runroot:  # podman accepts at most 50 characters
        made = Engine(tmp_path, runroot, agent_dev)
        yield made
        made.podman("system", "reset", "--force")


def test_a_job_in_a_container_is_imported_and_merged_at_home(engine: Engine, tmp_path: Path) -> None:
    artifacts = tmp_path / "artifacts"
    artifacts.mkdir()
    options = f"--volume {artifacts}:{artifacts} --volume {RECIPES}:{RECIPES}:ro"
    done = engine.run("/bin/sh", RECIPES / "ci-step.sh", artifacts, options=options)
    assert done.returncode == 0, done.stdout + done.stderr
    assert (engine.agent_dev.repo / "answer.txt").read_text() == "42\n"
    clone = AgentDev(engine.agent_dev.home, tmp_path / "clone")
    subprocess.run(["git", "clone", "-q", engine.agent_dev.repo, clone.repo], check=True, env=clone.environment())
    run_recipe(clone, "ci-import.sh", str(artifacts))
    assert (clone.repo / "other.txt").read_text() == "wrong\n"


def test_doctor_names_the_flags_that_a_container_lacks(engine: Engine, tmp_path: Path) -> None:
    recipe = (RECIPES / "container.sh").read_text()
    for missing in FLAGS:
        path = tmp_path / "without.sh"
        path.write_text(recipe.replace(missing, ""))
        done = engine.run("agent-dev", "doctor", recipe=path)
        assert f"start it with {missing}\n" in done.stdout, done.stdout + done.stderr
    path.write_text(recipe.replace(FLAGS[0], "").replace(FLAGS[1], ""))
    assert f"start this container with {' '.join(FLAGS)}\n" in engine.run("agent-dev", "--", "true", recipe=path).stderr
    assert "this container: permits sandboxes" in engine.run("agent-dev", "doctor").stdout
