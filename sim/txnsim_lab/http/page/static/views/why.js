// @ts-check
// Why is the last stable offset of a partition where it is? What the server's reader says, and the cure.

import { doNow, drive, post } from "../api.js";
import { html } from "../html.js";
import { askedFact, canAct, drivenRun, events, explanation, goTo, indexOf, lesson, moment, partition, source } from "../store.js";
import { READING } from "../agreement.js";
import { nameOf, openAt } from "../tape.js";
import { Event } from "./event.js";
import { Folded } from "./folded.js";

/** Why a reader has to wait, in short: the sentences that the server says beside it stand below, as evidence. */
const REASONS = {
  "hanging transaction": (name, offset) => [`It must not pass offset ${offset}: only a marker says whether ${name} counts, and none will come.`,
    "No timeout helps: a coordinator's timeout ends only what that coordinator has open."],
  "marker outstanding": (name, offset) => [`It must not pass offset ${offset} yet: only a marker says whether ${name} counts, and that marker is on its way.`],
  "open transaction": (name, offset) => [`It must not pass offset ${offset} yet: ${name} is open, and can still be committed or aborted.`],
};
/** So many of the server's sentences say the same in detail. */
const DETAILED = 2;
/** What the causes of txnsim.txn.open_txn_verdict are called here. */
const CAUSES = { nothing: "no transaction holds readers back", "marker outstanding": "the marker is still owed" };

/** How old what holds readers back is: it is no reason, and stands below. */
const AGE = / its newest record is stamped ([^;]+);/;
/** How a remark on the recording begins: it is no reason. */
const REMARK = "This trace was recorded at brief";

export function Why({ tp }) {
  const { said, error } = moment.value;
  const isStale = !said;
  const known = said ?? explanation.value; // what was said last, of another event: it is grey, and offers no cure
  const found = known?.partitions.find((one) => one.partition === tp);
  const age = found?.sentences.map((one) => AGE.exec(one)?.[1]).find(Boolean) ?? "";
  const asks = lesson.value && lesson.value.part < lesson.value.parts.length; // the cure is the learner's own to find
  if (askedFact.value) return html`<section id="why" class="why stale" tabindex="-1"><h2>Why?</h2><p class="hint">First the question: what do you think?</p></section>`;
  const name = found ? called(tp, found, known.at) : "";
  const sentences = found ? told(found, asks, name).filter((one) => !one.startsWith(REMARK)) : [];
  const reasons = (found && REASONS[found.cause]?.(name || "the transaction there", found.last_stable_offset)) ?? [];
  const below = reasons.length ? DETAILED : found?.cause === "nothing" ? sentences.length : 0;
  const waits = isStale || !found || found.cause !== "nothing";
  return html`<section id="why" class=${`why${isStale ? " stale" : ""}`} tabindex="-1" aria-live="polite" aria-busy=${isStale}>
    <h2>${waits ? "Why does the reader wait?" : "Does a reader wait?"}</h2>
    ${!found && html`<p class="hint">${error || (said ? `The server's answer does not name ${tp}: it has too many partitions.` : READING)}</p>`}
    ${found && html`
      <p class=${isStale ? "" : `cause ${found.cause.split(" ")[0]}`}><b>${isStale ? READING : (CAUSES[found.cause] ?? found.cause)}</b></p>
      ${[...reasons, ...sentences.slice(below)].map((one) => html`<p>${one}</p>`)}
      ${found.repair && !asks && !isStale && html`<p><button class="primary" id="repair" disabled=${!canAct.value} onClick=${() => repair(tp, found.marker, said.open)}>
        ${found.marker ? `End it: write ${found.marker}` : "End it: the decision is unknown, write ABORT"}</button></p>`}
      ${found.repair && !asks && !isStale && !canAct.value && html`<p class="hint">This run has ended, so nothing can be changed here.
        ${drivenRun.value?.back ? " Step back, and you can." : ""}</p>`}
      <${Folded} id="why-more" label=${isStale ? "This was said of another event" : found.repair && !asks ? "As a command, and the evidence" : "In detail"}>
      ${sentences.slice(0, below).map((one) => html`<p>${one}</p>`)}
      ${found.repair && !asks && !isStale && html`<p><code>${found.repair}</code></p>`}
      ${found.evidence.length > 0 && !isStale && html`<p>It follows from ${found.evidence.map((i) => html` <${Event} i=${i} />`)}</p>`}
      ${told(found, asks, "").filter((one) => one.startsWith(REMARK)).map((one) => html`<p class="hint">${one}</p>`)}
      <p class="hint">${isStale ? "This was said of" : "Of"} ${tp} at event #${known.at}.${age && ` The newest record of that transaction is stamped ${age}.`}</p><//>`}
      ${found?.cause === "hanging transaction" && !asks && !isStale && html`<${AtWork} tp=${tp} found=${found} />`}
  </section>`;
}

/** The same on a cluster of one's own: Kafka's metric, tool and settings (KIP-664, KIP-890). */
function AtWork({ tp, found }) {
  const dash = tp.lastIndexOf("-");
  const tool = "kafka-transactions.sh --bootstrap-server HOST:PORT";
  return html`<${Folded} id="at-work" label="On a real Kafka: notice, end, prevent it">
    <p><b>Notice:</b> the lag of read_committed groups stays, and the metric PartitionsWithLateTransactionsCount leaves 0.</p>
    <p><b>End:</b> <code>${tool} find-hanging --topic ${tp.slice(0, dash)} --partition ${tp.slice(dash + 1)}</code>
      ${found.marker === "COMMIT" ? "This tool writes ABORT alone, and this transaction was committed: its records would be lost." : html`<br /><code>${tool} abort --topic ${tp.slice(0, dash)} --partition ${tp.slice(dash + 1)} --start-offset ${found.last_stable_offset}</code>`}</p>
    <p><b>Prevent:</b> brokers from 3.6 on verify (transaction.partition.verification.enable, on by default). From 4.0 on raise transaction.version to 2, with clients that speak it.</p><//>`;
}

