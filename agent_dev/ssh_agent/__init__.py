"""A filter in front of the user's ssh-agent: the keys, hosts and purposes that `ssh:` names, nothing else."""
