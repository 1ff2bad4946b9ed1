// @ts-check
// Write a story: a text field for a scenario, which is checked and played in all its runs.

import { signal } from "@preact/signals";
import { useEffect, useState } from "preact/hooks";
import { runTask, askServer, playRun, postJson } from "../api.js";
import { html } from "../html.js";
import { TAKE_NAMES, runName } from "../words.js";

const STORY_STORAGE_KEY = "txnsim-story";
const FIRST_SCENARIO = "late-produce-after-abort";

function storedStory() {
  try {
    return localStorage.getItem(STORY_STORAGE_KEY) ?? "";
  } catch {
    return ""; // the browser stores nothing
  }
}

const storyText = signal(storedStory());
function setStoryText(newText) {
  storyText.value = newText;
  try {
    localStorage.setItem(STORY_STORAGE_KEY, newText);
  } catch {
    return; // the browser stores nothing: the text lasts as long as the page
  }
}

/** Complaints about the text, and the results of the runs. They stay while another view is shown. */
const storyComplaints = signal([]);
const runsOutcome = signal(null);

/** Select the line that a complaint names. */
function selectComplaintLine(complaint) {
  const textArea = document.getElementById("story-text");
  const lineNumber = Number(/^posted\.yaml:(\d+):/.exec(complaint)?.[1] ?? 1);
  const lineStart = storyText.value.split("\n").slice(0, lineNumber - 1).join("\n").length + (lineNumber > 1 ? 1 : 0);
  textArea.focus();
  textArea.setSelectionRange(lineStart, lineStart + (storyText.value.split("\n")[lineNumber - 1] ?? "").length);
}

export function Write() {
  const [scenarios, setScenarios] = useState([]);
  const [busyText, setBusy] = useState("");
  const loadScenario = (name) => runTask(async () => setStoryText((await askServer(`/scenarios/${name}`)).yaml));
  useEffect(() => {
    runTask(async () => setScenarios(await askServer("/scenarios")));
    if (!storyText.value) void loadScenario(FIRST_SCENARIO);
  }, []);
  const playAllRuns = () => runTask(async () => {
    setBusy("Playing …");
    [storyComplaints.value, runsOutcome.value] = [[], null];
    try {
      const runsAnswer = await postJson("/runs?wait_ms=60000", { yaml: storyText.value });
      if (runsAnswer.error) storyComplaints.value = [runsAnswer.error];
      else runsOutcome.value = runsAnswer;
    } catch (error) {
      storyComplaints.value = error.message.split("\n").filter((line) => line.trim());
    } finally {
      setBusy("");
    }
  });
  const openRun = (run, take) => runTask(() => playRun(runsOutcome.value.scenario, run, take, 1, { yaml: storyText.value }));
  return html`
    <p>A story is a file: who acts, what is broken, what the judges are to find. Change it, play it, look inside.
      What a file may say: docs/writing-scenarios.md. Your text stays in this browser.</p>
    <p><label>Begin with <select id="story-begin" value="" onChange=${(e) => e.target.value && loadScenario(e.target.value)}>
        <option value="">your own text</option>${scenarios.map((scenario) => html`<option value=${scenario.name}>${scenario.title}</option>`)}</select></label>
      <button id="story-play" class="primary" disabled=${busyText !== "" || !storyText.value.trim()} onClick=${playAllRuns}>Check it and play all its runs</button> <span role="status">${busyText}</span></p>
    ${storyComplaints.value.length > 0 && html`<div id="story-wrong" class="problem" role="alert"><ul>${storyComplaints.value.map((complaint) => html`<li>${complaint.replace(/^posted\.yaml:(\d+)/, "line $1")} <button class="link" onClick=${() => selectComplaintLine(complaint)}>to the line</button></li>`)}</ul></div>`}
    ${runsOutcome.value && html`<table id="story-told" class="wide"><caption>What the runs came to</caption><thead><tr><th>run</th><th>the file says</th><th>the judges find</th><th>because</th></tr></thead><tbody>
      ${runsOutcome.value.runs.map((run) => html`<tr><td><button class="run" onClick=${() => openRun(run.run, run.take)}>${runName(run.run)}<small>${TAKE_NAMES[run.take]}</small></button></td><td>${run.expected}</td>
        <td class=${run.as_declared ? "right" : "wrong"}>${run.as_declared ? "✓" : "✕"} ${run.observed}${run.cured ? `, after the cure ${run.cured}` : ""}</td><td>${run.because.join(" ")}</td></tr>`)}</tbody></table>`}
    <textarea id="story-text" aria-label="The story, in YAML" spellcheck="false" rows="30" value=${storyText.value} onInput=${(e) => setStoryText(e.target.value)}></textarea>`;
}
