// What all pages share: elements, requests to the server, players, the dialog for a new game, light and dark.
// A page declares show(found), which keeps what the server found as `view` and draws it, draw(), tablePath(), reply(),
// isTheirTurn() and statusText(). Its fieldset #controls is disabled until the first game is there: show() calls
// setLive().
"use strict";

const boards = {}; // of the main page, by name; each board's script registers itself
let view = null; // the game as the server described it last
let thinking = false; // whether the opponent's move is awaited
let changing = false; // whether the answer to a move, or to taking one back, is awaited: until then, clicks don't count
let requests = 0; // counts those for another game
let epoch = 0; // counts the person's actions: answers to earlier requests are out of date

const SETTING_UP = "Setting up the board; the first time on this machine, that takes up to half a minute…";
const SVG = "http://www.w3.org/2000/svg";
const $ = (id) => document.getElementById(id);

/** The server's answer. A body (an object or a file) is posted. Throws an Error with the HTTP status. */
async function api(path, body, signal) {
  const request = body === undefined ? {} : { method: "POST", body: body instanceof Blob ? body : JSON.stringify(body) };
  let answer, found;
  try {
    answer = await fetch(path, { ...request, signal });
    found = await answer.json(); // fails if the server is too busy for an answer of its own
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Error(answer?.status === 503 ? "The server is busy: try again in a moment" : "The server doesn't answer: has it been stopped?");
  }
  if (!answer.ok) throw Object.assign(new Error(found.error), { status: answer.status });
  return found;
}

/**
 * Show what a request gives, then do what comes after it; nothing if the person has done something else meanwhile.
 * Shows an error, and the game as it is now if another window has changed it. waits: it is for the opponent's move.
 */
async function attempt(ask, after = () => {}, waits = false) {
  const mine = ++epoch;
  thinking = waits;
  if (waits) draw();
  try {
    const found = await ask();
    if (mine !== epoch) return;
    thinking = false;
    show(found);
    await after();
  } catch (error) {
    await failed(error, mine);
  }
}

/** Say what went wrong; show the game as it is now if another window has changed it. */
async function failed(error, mine) {
  if (mine !== epoch) return;
  if (error.status === 409) await api(tablePath()).then((found) => mine === epoch && show(found), () => {});
  if (mine === epoch) complain(error);
}

/** The same for a request that changes the game; nothing while the answer to another one is awaited. */
async function change(ask, after) {
  if (changing) return;
  changing = true;
  await attempt(() => ask().finally(() => { changing = false; }), after);
}

/** Show a new game, name it in the address, and do what comes after it. If it is refused, the present one goes on. */
async function replaceGame(ask, after) {
  const mine = ++requests, timer = setTimeout(() => say(SETTING_UP), 500);
  try {
    const found = await ask().finally(() => clearTimeout(timer));
    if (mine !== requests) return; // another game was asked for meanwhile
    changing = false;
    history.replaceState(null, "", `#${found.id}`);
    await attempt(async () => found, after);
  } catch (error) {
    if (mine === requests) sayError(error);
  }
}

/** Ask for the game again if the answer to the opponent's move was lost. */
function askAgain() {
  if (view && !view.over && isTheirTurn() && !thinking && !changing && !document.hidden) attempt(() => api(tablePath()), reply);
}

document.addEventListener("visibilitychange", askAgain);
addEventListener("online", askAgain);

function complain(error) {
  thinking = false;
  draw();
  sayError(error);
}

function element(name, attributes = {}, text = "") {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text) made.textContent = text;
  return made;
}

function say(text, error = false) {
  $("status").textContent = text;
  $("status").classList.toggle("error", error);
}

/** A game is there: the buttons work. */
const setLive = () => { $("controls").disabled = false; };

const loadingText = (model) => `Loading ${model}; the first time on this machine, that takes a minute or two…`;

let watching = false;

/** While the opponent or the rules are being loaded, ask every second whether they are there. */
async function watchLoading() {
  if (watching) return;
  watching = true;
  while (view.rules_ready === false || (view.opponent_ready === false && !view.opponent_problem)) {
    await new Promise((done) => setTimeout(done, 1000));
    const { id } = view, before = statusText(), mine = epoch;
    const at = view.ply < view.moves?.length ? `?ply=${view.ply}` : "";
    const found = await api(tablePath(at)).catch(() => null); // the next request of the person's says what is wrong
    if (!found || id !== view.id) continue;
    if (view.rules_ready === false && mine === epoch && !thinking) {
      show(found);
      continue;
    }
    const said = $("status").textContent === before;
    view.opponent_ready = found.opponent_ready;
    view.opponent_problem = found.opponent_problem;
    if ("adviser_ready" in found) view.adviser_ready = found.adviser_ready;
    if (found.opponent_problem) sayError({ message: found.opponent_problem });
    else if (said) say(statusText());
  }
  watching = false;
}

const sayError = ({ message }) => say(message.charAt(0).toUpperCase() + message.slice(1), true);

