// @ts-check
// A driven run: what its story does next, and the buttons to go on or back.

import { runTask, compareWithRun, sendRunCommand, followLiveTrace } from "../api.js";
import { html } from "../html.js";
import { isRunBusy, comparison, drivenRun, traceOrigin } from "../store.js";

/** A button that can be off. It is not `disabled`, because it would then lose the focus while the run goes on. */
const DriveButton = ({ id, off, main, onClick, children }) =>
  html`<button id=${id} class=${main ? "primary" : ""} aria-disabled=${off} onClick=${() => off || onClick()}>${children}</button>`;

export function Drive() {
  const runPosition = drivenRun.value;
  if (traceOrigin.value.kind !== "run" || !runPosition) return null;
  const { next, back } = runPosition;
  const commandHandler = (verb, body) => () => runTask(() => sendRunCommand(verb, body));
  return html`<section class="drive" aria-label="The story">
    <span>${next ? html`<b>Next, step ${next.number + 1} of ${next.of}:</b> ${next.text}` : html`<b>The story has ended.</b>`}</span>
    <span class="buttons">
      <${DriveButton} id="step" main=${true} off=${!next || isRunBusy.value} onClick=${commandHandler("go", { steps: 1 })}>Next step<//>
      <${DriveButton} id="to-end" off=${!next || isRunBusy.value} onClick=${commandHandler("go", {})}>To the end<//>
      <${DriveButton} id="back" off=${!back || isRunBusy.value} onClick=${commandHandler("back", { stops: 1 })}>Step back<//>
      <${DriveButton} id="from-start" off=${!back || isRunBusy.value} onClick=${commandHandler("back", { stops: back })}>To the start<//>
      ${!comparison.value && html`<button id="compare" disabled=${isRunBusy.value} onClick=${() => runTask(() => compareWithRun())} title="The same story in another generation of the protocol, side by side">Compare</button>`}
      <button id="leave" onClick=${() => followLiveTrace()}>Leave the run</button>
    </span></section>`;
}
