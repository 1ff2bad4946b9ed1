// @ts-check
// The stage: the story, and two truths side by side. What coordinators believe, what is on its way, what
// partitions believe, and one sentence where they disagree.

import { useEffect, useState } from "preact/hooks";
import { act, ask, drive, post } from "../api.js";
import { html } from "../html.js";
import { SHOWN_MAX, agreement, belief, coordinated, idsOf, messages, partitionsOf, stepAt } from "../stage.js";
import { at, canAct, choose, driven, events, explained, go, indexOf, live, notes, partition, source, state, transaction } from "../store.js";
import { Lessons } from "./lesson.js";
import { SAY, Tape, hueOf, nameOf } from "./tape.js";
import { jump } from "./why.js";

export function Stage() {
  const { now } = state.value;
  const open = explained.value?.open ?? [];
  const ids = idsOf(now, open);
  const all = partitionsOf(now, open);
  const nothing = !ids.length && !all.length;
  return html`<div class=${`stage${nothing ? " empty" : ""}`}>
    <${Story} />
    <div class="picture">
    ${nothing ? html`<${Beginning} />` : html`
      <${Agreement} now=${now} tps=${chosen(all, inFocus(now, open))} open=${open} />
      <section class="believes"><h2>The coordinator believes</h2>
        ${ids.length === 0 && html`<p class="hint">No transactional id yet: a client gets one with InitProducerId.</p>`}
        ${chosen(ids, transaction.value).map((id) => html`<${Coordinated} key=${id} it=${coordinated(now, id, at.value)} />`)}
        <${More} all=${ids} label="Transactional id" id="stage-txn" choice=${transaction} /></section>
      <${OnItsWay} now=${now} />
      <section class="believes"><h2>The partition believes</h2>
        ${all.length === 0 && html`<p class="hint">Nothing is written yet.</p>`}
        <${Partitions} now=${now} all=${all} open=${open} /></section>`}
    </div></div>`;
}

/** The first ones, and the one that was chosen. */
const chosen = (all, one) => (all.includes(one) ? [one, ...all.filter((name) => name !== one)] : all).slice(0, SHOWN_MAX);
/** The partition that "why" is about: the one that was chosen, or the one in most trouble. */
export function inFocus(now, open) {
  const all = partitionsOf(now, open);
  return all.includes(partition.value) ? partition.value : (all[0] ?? null);
}

/** The rest, behind a list that can be searched. */
function More({ all, label, id, choice }) {
  if (all.length <= SHOWN_MAX) return null;
  return html`<p class="hint"><label>${label}, of ${all.length}: <input id=${id} list=${`${id}-all`} size="24" placeholder="search …"
    onChange=${(e) => { if (all.includes(e.target.value)) choice.value = e.target.value; }} /></label>
    <datalist id=${`${id}-all`}>${all.map((name) => html`<option value=${name}></option>`)}</datalist></p>`;
}

// The story

function Story() {
  const told = notes();
  if (!told.length) return null;
  const step = stepAt(at.value)?.number ?? 0;
  const next = driven.value?.next;
  return html`<section class="story" aria-label="What happens"><h2>What happens</h2><ol ref=${toNow}>
    ${told.map((index, n) => html`<li class=${n + 1 === step ? "now" : n + 1 > step ? "later" : ""} aria-current=${n + 1 === step ? "step" : undefined}>
      <button class="caption" onClick=${() => go((told[n + 1] ?? events.length) - 1)}>${events[index].d.text}</button></li>`)}
    ${next && html`<li class="later">${next.text}</li>`}</ol>
    ${source.value.kind === "live" && html`<p><${Practise} again=${true} /></p>`}</section>`;
}

const toNow = (list) => list?.querySelector(".now")?.scrollIntoView?.({ block: "nearest" });

// Where they disagree

/** One sentence for each partition in question; where all is well, one for all of them. */
function Agreement({ now, tps, open }) {
  const all = tps.map((tp) => agreement(now, tp, open, at.value));
  const some = all.filter(({ kind }) => kind !== "nothing");
  const nothing = { kind: "nothing", title: "They agree.", text: "No transaction is open." };
  return html`<section id="agreement" aria-label="Do they agree?" aria-live="polite">${(some.length ? some : all.length ? [nothing] : []).map(({ kind, title, text }) =>
    html`<p class=${`agreement ${kind}`}><b>${title}</b> ${text}</p>`)}</section>`;
}

// The coordinator

function Coordinated({ it }) {
  const { id, entry, passed, t, owed } = it;
  return html`<div class="strip"><h3>${id} <small>${entry.node.startsWith("broker/") ? `coordinator: broker ${entry.node.split("/")[1]}` : "no coordinator has it loaded"}</small></h3>
    <p class="states">${passed.map((name, n) => html`${n > 0 && html`<span aria-hidden="true"> → </span>`}
      <span class=${`state${n === passed.length - 1 ? " now" : ""}`}>${name}</span>`)}
      ${entry.pending && html`<span aria-hidden="true"> → </span><span class="state pending">${entry.pending}<span class="sr">, being written</span></span>`}
      <span class="belief">${t && html`<span class=${`t ${hueOf(t)}`}>${nameOf(t)}</span>`} <b>It ${belief(it)}.</b></span></p>
    <p class="facts">producer ${entry.pid}, epoch ${entry.epoch} · partitions: ${(entry.partitions ?? []).join(", ") || "none"} · markers owed: ${owed.map((one) => one.tp).join(", ") || "none"} · <button class="link" onClick=${() => { transaction.value = id; choose("coordinator"); }}>all moves<span class="sr"> of ${id}</span></button></p></div>`;
}

