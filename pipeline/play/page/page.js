// The board page. The server keeps every game and decides what is legal; this script draws it (see app.py, table.py).
// What depends on the kind of board is in stones.js and in plug-ins' scripts, which register an object in `boards`:
//   setUp()                    optional: called once, when the page is loaded. Elements that it adds to #extras, #keys or
//                              <body> with the attribute data-board="NAME" are shown for its board only
//   build()                    draw a new game into #board, an <svg>
//   draw()                     draw the position
//   follow()                   move the cursor to the last move
//   picture(player)            an element that stands for a player, 40 × 40 units
//   press(group)               a click or Enter on a .point
//   moveCursor(rows, columns)  arrow keys
//   cancel()                   Escape
// Such a script may use what is declared here and in common.js: view, play(), draw(), mayPlay(), myTurn(), thinking,
// showsMoves(), $(), element(), say(), percent(), short(), kept(), keep(), SETTING_UP.
"use strict";

const GAME_READOUTS = 100; // per position, when a whole game is analysed
const STEP_MILLISECONDS = 150; // a position that is left sooner isn't searched

let options = null;
let board = null; // the entry of `boards` that draws the game
let hinted = -1; // the ply at which a hint is shown
let reviewing = false; // arrow keys step through the game
let movesOfRecord = false; // whether "Top moves" was switched on for a record
let stopAnalysis = null;
let heading = null; // the ply that was asked for last, until it is shown
let search = new AbortController(); // the last search for the person, other than of a whole game

// The server

const tablePath = (rest = "") => `/api/games/${view.id}${rest}`;
const act = (verb, more = {}) => api(tablePath(`/${verb}`), { ply: view.moves.length, ...more });

// What the person does

/** Show another game. The server ends the searches of the present one, for which the new one might wait. */
async function enter(ask, after) {
  const left = view?.id;
  await replaceGame(async () => {
    const found = await ask();
    if (left) api(`/api/games/${left}/leave`, { ply: 0 }).catch(() => {});
    return found;
  }, after);
}

async function begin(wanted) {
  await enter(() => api("/api/games", wanted), async () => {
    $("choose-beginning").value = ""; // the next game begins as usual
    reviewing = false;
    if (movesOfRecord) $("review").checked = movesOfRecord = false;
    await reply();
  });
}

/** Whether the person may move now; says why not, unless the answer to their last move is awaited. */
function mayPlay() {
  if (changing) return false;
  if (view.ply < view.moves.length) complain(new Error("This is an earlier position: go to the last one, or choose “Play from here”."));
  else if (view.over || myTurn()) return true;
  else if (thinking) say(`${view.opponent} is to move.`, true);
  else reply();
  return false;
}

async function play(move) {
  if (!mayPlay()) return;
  reviewing = false;
  await change(() => act("play", { move }), reply);
}

/** Let the opponent move if it is their turn; again if another window ended the search by beginning a game. */
async function reply() {
  if (view.over || myTurn() || view.ply < view.moves.length) return afterwards();
  let mine;
  await attempt(async () => {
    mine = epoch;
    const found = await act("reply");
    if (mine !== epoch && !changing) takeMoves(found);
    return found;
  }, reply, true);
}

/** The opponent has moved while the person looks at an earlier position. */
function takeMoves(found) {
  if (view.id !== found.id || view.ply === view.moves.length) return;
  for (const name of ["moves", "movers", "over", "result", "to_judge", "turn", "winrates", "leads", "searched"]) view[name] = found[name];
  draw();
}

/** Ask the model about the position, if that is wanted; not while the opponent thinks. */
async function afterwards() {
  if (thinking) return;
  if (view.to_judge && view.ply === view.moves.length) return attempt(() => act("judge"));
  if (view.over_here || !view.adviser) return;
  if (view.analysis && (view.analysis.visits || !$("review").checked)) return; // Territory alone needs no search
  const mine = epoch;
  await new Promise((done) => setTimeout(done, STEP_MILLISECONDS));
  if (mine !== epoch) return;
  if ($("review").checked) await analyse(readouts());
  else if (view.territory && $("territory").checked) await analyse(0);
}

async function analyse(count) {
  const mine = epoch, { ply } = view;
  search.abort(); // a browser has only six connections to a server
  search = new AbortController();
  try {
    const found = await api(tablePath("/analyse"), { ply, readouts: count }, search.signal);
    if (mine === epoch && view.ply === ply) show(found);
  } catch (error) {
    if (error.name !== "AbortError") await failed(error, mine);
  }
}

