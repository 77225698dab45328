// The board page. The server keeps every game and decides what is legal; this draws what it says (see app.py, table.py).
"use strict";

const CELL = 40;
const HEAT_FROM = 0.01; // policy below it isn't drawn
const GAME_READOUTS = 100; // of each position, when a whole game is analysed
const STEP_MILLISECONDS = 150; // a position that is only passed through isn't searched

let options = null;
let view = null; // the table as the server described it last
let cursor = 0; // the point that the arrow keys have reached
let epoch = 0; // counts what the person did; answers to earlier requests are out of date
let thinking = false;
let hinted = -1; // the ply at which a hint is shown
let reviewing = false; // arrow keys step through the game
let stopAnalysis = null;

// The server

const tablePath = (rest = "") => `/api/games/${view.id}${rest}`;
const act = (verb, more = {}) => api(tablePath(`/${verb}`), { ply: view.moves.length, ...more });

/** Do what the person wants; show the view that comes back, unless they did something else meanwhile. */
async function attempt(ask, after = () => {}) {
  const mine = ++epoch;
  thinking = false;
  try {
    const found = await ask();
    if (mine !== epoch) return;
    show(found);
    await after();
  } catch (error) {
    if (mine !== epoch) return;
    if (error.status === 409) await api(tablePath()).then(show, () => {}); // it was changed from another window
    complain(error);
  }
}

function complain(error) {
  thinking = false;
  draw();
  say(error.message.charAt(0).toUpperCase() + error.message.slice(1), true);
}

// What the person does

async function begin(wanted) {
  await attempt(() => api("/api/games", wanted), async () => {
    reviewing = false;
    history.replaceState(null, "", `#${view.id}`);
    await reply();
  });
}

async function play(move) {
  if (view.ply < view.moves.length) return complain(new Error("This is an earlier position: go to the last one, or choose “Play from here”."));
  if (!view.over && !myTurn()) return thinking ? say(`${view.opponent} is to move.`, true) : reply();
  reviewing = false;
  await attempt(() => act("play", { move }), reply);
}

/** Let the opponent move if it is their turn. */
async function reply() {
  if (view.over || myTurn() || view.ply < view.moves.length) return afterwards();
  const mine = epoch;
  thinking = true;
  draw();
  try {
    const found = await act("reply");
    if (mine !== epoch) return;
    thinking = false;
    show(found);
    await afterwards();
  } catch (error) {
    if (mine === epoch) complain(error);
  }
}

async function afterwards() {
  if (view.to_judge && view.ply === view.moves.length) return attempt(() => act("judge"));
  if (view.over_here || !view.adviser || view.analysis) return;
  const mine = epoch;
  await new Promise((done) => setTimeout(done, STEP_MILLISECONDS));
  if (mine !== epoch) return;
  if ($("review").checked) await analyse(readouts());
  else if ($("territory").checked) await analyse(0);
}

async function analyse(count) {
  const mine = epoch, { ply } = view;
  try {
    const found = await api(tablePath("/analyse"), { ply, readouts: count });
    if (mine === epoch) show(found);
  } catch (error) {
    if (mine === epoch) complain(error);
  }
}

async function hint() {
  if ($("hint").disabled) return;
  hinted = view.ply;
  epoch += 1;
  say("Searching…");
  await analyse(readouts());
}

async function go(ply) {
  const wanted = Math.max(0, Math.min(view.moves.length, ply));
  if (wanted === view.ply) return;
  reviewing = true;
  hinted = -1;
  await attempt(() => api(tablePath(`?ply=${wanted}`)), () => (wanted === view.moves.length ? reply() : afterwards()));
}

async function analyseGame() {
  if (stopAnalysis) return stopAnalysis();
  let stopped = false;
  stopAnalysis = () => { stopped = true; };
  draw();
  const { id } = view;
  try {
    for (let ply = 0; ply <= view.moves.length && !stopped && view.id === id; ply++) {
      if (ply in view.winrates) continue;
      if (ply === view.moves.length && view.over) break;
      const found = await api(`/api/games/${id}/analyse`, { ply, readouts: Math.min(GAME_READOUTS, readouts()) });
      if (view.id !== id) break;
      view.winrates = found.winrates;
      view.leads = found.leads;
      if (found.ply === view.ply) view.analysis = found.analysis;
      draw();
    }
  } catch (error) {
    complain(error);
  } finally {
    stopAnalysis = null;
    draw();
  }
}

const readouts = () => view.readouts || options.readouts || 100;
const myTurn = () => view.human === null || view.turn === view.human;

