// @ts-check
// A link that goes to an event.

import { html } from "../html.js";
import { events, goToEvent, indexOfPosition } from "../store.js";

export function EventLink({ i }) {
  const eventIndex = indexOfPosition(i);
  if (eventIndex === undefined) return html`<span>#${i} (no longer kept)</span>`;
  return html`<button class="link" onClick=${() => goToEvent(eventIndex)}>#${i} ${events[eventIndex].k}</button>`;
}
