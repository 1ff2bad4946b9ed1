// @ts-check
// A driven run: what its story does next, and the buttons that let it go on or take it back.

import { act, compareWith, command, followLiveTrace } from "../api.js";
import { html } from "../html.js";
import { busy, comparison, drivenRun, source } from "../store.js";

/** A button that can be off. It is not `disabled`, because it would then lose the focus while the run goes on. */
const DriveButton = ({ id, off, main, onClick, children }) =>
  html`<button id=${id} class=${main ? "primary" : ""} aria-disabled=${off} onClick=${() => off || onClick()}>${children}</button>`;

export function Drive() {
  const runPosition = drivenRun.value;
  if (source.value.kind !== "run" || !runPosition) return null;
  const { next, back } = runPosition;
  const sendCommand = (verb, body) => () => act(() => command(verb, body));
  return html`<section class="drive" aria-label="The story">
    <span>${next ? html`<b>Next, step ${next.number + 1} of ${next.of}:</b> ${next.text}` : html`<b>The story has ended.</b>`}</span>
    <span class="buttons">
      <${DriveButton} id="step" main=${true} off=${!next || busy.value} onClick=${sendCommand("go", { steps: 1 })}>Next step<//>
      <${DriveButton} id="to-end" off=${!next || busy.value} onClick=${sendCommand("go", {})}>To the end<//>
      <${DriveButton} id="back" off=${!back || busy.value} onClick=${sendCommand("back", { stops: 1 })}>Step back<//>
      <${DriveButton} id="from-start" off=${!back || busy.value} onClick=${sendCommand("back", { stops: back })}>To the start<//>
      ${!comparison.value && html`<button id="compare" disabled=${busy.value} onClick=${() => act(() => compareWith())} title="The same story in another mode, side by side">Compare</button>`}
      <button id="leave" onClick=${() => followLiveTrace()}>Leave the run</button>
    </span></section>`;
}