// What is shown

function show(found) {
  const other = !view || view.game !== found.game || view.id !== found.id;
  const moved = !view || view.ply !== found.ply;
  view = found;
  if (moved && hinted !== view.ply) hinted = -1;
  if (other) {
    cursor = Math.floor(view.height / 2) * view.width + Math.floor(view.width / 2);
    buildBoard();
  } else if (moved && view.last !== null && document.activeElement.closest(".point") === null) {
    cursor = view.last;
  }
  draw();
}

function say(text, error = false) {
  $("status").textContent = text;
  $("status").classList.toggle("error", error);
}

function percent(share) {
  return `${(100 * share).toFixed(share > 0.995 || share < 0.005 ? 1 : 0)} %`;
}

function statusText() {
  const [first, second] = view.colours;
  if (view.ply < view.moves.length) {
    const move = view.ply ? `After ${view.moves[view.ply - 1]} by ${view.colours[view.movers[view.ply - 1]]}. ` : "The initial position. ";
    return move + hintText();
  }
  if (view.over) return `${view.result}.`;
  const colour = view.turn === 0 ? first : second;
  if (thinking) return `${view.opponent} is thinking…`;
  const before = view.moves.length ? `${view.colours[view.movers.at(-1)]} played ${view.moves.at(-1)}. ` : "";
  const onlyPass = view.can_pass && !view.legal.includes(true) ? " You can only pass." : "";
  if (hinted === view.ply && view.analysis) return hintText();
  return view.human === null ? `${before}${colour} to move.${onlyPass}` : `${before}Your turn: ${colour}.${onlyPass}`;
}

function hintText() {
  if (!view.analysis || !showsMoves()) return "";
  const best = view.analysis.moves[0];
  if (!best) return "";
  return `${view.colours[view.to_move]}'s best move: ${best.move}, win rate ${percent(best.winrate)}, after ${view.analysis.visits} readouts.`;
}

const showsMoves = () => view.analysis && (hinted === view.ply || $("review").checked);

function draw() {
  if (!view) return;
  drawBoard();
  drawGraph();
  drawCandidates();
  const last = view.ply === view.moves.length, advised = view.adviser !== null;
  $("game-name").textContent = view.game;
  $("players").replaceChildren(...[0, 1].map(playerItem));
  $("undo").disabled = view.moves.length === 0;
  $("pass").hidden = !view.passes;
  $("pass").disabled = !last || view.over || !myTurn() || !view.can_pass;
  $("hint").disabled = !advised || view.over_here || thinking;
  $("hint").title = advised ? "Show what the model would play (h)" : `No model here plays ${view.game}`;
  $("resign").disabled = view.over;
  $("first").disabled = $("previous").disabled = view.ply === 0;
  $("next").disabled = $("latest").disabled = last;
  $("rewind").hidden = last;
  $("where").textContent = `${view.ply} / ${view.moves.length}`;
  $("thoughts").hidden = !advised;
  $("territory-label").hidden = !view.game.startsWith("go:");
  $("analyse").hidden = !advised || view.moves.length === 0;
  $("analyse").textContent = stopAnalysis ? "Stop" : "Analyse game";
  $("download").hidden = !view.sgf;
  $("download").href = tablePath("/sgf");
  say(statusText());
}

function playerItem(player) {
  const item = document.createElement("li"), picture = element("svg", { viewBox: "0 0 40 40", "aria-hidden": "true" });
  picture.append(stone(player, 20, 20));
  const who = document.createElement("span"), colour = document.createElement("span");
  who.className = "who";
  who.textContent = view.players[player];
  colour.className = "colour";
  colour.textContent = view.colours[player];
  item.append(picture, who, colour);
  if (!view.over && view.turn === player) {
    item.className = "turn";
    item.setAttribute("aria-current", "true");
  }
  return item;
}

function element(name, attributes = {}, text = "") {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text) made.textContent = text;
  return made;
}

// The board

const kind = () => view.game.split(":")[0];
const onLines = () => ["go", "gomoku"].includes(kind());
const GROUNDS = { go: "", gomoku: "", othello: "felt", connect4: "frame", tictactoe: "paper" };

function stone(player, x, y) {
  if (kind() === "tictactoe") {
    const shape = player === 0
      ? element("path", { d: `M${x - 10} ${y - 10}l20 20m0 -20l-20 20` })
      : element("circle", { cx: x, cy: y, r: 11 });
    shape.setAttribute("class", `mark ${player ? "second" : "first"}`);
    return shape;
  }
  const paints = kind() === "connect4" ? ["red", "yellow"] : ["black", "white"];
  return element("circle", { class: "disc", cx: x, cy: y, r: onLines() ? 18.6 : 16.5, fill: `url(#${paints[player]})` });
}

