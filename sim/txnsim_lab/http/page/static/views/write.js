// @ts-check
// Write a story: the text of a scenario, checked and played at once, in all its runs.

import { signal } from "@preact/signals";
import { useEffect, useState } from "preact/hooks";
import { act, ask, play, post } from "../api.js";
import { html } from "../html.js";

const KEPT = "txnsim-story";
const BEGIN_WITH = "late-produce-after-abort";

function kept() {
  try {
    return localStorage.getItem(KEPT) ?? "";
  } catch {
    return ""; // a browser that keeps nothing
  }
}

const text = signal(kept());
function write(some) {
  text.value = some;
  try {
    localStorage.setItem(KEPT, some);
  } catch {
    return; // it is there as long as the page is
  }
}

/** What the checker says, and what the runs came to; they outlive a look at another view. */
const wrong = signal([]);
const told = signal(null);

/** Show the line that a complaint names. */
function toLine(complaint) {
  const area = document.getElementById("story-text");
  const number = Number(/^posted\.yaml:(\d+):/.exec(complaint)?.[1] ?? 1);
  const before = text.value.split("\n").slice(0, number - 1).join("\n").length + (number > 1 ? 1 : 0);
  area.focus();
  area.setSelectionRange(before, before + (text.value.split("\n")[number - 1] ?? "").length);
}

export function Write() {
  const [known, setKnown] = useState([]);
  const [busy, setBusy] = useState("");
  const begin = (name) => act(async () => write((await ask(`/scenarios/${name}`)).yaml));
  useEffect(() => {
    act(async () => setKnown(await ask("/scenarios")));
    if (!text.value) void begin(BEGIN_WITH);
  }, []);
  const check = () => act(async () => {
    setBusy("Playing …");
    [wrong.value, told.value] = [[], null];
    try {
      const done = await post("/runs?wait_ms=60000", { yaml: text.value });
      if (done.error) wrong.value = [done.error];
      else told.value = done;
    } catch (error) {
      wrong.value = error.message.split("\n").filter((line) => line.trim());
    } finally {
      setBusy("");
    }
  });
  const look = (run, take) => act(() => play(told.value.scenario, run, take, 1, { yaml: text.value }));
  return html`
    <p>A story is a file: who acts, what is broken, what the judges are to find. Change it, play it, look inside.
      What a file may say: docs/writing-scenarios.md. Your text stays in this browser.</p>
    <p><label>Begin with <select id="story-begin" value="" onChange=${(e) => e.target.value && begin(e.target.value)}>
        <option value="">your own text</option>${known.map((one) => html`<option value=${one.name}>${one.aliases[0] ?? "~"}: ${one.title}</option>`)}</select></label>
      <button id="story-play" class="primary" disabled=${busy !== "" || !text.value.trim()} onClick=${check}>Check it and play all its runs</button> <span role="status">${busy}</span></p>
    ${wrong.value.length > 0 && html`<div id="story-wrong" class="problem" role="alert"><ul>${wrong.value.map((one) => html`<li>${one.replace(/^posted\.yaml:(\d+)/, "line $1")} <button class="link" onClick=${() => toLine(one)}>to the line</button></li>`)}</ul></div>`}
    ${told.value && html`<table id="story-told" class="wide"><caption>What the runs came to</caption><thead><tr><th>run</th><th>the file says</th><th>the judges find</th><th>because</th></tr></thead><tbody>
      ${told.value.runs.map((one) => html`<tr><td><button class="run" onClick=${() => look(one.run, one.take)}>${one.run}<small>${one.take}</small></button></td><td>${one.expected}</td>
        <td class=${one.as_declared ? "right" : "wrong"}>${one.as_declared ? "✓" : "✕"} ${one.observed}${one.cured ? `, after the cure ${one.cured}` : ""}</td><td>${one.because.join(" ")}</td></tr>`)}</tbody></table>`}
    <textarea id="story-text" aria-label="The story, in YAML" spellcheck="false" rows="30" value=${text.value} onInput=${(e) => write(e.target.value)}></textarea>`;
}
