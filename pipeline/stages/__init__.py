"""The commands' work: each stage is one function, config in, summary out."""
