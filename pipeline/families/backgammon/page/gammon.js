// The page of backgammon. The server keeps every game and says which single steps are legal (see table.py).
"use strict";

const WIDTH = 640, HEIGHT = 500, POINT = 40, RADIUS = 18, LEFT = 20, BAR_X = LEFT + 6 * POINT, BAR_WIDTH = 40, TRAY_X = BAR_X + BAR_WIDTH + 6 * POINT + 12;
const TOP = 28, GAP = 24, LONGEST = 5; // the most checkers drawn on a point
const BAR = 25, OFF = 0;
const ORDER = [13, 14, 15, 16, 17, 18, 25, 19, 20, 21, 22, 23, 24, 12, 11, 10, 9, 8, 7, 0, 6, 5, 4, 3, 2, 1]; // for the arrow keys

// What is drawn until there is a game.
const EMPTY = { viewer: 0, mine: false, over: true, board: Array(26).fill(0), theirs_off: 0, theirs_bar: 0, dice: [], made: [], steps: [] };

let options = null, taken = null, cursor = 6;

const shown = () => view ?? EMPTY;
const tablePath = (rest = "") => `/api/gammon/${view.id}${rest}`;
const act = (verb, more = {}) => api(tablePath(`/${verb}`), { ply: view.ply, ...more });

const isTheirTurn = () => !view.mine;

/** Let the opponent move if it is their turn. */
async function reply() {
  if (!view.over && isTheirTurn()) await attempt(() => act("reply"), reply, true);
}

function show(found) {
  view = found;
  setLive();
  watchLoading();
  const sources = new Set(view.steps.map(([source]) => source));
  taken = sources.size === 1 && sources.has(BAR) ? BAR : null; // a checker on the bar must move first
  draw();
}

/** A click or Enter on a place: take a checker there, or put down the taken one. */
function choose(place) {
  if (!view || view.over || thinking || changing) return;
  if (isTheirTurn()) return reply(); // the opponent has failed: ask again
  if (taken !== null && view.steps.some(([source, target]) => source === taken && target === place)) {
    const source = taken;
    return change(() => act("step", { made: view.made.length, source, target: place }), reply);
  }
  taken = taken !== place && view.steps.some(([source]) => source === place) ? place : null;
  draw();
}

function statusText() {
  if (view.over) return `${view.result}.`;
  if (thinking) return view.opponent_ready ? `${view.opponent} is thinking…` : loadingText(view.opponent);
  if (isTheirTurn()) return `${view.opponent} is to move. Click on the board to ask again.`;
  const who = view.human === null ? view.colours[view.turn] : `Your turn, ${view.colours[view.turn]}`;
  const loading = view.opponent_ready ? "" : ` ${view.opponent} is being loaded.`;
  const dice = `dice ${view.dice.slice(0, 2).join(" and ")}`;
  if (view.must_pass) return `${who}: ${dice}. You can only pass.`;
  return taken === null ? `${who}: ${dice}. Choose a checker.${loading}` : `${who}: ${dice}. From ${name(taken)} to ${targets().map(name).join(" or ")}.`;
}

const name = (place) => (place === BAR ? "the bar" : place === OFF ? "off" : `point ${place}`);
const targets = () => view.steps.filter(([source]) => source === taken).map(([, target]) => target);

/** The left edge of a point, and whether it hangs from the top. */
function where(point) {
  const top = point > 12, column = top ? point - 13 : 12 - point;
  return [LEFT + POINT * column + (column > 5 ? BAR_WIDTH : 0), top];
}

const colour = (own) => ((own ? shown().viewer : 1 - shown().viewer) === 0 ? "white" : "black");

/** Checkers stacked from y on. */
function pile(count, own, x, y, down) {
  const parts = [];
  for (let i = 0; i < Math.min(count, LONGEST); i++) {
    parts.push(element("circle", { class: `checker ${colour(own)}`, cx: x, cy: y + (down ? 1 : -1) * (RADIUS + 2 * RADIUS * i), r: RADIUS }));
  }
  if (count > LONGEST) {
    parts.push(element("text", { class: `more ${colour(own)}`, x, y: y + (down ? 1 : -1) * RADIUS * (2 * LONGEST - 1) }, String(count)));
  }
  return parts;
}