async function hint() {
  if ($("hint").disabled || changing) return;
  hinted = view.ply;
  epoch += 1;
  say(view.adviser_ready ? "Searching…" : loadingText(view.adviser));
  await analyse(readouts());
}

/** The ply that is shown or soon will be. */
const at = () => heading ?? view.ply;

async function go(ply) {
  const wanted = Math.max(0, Math.min(view.moves.length, ply));
  if (wanted === at() || changing) return;
  reviewing = true;
  hinted = -1;
  heading = wanted;
  search.abort();
  const latest = wanted === view.moves.length; // the opponent may have moved meanwhile
  await attempt(() => api(tablePath(latest ? "" : `?ply=${wanted}`)), reply);
  if (heading === wanted) heading = null; // there was no answer
}

async function analyseGame() {
  if (stopAnalysis) return stopAnalysis();
  let stopped = false;
  stopAnalysis = () => { stopped = true; };
  draw();
  if (!view.adviser_ready) say(loadingText(view.adviser));
  const { id } = view;
  let ply = 0, problem = null;
  try {
    for (; ply <= view.moves.length && !stopped && view.id === id; ply++) {
      if (view.searched.includes(ply)) continue;
      if (ply === view.moves.length && view.over) break;
      const found = await api(`/api/games/${id}/analyse`, { ply, readouts: Math.min(GAME_READOUTS, readouts()), whole: true });
      if (view.id !== id) break;
      view.winrates = found.winrates;
      view.leads = found.leads;
      view.searched = found.searched;
      if (found.ply === view.ply) view.analysis = found.analysis;
      draw();
    }
  } catch (error) {
    if (view.id === id && ply <= view.moves.length) problem = error; // otherwise the position was taken back
  }
  stopAnalysis = null;
  draw();
  if (problem) sayError(problem);
}

const readouts = () => view.readouts || options.readouts || 100;
const myTurn = () => view.human === null || view.turn === view.human;
const isTheirTurn = () => !myTurn() && view.ply === view.moves.length;

// Drawing

function show(found) {
  if (!boards[found.board_kind]) throw new Error(`No script here draws the board of ${found.title}.`);
  const other = !view || view.game !== found.game || view.id !== found.id;
  const moved = !view || view.ply !== found.ply;
  view = found;
  heading = null;
  setLive();
  watchLoading();
  if (other || (moved && hinted !== view.ply)) hinted = -1;
  if (other) {
    board = boards[view.board_kind];
    board.build();
    $("downloads").replaceChildren(...view.records.map(downloadLink));
  } else if (moved && view.last !== null && document.activeElement.closest(".point") === null) {
    board.follow();
  }
  draw();
}

function percent(share) {
  return `${(100 * share).toFixed(share > 0.995 || share < 0.005 ? 1 : 0)} %`;
}

function statusText() {
  const [first, second] = view.colours;
  const notes = view.notes.length ? `About this record: ${view.notes.join("; ")}. ` : "";
  if (view.ply < view.moves.length) {
    const move = view.ply ? `After ${view.moves[view.ply - 1]} by ${view.colours[view.movers[view.ply - 1]]}. ` : `The initial position. ${notes}`;
    return move + hintText();
  }
  if (view.over) return view.moves.length ? `${view.result}.` : `${view.result}. ${notes}`;
  const colour = view.turn === 0 ? first : second;
  if (thinking) return view.opponent_ready ? `${view.opponent} is thinking…` : loadingText(view.opponent);
  const before = view.moves.length ? `${view.colours[view.movers.at(-1)]} played ${view.moves.at(-1)}. ` : notes;
  const onlyPass = view.can_pass && !view.legal.includes(true) ? " You can only pass." : "";
  if (hinted === view.ply && view.analysis) return hintText();
  if (!view.rules_ready) return SETTING_UP;
  if (!myTurn()) return `${before}${view.opponent} is to move. Click on the board to ask again.`;
  const check = view.check ? " Check!" : "", loading = view.opponent_ready ? "" : ` ${view.opponent} is being loaded.`;
  const remark = view.remark ? ` ${view.remark[0].toUpperCase()}${view.remark.slice(1)}.` : "";
  return (view.human === null ? `${before}${colour} to move.` : `${before}Your turn: ${colour}.`) + onlyPass + check + remark + loading;
}

