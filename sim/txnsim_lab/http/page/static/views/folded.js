// @ts-check
// Details that a first look does not need. They are folded; what is unfolded stays so, in every view.

import { html } from "../html.js";
import { openFolds, rememberInTab } from "../store.js";

export const Disclosure = ({ id, label, children }) => html`<details id=${id} class="folded" open=${openFolds.value.includes(id)} onToggle=${({ currentTarget: { open } }) => {
  if (open === openFolds.value.includes(id)) return;
  openFolds.value = open ? [...openFolds.value, id] : openFolds.value.filter((openId) => openId !== id);
  rememberInTab("txnsim-details", openFolds.value.join(" "));
}}><summary>${label}</summary>${openFolds.value.includes(id) && children}</details>`;
