"""Trees over arrays. Knows games only through their batched verbs, networks only as a callable."""
