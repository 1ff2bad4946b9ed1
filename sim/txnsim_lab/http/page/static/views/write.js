// @ts-check
// Write a story: a text field for a scenario, which is checked and played in all its runs.

import { signal } from "@preact/signals";
import { useEffect, useState } from "preact/hooks";
import { act, ask, play, post } from "../api.js";
import { html } from "../html.js";

const STORAGE_KEY = "txnsim-story";
const BEGIN_WITH = "late-produce-after-abort";

function storedText() {
  try {
    return localStorage.getItem(STORAGE_KEY) ?? "";
  } catch {
    return ""; // the browser stores nothing
  }
}

const text = signal(storedText());
function setText(newText) {
  text.value = newText;
  try {
    localStorage.setItem(STORAGE_KEY, newText);
  } catch {
    return; // the browser stores nothing: the text lasts as long as the page
  }
}

/** Complaints about the text, and the results of the runs. They stay while another view is shown. */
const complaints = signal([]);
const outcome = signal(null);

/** Select the line that a complaint names. */
function toLine(complaint) {
  const area = document.getElementById("story-text");
  const number = Number(/^posted\.yaml:(\d+):/.exec(complaint)?.[1] ?? 1);
  const lineStart = text.value.split("\n").slice(0, number - 1).join("\n").length + (number > 1 ? 1 : 0);
  area.focus();
  area.setSelectionRange(lineStart, lineStart + (text.value.split("\n")[number - 1] ?? "").length);
}

export function Write() {
  const [scenarios, setScenarios] = useState([]);
  const [busy, setBusy] = useState("");
  const loadScenario = (name) => act(async () => setText((await ask(`/scenarios/${name}`)).yaml));
  useEffect(() => {
    act(async () => setScenarios(await ask("/scenarios")));
    if (!text.value) void loadScenario(BEGIN_WITH);
  }, []);
  const playAll = () => act(async () => {
    setBusy("Playing …");
    [complaints.value, outcome.value] = [[], null];
    try {
      const runsAnswer = await post("/runs?wait_ms=60000", { yaml: text.value });
      if (runsAnswer.error) complaints.value = [runsAnswer.error];
      else outcome.value = runsAnswer;
    } catch (error) {
      complaints.value = error.message.split("\n").filter((line) => line.trim());
    } finally {
      setBusy("");
    }
  });
  const openRun = (run, take) => act(() => play(outcome.value.scenario, run, take, 1, { yaml: text.value }));
  return html`
    <p>A story is a file: who acts, what is broken, what the judges are to find. Change it, play it, look inside.
      What a file may say: docs/writing-scenarios.md. Your text stays in this browser.</p>
    <p><label>Begin with <select id="story-begin" value="" onChange=${(e) => e.target.value && loadScenario(e.target.value)}>
        <option value="">your own text</option>${scenarios.map((scenario) => html`<option value=${scenario.name}>${scenario.aliases[0] ?? "~"}: ${scenario.title}</option>`)}</select></label>
      <button id="story-play" class="primary" disabled=${busy !== "" || !text.value.trim()} onClick=${playAll}>Check it and play all its runs</button> <span role="status">${busy}</span></p>
    ${complaints.value.length > 0 && html`<div id="story-wrong" class="problem" role="alert"><ul>${complaints.value.map((complaint) => html`<li>${complaint.replace(/^posted\.yaml:(\d+)/, "line $1")} <button class="link" onClick=${() => toLine(complaint)}>to the line</button></li>`)}</ul></div>`}
    ${outcome.value && html`<table id="story-told" class="wide"><caption>What the runs came to</caption><thead><tr><th>run</th><th>the file says</th><th>the judges find</th><th>because</th></tr></thead><tbody>
      ${outcome.value.runs.map((run) => html`<tr><td><button class="run" onClick=${() => openRun(run.run, run.take)}>${run.run}<small>${run.take}</small></button></td><td>${run.expected}</td>
        <td class=${run.as_declared ? "right" : "wrong"}>${run.as_declared ? "✓" : "✕"} ${run.observed}${run.cured ? `, after the cure ${run.cured}` : ""}</td><td>${run.because.join(" ")}</td></tr>`)}</tbody></table>`}
    <textarea id="story-text" aria-label="The story, in YAML" spellcheck="false" rows="30" value=${text.value} onInput=${(e) => setText(e.target.value)}></textarea>`;
}
