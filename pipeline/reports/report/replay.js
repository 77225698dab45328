// Shows a report's games move by move. What happened is in the page as JSON (see replays.py); no rules are known here.
"use strict";

const SVG = "http://www.w3.org/2000/svg";
const CELL = 40;
const PLAY_MILLISECONDS = 700;
const $ = (id) => document.getElementById(id);
const games = JSON.parse($("replays").textContent);
const PAINTS = { black: "#161618", white: "#f7f6f2", red: "#d8382b", yellow: "#f3c526" };

let game = null;
let ply = 0;
let timer = null;

function element(name, attributes = {}, text = "") {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text) made.textContent = text;
  return made;
}

const isOn = (ground) => game.look.ground === ground;
const isMark = (owner) => ["cross", "ring"].includes(game.look.stones[owner - 1]);
const place = (point) => [CELL * (1 + (point % game.width)), CELL * (1 + Math.floor(point / game.width))];

/** The board after a number of moves: owner by point. */
function boardAt(count) {
  const board = new Array(game.width * game.height).fill(0);
  for (const { changes } of game.plies.slice(0, count + 1)) for (const [point, owner] of changes) board[point] = owner;
  return board;
}

function net(right, bottom) {
  const { width, height } = game, half = game.look.on_lines ? 0 : CELL / 2, skip = isOn("paper") ? 1 : 0;
  let lines = "";
  for (let i = skip; i <= (half ? width : width - 1) - skip; i++) lines += `M${CELL * (1 + i) - half} ${CELL - half}V${bottom - CELL + half}`;
  for (let i = skip; i <= (half ? height : height - 1) - skip; i++) lines += `M${CELL - half} ${CELL * (1 + i) - half}H${right - CELL + half}`;
  return element("path", { class: "net", d: lines });
}

function piece(owner, x, y) {
  const { on_lines, stones } = game.look, stone = stones[owner - 1];
  if (!isMark(owner)) return element("circle", { class: "stone", cx: x, cy: y, r: on_lines ? 18 : 16, fill: PAINTS[stone] });
  return stone === "cross" ? element("path", { class: "cross", d: `M${x - 10} ${y - 10}l20 20m0 -20l-20 20` }) : element("circle", { class: "cross", cx: x, cy: y, r: 11 });
}

function drawBoard() {
  const right = CELL * (game.width + 1), bottom = CELL * (game.height + 1), board = boardAt(ply);
  const svg = element("svg", { viewBox: `0 0 ${right} ${bottom}`, role: "img", "aria-label": `Board after ${ply} moves` });
  svg.append(element("rect", { class: `ground ${game.look.ground}`, width: right, height: bottom, rx: 8 }));
  if (!isOn("frame")) svg.append(net(right, bottom));
  const off = game.look.on_lines ? 11 : 9;
  game.columns.forEach((name, i) => svg.append(element("text", { class: "name", x: CELL * (1 + i), y: bottom - off }, name)));
  game.rows.forEach((name, i) => svg.append(element("text", { class: "name", x: off, y: CELL * (1 + i) }, name)));
  const placed = (game.plies[ply].changes ?? []).find(([, owner]) => owner && owner === game.plies[ply].by + 1);
  board.forEach((owner, point) => {
    const [x, y] = place(point);
    if (isOn("frame")) svg.append(element("circle", { class: "hole", cx: x, cy: y, r: 16.5 }));
    if (owner) svg.append(piece(owner, x, y));
  });
  const last = lastPoint(placed);
  if (last !== null && !isMark(board[last])) {
    const [x, y] = place(last);
    svg.append(element("circle", { class: "ring", cx: x, cy: y, r: 8, stroke: board[last] === 1 || isOn("frame") ? "#fff" : "#222" }));
  }
  $("position").replaceChildren(svg);
}

/** Where the last move was made: the point that bears its name, else the one that it filled. */
function lastPoint(placed) {
  if (!ply) return null;
  const { move } = game.plies[ply], column = game.columns.findIndex((name) => name.toUpperCase() === move[0]?.toUpperCase());
  const row = game.rows.indexOf(move.slice(1));
  if (move.length > 1 && column >= 0 && row >= 0) return row * game.width + column;
  return placed ? placed[0] : null;
}

