"""What ``main.py`` and each of its commands say with --help: purpose, what is read and written, exit codes, an example.

The options and their texts are the fields of config.py. A line with a lone \\b keeps the line breaks of its paragraph.
{players} and {protocols} stand for lists of what plug-ins offer, which main.py fills in when they are shown.
"""

ABOUT = """MuGo: self-play training for board games, as four commands that talk through files.

\b
selfplay -> data/selfplay -> gather -> data/training_data -> train -> saved_models -> evaluate -> best_model

Start with `python main.py init`, or let ./rl_loop.sh run everything in order. Every command may be killed at any moment
and run again. Exit codes: 0 done, 1 failed, 2 wrong usage, 75 nothing to do yet, 130 Ctrl-C, 143 SIGTERM.
"""

HELP = {
    "init": """Make a model with random weights: every run begins with one.

\b
Reads:   nothing, or the model of --original-model or --base-model
Writes:  a model directory, and best_model beside it if there is none yet
Exit:    0 made, 1 the directory exists already or best_model plays another game, 2 wrong usage
Example: python main.py init --game go:9 --network-size b2c32 --new-model saved_models/000000-init
""",
    "selfplay": """Let a model play games against itself and record them.

Finished games are written about once a second, so a kill loses only the games still being played.

\b
Reads:   a model directory (--network)
Writes:  data/selfplay/MODEL/WORKER/*.gz, each with a .meta file beside it that commits it
Exit:    0 played, or nothing left to play with --top-up, 1 failed, 2 wrong usage,
         75 another process plays as this worker, --max-lead is reached, or with --wait nobody plays
Example: python main.py selfplay --games 100 --readouts 32
""",
    "gather": """Sample training positions from the newest games and shuffle them into chunks.

The newest --max-positions positions form the window. Every position in it is equally likely to be sampled, unless
--surprise-weight favours some. Damaged shards are skipped, named and counted. Run again, the same command keeps the
finished chunks and makes only the missing ones; of text games, whose rewards are normalised over a set, all of them.

\b
Reads:   data/selfplay/*/*/*.gz with their .meta files
Writes:  a set of chunks in data/training_data/*.h5, and one more of games held out from training
Exit:    0 made, 1 failed, fewer positions than the chunks need or none to learn from, 2 wrong usage,
         75 no games yet, fewer positions than --min-positions, or with --as-many-as-possible than one chunk
Example: python main.py gather --max-positions 100000 --as-many-as-possible
""",
    "train": """Train a new model on the newest set of chunks.

An interrupted training resumes from its checkpoint and ends with the same weights as an uninterrupted one.

\b
Reads:   data/training_data/*.h5, and the model to start from (--original-model)
Writes:  a new directory in saved_models/, TensorBoard events in data/logs/
Exit:    0 trained, 1 failed, 2 wrong usage,
         75 no new chunks yet, too few positions for --max-samples-per-position, or another process trains this model
Example: python main.py train --epochs 2
""",
    "evaluate": """Play a match between the newest model and the champion; promote the newest if it scores enough.

Each player has each colour in half of the games, and every opening is played both ways. An interrupted match keeps its
finished games; only the missing ones are played. The match stops once the remaining games can't change the decision.

The summary begins with the score, its 95 % interval and the difference in Elo. With --verbose 2 or --json: pairs counts
the pairs of games that brought 0, ½, 1, 1½ and 2 points; tail probability is the chance that an equal player scores as
well as this (over games, or over pairs if some were drawn), false promotion the chance that an equal player passes,
power the chance that a player 35 Elo stronger passes.

With --watch nobody is promoted: every new model in the folder of best_model meets others, at the lowest priority, by
four strategies with their own schedules (docs/evaluation.md): single, benchmark, ladder, tournament. It prints each
evaluation when it is finished, and runs until Ctrl-C, or with --once until no model is left. Engines that the pool
names are run only with --allow-engines.

\b
Any two players can meet; only models can be promoted:
  PATH, PATH@READOUTS, policy:PATH   a model, with search or with its raw policy
{players}
  handicap:N:PLAYER                  any of these, with N handicap stones in every game; where the game knows them
  NAME=PLAYER                        any of these under a name of your choice

\b
Reads:   two players (--black-model is the champion, --white-model the challenger)
         --watch: the models beside best_model, the pool, data/ratings.json
Writes:  data/evaluate/CHALLENGER-vs-CHAMPION/, and saved_models/best_model after a promotion
         --watch: data/evaluate/watch/, data/ratings.json, data/pool.json
Exit:    0 played (promoted or not), 1 failed, 2 wrong usage,
         75 no new challenger, or another process is playing this match;
         --watch: 75 another watcher is at work, or --once found no model to evaluate
Example: python main.py evaluate --games 100 --readouts 32 --require 'random>=0.95'
""",
    "ratings": """Rate every player from all recorded matches: Elo with error bars.

Bradley-Terry fits all games at once; elo and trueskill go through the matches in the order they were played. Ratings
are always computed from the match records, so the ratings file may be deleted. The table has one block for each group
of players connected by games; ratings from different blocks can't be compared. With --directory the table is only
printed; add --output to keep those ratings in a file.

\b
Reads:   data/evaluate/*/, data/evaluate/required/*/, data/evaluate/watch/*/, data/tournament/*/
Writes:  data/ratings.json
Exit:    0 rated, 1 failed, 2 wrong usage, 75 no games yet
Example: python main.py ratings --anchor random=0
""",
    "tournament": """Let players meet to find out how strong they are. Nobody is promoted.

By default the players whose games tell most about the ratings meet next; --place finds one player's place among the
others. --games counts all games of these players in the folder (with --place, those of that player against the
others), so the same command, run again, plays only what is missing. The table lists these players, with errors
relative to their mean, as --until uses them.

\b
Reads:   players (--player, written as for evaluate), or the pool, whose engines are run only with --allow-engines
Writes:  data/tournament/ONE-vs-OTHER/, and data/ratings.json
Exit:    0 played, 1 failed, 2 wrong usage,
         75 fewer than two players in the pool, or another process is playing this tournament
Example: python main.py tournament --player random --player heuristic --player saved_models/best_model --games 60
""",
    "engine": """Play for another program: answer a protocol with a model's moves.

\b
{protocols}

A manager starts this command and talks to it over standard input and output. The manager's time limits are kept; a line
that makes no sense is answered with an error and changes nothing. A model plays the one board size and komi that it was
trained for. Run the command once by hand before a tournament: the first time on a machine, kernels are compiled and
inference is measured, which may take longer than a manager waits.

\b
Reads:   a model, commands on standard input
Writes:  answers on standard output
Exit:    0 ended by the manager, 1 failed, 2 wrong usage
Example: python main.py engine --protocol gtp --model saved_models/best_model --readouts 400
""",
    "play": """Play a game in the terminal against a model, a built-in player or GNU Backgammon.

Moves are typed in the game's notation (D4, pass, 24/18 13/11); the board is drawn after each. hint shows the moves that
a model considers, undo takes back a move and its reply, sgf FILE saves the game, help lists what else can be typed. The
first time on a machine, kernels are compiled and inference is measured, which takes a while.

\b
Reads:   a model; moves and commands on standard input
Writes:  boards on standard output; records where sgf FILE says so
Exit:    0 ended by quit or the end of the input, 1 failed, 2 wrong usage, 130 Ctrl-C
Example: python main.py play --model heuristic --game gomoku:9 --colour w
""",
    "serve": """Play against a model in the browser, and look at what it thinks.

The page lets you play Go, Gomoku, Othello, shogi, connect four and tic-tac-toe against models, heuristic and random,
with hints, win rates, territory, undo and records, and backgammon on a board of its own; docs/play.md describes both.
It is served to this machine only, needs no network, and lives as long as the command: Ctrl-C ends it, and the games
with it. Needs the extra `serve`, which ./play.sh installs.

\b
Reads:   models
Writes:  nothing
Exit:    1 a model can't be loaded, the port is taken or the extra is missing, 2 wrong usage, 130 ended by Ctrl-C
Example: python main.py serve --model saved_models/best_model --readouts 400
""",
    "bench": """Measure this machine: inference, self-play, gathering and training, each against its ceiling.

Self-play is measured against the bare network on the same batches, training on chunks against training on one batch in
memory. Gathering 200,000 positions and compiling take a minute or more, whatever --seconds is. `bench evaluate`
compares a match played in batches with the same games played one after another.

\b
Reads:   --model, --preset
Writes:  temporary files only
Exit:    0 measured, 1 failed, 2 wrong usage
Example: python main.py bench --game go:9 --network-size b2c32 --seconds 5
""",
    "show": """Print one of MuGo's files for a person; without a path, the state of the run in this folder.

--mat prints games of backgammon as .mat, --kif, --csa and --usi those of shogi. FILE.mat, and of shogi FILE.kif, .kifu,
.csa, .usi and .sfen, are shown like a match, whichever program wrote them.
--sgf prints the games of a shard or match instead, as SGF that Sabaki and other programs open: each move with its
visits and the winrate before it, and black's winrates as a graph. --sgf-output writes a file a game. A folder stands
for its newest match or shard.

\b
Reads:   a game shard (.gz), its .meta file, a chunk (.h5), a model directory, a match directory, promotions.jsonl,
         ratings, a pool, an evaluation of --watch, a pack, or the folder of a run
Writes:  nothing, except with --sgf-output: records in that folder
Exit:    0 shown, 1 missing, damaged or not one of MuGo's files, 2 wrong usage
Example: python main.py show saved_models/best_model
""",
    "export": """Copy a model to give away: weights in 16 bits, nothing that only training needs, its measured strength.

Half the size, and the same player but for rounding. All commands take the copy as they take any other model, training
included. --match names matches that the model played; their results stand in the copy's model.json.

\b
Reads:   the model, and matches given with --match
Writes:  the new directory
Exit:    0 done, 1 failed, 2 wrong usage
Example: python main.py export saved_models/best_model mine --match data/evaluate/000018-b6c48-vs-gnugo
""",
    "status": """Show on one screen where a run stands, whether it is running, finished, or a copy from elsewhere.

Generation, the stage at work, champion, speed, window, losses, the last match, ratings, disk, workers, and warnings:
damaged files, no new games, a rising hold-out loss, a disk that will soon be full. Everything comes from the run's
files. Which stage is at work shows in the locks held on this machine and in the newest games; where they don't tell,
it says unknown. Rates are those of the last hour that has games. Damaged files are named and left out.

\b
Reads:   data/ and saved_models/ of the run
Writes:  nothing
Exit:    0 shown, 1 no run in this folder, 2 wrong usage, 130 --watch ended by Ctrl-C
Example: python main.py status runs/go9 --watch
""",
    "report": """Write one page about a run for the browser: everything in one file, which needs no network.

Elo with error bars, losses, agreement of policy and search, entropy, length and ends of games, colour balance,
resignations, where the time went, ratings, matches, and some games to step through. Works on a run that is going on,
finished, or copied from elsewhere. Of very many shards a sample is read. Damaged files are named and left out.

\b
Reads:   data/ and saved_models/ of the run
Writes:  the page, report.html
Exit:    0 written, 1 no run in this folder or the page can't be written, 2 wrong usage
Example: python main.py report runs/go9 -o go9.html
""",
    "compact": """Pack the games of old generations: a few large files instead of very many small ones.

Shards of all generations but the newest go into packs of 64 MiB, a worker's in each, in order. Every shard keeps its
name, its bytes and its place in the order, so windows, chunks, counts and reports stay exactly as they are, and each
can still be shown by its name. Runs beside self-play, gather and all other commands, also on other machines; they see
every game once. A kill at any moment loses nothing, and the same command goes on.

\b
Reads:   data/selfplay/*/*/*.gz with their .meta files
Writes:  packs there, and removes the files that they replace
Exit:    0 packed, or nothing to pack, 1 failed, 2 wrong usage, 75 another process packs or prunes these games
Example: python main.py compact runs/go9
""",
    "prune": """List what no window, training or report can need any more; with --apply, remove it.

Games: the newest positions stay, as many as the largest window of any set of chunks or of the newest 100 models may
hold, and at least 2,500,000; so do the two newest generations and what no gather has counted. Of each older generation
a sample stays for reports, and every total stays what it was. A preset with a larger window, or one that grows by a
schedule, may want games that are gone: --keep-positions. Chunks: the newest complete set stays, and all as long as a
training has begun. Further: checkpoints of trainings that have ended or that a newer model has overtaken, temporary
files of killed processes.

Models, matches, ratings, the pool and promotions are never removed. Runs beside all other commands; a kill at any
moment leaves a run that the same command goes on to prune.

\b
Reads:   data/ and saved_models/ of the run
Writes:  nothing; with --apply data/selfplay/pruned.json, packs of the games that stay, and it removes what it lists
Exit:    0 done, 1 failed, 2 wrong usage, 75 another process packs or prunes these games
Example: python main.py prune runs/go9
""",
    "verify": """Check everything that is promised of a run's files.

Every sidecar has its shard, every game is legal and ended as recorded, none stands twice; counts and checksums are
right; no game of a hold-out is in its chunks; models are readable; best_model is the last promotion, and every
promotion is decided again from the games of its match; nothing of killed processes is left over. Reads every file
once, which takes long after months: --newest 2500000 checks the newest positions and what belongs to them. --repair
removes what is left over, and nothing that counts.

\b
Reads:   data/ and saved_models/ of the run
Writes:  nothing; with --repair it removes what killed processes left behind
Exit:    0 all is well, 1 problems, each in a line, or no run in this folder, 2 wrong usage
Example: python main.py verify runs/go9
""",
    "pool": """Print or change the pool of opponents, which plays tournaments and self-play's --opponents pool:MODE.

When the pool is full, its lowest rated member leaves, but never the one just added, a built-in player or the champion
of its folder. An unrated member counts as the mean of all rated players; among equals the oldest member leaves. A model
without @READOUTS takes the rating it earned over the most games.

\b
Reads:   data/pool.json, data/ratings.json
Writes:  data/pool.json
Exit:    0 done, 1 failed, 2 wrong usage
Example: python main.py pool add saved_models/best_model
""",
    "attach": """Make a folder the working copy of a run in object storage, and print it.

Commands that begin in that folder work on the run in the bucket: what they commit is there first, what they need is
brought from there. The folder is a cache and may be removed when nothing runs in it. An address in an option of another
command, e.g. gather --directory s3://bucket/runs/go9/data/selfplay, moves that command to the run at that address.
Addresses are s3://, gs:// (Google) or az:// (Azure). Needs the extra cloud; credentials are those of the environment:
AWS_ACCESS_KEY_ID, AWS_PROFILE, AWS_ENDPOINT_URL, GOOGLE_APPLICATION_CREDENTIALS, AZURE_STORAGE_CONNECTION_STRING, …

\b
Reads:   the names in the bucket; with --whole all of the run
Writes:  the folder
Exit:    0 done, 1 the store can't be reached, refuses or doesn't honour conditional writes, 2 wrong usage
Example: python main.py attach s3://bucket/runs/go9 runs/go9
""",
    "presets": """List the presets with what each needs and gives, or print one of them.

\b
Reads:   pipeline/presets/*.yaml
Writes:  nothing
Exit:    0 shown, 2 no such preset
Example: python main.py presets go9-tour
""",
}
