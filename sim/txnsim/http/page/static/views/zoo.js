// @ts-check
// The zoo: documented anomalies by generation of the protocol. A cell plays its run and opens it.

import { useEffect, useState } from "preact/hooks";
import { act, ask, listen, play } from "../api.js";
import { html } from "../html.js";
import { Lessons } from "./lesson.js";
import { isSite } from "../site.js";
import { choose, source } from "../store.js";

const alias = (one) => one.aliases[0] ?? "~";
// First comes what one kill -9 does to the newest releases of Kafka.
const FIRST = "z27";
const sorted = (some) => [...some].sort((a, b) =>
  (alias(b) === FIRST) - (alias(a) === FIRST) || alias(a).localeCompare(alias(b), "en", { numeric: true }));

/** Generations of the protocol: a column each; a run is one of them, or a variant as V-/before. */
const MODES = ["V-", "V+", "TV2", "TV2+"];
const modeOf = (run) => run.split("/")[0];
const modesOf = (known) => [...new Set([...MODES, ...known.flatMap((one) => Object.keys(one.runs).map(modeOf))])];

export function Zoo() {
  const [known, setKnown] = useState(null);
  const [busy, setBusy] = useState("");
  const [stop, setStop] = useState(false);
  useEffect(() => {
    act(async () => setKnown(await ask("/scenarios")));
  }, []);
  const start = (name, run, take) => act(async () => {
    setBusy(`Playing ${name} ${run} …`);
    try {
      await play(name, run, take, 1, { paused: stop });
      choose("stage");
    } finally {
      setBusy("");
    }
  });
  return html`
    <p>Each row is a documented anomaly, each cell a run in a cluster of its own, in virtual time. Choose one to play it and look inside.
      ${!isSite && source.value.kind !== "live" && html` <button id="to-live" onClick=${() => listen()}>Back to the live cluster</button>`}
</p>
    <p><label><input type="checkbox" id="stop-first" checked=${stop} onChange=${(e) => setStop(e.target.checked)} /> Stop before the first step, to play it step by step</label></p>
    <p>Lessons: <${Lessons} /></p>
    <p role="status">${busy}</p>
    ${!known && html`<p class="hint">Reading the scenarios …</p>`}
    ${known && html`<table class="wide zoo"><caption>Runs and their verdicts</caption><thead><tr><th>animal</th><th>what happens</th>${modesOf(known).map((mode) => html`<th>${mode}</th>`)}</tr></thead><tbody>
      ${sorted(known).map((one) => html`<tr><td>${one.aliases.join(", ") || one.name}</td><td>${one.title}</td>${modesOf(known).map((mode) => html`<td>
        ${Object.entries(one.runs).filter(([run]) => modeOf(run) === mode).map(([run, verdict]) => html`
          <button class=${verdict === "healthy" ? "run healthy" : "run bad"} disabled=${busy !== ""} onClick=${() => start(one.name, run, "armed")}>
            ${verdict === "healthy" ? "✓" : "✖"} ${run}<small>${verdict}</small></button> `)}</td>`)}</tr>`)}
    </tbody></table>`}`;
}
