// The board of shogi and minishogi with both hands: a module for page.js. The server says which moves are legal, in USI
// (7g7f, 8h2b+, P*5e; see table.py). One click takes a piece, another puts it down.

const SQUARE = [44, 48], MARGIN = 22, HAND = 54; // sizes: of a square, of the margin for coordinates, of a hand
const KANJI = { P: "歩", L: "香", N: "桂", S: "銀", G: "金", B: "角", R: "飛", K: "王", "+P": "と", "+L": "杏", "+N": "圭", "+S": "全", "+B": "馬", "+R": "龍" };
const PIECES = { P: "pawn", L: "lance", N: "knight", S: "silver", G: "gold", B: "bishop", R: "rook", K: "king" };
const OUTLINE = "M0 -20L13 -14L17 19H-17L-13 -14Z"; // of a piece that points up
const MOST_ARROWS = 4;

let held = null; // the taken piece: its square, or P* for one in hand
let spot = [4, 4]; // the place chosen by the arrow keys: rows -1 and `height` are the hands

const EXTRAS = `
  <div class="toggles" data-board="shogi"><label><input id="letters" type="checkbox"> Letters on the pieces</label></div>
  <details data-board="shogi"><summary>Position as SFEN</summary><code id="sfen"></code></details>`;
const KEYS = `
  <dt data-board="shogi">Esc</dt><dd data-board="shogi">put the piece back</dd>`;
const PROMOTION = `
  <dialog id="promotion" aria-label="Promote?">
    <form method="dialog" class="buttons"><button id="promote" value="+"></button><button id="keep" value=""></button></form>
  </dialog>`;

boards.shogi = {
  setUp() {
    $("extras").insertAdjacentHTML("beforeend", EXTRAS);
    $("keys").insertAdjacentHTML("beforeend", KEYS);
    document.body.insertAdjacentHTML("beforeend", PROMOTION);
    $("letters").checked = (kept("letters") ?? String(!showsKanji())) === "true";
    $("letters").addEventListener("change", () => { keep("letters", String($("letters").checked)); draw(); });
    $("promotion").addEventListener("submit", ({ submitter }) => play($("promotion").dataset.move + submitter.value));
  },
  build() {
    held = null;
    spot = [Math.floor(view.height / 2), Math.floor(view.width / 2)];
    buildShogi();
  },
  draw: () => drawShogi(),
  follow() {
    held = null;
    spot = gridOf(view.last[1]);
  },
  picture: (player) => {
    const made = element("g", { transform: `translate(20 20) scale(.9)${sits(player) ? "" : " rotate(180)"}` });
    made.append(...koma(player === 0 ? "K" : "k"));
    return made;
  },
  press: (group) => pressedAt(group.dataset.at, Number(group.dataset.row), Number(group.dataset.column)),
  moveCursor(rows, columns) {
    const row = Math.max(-1, Math.min(view.height, spot[0] + rows)), many = rowOf(row).length;
    if (!many) return; // an empty hand
    spot = [row, Math.max(0, Math.min(many - 1, spot[1] + columns))];
    drawShogi();
    focused()?.focus();
  },
  cancel() {
    held = null;
    draw();
  },
};

/** Whether a font has the pieces' characters. All missing characters look the same. */
function showsKanji() {
  const canvas = Object.assign(document.createElement("canvas"), { width: 24, height: 24 }), pen = canvas.getContext("2d", { willReadFrequently: true });
  const drawn = (text) => {
    pen.clearRect(0, 0, 24, 24);
    pen.font = "20px system-ui, sans-serif";
    pen.fillText(text, 1, 20);
    return pen.getImageData(0, 0, 24, 24).data.join();
  };
  return drawn("歩") !== drawn("\u{10FFFD}") && drawn("歩") !== drawn("龍");
}

// Coordinates

/** Whether a player sits at the bottom: the person, or the first player if there is no opponent. */
const sits = (player) => player === (view.human ?? 0);
const viewer = () => view.human ?? 0;

/** The [row, column] of a point in the drawing. The board is turned for the second player. */
const turned = (point) => (viewer() ? view.width * view.height - 1 - point : point);
const gridOf = (point) => [Math.floor(turned(point) / view.width), turned(point) % view.width];
const nameOf = (point) => `${view.width - (point % view.width)}${"abcdefghi"[Math.floor(point / view.width)]}`;
const pointOf = (name) => "abcdefghi".indexOf(name[1]) * view.width + view.width - Number(name[0]);

/** The centre of a place: a point, or a column of a hand. */
function middle(row, column) {
  const x = MARGIN + SQUARE[0] * (column + 0.5);
  if (row < 0) return [x, HAND / 2];
  if (row >= view.height) return [x, HAND * 1.5 + 2 * MARGIN + SQUARE[1] * view.height];
  return [x, HAND + MARGIN + SQUARE[1] * (row + 0.5)];
}

