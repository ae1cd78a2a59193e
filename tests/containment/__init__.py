"""One test per known escape, run in the real sandbox; docs/containment.md is generated from them."""
