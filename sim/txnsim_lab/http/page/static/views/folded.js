// @ts-check
// What is beside the point of a first look: folded away until it is wanted, and then everywhere.

import { html } from "../html.js";
import { detailed, rememberInTab } from "../store.js";

export const Folded = ({ id, label, children }) => html`<details id=${id} class="folded" open=${detailed.value} onToggle=${({ currentTarget: { open } }) => {
  if (open === detailed.value) return;
  detailed.value = open;
  rememberInTab("txnsim-details", open ? "open" : "");
}}><summary>${label}</summary>${detailed.value && children}</details>`;