/** The places in a row: points of the board, or letters in a hand. */
function rowOf(row) {
  if (row < 0 || row >= view.height) return Object.keys(view.hands[row < 0 ? 1 - viewer() : viewer()]);
  return Array.from({ length: view.width }, (_, column) => turned(row * view.width + column));
}

const focused = () => $("board").querySelector(`[data-row="${spot[0]}"][data-column="${spot[1]}"]`);

// What the person does

function pressedAt(at, row, column) {
  spot = [row, column];
  if (!mayPlay()) return;
  if (!view.rules_ready) return say(SETTING_UP);
  if (held === at) return boards.shogi.cancel();
  const ways = view.legal.filter((move) => held !== null && move.slice(0, 2) === held && move.slice(2, 4) === at);
  if (ways.length === 2) return askPromotion(held + at);
  if (ways.length === 1) return play(ways[0]);
  const isHand = at[1] === "*", mine = isHand ? row === (sits(view.turn) ? view.height : -1) : ownerOf(view.board[pointOf(at)]) === view.turn;
  if (mine) {
    held = view.legal.some((move) => move.startsWith(at)) ? at : null;
    draw();
    return held === null && !view.over ? say(`The ${pieceName(isHand ? at[0] : view.board[pointOf(at)])} can't move.`, true) : undefined;
  }
  if (held !== null && !isHand) return play(held + at); // the server says why it is illegal
}

function askPromotion(move) {
  const piece = view.board[pointOf(move)].replace("+", "");
  for (const [id, name, text] of [["promote", promoted(piece), "Promote"], ["keep", piece, "Don't"]]) {
    const drawing = element("svg", { viewBox: "-20 -22 40 44", width: 56, height: 62, "aria-hidden": "true" });
    drawing.append(...koma(name));
    $(id).replaceChildren(drawing, text);
  }
  $("promotion").dataset.move = move;
  $("promotion").showModal();
}

const promoted = (piece) => `+${piece}`;
const ownerOf = (piece) => (piece === "" ? null : piece === piece.toUpperCase() ? 0 : 1);
const pieceName = (piece) => (piece.startsWith("+") ? "promoted " : "") + PIECES[piece.at(-1).toUpperCase()];

// Drawing

/** The parts of a piece that points up, around 0 0. */
function koma(piece) {
  const kind = piece.toUpperCase(), text = $("letters").checked ? kind : kind === "K" && piece === "K" ? "玉" : KANJI[kind];
  return [
    element("path", { class: "koma", d: OUTLINE }),
    element("text", { class: `glyph ${kind.startsWith("+") ? "promoted" : ""}`, y: 3, "font-size": text.length > 1 ? 17 : 21 }, text),
  ];
}

function buildShogi() {
  const { width, height } = view, drawing = $("board"), right = 2 * MARGIN + SQUARE[0] * width, bottom = 2 * HAND + 2 * MARGIN + SQUARE[1] * height;
  const [x, y, across, down] = [MARGIN, HAND + MARGIN, SQUARE[0] * width, SQUARE[1] * height];
  drawing.setAttribute("viewBox", `0 0 ${right} ${bottom}`);
  const parts = [element("rect", { class: "stand", width: right, height: bottom, rx: 8 }), element("rect", { class: "ground", x: 0, y: HAND, width: right, height: bottom - 2 * HAND })];
  let lines = "";
  for (let i = 0; i <= width; i++) lines += `M${x + SQUARE[0] * i} ${y}v${down}`;
  for (let i = 0; i <= height; i++) lines += `M${x} ${y + SQUARE[1] * i}h${across}`;
  parts.push(element("g", { id: "squares" }), element("path", { class: "grid", d: lines }));
  for (let row = 0; row < height; row++) {
    const name = nameOf(rowOf(row)[0])[1];
    parts.push(element("text", { class: "coordinate", x: right - MARGIN / 2, y: middle(row, 0)[1], "aria-hidden": "true" }, name));
  }
  for (let column = 0; column < width; column++) {
    const name = nameOf(rowOf(0)[column])[0];
    parts.push(element("text", { class: "coordinate", x: middle(0, column)[0], y: y - MARGIN / 2, "aria-hidden": "true" }, name));
  }
  parts.push(element("g", { id: "places" }), element("g", { id: "arrows", "aria-hidden": "true" }));
  drawing.replaceChildren(...parts);
}