function gradient(id, from, to) {
  const made = element("radialGradient", { id, cx: "35%", cy: "30%", r: "75%" });
  made.append(element("stop", { offset: "0%", "stop-color": from }), element("stop", { offset: "100%", "stop-color": to }));
  return made;
}

/** Where a point lies in the drawing. */
const place = (point) => [CELL * (1 + (point % view.width)), CELL * (1 + Math.floor(point / view.width))];

function starPoints() {
  const size = view.height;
  if (!onLines() || size < 7 || size !== view.width) return [];
  const edge = size < 13 ? 2 : 3, lines = [edge, size - 1 - edge], middle = (size - 1) / 2;
  const stars = lines.flatMap((row) => lines.map((column) => [row, column]));
  if (size % 2) {
    stars.push([middle, middle]);
    if (size >= 15) for (const line of lines) stars.push([line, middle], [middle, line]);
  }
  return stars.map(([row, column]) => row * view.width + column);
}

function buildBoard() {
  const { width, height } = view, board = $("board"), onEdge = onLines() ? 0 : CELL / 2;
  const right = CELL * (width + 1), bottom = CELL * (height + 1);
  board.setAttribute("viewBox", `0 0 ${right} ${bottom}`);
  const definitions = element("defs");
  definitions.append(
    gradient("black", "#5a5a60", "#0e0e10"), gradient("white", "#ffffff", "#d3d0ca"),
    gradient("red", "#ff7a6b", "#c3281c"), gradient("yellow", "#ffe680", "#e0aa0c"),
  );
  const parts = [definitions, element("rect", { class: `ground ${GROUNDS[kind()] ?? ""}`, width: right, height: bottom, rx: 8 })];
  if (kind() !== "connect4") {
    const inner = kind() === "tictactoe" ? 1 : 0; // no frame around it
    let lines = "";
    for (let i = inner; i <= (onEdge ? width : width - 1) - inner; i++) lines += `M${CELL * (1 + i) - onEdge} ${CELL - onEdge}V${bottom - CELL + onEdge}`;
    for (let i = inner; i <= (onEdge ? height : height - 1) - inner; i++) lines += `M${CELL - onEdge} ${CELL * (1 + i) - onEdge}H${right - CELL + onEdge}`;
    parts.push(element("path", { class: "grid", d: lines }));
  }
  for (const point of starPoints()) {
    const [cx, cy] = place(point);
    parts.push(element("circle", { class: "star", cx, cy, r: 3.4 }));
  }
  const off = onEdge ? 9 : 11;
  view.columns.forEach((name, i) => {
    for (const y of [off, bottom - off]) parts.push(element("text", { class: "coordinate", x: CELL * (1 + i), y, "aria-hidden": "true" }, name));
  });
  view.rows.forEach((name, i) => {
    for (const x of [off, right - off]) parts.push(element("text", { class: "coordinate", x, y: CELL * (1 + i), "aria-hidden": "true" }, name));
  });
  parts.push(...view.names.map((name, point) => element("g", { class: "point", role: "button", "data-point": point })));
  board.replaceChildren(...parts);
}

