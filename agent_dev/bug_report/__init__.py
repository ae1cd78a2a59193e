"""Reports for bug reports: what machine this is, with paths and secrets masked."""