function drawShogi() {
  const hadFocus = document.activeElement?.closest?.(".point") !== null && document.activeElement !== document.body;
  const may = !view.over && view.ply === view.moves.length && myTurn() && !thinking;
  if (!may || (held !== null && !view.legal.some((move) => move.startsWith(held)))) held = null;
  if (!rowOf(spot[0]).length) spot = [Math.floor(view.height / 2), spot[1]];
  spot[1] = Math.min(spot[1], rowOf(spot[0]).length - 1);
  const targets = new Set(view.legal.filter((move) => held !== null && move.startsWith(held)).map((move) => move.slice(2, 4)));
  const sources = new Set(may ? view.legal.map((move) => move.slice(0, 2)) : []);
  const places = [], squares = [];
  for (let row = -1; row <= view.height; row++) {
    const isHand = row < 0 || row >= view.height, player = isHand ? (row < 0 ? 1 - viewer() : viewer()) : null;
    rowOf(row).forEach((what, column) => {
      const at = isHand ? `${what}*` : nameOf(what), piece = isHand ? (player ? what.toLowerCase() : what) : view.board[what];
      const count = isHand ? view.hands[player][what] : 1, [x, y] = middle(row, column);
      const mark = isHand ? "" : squareMark(what, piece);
      if (mark) squares.push(element("rect", { class: mark, x: x - SQUARE[0] / 2, y: y - SQUARE[1] / 2, width: SQUARE[0], height: SQUARE[1] }));
      const parts = [element("rect", { class: "hit", x: x - SQUARE[0] / 2, y: y - SQUARE[1] / 2, width: SQUARE[0], height: SQUARE[1] })];
      if (piece) {
        const shape = element("g", { transform: `translate(${x} ${y})${sits(ownerOf(piece)) ? "" : " rotate(180)"}` });
        shape.append(...koma(piece));
        parts.push(shape);
      }
      if (count > 1) parts.push(element("circle", { class: "count", cx: x + 15, cy: y + 14, r: 9 }), element("text", { class: "tell", x: x + 15, y: y + 14.5 }, String(count)));
      const isTarget = !isHand && targets.has(at), isSource = sources.has(at) && (!isHand || player === view.turn), isHeld = held === at && (!isHand || player === view.turn);
      if (isTarget) parts.push(piece ? element("rect", { class: "take", x: x - 19, y: y - 21, width: 38, height: 42, rx: 6 }) : element("circle", { class: "may", cx: x, cy: y, r: 6 }));
      parts.push(element("rect", { class: "ring", x: x - 20, y: y - 22, width: 40, height: 44, rx: 6 }));
      const said = [isHeld && "taken", isTarget && "possible", isSource && held === null && "can move", !isHand && view.last?.[1] === what && "last move", mark === "checked" && "in check"].filter(Boolean);
      const called = piece ? `${view.colours[ownerOf(piece)]} ${pieceName(piece)}` : "empty";
      const label = isHand ? `${view.colours[player]} in hand: ${count} ${PIECES[what]}${count > 1 ? "s" : ""}` : `${at}, ${called}`;
      const here = row === spot[0] && column === spot[1];
      const group = element("g", {
        class: `point ${isTarget || isSource ? "legal" : ""} ${isHeld ? "held" : ""}`, role: "button", "data-at": at, "data-row": row, "data-column": column,
        tabindex: here ? 0 : -1, "aria-label": [label, ...said].join(", "),
      });
      group.append(...parts);
      places.push(group);
    });
  }
  $("squares").replaceChildren(...squares);
  $("places").replaceChildren(...places);
  $("arrows").replaceChildren(...(showsMoves() ? view.analysis.moves.slice(0, MOST_ARROWS).map(arrow).reverse() : []));
  $("sfen").textContent = view.sfen;
  if (hadFocus && !document.querySelector("dialog[open]")) focused()?.focus();
}

/** How a square is shaded: under a king in check, and at both ends of the last move. */
function squareMark(point, piece) {
  if (view.check && piece.toUpperCase() === "K" && ownerOf(piece) === view.to_move) return "checked";
  if (!view.last || !view.last.includes(point)) return "";
  return view.last[1] === point ? "moved" : "left";
}

/** A searched move: the best one in green, and wider if it was visited more. */
function arrow(move, order) {
  const [toRow, toColumn] = gridOf(pointOf(move.move.slice(2, 4))), [x, y] = middle(toRow, toColumn), drop = move.move[1] === "*";
  const ofViewer = view.to_move === viewer(), row = ofViewer ? view.height : -1;
  const [fromX, fromY] = drop ? middle(row, rowOf(row).indexOf(move.move[0])) : middle(...gridOf(pointOf(move.move)));
  const share = Math.sqrt(Math.max(move.visits, 1) / Math.max(...view.analysis.moves.map((one) => one.visits), 1));
  const group = element("g", { class: `arrow ${order ? "" : "best"} ${drop ? "drop" : ""}`, opacity: 0.35 + 0.5 * share });
  const length = Math.hypot(x - fromX, y - fromY), [along, down] = [(x - fromX) / length, (y - fromY) / length], head = 12;
  group.append(
    element("path", { class: "shaft", d: `M${fromX} ${fromY}L${x - head * along} ${y - head * down}`, "stroke-width": 2 + 4 * share }),
    element("path", { class: "head", d: `M${x} ${y}L${x - head * along - 9 * down} ${y - head * down + 9 * along}L${x - head * along + 9 * down} ${y - head * down - 9 * along}Z` }),
  );
  if (move.visits || order === 0) {
    group.append(element("circle", { class: "rate", cx: x, cy: y, r: 13 }), element("text", { class: "tell", x, y: y + 0.5 }, (100 * move.winrate).toFixed(0)));
  }
  return group;
}
