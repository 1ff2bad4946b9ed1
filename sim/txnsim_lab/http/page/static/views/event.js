// @ts-check
// A link that goes to an event.

import { html } from "../html.js";
import { events, goTo, indexOf } from "../store.js";

export function Event({ i }) {
  const index = indexOf(i);
  if (index === undefined) return html`<span>#${i} (no longer kept)</span>`;
  return html`<button class="link" onClick=${() => goTo(index)}>#${i} ${events[index].k}</button>`;
}