function place(number, box, label, parts) {
  const sources = shown().steps.map(([source]) => source), may = shown().mine && !thinking;
  const kind = number === taken ? "taken" : may && taken !== null && targets().includes(number) ? "to" : may && taken === null && sources.includes(number) ? "from" : "";
  const said = { taken: ", taken", to: ", possible", from: ", can move" }[kind] ?? "";
  const group = element("g", { class: `place ${kind}`, role: "button", "data-place": number, tabindex: number === cursor ? 0 : -1, "aria-label": `${label}${said}` });
  const [x, y, width, height] = box;
  group.append(...parts, element("rect", { class: "edge", x: x + 1.5, y: y + 1.5, width: width - 3, height: height - 3, rx: 5, "pointer-events": "all" }));
  return group;
}

function checkers(count) {
  return count === 0 ? "empty" : `${Math.abs(count)} ${count > 0 ? "own" : "of the opponent's"} ${colour(count > 0)}`;
}

function drawBoard() {
  const focused = document.activeElement?.closest?.(".place") !== null && document.activeElement !== document.body;
  const half = (HEIGHT - 2 * TOP) / 2, parts = [element("rect", { class: "rail", width: WIDTH, height: HEIGHT, rx: 8 })];
  for (const x of [LEFT, BAR_X + BAR_WIDTH]) parts.push(element("rect", { class: "field", x, y: TOP, width: 6 * POINT, height: HEIGHT - 2 * TOP }));
  for (let point = 1; point <= 24; point++) {
    const [x, top] = where(point), count = shown().board[point], y = top ? TOP : HEIGHT - TOP;
    const tip = top ? TOP + half - 30 : HEIGHT - TOP - half + 30;
    const shapes = [element("path", { class: `spike ${point % 2 ? "dark" : "light"}`, d: `M${x} ${y}h${POINT}L${x + POINT / 2} ${tip}Z` })];
    shapes.push(...pile(Math.abs(count), count > 0, x + POINT / 2, y, top));
    shapes.push(element("text", { class: "number", x: x + POINT / 2, y: top ? TOP / 2 : HEIGHT - TOP / 2, "aria-hidden": "true" }, String(point)));
    parts.push(place(point, [x, top ? TOP : TOP + half + GAP, POINT, half - GAP], `Point ${point}, ${checkers(count)}`, shapes));
  }
  const middle = BAR_X + BAR_WIDTH / 2;
  parts.push(...pile(shown().theirs_bar, false, middle, HEIGHT / 2 + 26, true));
  parts.push(place(BAR, [BAR_X, TOP, BAR_WIDTH, half - GAP], `Bar, ${shown().board[BAR]} own, ${shown().theirs_bar} of the opponent's`, pile(shown().board[BAR], true, middle, HEIGHT / 2 - 26, false)));
  const tray = [TRAY_X, TOP + half, WIDTH - TRAY_X - 12, half], across = TRAY_X + tray[2] / 2;
  parts.push(element("rect", { class: "field", x: TRAY_X, y: TOP, width: tray[2], height: HEIGHT - 2 * TOP }));
  parts.push(...off(shown().theirs_off, false, across, TOP + 40));
  parts.push(place(OFF, tray, `Borne off, ${shown().board[OFF]} own, ${shown().theirs_off} of the opponent's`, off(shown().board[OFF], true, across, HEIGHT - TOP - 40)));
  if (!shown().over && shown().dice.length) parts.push(...dice());
  $("board").replaceChildren(...parts);
  if (focused) $("board").querySelector(`[data-place="${cursor}"]`)?.focus();
}

function off(count, own, x, y) {
  if (!count) return [];
  return [element("circle", { class: `checker ${colour(own)}`, cx: x, cy: y, r: RADIUS }), element("text", { class: `more ${colour(own)}`, x, y }, String(count))];
}

const PIPS = [[], [4], [0, 8], [0, 4, 8], [0, 2, 6, 8], [0, 2, 4, 6, 8], [0, 2, 3, 5, 6, 8]];

