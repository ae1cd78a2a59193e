"""An agent that runs each line of its input and reports what it sees, and checkpoints of its session."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from tests.harness.program import PYTHON, AgentDev

if TYPE_CHECKING:
    import subprocess


def shown(process: "subprocess.Popen[str]") -> dict[str, str]:
    """Return the entries of the repository as a running sandbox sees them."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write("look\n")
    process.stdin.flush()
    found: dict[str, str] = {}
    while (row := process.stdout.readline()) != "end\n":
        assert row, "the agent has ended"
        path, _, rest = row.rstrip("\n").partition("\t")
        found[path] = rest
    return found


LOOK = (
    "import os,stat,sys,hashlib\n"
    "def attributes(p): return str(sorted((n,os.getxattr(p,n)) for n in os.listxattr(p)))\n"
    "def one(p):\n"
    "  s=os.lstat(p); m=oct(s.st_mode)\n"
    "  if stat.S_ISLNK(s.st_mode): return m+os.readlink(p)\n"
    "  if stat.S_ISDIR(s.st_mode): return m+attributes(p)\n"
    "  if not stat.S_ISREG(s.st_mode): return m\n"
    "  d=open(p,'rb').read(); d=str(d[:20])+hashlib.sha1(d).hexdigest()\n"
    "  return m+' '+str(s.st_nlink)+' '+str(s.st_mtime_ns)+d+attributes(p)\n"  # an overlay may give hard links two st_ino
    "print('ready', flush=True)\n"
    "for line in sys.stdin:\n"
    "  if line=='look\\n':\n"
    "    for top,ds,fs in os.walk('.'):\n"
    "      if '.git' in ds: ds.remove('.git')\n"
    "      for n in ds+fs: print(top+'/'+n, one(top+'/'+n), sep='\\t')\n"
    "    print('end', flush=True)\n"
    "  else:\n"
    "    os.system(line); print('done', flush=True)\n"
)


@contextmanager
def obedient_agent(agent_dev: AgentDev) -> Iterator["subprocess.Popen[str]"]:
    """Yield an agent that runs each line of its input, and reports what it sees on `look`."""
    with agent_dev.start("--", PYTHON, "-c", LOOK) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        yield process
        process.stdin.close()
        process.wait(timeout=30)


def reported(process: "subprocess.Popen[str]", command: str) -> None:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(command + "\n")
    process.stdin.flush()
    assert process.stdout.readline() == "done\n"


def checkpoint(agent_dev: AgentDev, cwd: Path | None = None) -> str:
    """Take a checkpoint; return its number."""
    done = agent_dev("checkpoint", cwd=cwd)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()[1]