function hintText() {
  if (!view.analysis || !showsMoves()) return "";
  const best = view.analysis.moves[0];
  if (!best) return "";
  return `${view.colours[view.to_move]}'s best move: ${best.move}, win rate ${percent(best.winrate)}, after ${view.analysis.visits} readouts.`;
}

function downloadLink(suffix) {
  const link = document.createElement("a");
  const href = tablePath(`/${suffix}`), textContent = `Save ${options.record_names[suffix] ?? suffix}`;
  return Object.assign(link, { className: "button", href, download: `game.${suffix}`, textContent });
}

const showsMoves = () => view.analysis && (hinted === view.ply || $("review").checked);

function draw() {
  if (!view) return;
  board.draw();
  drawGraph();
  drawCandidates();
  const last = view.ply === view.moves.length, advised = view.adviser !== null;
  $("game-name").textContent = view.title;
  drawPlayers(view, board.picture);
  $("undo").disabled = !last || (view.moves.length === 0 && !view.over); // a resignation can be taken back
  $("pass").hidden = !view.passes;
  $("pass").disabled = !last || view.over || !myTurn() || !view.can_pass;
  $("hint").disabled = !advised || view.over_here || thinking;
  $("hint").title = advised ? "Show what the model would play (h)" : `No model here plays ${view.title}`;
  $("resign").disabled = !last || view.over;
  $("first").disabled = $("previous").disabled = view.ply === 0;
  $("next").disabled = $("latest").disabled = last;
  $("rewind").hidden = last;
  $("where").textContent = `${view.ply} / ${view.moves.length}`;
  $("thoughts").hidden = !advised;
  $("territory-label").hidden = !view.territory;
  $("analyse").hidden = !advised || view.moves.length === 0;
  $("analyse").textContent = stopAnalysis ? "Stop" : "Analyse game";
  for (const part of document.querySelectorAll("[data-board]")) part.hidden = part.dataset.board !== view.board_kind;
  say(statusText());
}

// The model's analysis

const short = (count) => (count >= 1000 ? `${(count / 1000).toFixed(1)}k` : String(count));

function drawGraph() {
  const graph = $("graph"), width = 320, height = 96, count = Math.max(view.moves.length, 1);
  const known = Object.entries(view.winrates).map(([ply, rate]) => [Number(ply), rate]).sort((a, b) => a[0] - b[0]);
  const x = (ply) => ((width * ply) / count).toFixed(2), y = (rate) => (height * (1 - rate)).toFixed(2);
  const parts = [element("path", { class: "half", d: `M0 ${height / 2}H${width}` })];
  if (known.length) {
    const line = known.map(([ply, rate]) => `${x(ply)} ${y(rate)}`).join("L");
    parts.push(element("path", { class: "under", d: `M${x(known[0][0])} ${height}L${line}L${x(known.at(-1)[0])} ${height}Z` }));
    parts.push(element("path", { class: "rates", d: known.length > 1 ? `M${line}` : `M${line}h2` }));
  }
  parts.push(element("path", { class: "here", d: `M${x(view.ply)} 0V${height}` }));
  graph.replaceChildren(...parts);
  const here = (values) => values[view.ply] ?? values[view.ply - 1]; // the opponent's search says enough
  const rate = here(view.winrates), lead = here(view.leads);
  $("graph-title").textContent = `${view.colours[0]}'s win rate${view.other_komi === null ? "" : ` if komi were ${view.other_komi}`}`;
  $("rate").textContent = rate === undefined ? "" : percent(rate);
  $("lead").textContent = lead === undefined ? "" : `· estimate ${view.colours[lead >= 0 ? 0 : 1][0]}+${Math.abs(lead).toFixed(1)}`;
  graph.setAttribute("aria-label", rate === undefined ? "No win rate known here" : `Win rate over the moves; ${view.colours[0]} ${percent(rate)} here`);
}

function drawCandidates() {
  const table = $("candidates");
  table.hidden = !showsMoves();
  if (table.hidden) return;
  table.tBodies[0].replaceChildren(...view.analysis.moves.slice(0, 6).map((move) => {
    const row = document.createElement("tr");
    for (const text of [move.move, percent(move.winrate), short(move.visits), percent(move.prior), move.pv.slice(1, 8).join(" ")]) {
      row.insertCell().textContent = text;
    }
    return row;
  }));
}

// Dialog, keys and buttons

function chosenGame(game) {
  $("beginning-label").hidden = game.beginning === null;
  $("beginning-name").textContent = game.beginning?.label ?? "";
  $("choose-beginning").placeholder = game.beginning?.placeholder ?? "";
}

