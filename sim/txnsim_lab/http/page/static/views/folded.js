// @ts-check
// Details that a first look does not need. They are folded; unfolding one unfolds all, in every view.

import { html } from "../html.js";
import { isDetailed, rememberInTab } from "../store.js";

export const Disclosure = ({ id, label, children }) => html`<details id=${id} class="folded" open=${isDetailed.value} onToggle=${({ currentTarget: { open } }) => {
  if (open === isDetailed.value) return;
  isDetailed.value = open;
  rememberInTab("txnsim-details", open ? "open" : "");
}}><summary>${label}</summary>${isDetailed.value && children}</details>`;
