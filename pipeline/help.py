"""What each command says of itself with --help: what it does, reads and writes, its exit codes, an example.

The options and their texts are the fields of config.py.
"""

HELP = {
    "init": """Make a model with random weights: where every run begins.

\b
Reads:   nothing
Writes:  a model directory, and best_model beside it if there is none yet
Exit:    0 made, 1 the directory exists already or best_model plays another game, 2 wrong usage
Example: python main.py init --game go:9 --network-size b2c32 --new-model saved_models/000000-init
""",
    "selfplay": """Let a model play itself and record the games.

Finished games are written about once a second; a kill loses only the games that were being played.

\b
Reads:   a model directory (--network)
Writes:  data/selfplay/MODEL/WORKER/*.gz, each with a .meta beside it that commits it
Exit:    0 played (or nothing missing with --top-up), 1 failed, 2 wrong usage
Example: python main.py selfplay --games 100 --readouts 32
""",
    "gather": """Draw training positions from the newest games, shuffled into chunks.

The window is the newest --max-positions positions; each has the same chance to be drawn (--surprise-weight: some more
than others). Damaged shards are skipped, named and counted. A rerun finds finished chunks and makes only the missing
ones.

\b
Reads:   data/selfplay/*/*/*.gz with .meta
Writes:  a set of chunks in data/training_data/*.h5, and one of games held out from training
Exit:    0 made, 1 failed or fewer positions than the chunks need, 2 wrong usage,
         75 no games yet or fewer than --min-positions
Example: python main.py gather --max-positions 100000 --as-many-as-possible
""",
    "train": """Train a new model on the newest set of chunks.

An interrupted run resumes from its checkpoint and ends with the same weights as an uninterrupted one.

\b
Reads:   data/training_data/*.h5 and the model to start from (--original-model)
Writes:  a new directory in saved_models/, TensorBoard events in data/logs/
Exit:    0 trained, 1 failed, 2 wrong usage, 75 no chunks yet or too few for --max-samples-per-position
Example: python main.py train --epochs 2
""",
    "evaluate": """Play a match of the newest model against the champion; promote it if it wins enough.

Half of the games with each colour, every opening played both ways. Finished games of an interrupted match count; only
the missing ones are played. The match stops as soon as the verdict can't change any more.

Of the lines printed, pairs counts the pairs of games that brought 0, ½, 1, 1½ and 2 points; tail probability is the
chance that an equal player does so well (over games, or over pairs if some were drawn), false promotion the chance
that an equal one passes, power that one 35 Elo stronger does.

\b
Any two players can meet; only models can be promoted:
  PATH, PATH@READOUTS, policy:PATH   a model, with its search or its raw policy
  random, heuristic                  built in
  gtp:COMMAND                        an engine, e.g. 'gtp:gnugo --mode gtp --level 1 --chinese-rules'
  NAME=PLAYER                        any of these under a name of your own

\b
Reads:   two players (--black-model the champion, --white-model the challenger)
Writes:  data/evaluate/CHALLENGER-vs-CHAMPION/, and saved_models/best_model after a win
Exit:    0 played (won or lost), 1 failed, 2 wrong usage,
         75 no new challenger, or another process is playing this match
Example: python main.py evaluate --games 100 --readouts 32 --require 'random>=0.95'
""",
    "ratings": """Rate every player of every match: Elo with error bars, from all games that were recorded.

Bradley-Terry fits all games at once; elo and trueskill go through the matches in the order of time. Always computed
from the match records, so the ratings file may be deleted. Ratings of two blocks don't compare: no games connect them.
With --directory, which must exist, the table is only printed: give --output, too, to keep those ratings in a file.

\b
Reads:   data/evaluate/*/, data/evaluate/required/*/, data/tournament/*/
Writes:  data/ratings.json
Exit:    0 rated, 1 failed, 2 wrong usage, 75 no games yet
Example: python main.py ratings --anchor random=0
""",
    "tournament": """Let players meet each other to find out how strong they are, without promoting anybody.

By default it plays whoever tells most about the ratings; with --place it finds one player's place among the others.
The folder will hold --games games of these players in all (with --place, of that player against the others): the same
command again plays what is missing. The table has these players, with errors relative to their mean, as for --until.

\b
Reads:   players (--player, as in evaluate), or the pool
Writes:  data/tournament/ONE-vs-OTHER/, and data/ratings.json
Exit:    0 played, 1 failed, 2 wrong usage,
         75 fewer than two players in the pool, or another process plays this tournament
Example: python main.py tournament --player random --player heuristic --player saved_models/best_model --games 60
""",
    "engine": """Answer a protocol with a model's moves, so that other programs can play against it.

gomocup: the protocol of Gomocup and Piskvork, for Gomoku. A manager starts this command and talks to it over standard
input and output. Its time limits are kept; a line that makes no sense is answered with ERROR and changes nothing.
Run it once by hand before a tournament (type START and the size, BEGIN, END): kernels are compiled and inference is
measured when a machine sees them first, which may take longer than a manager waits.

\b
Reads:   a model, commands on standard input
Writes:  answers on standard output
Exit:    0 ended by the manager, 1 failed, 2 wrong usage
Example: python main.py engine --protocol gomocup --model saved_models/best_model --readouts 400
""",
    "bench": """Measure this machine: network, self-play, gathering and training, each against its ceiling; or, with
`bench evaluate`, a match in batches against the same games one after another.

selfplay share: its evaluations of what the bare network does with the same batches. tree simulations: the same without
a network. train share: steps fed from chunks, of steps on one batch in memory. Gathering 200,000 positions and
compiling take a minute or more, whatever --seconds.

\b
Reads:   nothing
Writes:  nothing but temporary files
Exit:    0 measured, 1 failed, 2 wrong usage
Example: python main.py bench --game go:9 --network-size b2c32 --seconds 5
""",
}
