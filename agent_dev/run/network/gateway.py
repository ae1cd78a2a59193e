"""The gateway of a run with a network of the sandbox's own: start it, record its log, and say what it saw."""

from agent_dev.config.load import remembered_path
from agent_dev.environment import PROXY_ENV
from agent_dev.errors import CannotStart
from agent_dev.fs import cache
from agent_dev.network.gateway_options import LOG, GatewayOptions, file_mark
from agent_dev.network.handle import GatewayHandle
from agent_dev.network.published.listening import local_listening_ports
from agent_dev.notification import NotificationSettings
from agent_dev.run.request import PreparedRun
from agent_dev.sandbox.supervisor_interface import GatewayReport
from agent_dev.session import store

# Servers that developers run on their own machine; localhost is the sandbox's own, so an agent does not find them.
_DATABASES = {
    1433: "SQL Server",
    3306: "MySQL",
    5432: "PostgreSQL",
    5672: "RabbitMQ",
    6379: "Redis",
    9042: "Cassandra",
    9200: "Elasticsearch",
    11211: "memcached",
    27017: "MongoDB",
}


def start_gateway(prepared: PreparedRun, session: store.Session, environ: dict[str, str], *, can_ask: bool) -> GatewayHandle:
    """Start the gateway of a session early. Without `can_ask`, `ask` is like `allow`: nobody would find the questions."""
    profile = prepared.settings.profile
    _check_local_ports(profile.allow)
    untrusted = (*prepared.untrusted_paths, session.folder)
    remembered = remembered_path(prepared.machine.home, environ, profile.name)
    options = GatewayOptions(
        mode="allow" if profile.net == "ask" and not can_ask else profile.net,
        allow=profile.allow,
        deny=profile.deny,
        folder=session.folder,
        remembered=remembered,
        remembered_mark=file_mark(remembered),
        ask_seconds=profile.ask_seconds,
        notifications=NotificationSettings(profile.notify, profile.notify_command, environ, untrusted),
        publish=profile.publish,
        upstream_ca=prepared.upstream_ca,
        published_file=f"{session.folder}/{store.PUBLISHED}",
        libraries_file=f"{cache.folder(environ)}/gateway.json",
    )
    has_variables = any(environ.get(name) for name in PROXY_ENV)
    if profile.net != "none" and (profile.upstream_proxy or has_variables):
        from agent_dev.network.upstream.settings import find_proxy  # most machines have no proxy

        proxy, exceptions = find_proxy(profile, environ)
        options = options.replace(proxy=proxy, no_proxy=exceptions)
    if prepared.stand_ins:
        from agent_dev.run.network import credentials  # most users have no credentials

        options = credentials.with_broker(options, prepared, session, environ)
    return GatewayHandle(options)


def _check_local_ports(allow: tuple[str, ...]) -> None:
    """Raise CannotStart if one port inside would lead to two ports of this machine."""
    texts = [rule for rule in allow if rule.startswith("localhost:")]
    if len(texts) < 2:
        return
    from agent_dev.config.network_rules import LocalRule, parse_rule  # most runs have no such rule, or one

    seen: dict[int, LocalRule] = {}
    for rule in map(parse_rule, texts):
        if isinstance(rule, LocalRule):
            other = seen.setdefault(rule.inside, rule)
            if other.port != rule.port:
                text = f"allow: {other.text} and {rule.text}: port {rule.inside} inside can lead to only one port"
                raise CannotStart(message=text, hint=f"give one of them another port inside: localhost:{rule.port} as PORT")


def record_log(session: store.Session, record: store.Record, report: GatewayReport) -> store.Record:
    """Return the session's record with the end of the log of its connections."""
    from agent_dev.session import events  # after the run
    from agent_dev.session.hash_chain import ChainEnd  # as above

    end = ChainEnd(report.count, report.chain, report.dropped)
    return {**record, "network": events.extend_log_record(f"{session.folder}/{LOG}", record.get("network"), end)}


def end_notices(report: GatewayReport | None, *, is_kept: bool) -> tuple[str, ...]:
    """Return what the user should know about the network at the end of a run."""
    if report is None:
        return ("the sandbox's gateway ended before the agent; from then on nothing was reachable",)
    lines = []
    if report.denied:
        plural = "s were" if report.denied > 1 else " was"
        lines.append(f"{report.denied} connection{plural} denied" + (" (agent-dev log --network --denied)" if is_kept else ""))
    if report.learned:
        rules = ", ".join(f'"{rule}"' if ":" in rule else rule for rule in report.learned)
        lines.append(f"learned {len(report.learned)} rule{'s' if len(report.learned) > 1 else ''}; allow: [{rules}]")
    return tuple(lines)


def start_hints(allow: tuple[str, ...]) -> tuple[str, ...]:
    """Return a hint about each database that listens on this machine's loopback and that no rule names."""
    listening = local_listening_ports()
    named = {rule.removeprefix("localhost:").partition(" ")[0] for rule in allow if rule.startswith("localhost:")}
    return tuple(
        f"{name} listens on localhost:{port}, which the agent does not reach; --allow localhost:{port}"
        for port, name in _DATABASES.items()
        if port in listening and str(port) not in named
    )