/** List both players and mark the one to move. picture(player): an SVG element, 40 × 40 units. */
function drawPlayers(view, picture) {
  $("players").replaceChildren(...[0, 1].map((player) => {
    const item = document.createElement("li"), drawing = element("svg", { viewBox: "0 0 40 40", "aria-hidden": "true" });
    drawing.append(picture(player));
    const who = document.createElement("span"), colour = document.createElement("span");
    who.className = "who";
    who.textContent = view.players[player];
    colour.className = "colour";
    colour.textContent = view.colours[player];
    item.append(drawing, who, colour);
    if (!view.over && view.turn === player) {
      item.className = "turn";
      item.setAttribute("aria-current", "true");
    }
    return item;
  }));
}

const BUILT_IN = { heuristic: "heuristic: plays by simple rules", random: "random: plays any legal move", nobody: "nobody: you play both sides" };

/** Games in a <select>: those that models play, then the others. */
function gameOptions(games) {
  const trained = (game) => Object.keys(game.models ?? {}).length > 0, entry = (game) => new Option(game.title ?? game.spec, game.spec);
  if (games.every(trained) || !games.some(trained)) return games.map(entry);
  return [["Against trained models", trained], ["Against built-in players", (game) => !trained(game)]].map(([label, belongs]) => {
    const group = document.createElement("optgroup");
    group.label = label;
    group.append(...games.filter(belongs).map(entry));
    return group;
  });
}

/** The komi chosen in the dialog; null: the game's own. */
const chosenKomi = () => ($("komi-label").hidden ? null : Number($("choose-komi").value));

/** Show the komi of a game; the person may change it if the opponent plays with any. */
function showKomi(game, opponent) {
  const known = game.komi ?? null, plays = game.models?.[opponent] ?? game;
  $("komi-label").hidden = known === null || !game.takes_komi;
  $("choose-komi").disabled = $("komi-label").hidden || !plays.takes_komi;
  $("choose-komi").value = plays.komi ?? known ?? "";
  $("komi-name").textContent = plays.takes_komi ? `Komi: points for ${game.colours[1]}` : `Komi: ${opponent} plays with ${plays.komi} only`;
}

/**
 * Fill the dialog for a new game. games: each with its spec, title, opponents and colours; and if there are any, with
 * komi, takes_komi and models (see Lobby.options in app.py). champion: the name of the run's, or "".
 * begin(): called after Start.
 * chosenGame(game), chosenOpponent(name): called when one is chosen, to update other fields.
 */
function setUpDialog({ games, champion }, begin, chosenGame = () => {}, chosenOpponent = () => {}) {
  let preferred = null; // the opponent that the person has chosen
  const named = (name) => BUILT_IN[name] ?? (name === champion ? `${name}: your champion` : name);
  const chosen = () => games.find((known) => known.spec === $("choose-game").value);
  const opponent = () => {
    $("colour-label").hidden = $("choose-opponent").value === "nobody";
    showKomi(chosen(), $("choose-opponent").value);
    chosenOpponent($("choose-opponent").value);
  };
  const choose = () => {
    const game = chosen();
    $("choose-opponent").replaceChildren(...game.opponents.map((name) => new Option(named(name), name)));
    if (game.opponents.includes(preferred)) $("choose-opponent").value = preferred;
    const colour = $("choose-colour").value || "0";
    $("choose-colour").replaceChildren(new Option(`${game.colours[0]}, moving first`, "0"), new Option(game.colours[1], "1"));
    $("choose-colour").value = colour;
    chosenGame(game);
    opponent();
  };
  $("choose-game").replaceChildren(...gameOptions(games));
  $("choose-game").addEventListener("change", choose);
  $("choose-opponent").addEventListener("change", () => { preferred = $("choose-opponent").value; opponent(); });
  $("cancel").addEventListener("click", () => $("dialog").close(""));
  $("new").addEventListener("click", () => {
    $("dialog").returnValue = ""; // Escape may leave the last button's value
    $("dialog").showModal();
  });
  $("dialog").addEventListener("close", () => { if ($("dialog").returnValue === "start") begin(); });
  choose();
  $("new").disabled = false;
}

/** Continue the game in the page's address; begin one if there is none or the server no longer has it. */
async function continued(path, begin) {
  if (!/^#[\w-]+$/.test(location.hash)) return begin();
  let found;
  try {
    found = await api(`${path}/${location.hash.slice(1)}`);
  } catch (error) {
    if (error.status !== 404) return sayError(error); // the game may still be there: the page can be loaded again
    history.replaceState(null, "", "#"); // the server has been restarted
    return begin();
  }
  await attempt(async () => found, reply);
}

/** What the browser has kept under a name; null if nothing, or if it keeps nothing for this page. */
function kept(name) {
  try {
    return localStorage.getItem(name);
  } catch {
    return null;
  }
}

function keep(name, value) {
  try {
    localStorage.setItem(name, value);
  } catch {
    // It lasts until the page is closed.
  }
}

function setUpTheme() {
  const root = document.documentElement, theme = kept("theme");
  if (theme) root.dataset.theme = theme;
  $("theme").addEventListener("click", () => {
    const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
    keep("theme", root.dataset.theme);
  });
}
