"""One test for each way out that is known, tried inside the real sandbox; docs/containment.md is made from them."""
