// @ts-check
// The log of a partition as a tape, with the answer to: why is the last stable offset here?

import { useEffect, useState } from "preact/hooks";
import { act, ask, drive, post } from "../api.js";
import { html } from "../html.js";
import { Lessons } from "./lesson.js";
import { upTo } from "../book.js";
import { at, canAct, choose, driven, events, explained, go, indexOf, partition, source, state, writes } from "../store.js";

const CELLS = 60;

/** The newest cells of a partition up to an index, oldest first, from its events alone; and where the
 *  last stable offset is farther back, the cell that it stands in, with how many lie before and between. */
export function tape(tp, until, lso) {
  const indices = writes(tp);
  const cells = [];
  const ended = new Map(); // producer id -> how the marker that comes next ends what it has open
  let cut = Infinity; // what a truncation has taken away
  let far = null;
  let n = upTo(indices, until) - 1;
  let left = 0;
  for (; n >= 0; n -= 1) {
    const { k, d, i, tx } = events[indices[n]];
    if (k === "log.truncate") {
      cut = Math.min(cut, d.to);
      continue;
    }
    const isMarker = k === "marker.written";
    const first = isMarker ? d.offset : d.base;
    const last = isMarker ? d.offset : d.last;
    if (last >= cut) continue;
    if (isMarker) ended.set(d.pid, d.committed ? "committed" : "aborted");
    const how = isMarker ? (d.committed ? "COMMIT" : "ABORT") : d.txn ? (ended.get(d.pid) ?? "open") : "plain";
    const cell = { i, first, last, pid: d.pid, epoch: d.epoch, txn: d.txn, tx, how };
    if (cells.length < CELLS) cells.push(cell);
    else {
      if (last < lso) break; // the cell of the last stable offset is among the newest, or was met
      left += 1;
      if (first <= lso) {
        far = { cell, between: left - 1 };
        break;
      }
    }
  }
  return { cells: cells.reverse(), far, earlier: Math.max(0, n) };
}

const SAY = {
  plain: "no transaction", open: "open", committed: "committed", aborted: "aborted",
  hanging: "hanging", alive: "open", decided: "decided, marker owed", COMMIT: "COMMIT marker", ABORT: "ABORT marker",
};
/** What the causes of txnsim.txn.withheld are called here. */
const CAUSES = { nothing: "no transaction holds readers back", "marker outstanding": "the marker is still owed" };
const SIGN = { plain: "·", open: "…", committed: "✓", aborted: "✕", hanging: "!", decided: "◇", COMMIT: "✓", ABORT: "✕" };

export const names = (now) => Object.keys(now.logs).filter((tp) => !tp.startsWith("__")).sort();

export function Log() {
  const { now } = state.value;
  const all = names(now);
  if (!all.length && source.value.kind !== "live") {
    return html`<section class="why"><h2>Nothing is written yet at this event</h2><p>Go on with the key <kbd>.</kbd>, or to the end with <kbd>End</kbd>.</p></section>`;
  }
  if (!all.length) {
    return html`<section class="why"><h2>Nothing is written yet</h2>
      <p>Point a Kafka client at <code>bootstrap.servers=<${Servers} /></code>; whatever it does is shown here. Or begin with a transaction that hangs:</p>
      <p><${Practise} /></p>
      <h2>Or learn how it works, in ten minutes</h2><p><${Lessons} /></p></section>`;
  }
  const tp = all.includes(partition.value) ? partition.value : all[0];
  const log = now.logs[tp];
  const found = explained.value?.partitions.find((one) => one.partition === tp);
  const open = (explained.value?.open ?? []).filter((one) => one.partition === tp);
  const marks = new Map((explained.value?.open ?? []).map((one) => [one.partition, `: ${SAY[one.verdict] ?? one.verdict}`]));
  const { cells, far, earlier } = tape(tp, at.value, log.lso);
  const verdict = (cell) => {
    if (cell.how !== "open") return cell.how;
    const one = open.find((found) => found.producer_id === cell.pid && cell.last >= found.first);
    return one && one.verdict !== "alive" ? one.verdict : "open";
  };
  return html`
    <div class="bar">
      <label>Partition <select id="partition" value=${tp} onChange=${(e) => (partition.value = e.target.value)}>
        ${all.map((name) => html`<option value=${name}>${name}${marks.get(name) ?? ""}</option>`)}</select></label>
      <dl class="figures">
        <dt>log start</dt><dd>${log.start}</dd>
        <dt>last stable offset</dt><dd><button class="value" onClick=${() => jump(tp, "log.lso")}
          title="Where does this value come from?">${log.lso}</button></dd>
        ${now.level === "full" && html`<dt>high watermark</dt><dd>${log.hw}</dd>`}
        <dt>log end</dt><dd>${log.end}</dd>
        <dt>leader</dt><dd>broker ${log.leader}, epoch ${log.epoch}</dd>
      </dl>
    </div>
    <ol class="tape" tabindex="0" aria-label=${`Batches of ${tp}`} ref=${toLso}>
      ${earlier > 0 && html`<li class="cell more">${earlier} earlier</li>`}
      ${far && html`<${Cell} cell=${far.cell} how=${verdict(far.cell)} lso=${log.lso} />`}
      ${far?.between > 0 && html`<li class="cell more">${far.between} more</li>`}
      ${cells.map((cell) => html`<${Cell} key=${cell.i} cell=${cell} how=${verdict(cell)} lso=${log.lso} />`)}
      <li>${log.lso >= log.end && html`<span class="caret">LSO</span>`}<span class="cell end"><b>${log.end}</b><i>log end</i></span></li>
    </ol>
    <section id="why" class="why" tabindex="-1" aria-live="polite">
      <h2>Why is the last stable offset here?</h2>
      ${!found && html`<p class="hint">${explained.value?.error ?? "Reading the trace …"}</p>`}
      ${found && html`
        <p class=${`cause ${found.cause.split(" ")[0]}`}><b>${CAUSES[found.cause] ?? found.cause}</b></p>
        ${found.sentences.map((one) => html`<p>${one}</p>`)}
        ${found.evidence.length > 0 && html`<p>It follows from ${found.evidence.map((i) => html` <${Event} i=${i} />`)}</p>`}
        ${found.repair && html`<p><button class="primary" id="repair" disabled=${!canAct.value} onClick=${() => repair(tp)}>
          ${found.marker ? `End it: write the ${found.marker} marker` : "End it: the decision is unknown, write an ABORT marker"}</button> <code>${found.repair}</code></p>`}
        ${found.repair && !canAct.value && html`<p class="hint">This run has ended, so nothing can be changed here.
          ${driven.value?.back ? " Step back, and you can." : ""}</p>`}`}
    </section>`;
}