/** What the server says, without the command, which stands below its button; and without the cure, where
 *  it is asked for. */
const told = ({ sentences }, asks, name) => sentences.filter((one) => !asks || !one.includes("To end it:"))
  .map((one) => one.replace(/ To end it: .*$/, "").replace(AGE, "").replace(/the transaction of (producer id \d+, epoch -?\d+), begins, which/, name ? `${name} ($1) begins, which` : "$&"));

/** The transaction that begins at the last stable offset, as the stage calls it. */
function called(tp, { last_stable_offset: lso }, position) {
  const index = indexOf(position);
  const t = index === undefined ? null : openAt(tp, index, lso, lso);
  return t ? nameOf(t) : "";
}

/** Where a bound was moved to where it stands. */
export function jump(tp, kind, from) {
  for (let n = from; n >= 0; n -= 1) if (events[n].k === kind && events[n].d.tp === tp) return goTo(n);
}

/** What was decided of each is written, and where that is unknown what the button says. */
function repair(tp, marker, open) {
  const hanging = open.filter((one) => one.partition === tp && one.verdict === "hanging");
  const dash = tp.lastIndexOf("-");
  const guess = marker ? null : "abort";
  partition.value = tp; // once it is healed others may be in more trouble, and it stays in sight
  return doNow(async () => {
    if (source.value.kind === "live") return post("/repairs", { topic: tp.slice(0, dash), partition: Number(tp.slice(dash + 1)), guess });
    for (const one of hanging) {
      const decision = one.decided?.decision === "committed" ? "commit" : "abort";
      await drive({ call: { who: "operator", do: "abort", partition: tp, "start-offset": one.first, decision } });
    }
  }, `The ${marker ?? "ABORT"} marker is written on ${tp}.`);
}
