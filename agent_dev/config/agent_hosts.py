"""The hosts of an agent's profile as network rules: `agent.hosts` are allowed, `agent.telemetry` are denied. Pure."""

from agent_dev.config.profile import BUILT_IN, Settings

_FIELDS = (("allow", "hosts"), ("deny", "telemetry"))


def add_agent_hosts(settings: Settings) -> Settings:
    """Return settings whose rules include the agent's own hosts; a rule that is written elsewhere keeps its origin."""
    agent = dict(settings.profile.agent)
    origins = dict(settings.origins)
    fields = {}
    for field, key in _FIELDS:
        before: tuple[str, ...] = getattr(settings.profile, field)
        more = tuple(rule for rule in agent.get(key, ()) if rule not in before)
        origin = origins.get(f"agent:{key}", BUILT_IN)
        origins |= {f"{field}:{rule}": f"{origin}, agent.{key}" for rule in more}
        fields[field] = (*before, *more)
    return Settings(settings.profile.replace(**fields), origins)