/** Where clients connect: the value of their bootstrap.servers. */
export function Servers() {
  const [address, setAddress] = useState("ADDRESS");
  useEffect(() => {
    void ask("/cluster").then((cluster) => setAddress(cluster.bootstrap.split(",")[0]), () => null); // the stream says what is wrong
  }, []);
  return address;
}

function Cell({ cell, how, lso }) {
  const offsets = cell.first === cell.last ? cell.first : `${cell.first}–${cell.last}`;
  return html`<li>
    ${cell.first <= lso && lso <= cell.last && html`<span class="caret">LSO</span>`}
    <button class=${`cell ${how} hue${hue(cell)}`} onClick=${() => go(indexOf(cell.i))}
      title=${`${offsets}: ${SAY[how]}${cell.pid >= 0 ? `, producer ${cell.pid}, epoch ${cell.epoch}` : ""}`}>
      <b>${offsets}</b><i>${SIGN[how]} ${SAY[how]}</i><small>${cell.tx || (cell.pid >= 0 ? `pid ${cell.pid}` : "")}</small>
    </button></li>`;
}

/** The tape shows where readers stop, and not its oldest end. */
const toLso = (list) => {
  const caret = list?.querySelector(".caret");
  if (caret) list.scrollLeft = Math.max(0, caret.parentElement.offsetLeft - list.clientWidth / 2);
};

/** Makes a hanging transaction in the live cluster, and shows it. */
export function Practise() {
  if (source.value.kind !== "live") return null;
  return html`<button id="practise" class="primary" onClick=${() => act(async () => {
    choose("log"); // now, not with the answer: by then somebody may look at something else
    partition.value = (await post("/practise")).hangs;
  })}>Make a transaction hang</button>`;
}

/** A link to an event. */
export function Event({ i }) {
  const index = indexOf(i);
  if (index === undefined) return html`<span>#${i} (no longer kept)</span>`;
  return html`<button class="link" onClick=${() => go(index)}>#${i} ${events[index].k}</button>`;
}

const hue = (cell) => (cell.txn || cell.how !== "plain" ? Math.abs(cell.pid) % 5 : "none");

function jump(tp, kind) {
  for (let n = at.value; n >= 0; n -= 1) if (events[n].k === kind && events[n].d.tp === tp) return go(n);
}

function repair(tp) {
  if (source.value.kind === "run") {
    const hanging = explained.value.open.filter((one) => one.partition === tp && one.verdict === "hanging");
    return act(async () => {
      for (const one of hanging) await drive({ call: { who: "operator", do: "abort", partition: tp, "start-offset": one.first } });
    });
  }
  const dash = tp.lastIndexOf("-");
  return act(() => post("/repairs", { topic: tp.slice(0, dash), partition: Number(tp.slice(dash + 1)) }));
}
