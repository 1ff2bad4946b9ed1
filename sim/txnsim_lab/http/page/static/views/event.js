// @ts-check
// A link to an event.

import { html } from "../html.js";
import { events, go, indexOf } from "../store.js";

export function Event({ i }) {
  const index = indexOf(i);
  if (index === undefined) return html`<span>#${i} (no longer kept)</span>`;
  return html`<button class="link" onClick=${() => go(index)}>#${i} ${events[index].k}</button>`;
}
