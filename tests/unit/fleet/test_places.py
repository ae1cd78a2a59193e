"""Hosts and engines, and what GNU parallel logs about their jobs."""

import pytest

from agent_dev.errors import UsageError
from agent_dev.fleet import places
from agent_dev.fleet.places import Engine, JobEnd, SshHosts

ENGINES = (("lab", "srun -Q -n1 --mem=8G"),)


def test_a_name_of_config_is_an_engine_and_others_are_hosts() -> None:
    assert places.parse_places("lab", ENGINES) == Engine("lab", ("srun", "-Q", "-n1", "--mem=8G"))
    assert places.parse_places("ada@build1,build2.lan", ENGINES) == SshHosts(("ada@build1", "build2.lan"))


@pytest.mark.parametrize("text", ["", "a,,b", "-oProxyCommand=x", "a;b", "a b", "a,a", "lab,build1", "$(x)", "a\nb", "@a"])
def test_a_name_that_is_no_host_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        places.parse_places(text, ENGINES)


def test_jobs_are_given_for_each_host_that_can_be_used() -> None:
    argv = places.parallel_argv(SshHosts(("a", "b", "c")), {"a": 2, "c": 1}, 2, "agent-dev")
    assert argv[argv.index("-S") + 1] == "2/a,1/c"
    assert argv[argv.index("--retries") + 1] == "3"
    assert argv[-1] == "agent-dev work"


@pytest.mark.parametrize(
    ("line", "end"),
    [
        ("Seq\tHost\tStarttime\tJobRuntime\tSend\tReceive\tExitval\tSignal\tCommand", None),
        ("3\tbuild1\t1.5\t  0.7\t2\t24\t0\t0\tagent-dev work", JobEnd(3, "build1", 0)),
        ("4\tbuild1\t1.5\t  0.7\t2\t24\t255\t0\ta\tb", JobEnd(4, "build1", 255)),
        ("5\tbuild1\t1.5\t  0.7\t2\t24\t0\t25\tx", JobEnd(5, "build1", 1)),
        ("", None),
        ("x", None),
    ],
)
def test_the_end_of_a_job_is_read_from_the_log(line: str, end: JobEnd | None) -> None:
    assert places.parse_job_end(line) == end


@pytest.mark.parametrize(
    ("line", "start"), [("3 2/build1", (3, "build1")), ("3 build1", (3, "build1")), ("4 :", (4, "")), ("", None)]
)
def test_the_start_of_a_job_is_read_from_its_note(line: str, start: tuple[int, str] | None) -> None:
    assert places.parse_start(line) == start
