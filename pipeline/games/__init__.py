"""Rules of the games: arrays in, arrays out. Knows no search, network or file."""
