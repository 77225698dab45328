// What both pages need: their elements, and the server.
"use strict";

const SVG = "http://www.w3.org/2000/svg";
const $ = (id) => document.getElementById(id);

/** What the server answers; a body, an object or a file, is posted. Throws an Error with the answer's status. */
async function api(path, body) {
  const request = body === undefined ? {} : { method: "POST", body: body instanceof Blob ? body : JSON.stringify(body) };
  let answer;
  try {
    answer = await fetch(path, request);
  } catch {
    throw new Error("The server doesn't answer: was it ended?");
  }
  const found = await answer.json();
  if (!answer.ok) throw Object.assign(new Error(found.error), { status: answer.status });
  return found;
}