function drawRates() {
  const width = 320, height = 96, count = Math.max(game.plies.length - 1, 1), graph = $("rates");
  const x = (at) => ((width * at) / count).toFixed(1), known = game.plies.map(({ winrate }, at) => [at, winrate]).filter(([, rate]) => rate !== undefined);
  const parts = [element("path", { class: "half", d: `M0 ${height / 2}H${width}` })];
  if (known.length) parts.push(element("path", { class: "won", d: `M${known.map(([at, rate]) => `${x(at)} ${(height * (1 - rate)).toFixed(1)}`).join("L")}h1` }));
  parts.push(element("path", { class: "here", d: `M${x(ply)} 0V${height}` }));
  graph.replaceChildren(...parts);
  graph.setAttribute("aria-label", `${game.colours[0]}'s win rate over the moves`);
  const rate = game.plies[ply].winrate;
  $("rate").textContent = `${game.colours[0]}'s win rate by the search here: ${rate === undefined ? "not known" : `${(100 * rate).toFixed(0)} %`}`;
}

function draw() {
  const here = game.plies[ply], last = game.plies.length - 1;
  if (here.diagram === undefined) {
    drawBoard();
  } else {
    const text = document.createElement("pre");
    text.textContent = here.diagram;
    $("position").replaceChildren(text);
  }
  const moved = ply ? `${ply}: ${game.colours[here.by] ?? "Chance"} ${here.move}` : "The initial position";
  $("move").textContent = ply === last ? `${moved}. ${game.result.charAt(0).toUpperCase()}${game.result.slice(1)}.` : moved;
  drawRates();
  const policy = here.policy ?? [];
  $("policy").hidden = policy.length === 0;
  $("policy").tBodies[0].replaceChildren(...policy.map(([move, share]) => {
    const row = document.createElement("tr");
    for (const text of [move, `${(100 * share).toFixed(0)} %`]) row.insertCell().textContent = text;
    return row;
  }));
  $("ply").max = last;
  $("ply").value = ply;
  const focused = document.activeElement;
  $("first").disabled = $("back").disabled = ply === 0;
  $("last").disabled = $("forth").disabled = ply === last;
  if (focused?.disabled) $("viewer").focus({ preventScroll: true }); // keys are heard inside it only
  $("play").textContent = timer ? "Stop" : "Play";
}

function go(to) {
  ply = Math.max(0, Math.min(game.plies.length - 1, to));
  if (ply === game.plies.length - 1) stop();
  draw();
}

function stop() {
  clearInterval(timer);
  timer = null;
}

function toggle() {
  if (timer) {
    stop();
  } else {
    if (ply === game.plies.length - 1) ply = 0;
    timer = setInterval(() => go(ply + 1), PLAY_MILLISECONDS);
  }
  draw();
}

function choose() {
  stop();
  game = games[Number($("choose").value)];
  $("about").textContent = `${game.game}: ${game.colours[0]} ${game.players[0]}, ${game.colours[1]} ${game.players[1]}; ${game.plies.length - 1} moves, ${game.result}.`;
  go(0);
}

function pressed(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, select, summary, .scroll")) return;
  if (!$("viewer").contains(event.target)) return;
  const wanted = { ArrowLeft: ply - 1, ArrowRight: ply + 1, Home: 0, End: game.plies.length - 1 }[event.key];
  if (wanted === undefined) return;
  event.preventDefault();
  stop();
  go(wanted);
}

if (games.length) {
  $("viewer").hidden = false;
  $("choose").addEventListener("change", choose);
  $("ply").addEventListener("input", () => { stop(); go(Number($("ply").value)); });
  $("play").addEventListener("click", toggle);
  for (const [id, to] of Object.entries({ first: () => 0, back: () => ply - 1, forth: () => ply + 1, last: () => game.plies.length - 1 })) {
    $(id).addEventListener("click", () => { stop(); go(to()); });
  }
  $("rates").addEventListener("click", (event) => {
    const box = $("rates").getBoundingClientRect();
    stop();
    go(Math.round(((game.plies.length - 1) * (event.clientX - box.left)) / box.width));
  });
  document.addEventListener("keydown", pressed);
  choose();
}