function drawBoard() {
  const found = view.analysis, moves = showsMoves() ? found.moves : [], byPoint = new Map(moves.map((move) => [move.point, move]));
  const owners = $("territory").checked ? (found?.ownership ?? view.area) : null;
  const stones = ["empty", `${view.colours[0]} ${thing()}`, `${view.colours[1]} ${thing()}`];
  for (const group of $("board").querySelectorAll(".point")) {
    const point = Number(group.dataset.point), [x, y] = place(point), owned = view.board[point], move = byPoint.get(point);
    const parts = [element("rect", { class: "hit", x: x - CELL / 2, y: y - CELL / 2, width: CELL, height: CELL })];
    if (kind() === "connect4") parts.push(element("circle", { class: "hole", cx: x, cy: y, r: 16.5 }));
    if (owners && Math.abs(owners[point]) >= 0.08) parts.push(ownerSquare(owners[point], x, y, CELL, (owners[point] > 0 ? 0.6 : 0.5) * Math.abs(owners[point])));
    if (owned) parts.push(stone(owned - 1, x, y));
    else if (kind() === "othello" && view.legal[point] && myTurn()) parts.push(element("circle", { class: "may", cx: x, cy: y, r: 4 }));
    const policy = showsMoves() && view.legal[point] ? found.policy[point] : 0;
    if (policy >= HEAT_FROM || move) parts.push(element("circle", { class: "heat", cx: x, cy: y, r: 17.5, opacity: (move ? 0.6 : 0.15) + 0.35 * Math.sqrt(policy) }));
    if (move && (move.visits || moves.indexOf(move) === 0)) {
      parts.push(element("text", { class: "tell", x, y: y - 5 }, (100 * move.winrate).toFixed(0)));
      parts.push(element("text", { class: "tell visits", x, y: y + 8 }, short(move.visits)));
    }
    if (owners && owned && owners[point] * (owned === 1 ? 1 : -1) < -0.1) parts.push(ownerSquare(owners[point], x, y, 14, 0.9)); // it will be captured
    if (point === view.last) parts.push(lastMark(owned, x, y));
    parts.push(element("circle", { class: "ring", cx: x, cy: y, r: 17 }));
    group.replaceChildren(...parts);
    group.classList.toggle("legal", view.legal[point] && !thinking);
    group.classList.toggle("best", moves.length > 0 && move === moves[0]);
    group.setAttribute("tabindex", point === cursor ? 0 : -1);
    const hintLabel = move && move.visits ? `, candidate, win rate ${percent(move.winrate)}` : "";
    group.setAttribute("aria-label", `${view.names[point]}, ${stones[owned]}${point === view.last ? ", last move" : ""}${hintLabel}`);
  }
}

function ownerSquare(owner, x, y, size, opacity) {
  return element("rect", { class: "owner", x: x - size / 2, y: y - size / 2, width: size, height: size, fill: owner > 0 ? "#000" : "#fff", opacity });
}

const thing = () => (kind() === "othello" || kind() === "connect4" ? "disc" : kind() === "tictactoe" ? "mark" : "stone");
const short = (count) => (count >= 1000 ? `${(count / 1000).toFixed(1)}k` : String(count));

function lastMark(owned, x, y) {
  if (kind() === "tictactoe") return element("rect", { class: "last", x: x - 18, y: y - 18, width: 36, height: 36, rx: 5, stroke: "#8888", "stroke-width": 1.5 });
  const light = owned === 1 || kind() === "connect4";
  return element("circle", { class: "last", cx: x, cy: y, r: 8, stroke: light ? "#fff" : "#222" });
}

function moveCursor(rows, columns) {
  const row = Math.floor(cursor / view.width) + rows, column = (cursor % view.width) + columns;
  cursor = Math.max(0, Math.min(view.height - 1, row)) * view.width + Math.max(0, Math.min(view.width - 1, column));
  for (const group of $("board").querySelectorAll(".point")) group.setAttribute("tabindex", Number(group.dataset.point) === cursor ? 0 : -1);
  $("board").querySelector(`[data-point="${cursor}"]`).focus();
}

// What the model thinks

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
  const upTo = (values) => Object.entries(values).filter(([ply]) => Number(ply) <= view.ply).at(-1)?.[1];
  const rate = upTo(view.winrates), lead = upTo(view.leads);
  $("graph-title").textContent = `${view.colours[0]}'s win rate`;
  $("rate").textContent = rate === undefined ? "" : percent(rate);
  $("lead").textContent = lead === undefined ? "" : `· estimate ${view.colours[lead >= 0 ? 0 : 1][0]}+${Math.abs(lead).toFixed(1)}`;
  graph.setAttribute("aria-label", rate === undefined ? "No win rates known yet" : `Win rate over the moves; ${view.colours[0]} ${percent(rate)} here`);
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

function chooseGame() {
  const game = options.games.find((known) => known.spec === $("choose-game").value), former = $("choose-opponent").value;
  $("choose-opponent").replaceChildren(...game.opponents.map((name) => new Option(name === "nobody" ? "nobody: you play both sides" : name, name)));
  if (game.opponents.includes(former)) $("choose-opponent").value = former;
  const first = { connect4: ["Red", "Yellow"], tictactoe: ["X", "O"] }[game.spec] ?? ["Black", "White"];
  const colour = $("choose-colour").value || "0";
  $("choose-colour").replaceChildren(new Option(`${first[0]}, moving first`, "0"), new Option(first[1], "1"));
  $("choose-colour").value = colour;
  chooseOpponent();
}