// Between

const HOW = { held: "held", released: "was held, released", owed: "on its way", delivered: "delivered", refused: "refused" };

function OnItsWay({ now }) {
  const some = messages(now, at.value);
  return html`<section class="way" aria-label="On its way"><h2>On its way</h2>
    ${some.length === 0 && html`<p class="hint">Nothing just now.</p>`}
    <ul>${some.map((one) => html`<li key=${one.key} class=${`message ${one.how}`}>
      <span class="end-of">${one.from}</span>
      <span class="arrow"><span class="what">${one.since ? html`<button class="link" onClick=${() => go(indexOf(one.since.i))}>${one.label}</button>` : one.label} ${one.said}</span>
        <span class="how">${HOW[one.how]}${one.rule ? ` by ${one.rule}` : ""}</span></span>
      <span class="end-of">${one.to}</span>
      ${one.rule && canAct.value && html`<button onClick=${() => release(one.rule)}>Release<span class="sr"> what ${one.rule} holds</span></button>`}</li>`)}</ul></section>`;
}

function release(rule) {
  live(); // whatever is done is done now
  return act(() => (source.value.kind === "live" ? post(`/faults/${encodeURIComponent(rule)}/release`) : drive({ release: rule })));
}

// The partition

function Partitions({ now, all, open }) {
  const focus = inFocus(now, open);
  const marks = new Map(open.map((one) => [one.partition, `: ${SAY[one.verdict] ?? one.verdict}`]));
  const choose_ = (e) => (partition.value = e.target.value);
  return html`
    ${all.length > 1 && html`<div class="bar"><label>Partition <select id="partition" value=${focus} onChange=${choose_}>
      ${[...all].sort().map((name) => html`<option value=${name}>${name}${marks.get(name) ?? ""}</option>`)}</select></label>
      <span class="hint">“Why” on the right is about this one.</span></div>`}
    ${chosen(all, focus).map((tp) => html`<${Partition} key=${tp} tp=${tp} log=${now.logs[tp]} open=${open} now=${now} isFocus=${tp === focus} />`)}`;
}

function Partition({ tp, log, open, now, isFocus }) {
  const behind = log.end - log.lso;
  return html`<div class=${`strip partition${isFocus ? " focus" : ""}`}>
    <h3><button class="link" onClick=${() => (partition.value = tp)} aria-pressed=${isFocus}>${tp}</button> <small>leader: broker ${log.leader}, epoch ${log.epoch}</small></h3>
    <dl class="figures">
      <dt>log start</dt><dd>${log.start}</dd>
      <dt>last stable offset</dt><dd><button class="value" onClick=${() => jump(tp, "log.lso")} title="Where does this value come from?">${log.lso}</button></dd>
      ${now.level === "full" && html`<dt>high watermark</dt><dd>${log.hw}</dd>`}
      <dt>log end</dt><dd>${log.end}</dd></dl>
    <${Tape} tp=${tp} log=${log} />
    <p class="readers">${behind > 0 ? html`A read_committed consumer stops at ${log.lso}: it gets nothing from here on, ${behind} ${behind === 1 ? "offset" : "offsets"} before the log end.`
      : "A read_committed consumer gets everything up to the log end."}</p></div>`;
}

// Nothing yet

function Beginning() {
  if (source.value.kind !== "live") {
    return html`<section class="why"><h2>Nothing is written yet at this event</h2><p>Go on with the key <kbd>.</kbd>, or to the end with <kbd>End</kbd>.</p></section>`;
  }
  return html`<section class="why"><h2>Nothing is written yet</h2>
    <p>Point a Kafka client at <code>bootstrap.servers=<${Servers} /></code>; whatever it does is shown here. Or begin with a transaction that hangs:</p>
    <p><${Practise} /></p>
    <h2>Or learn how it works, in ten minutes</h2><p><${Lessons} /></p></section>`;
}

/** Where clients connect: the value of their bootstrap.servers. */
export function Servers() {
  const [address, setAddress] = useState("ADDRESS");
  useEffect(() => {
    void ask("/cluster").then((cluster) => setAddress(cluster.bootstrap.split(",")[0]), () => null); // the stream says what is wrong
  }, []);
  return address;
}

/** Makes a hanging transaction in the live cluster, and shows it. */
function Practise({ again = false }) {
  return html`<button id="practise" class=${again ? "" : "primary"} onClick=${() => act(async () => {
    live(); // whatever is done is done now
    choose("stage"); // now, not with the answer: by then somebody may look at something else
    partition.value = (await post("/practise")).hangs;
  })}>${again ? "Make another one hang" : "Make a transaction hang"}</button>`;
}
