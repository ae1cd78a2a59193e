"""A Slurm cluster on this machine: slurmctld and two slurmd, as this user, on the loopback address."""

import os
import socket
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.harness.program import PATIENCE, PROGRAM, AgentDev, wait_until

NODES = ("n1", "n2")
_CONFIG = """\
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/none
CredType=cred/none
SlurmctldPort={ports[0]}
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool_%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
SelectType=select/linear
MpiDefault=none
ReturnToService=0
KillWait=2
NodeName=n1 NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[1]} CPUs=2
NodeName=n2 NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[2]} CPUs=2
PartitionName=main Nodes=n1,n2 Default=YES MaxTime=INFINITE State=UP OverSubscribe=FORCE:4
"""


@dataclass
class Slurm:
    """A running cluster. Each node has its own home directory for tasks."""

    folder: Path
    environ: dict[str, str]

    def use(self, agent_dev: AgentDev) -> None:
        """Let a user reach the cluster as the engine `lab`."""
        agent_dev.env |= {"SLURM_CONF": self.environ["SLURM_CONF"]}
        folder = Path(agent_dev.env["XDG_CONFIG_HOME"]) / "agent-dev"
        folder.mkdir(parents=True, exist_ok=True)
        unset = "unset XDG_STATE_HOME XDG_CONFIG_HOME XDG_CACHE_HOME"
        engine = f"srun -Q -n1 sh -c \\'{unset}; HOME={self.folder}/home_$SLURMD_NODENAME exec \"$@\"\\' sh".replace("\\'", "''")
        (folder / "config.yaml").write_text(f"worker: {PROGRAM}\nengines:\n  lab: '{engine}'\n")

    def home(self, node: str) -> Path:
        """Return the home directory of tasks on a node."""
        return self.folder / f"home_{node}"

    def lose(self, node: str) -> None:
        """Lose a node: its jobs end, and no more are started there."""
        words = ["scontrol", "update", f"NodeName={node}", "State=DOWN", "Reason=test"]
        subprocess.run(words, env=self.environ, check=True, timeout=PATIENCE)

    def is_idle(self) -> bool:
        """Return whether both nodes wait for jobs."""
        done = subprocess.run(["sinfo", "-h", "-o", "%T %D"], env=self.environ, capture_output=True, text=True, check=False)
        return done.stdout.split() == ["idle", "2"]


@contextmanager
def slurm(folder: Path) -> Iterator[Slurm]:
    """Run a cluster while the body runs."""
    with ExitStack() as sockets:
        ports = [sockets.enter_context(_bound()) for _ in range(3)]
    user = subprocess.run(["id", "-un"], capture_output=True, text=True, check=True).stdout.strip()
    config = folder / "slurm.conf"
    config.write_text(_CONFIG.format(folder=folder, host=socket.gethostname(), user=user, ports=ports))
    for name in ("state", *(f"{kind}_{node}" for kind in ("spool", "home") for node in NODES)):
        (folder / name).mkdir()
    cluster = Slurm(folder, {**os.environ, "SLURM_CONF": str(config)})
    commands = [["/usr/sbin/slurmctld", "-D"], *(["/usr/sbin/slurmd", "-D", "-N", node] for node in NODES)]
    daemons = []
    try:
        for command in commands:
            with (folder / "daemons.out").open("ab") as log:
                daemons.append(subprocess.Popen(command, env=cluster.environ, stdin=subprocess.DEVNULL, stdout=log, stderr=log))
        wait_until(cluster.is_idle, "the cluster", 30, 0.1)
        yield cluster
    finally:
        for daemon in reversed(daemons):
            daemon.terminate()
            try:
                daemon.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                daemon.kill()


@contextmanager
def _bound() -> Iterator[int]:
    """Yield a port that is free; it stays bound until all are found."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        yield int(one.getsockname()[1])
