"""Decide how an agent runs containers, and refuse what cannot work."""

import os

from agent_dev.config.profile import Profile
from agent_dev.errors import Refused
from agent_dev.sandbox import landlock_probe
from agent_dev.sandbox.containers import requirements, support
from agent_dev.sandbox.plan import Machine


def prepare_containers(profile: Profile, machine: Machine, python: str, agent_home: str) -> support.ContainerSupport:
    """Return the support for containers in a run. Raises Refused if they cannot work.

    `python`: one that the sandbox shows, "" for none. `agent_home`: its path on the host.
    """
    if not profile.nested:
        raise Refused(message="containers need namespaces and mounts, which `nested: false` forbids", hint="nested: true")
    if "docker" in profile.share:
        raise Refused(message="containers and `share: docker` both set DOCKER_HOST", hint="use one of them")
    if machine.is_root:
        raise Refused(message="root's agents cannot run containers, which need a /proc of their own", hint="use another user")
    missing = requirements.missing_programs()
    if missing:
        raise Refused(message=f"containers need {' and '.join(missing)}", hint=requirements.REMEDY)
    if not python:
        raise Refused(message="containers need a Python below /usr, which the sandbox shows")
    problem = requirements.network_problem(profile.net)
    return support.ContainerSupport(
        podman=requirements.find_system_program("podman"),
        python=python,
        script=landlock_probe.read_script(*support.SCRIPT_PARTS),
        runtime_script=_runtime_script(python),
        helper="" if problem else requirements.network_helper(),
        device="" if problem else requirements.TUN,
        uid=machine.uid,
        images=f"{machine.home}/{support.KEPT_IMAGES}" if os.path.isdir(f"{agent_home}/{support.KEPT_IMAGES}") else "",
        problem=problem,
    )


def _runtime_script(python: str) -> bytes:
    crun = requirements.find_system_program("crun")
    return b"#!%s -ISB\nCRUN = %a\n%s" % (os.fsencode(python), crun, landlock_probe.read_script(support.RUNTIME_PART))
