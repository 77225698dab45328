"""Every file name and format: shards, chunks, model directories, match results, atomic writes."""
