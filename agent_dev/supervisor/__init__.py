"""The supervisor of system calls: commands under a policy, and renames of directories (seccomp_unotify(2))."""