/** The dice, on the half of the player to move; used ones are pale. */
function dice() {
  const parts = [], size = 34, mine = view.turn === view.viewer;
  const left = usedDice(), start = (mine ? BAR_X + BAR_WIDTH : LEFT) + 3 * POINT - (view.dice.length * (size + 8)) / 2;
  view.dice.forEach((value, i) => {
    const x = start + i * (size + 8), y = HEIGHT / 2 - size / 2;
    const die = element("g", { class: `die ${left[i] ? "used" : ""}`, role: "img", "aria-label": `Die ${value}${left[i] ? ", played" : ""}` });
    die.append(element("rect", { x, y, width: size, height: size, rx: 6 }));
    for (const at of PIPS[value]) die.append(element("circle", { class: "pip", stroke: "none", cx: x + 8 + 9 * (at % 3), cy: y + 8 + 9 * Math.floor(at / 3), r: 3.4 }));
    parts.push(die);
  });
  return parts;
}

/** Which dice are used: for each step the smallest that is large enough, which is nearly always right. */
function usedDice() {
  const used = view.dice.map(() => false);
  for (const [source, target] of view.made) {
    const fitting = view.dice.map((value, i) => [value, i]).filter(([value, i]) => !used[i] && value >= source - target).sort((a, b) => a[0] - b[0]);
    if (fitting.length) used[fitting[0][1]] = true;
  }
  return used;
}

function draw() {
  if (!view) return;
  drawBoard();
  $("game-name").textContent = view.title;
  drawPlayers(view, (player) => element("circle", { class: `checker ${player ? "black" : "white"}`, cx: 20, cy: 20, r: 17 }));
  $("last").textContent = view.last;
  $("undo").disabled = view.ply < 2 && !view.made.length && !view.over; // a resignation can be taken back
  $("pass").hidden = !view.must_pass;
  $("resign").disabled = view.over;
  $("typed").hidden = !view.mine || view.made.length > 0;
  $("mat").hidden = view.game !== "backgammon";
  $("mat").href = tablePath("/mat");
  $("sgf").href = tablePath("/sgf");
  $("sgf").hidden = $("dice-details").hidden = false;
  $("commitment").textContent = view.commitment;
  $("seed").textContent = view.seed ? `The seed was ${view.seed}. Throw N came from the SHA-256 of ${view.seed}:N.` : "The seed is shown after the game, so that you can check every throw.";
  say(statusText());
}

function pressed(event) {
  if (!view || $("dialog").open || event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, select, summary")) return;
  const on = event.target.closest(".place"), at = ORDER.indexOf(cursor), row = at < 13 ? 0 : 13;
  const keys = {
    ArrowRight: () => move(row + ((at - row + 1) % 13)), ArrowLeft: () => move(row + ((at - row + 12) % 13)),
    ArrowUp: () => move(at % 13), ArrowDown: () => move(13 + (at % 13)),
    u: () => $("undo").click(), p: () => view.must_pass && $("pass").click(), Escape: () => { taken = null; draw(); },
  };
  if (on) keys.Enter = keys[" "] = () => choose(Number(on.dataset.place));
  if (!keys[event.key]) return;
  event.preventDefault();
  keys[event.key]();
}

function move(index) {
  cursor = ORDER[index];
  drawBoard();
  $("board").querySelector(`[data-place="${cursor}"]`).focus();
}

function begin() {
  const wanted = { game: $("choose-game").value, opponent: $("choose-opponent").value, human: Number($("choose-colour").value) };
  replaceGame(() => api("/api/gammon", wanted), reply);
}

async function start() {
  setUpTheme();
  drawBoard();
  try {
    options = await api("/api/gammon");
  } catch (error) {
    return say(error.message, true);
  }
  setUpDialog(options, begin);
  const clicks = { undo: ["undo"], pass: ["move", { move: "pass" }], resign: ["resign"] };
  for (const [id, wanted] of Object.entries(clicks)) $(id).addEventListener("click", () => change(() => act(...wanted), reply));
  $("board").addEventListener("click", (event) => {
    const group = event.target.closest(".place");
    if (!group) return;
    cursor = Number(group.dataset.place);
    choose(cursor);
  });
  $("typed").addEventListener("submit", (event) => {
    event.preventDefault();
    change(() => act("move", { move: $("turn").value }), () => { $("turn").value = ""; return reply(); });
  });
  document.addEventListener("keydown", pressed);
  await continued("/api/gammon", begin);
}

start();
