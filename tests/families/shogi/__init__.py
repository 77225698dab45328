SPECS = ("shogi", "shogi,declaration=24,moves=300", "shogi:5")
FUZZED = "tests.families.shogi.test_kifu:FUZZED"
