// Boards of stones, including stones that fall into columns, as their game's `look` says (see Look in games/stones.py).
// A plug-in's script may draw such a board in another shape: boards.NAME = { ...boards.stones, place, cell, ground }.
"use strict";

const CELL = 40;
const HEAT_FROM = 0.01; // the least policy that is drawn

let cursor = 0; // the point chosen by the arrow keys

boards.stones = {
  build() {
    cursor = Math.floor(view.height / 2) * view.width + Math.floor(view.width / 2);
    buildStones();
  },
  draw: () => drawStones(),
  follow: () => { cursor = view.last; },
  picture: (player) => stone(player, 20, 20),
  press: (group) => {
    cursor = Number(group.dataset.point);
    play(view.plays[cursor]);
  },
  moveCursor: (rows, columns) => moveAmongPoints(rows, columns),
  cancel: () => {},
  /** The centre of a point in the drawing. Neighbours are CELL apart, so that stones have room. */
  place: (point) => [CELL * (1 + (point % view.width)), CELL * (1 + Math.floor(point / view.width))],
  /** The outline, as a path's d, of what belongs to a point with this centre: what is clicked. */
  cell: (x, y) => square(x, y, CELL),
  /** The elements under the points; sets the viewBox of #board. */
  ground: () => squareGround(),
};

const square = (x, y, size) => `M${x - size / 2} ${y - size / 2}h${size}v${size}h${-size}Z`;
const isOn = (ground) => view.look.ground === ground;
const isMark = (player) => ["cross", "ring"].includes(view.look.stones[player]);

function stone(player, x, y) {
  const paint = view.look.stones[player];
  if (isMark(player)) {
    const shape = paint === "cross"
      ? element("path", { d: `M${x - 10} ${y - 10}l20 20m0 -20l-20 20` })
      : element("circle", { cx: x, cy: y, r: 11 });
    shape.setAttribute("class", `mark ${player ? "second" : "first"}`);
    return shape;
  }
  return element("circle", { class: "disc", cx: x, cy: y, r: view.look.on_lines ? 18.6 : 16.5, fill: `url(#${paint})` });
}

function gradient(id, from, to) {
  const made = element("radialGradient", { id, cx: "35%", cy: "30%", r: "75%" });
  made.append(element("stop", { offset: "0%", "stop-color": from }), element("stop", { offset: "100%", "stop-color": to }));
  return made;
}

function starPoints() {
  const size = view.height;
  if (!view.look.on_lines || size < 7 || size !== view.width) return [];
  const edge = size < 13 ? 2 : 3, lines = [edge, size - 1 - edge], middle = (size - 1) / 2;
  const stars = lines.flatMap((row) => lines.map((column) => [row, column]));
  if (size % 2) {
    stars.push([middle, middle]);
    if (size >= 15) for (const line of lines) stars.push([line, middle], [middle, line]);
  }
  return stars.map(([row, column]) => row * view.width + column);
}

function buildStones() {
  const definitions = element("defs");
  definitions.append(
    gradient("black", "#5a5a60", "#0e0e10"), gradient("white", "#ffffff", "#d3d0ca"),
    gradient("red", "#ff7a6b", "#c3281c"), gradient("yellow", "#ffe680", "#e0aa0c"),
  );
  const points = view.names.map((name, point) => element("g", { class: "point", role: "button", "data-point": point }));
  $("board").replaceChildren(definitions, ...board.ground(), ...points);
}

function squareGround() {
  const { width, height } = view, onEdge = view.look.on_lines ? 0 : CELL / 2;
  const right = CELL * (width + 1), bottom = CELL * (height + 1);
  $("board").setAttribute("viewBox", `0 0 ${right} ${bottom}`);
  const parts = [element("rect", { class: `ground ${view.look.ground}`, width: right, height: bottom, rx: 8 })];
  if (!isOn("frame")) {
    const inner = isOn("paper") ? 1 : 0; // no frame around it
    let lines = "";
    for (let i = inner; i <= (onEdge ? width : width - 1) - inner; i++) lines += `M${CELL * (1 + i) - onEdge} ${CELL - onEdge}V${bottom - CELL + onEdge}`;
    for (let i = inner; i <= (onEdge ? height : height - 1) - inner; i++) lines += `M${CELL - onEdge} ${CELL * (1 + i) - onEdge}H${right - CELL + onEdge}`;
    parts.push(element("path", { class: "grid", d: lines }));
  }
  for (const point of starPoints()) {
    const [cx, cy] = board.place(point);
    parts.push(element("circle", { class: "star", cx, cy, r: 3.4 }));
  }
  const off = onEdge ? 9 : 11;
  view.columns.forEach((name, i) => {
    for (const y of [off, bottom - off]) parts.push(element("text", { class: "coordinate", x: CELL * (1 + i), y, "aria-hidden": "true" }, name));
  });
  view.rows.forEach((name, i) => {
    for (const x of [off, right - off]) parts.push(element("text", { class: "coordinate", x, y: CELL * (1 + i), "aria-hidden": "true" }, name));
  });
  return parts;
}

