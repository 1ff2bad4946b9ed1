// @ts-check
// A run that is driven: what its story does next, and the buttons that let it go on or bring it back.

import { act, beside, command, listen } from "../api.js";
import { html } from "../html.js";
import { busy, compared, driven, source } from "../store.js";

export function Drive() {
  const at = driven.value;
  if (source.value.kind !== "run" || !at) return null;
  const { next, back } = at;
  const doing = (verb, body) => () => act(() => command(verb, body));
  return html`<section class="drive" aria-label="The story">
    <span>${next ? html`<b>Next, step ${next.number + 1} of ${next.of}:</b> ${next.text}` : html`<b>The story has ended.</b>`}</span>
    <span class="buttons">
      <button id="step" class="primary" disabled=${!next || busy.value} onClick=${doing("go", { steps: 1 })}>Next step</button>
      <button id="to-end" disabled=${!next || busy.value} onClick=${doing("go", {})}>To the end</button>
      <button id="back" disabled=${!back || busy.value} onClick=${doing("back", { stops: 1 })}>Step back</button>
      <button id="from-start" disabled=${!back || busy.value} onClick=${doing("back", { stops: back })}>To the start</button>
      ${!compared.value && html`<button id="compare" disabled=${busy.value} onClick=${() => act(() => beside())} title="The same story in another mode, side by side">Compare</button>`}
      <button id="leave" onClick=${() => listen()}>Leave the run</button>
    </span></section>`;
}
