OTHERS = ("backgammon", "backgammon,reward=2.5", "hypergammon")
FUZZED = "tests.families.backgammon.test_records:FUZZED"
