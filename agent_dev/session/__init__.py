"""Sessions: records, locks, events, and how long they are kept."""
