"""Status and reports read from files; writes nothing else."""
