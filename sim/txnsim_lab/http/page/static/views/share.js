// @ts-check
// Share: what is shown, as a link, a command, a test, an issue; each can be copied.

import { html } from "../html.js";
import { isShareOpen, traceOrigin } from "../store.js";
import { shareForms, unrepeatableIssue } from "../share.js";

export function Share() {
  const shareTexts = shareForms();
  return html`<section class="view help" tabindex="0" aria-label="Share"><h2>Share</h2>
    ${shareTexts.length === 0 && traceOrigin.value.kind !== "live" && html`<p>What is shown is no run of a shipped story: send its file along.</p><${ShareForm} title="Issue" text=${unrepeatableIssue()} />`}
    ${shareTexts.length === 0 && traceOrigin.value.kind === "live" && html`<p>A live cluster can't be repeated from a link. Save what it has recorded, and send the file:</p>
      <p><a id="share-save" class="link" href="/api/v1/trace" download="trace.jsonl">Save the trace: trace.jsonl</a></p>
      <p>Or in one HTML file that opens without a server:</p>
      <pre tabindex="0">txnsim trace convert trace.jsonl --as html --to run.html</pre>
      <p class="hint">The file holds record values; --redact leaves them out.</p>
      <${ShareForm} title="Issue" text=${unrepeatableIssue()} />`}
    ${shareTexts.length > 0 && html`<p class="hint">The run is played again from its scenario, seed and inputs: the same events, on any machine with this version.</p>`}
    ${shareTexts.map(([title, text]) => html`<${ShareForm} title=${title} text=${text} />`)}
    <p><button class="primary" onClick=${() => (isShareOpen.value = false)}>Close</button></p></section>`;
}

const ShareForm = ({ title, text }) => html`<h3>${title} <button onClick=${(e) => copyText(e.target, text)}>Copy<span class="sr"> ${title}</span></button></h3>
  <pre tabindex="0" id=${`share-${title.split(" ")[0].toLowerCase()}`}>${text}</pre>`;

async function copyText(button, text) {
  try {
    await navigator.clipboard.writeText(text);
    button.textContent = "Copied";
  } catch {
    getSelection().selectAllChildren(button.closest("h3").nextElementSibling);
    button.textContent = "Selected: press Ctrl-C";
  }
}
