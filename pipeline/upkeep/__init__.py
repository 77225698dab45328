"""What becomes of old files: ``compact`` packs the shards of old generations, ``prune`` removes what nothing needs.

May import the commands, whose rules say what they will need, and everything below. Runs beside any other command:
packs and removals are made so that readers see every game once. Never plays or trains, never touches models, matches,
ratings, the pool or promotions.
"""
