SPECS = ("go:5", "go:5,moves=200", "go:7", "go:9", "go:9,komi=7", "go:13", "go:19")
