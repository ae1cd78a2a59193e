"""A filter for the user's ssh-agent: permits only the keys, hosts and purposes that `ssh:` names."""
