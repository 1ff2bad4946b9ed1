// @ts-check
// Stories: documented anomalies by generation of the protocol. A click on a cell plays its run and shows it.

import { useEffect, useState } from "preact/hooks";
import { runTask, askServer, followLiveTrace, openFile, playRun } from "../api.js";
import { html } from "../html.js";
import { Lessons } from "./lesson.js";
import { isSite } from "../site.js";
import { traceOrigin } from "../store.js";
import { GENERATIONS, runName } from "../words.js";

const aliasOf = (scenario) => scenario.aliases[0] ?? "~";
// The first row: what one kill -9 does to Kafka 4.3 and 4.4.
const FIRST_ROW_ALIAS = "z27";
const sortScenarios = (scenarios) => [...scenarios].sort((a, b) =>
  (aliasOf(b) === FIRST_ROW_ALIAS) - (aliasOf(a) === FIRST_ROW_ALIAS) || aliasOf(a).localeCompare(aliasOf(b), "en", { numeric: true }));

/** Generations of the protocol, a column each. A run is named by its generation, or is a variant of it (V-/before). */
const generationOf = (run) => run.split("/")[0];
const generationsOf = (scenarios) => [...new Set([...Object.keys(GENERATIONS), ...scenarios.flatMap((scenario) => Object.keys(scenario.runs).map(generationOf))])];

export function Zoo() {
  const [scenarios, setScenarios] = useState(null);
  const [busyText, setBusy] = useState("");
  const [isPausedFirst, setPausedFirst] = useState(false);
  const [seed, setSeed] = useState(1);
  useEffect(() => {
    runTask(async () => setScenarios(await askServer("/scenarios")));
  }, []);
  const playZooRun = (name, run, take) => runTask(async () => {
    setBusy(`Playing ${name}, ${runName(run)} …`);
    try {
      await playRun(name, run, take, seed, { paused: isPausedFirst });
    } finally {
      setBusy("");
    }
  });
  return html`
    ${!isSite && traceOrigin.value.kind !== "live" && html`<p><button id="to-live" onClick=${() => followLiveTrace()}>Back to the live cluster</button></p>`}
    <h2>Lessons</h2><p class="hint">A lesson stops, asks what will happen, and goes on with what you say.</p>
    <${Lessons} />
    <h2>Stories</h2><p class="hint">Each row is a documented anomaly of Kafka's transactions; each cell plays a run of it in a cluster of its own, in virtual time.</p>
    <dl class="generations">${Object.values(GENERATIONS).map(([name, meaning]) => html`<div><dt>${name}</dt><dd>${meaning}</dd></div>`)}
      <div><dt>✖ ✓</dt><dd>what the judges must find in the run, or that they find nothing; controls beside it must stay healthy</dd></div></dl>
    <div class="choices"><label><input type="checkbox" id="stop-first" checked=${isPausedFirst} onChange=${(e) => setPausedFirst(e.target.checked)} /> Stop before the first step</label>
      <label title="Another seed: other delays in the network, the same story">Seed <input id="seed" type="number" min="0" step="1" value=${seed} onChange=${(e) => setSeed(Math.max(0, Math.trunc(Number(e.target.value)) || 0))} /></label>
      ${isSite && html`<label title="It stays in this browser">Open a trace, or a run in one HTML file: <input id="open-file" type="file" accept=".jsonl,.html" onChange=${(e) => e.target.files[0] && runTask(() => openFile(e.target.files[0]))} /></label>`}</div>
    <p role="status">${busyText}</p>
    ${!scenarios && html`<p class="hint">Reading the scenarios …</p>`}
    ${scenarios && html`<table class="wide zoo"><caption>Runs and their verdicts</caption><thead><tr><th>what happens</th>${generationsOf(scenarios).map((mode) => html`<th>${runName(mode)}</th>`)}</tr></thead><tbody>
      ${sortScenarios(scenarios).map((scenario) => html`<tr data-story=${[scenario.name, ...scenario.aliases].join(" ")}><td class="tells"><b>${scenario.title}</b><small>${scenario.goal}</small><small>${scenario.name}</small></td>${generationsOf(scenarios).map((mode) => html`<td>
        ${Object.entries(scenario.runs).filter(([run]) => generationOf(run) === mode).map(([run, verdict]) => html`
          <button class=${verdict === "healthy" ? "run healthy" : "run bad"} data-run=${run} disabled=${busyText !== ""} onClick=${() => playZooRun(scenario.name, run, "armed")}>
            ${verdict === "healthy" ? "✓" : "✖"} ${runName(run)}<small>${verdict}</small></button> `)}</td>`)}</tr>`)}
    </tbody></table>`}`;
}