function chosenOpponent(name) {
  const without = name === "random" || name === "heuristic";
  $("readouts-label").hidden = $("choose-readouts").disabled = without; // the form doesn't check a disabled field
  $("readouts-note").hidden = without;
}

function startChosen() {
  const opponent = $("choose-opponent").value, chosen = options.games.find((known) => known.spec === $("choose-game").value);
  const human = opponent === "nobody" ? null : Number($("choose-colour").value);
  const beginning = $("beginning-label").hidden ? "" : $("choose-beginning").value;
  const wanted = $("choose-readouts").disabled ? options.readouts : Number($("choose-readouts").value);
  begin({ game: chosen.models[opponent]?.spec ?? chosen.spec, komi: chosenKomi(), opponent, human, readouts: wanted, beginning });
}

async function openRecord(file) {
  if (!file) return;
  await enter(() => api(`/api/records?game=${encodeURIComponent(view.game)}&readouts=${readouts()}`, file), async () => {
    movesOfRecord ||= !$("review").checked;
    $("review").checked = reviewing = true;
    if (view.moves.length) await go(0);
    else await afterwards();
  });
}

const ARROWS = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };

function pressed(event) {
  if (!view || document.querySelector("dialog[open]") || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.target.closest("input:not([type=checkbox]), select, textarea")) return;
  const onPoint = event.target.closest(".point"), steps = !onPoint && (reviewing || view.over || view.ply < view.moves.length);
  const keys = {
    ",": () => go(at() - 1), ".": () => go(at() + 1), Home: () => go(0), End: () => go(view.moves.length),
    u: () => $("undo").click(), p: () => $("pass").click(), h: () => $("hint").click(), Escape: () => board.cancel(),
  };
  let action = keys[event.key];
  if (event.key in ARROWS) {
    const [rows, columns] = ARROWS[event.key];
    action = steps ? () => columns && go(at() + columns) : () => board.moveCursor(rows, columns);
  } else if (onPoint && (event.key === "Enter" || event.key === " ")) {
    action = () => board.press(onPoint);
  }
  if (!action) return;
  event.preventDefault();
  action();
}

async function start() {
  setUpTheme();
  try {
    options = await api("/api/options");
  } catch (error) {
    return say(error.message, true);
  }
  $("choose-readouts").value = options.readouts;
  $("choose-readouts").max = options.most_readouts;
  setUpDialog(options, startChosen, chosenGame, chosenOpponent);
  $("file").accept = options.opens.join(",");
  for (const [name, one] of Object.entries(boards)) {
    try {
      one.setUp?.();
    } catch (error) {
      console.error(`board ${name}:`, error); // other boards still work
      delete boards[name];
    }
  }
  const clicks = {
    undo: () => { hinted = -1; change(() => act("undo"), reply); },
    pass: () => play("pass"),
    hint,
    resign: () => change(() => act("resign")),
    first: () => go(0), previous: () => go(at() - 1), next: () => go(at() + 1), latest: () => go(view.moves.length),
    rewind: () => { reviewing = false; change(() => act("rewind", { to: view.ply }), reply); },
    analyse: analyseGame,
    open: () => $("file").click(),
  };
  for (const [id, action] of Object.entries(clicks)) $(id).addEventListener("click", action);
  $("board").addEventListener("click", (event) => {
    const group = event.target.closest(".point");
    if (group) board.press(group);
  });
  $("graph").addEventListener("click", (event) => {
    const box = $("graph").getBoundingClientRect();
    go(Math.round((view.moves.length * (event.clientX - box.left)) / box.width));
  });
  $("file").addEventListener("change", () => { openRecord($("file").files[0]); $("file").value = ""; });
  $("board").addEventListener("mousedown", (event) => { // a point that was clicked would take the arrow keys
    event.preventDefault();
    document.activeElement?.closest(".point")?.blur();
  });
  $("review").addEventListener("change", () => { movesOfRecord = false; });
  for (const id of ["review", "territory"]) $(id).addEventListener("change", () => { draw(); afterwards(); });
  document.addEventListener("keydown", pressed);
  addEventListener("hashchange", () => { if (view && location.hash !== `#${view.id}`) resume(); });
  await resume();
}

/** Continue the game in the address, or begin a new one. */
const resume = () => continued("/api/games", startChosen);

document.addEventListener("DOMContentLoaded", start); // after the scripts of plug-ins, which come last
