"""Credentials of a run: the broker's options, and what `show` and the start say about them."""

from agent_dev.config.credentials import HTTPS, parse_credentials
from agent_dev.config.profile import BUILT_IN, GATEWAY_NETS, Profile, Settings
from agent_dev.errors import CannotStart
from agent_dev.network.broker import sources, trust_files
from agent_dev.network.broker.options import BrokerOptions
from agent_dev.network.gateway_options import GatewayOptions
from agent_dev.network.handle import setup_failure
from agent_dev.run.request import PreparedRun
from agent_dev.session import store


def with_broker(
    options: GatewayOptions, prepared: PreparedRun, session: store.Session, environ: dict[str, str]
) -> GatewayOptions:
    """Return the gateway's options with credentials, whose hosts can be reached; create the files with authorities."""
    trust_files.create_files(session.folder)
    broker = _broker_options(prepared, environ, session.folder)
    hosts = (f"{one.host}:{HTTPS}" for one in broker.credentials)
    return options.replace(allow=(*options.allow, *hosts), broker=broker)


def _broker_options(prepared: PreparedRun, environ: dict[str, str], folder: str) -> BrokerOptions:
    return BrokerOptions(
        credentials=parse_credentials(prepared.settings.profile.credentials),
        stand_ins=dict(prepared.stand_ins),
        environ=environ,
        home=prepared.machine.home,
        untrusted=(*prepared.untrusted_paths, *prepared.ro, *prepared.tools, *prepared.caches),
        folder=folder,
    )


def missing_key(prepared: PreparedRun, environ: dict[str, str]) -> CannotStart | None:
    """Return why the run would not start without a key that cannot be read. Commands that print keys are not run."""
    if not prepared.stand_ins:
        return None
    options = _broker_options(prepared, environ, folder="")
    try:
        for one in options.credentials:
            sources.check_source(one, options)
    except sources.NoKey as error:
        return setup_failure(str(error))
    return None


def credential_rows(settings: Settings) -> list[tuple[str, str, str]]:
    """Return a row of `show` for each credential: no key, only where it comes from."""
    profile = settings.profile
    unused = "" if profile.net in GATEWAY_NETS else f" (not used with net: {profile.net})"
    return [
        ("credential", f"{one}{unused}", settings.origins.get(f"credentials:{one.name}", BUILT_IN))
        for one in parse_credentials(profile.credentials)
    ]


def host_credential(settings: Settings, host: str) -> tuple[str, str]:
    """Return a sentence about the credential of a host, and its origin; empty if it has none."""
    found = [one for one in parse_credentials(settings.profile.credentials) if one.host == host]
    if not found:
        return "", ""
    return f"with the credential {found[0]}", settings.origins.get(f"credentials:{found[0].name}", BUILT_IN)


def unused_notice(profile: Profile) -> str:
    """Return a notice if the network of a profile cannot use its credentials."""
    if profile.net != "host":
        return ""
    names = ", ".join(name for name, _ in profile.credentials)
    return f"credentials {names}: not used with net: host, and their variables are not passed through (--net allow)"
