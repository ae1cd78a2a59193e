"""Linux: system calls, processes, signals, control groups."""