function chooseOpponent() {
  const name = $("choose-opponent").value;
  $("colour-label").hidden = name === "nobody";
  $("readouts-label").hidden = name === "random" || name === "heuristic";
}

function startChosen() {
  const opponent = $("choose-opponent").value;
  const human = opponent === "nobody" ? null : Number($("choose-colour").value);
  begin({ game: $("choose-game").value, opponent, human, readouts: Number($("choose-readouts").value) });
}

async function openRecord(file) {
  if (!file) return;
  await attempt(() => api(`/api/records?game=${encodeURIComponent(view.game)}&readouts=${readouts()}`, file), async () => {
    history.replaceState(null, "", `#${view.id}`);
    $("review").checked = true;
    reviewing = true;
    if (view.moves.length) await go(0);
    else await afterwards();
  });
}

const ARROWS = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };

function pressed(event) {
  if (!view || $("dialog").open || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.target.closest("input, select, textarea, summary")) return;
  const onPoint = event.target.closest(".point"), steps = !onPoint && (reviewing || view.over || view.ply < view.moves.length);
  const keys = {
    ",": () => go(view.ply - 1), ".": () => go(view.ply + 1), Home: () => go(0), End: () => go(view.moves.length),
    u: () => $("undo").click(), p: () => $("pass").click(), h: () => $("hint").click(),
  };
  let action = keys[event.key];
  if (event.key in ARROWS) {
    const [rows, columns] = ARROWS[event.key];
    action = steps ? () => columns && go(view.ply + columns) : () => moveCursor(rows, columns);
  } else if (onPoint && (event.key === "Enter" || event.key === " ")) {
    action = () => play(view.plays[Number(onPoint.dataset.point)]);
  }
  if (!action) return;
  event.preventDefault();
  action();
}

function theme(wanted) {
  if (wanted) document.documentElement.dataset.theme = wanted;
}

function toggleTheme() {
  const dark = getComputedStyle(document.documentElement).colorScheme === "dark"
    || (!document.documentElement.dataset.theme && matchMedia("(prefers-color-scheme: dark)").matches);
  theme(dark ? "light" : "dark");
  localStorage.setItem("theme", dark ? "light" : "dark");
}

async function start() {
  theme(localStorage.getItem("theme"));
  $("theme").addEventListener("click", toggleTheme);
  try {
    options = await api("/api/options");
  } catch (error) {
    return say(error.message, true);
  }
  $("choose-game").replaceChildren(...options.games.map((game) => new Option(game.spec)));
  $("choose-readouts").value = options.readouts;
  $("choose-readouts").max = options.most_readouts;
  chooseGame();
  const clicks = {
    undo: () => { hinted = -1; attempt(() => act("undo"), reply); },
    pass: () => play("pass"),
    hint,
    resign: () => attempt(() => act("resign")),
    first: () => go(0), previous: () => go(view.ply - 1), next: () => go(view.ply + 1), latest: () => go(view.moves.length),
    rewind: () => { reviewing = false; attempt(() => act("rewind", { to: view.ply }), reply); },
    analyse: analyseGame,
    open: () => $("file").click(),
    new: () => $("dialog").showModal(),
  };
  for (const [id, action] of Object.entries(clicks)) $(id).addEventListener("click", action);
  $("board").addEventListener("click", (event) => {
    const group = event.target.closest(".point");
    if (group) play(view.plays[Number(group.dataset.point)]);
  });
  $("graph").addEventListener("click", (event) => {
    const box = $("graph").getBoundingClientRect();
    go(Math.round((view.moves.length * (event.clientX - box.left)) / box.width));
  });
  $("choose-game").addEventListener("change", chooseGame);
  $("choose-opponent").addEventListener("change", chooseOpponent);
  $("dialog").addEventListener("close", () => { if ($("dialog").returnValue === "start") startChosen(); });
  $("file").addEventListener("change", () => { openRecord($("file").files[0]); $("file").value = ""; });
  for (const id of ["review", "territory"]) $(id).addEventListener("change", () => { draw(); afterwards(); });
  document.addEventListener("keydown", pressed);
  addEventListener("hashchange", () => { if (view && location.hash !== `#${view.id}`) resume(); });
  await resume();
}

/** Go on with the game in the address, or begin one. */
async function resume() {
  if (/^#[\w-]+$/.test(location.hash)) {
    try {
      show(await api(`/api/games/${location.hash.slice(1)}`));
      return await reply();
    } catch {
      history.replaceState(null, "", "#"); // the server has been started anew
    }
  }
  startChosen();
}

start();
