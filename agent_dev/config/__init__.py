"""Settings: profiles, their schema, strict YAML, and settings of repositories."""