function drawStones() {
  const found = view.analysis, moves = showsMoves() ? found.moves : [], byPoint = new Map(moves.map((move) => [move.point, move]));
  const owners = $("territory").checked ? (found?.ownership ?? view.area) : null;
  const called = ["empty", `${view.colours[0]} ${view.look.called}`, `${view.colours[1]} ${view.look.called}`];
  for (const group of $("board").querySelectorAll(".point")) {
    const point = Number(group.dataset.point), [x, y] = board.place(point), owned = view.board[point], move = byPoint.get(point);
    const parts = [element("path", { class: "hit", d: board.cell(x, y) })];
    if (isOn("frame")) parts.push(element("circle", { class: "hole", cx: x, cy: y, r: 16.5 }));
    if (owners && Math.abs(owners[point]) >= 0.08) parts.push(ownerMark(owners[point], board.cell(x, y), (owners[point] > 0 ? 0.6 : 0.5) * Math.abs(owners[point])));
    if (owned) parts.push(stone(owned - 1, x, y));
    else if (view.look.shows_legal && view.legal[point] && myTurn()) parts.push(element("circle", { class: "may", cx: x, cy: y, r: 4 }));
    const policy = showsMoves() && view.legal[point] ? found.policy[point] : 0;
    if (policy >= HEAT_FROM || move) parts.push(element("circle", { class: "heat", cx: x, cy: y, r: 17.5, opacity: (move ? 0.6 : 0.15) + 0.35 * Math.sqrt(policy) }));
    if (move && (move.visits || moves.indexOf(move) === 0)) {
      parts.push(element("text", { class: "tell", x, y: y - 5 }, (100 * move.winrate).toFixed(0)));
      parts.push(element("text", { class: "tell visits", x, y: y + 8 }, short(move.visits)));
    }
    if (owners && owned && owners[point] * (owned === 1 ? 1 : -1) < -0.1) parts.push(ownerMark(owners[point], square(x, y, 14), 0.9)); // it will be captured
    if (point === view.last) parts.push(lastMark(owned, x, y));
    parts.push(element("circle", { class: "ring", cx: x, cy: y, r: 17 }));
    group.replaceChildren(...parts);
    group.classList.toggle("legal", view.legal[point] && !thinking);
    group.classList.toggle("best", moves.length > 0 && move === moves[0]);
    group.setAttribute("tabindex", point === cursor ? 0 : -1);
    const hintLabel = move && move.visits ? `, candidate, win rate ${percent(move.winrate)}` : "";
    group.setAttribute("aria-label", `${view.names[point]}, ${called[owned]}${point === view.last ? ", last move" : ""}${hintLabel}`);
  }
}

const ownerMark = (owner, d, opacity) => element("path", { class: "owner", d, fill: owner > 0 ? "#000" : "#fff", opacity });

function lastMark(owned, x, y) {
  if (isMark(owned - 1)) return element("rect", { class: "last", x: x - 18, y: y - 18, width: 36, height: 36, rx: 5, stroke: "#8888", "stroke-width": 1.5 });
  const dark = view.look.stones[owned - 1] === "white";
  return element("circle", { class: "last", cx: x, cy: y, r: 8, stroke: dark ? "#222" : "#fff" });
}

function moveAmongPoints(rows, columns) {
  const row = Math.floor(cursor / view.width) + rows, column = (cursor % view.width) + columns;
  cursor = Math.max(0, Math.min(view.height - 1, row)) * view.width + Math.max(0, Math.min(view.width - 1, column));
  for (const group of $("board").querySelectorAll(".point")) group.setAttribute("tabindex", Number(group.dataset.point) === cursor ? 0 : -1);
  $("board").querySelector(`[data-point="${cursor}"]`).focus();
}
