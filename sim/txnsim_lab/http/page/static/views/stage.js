// @ts-check
// The stage: the story, and two truths side by side. What coordinators believe, what is on its way, what
// partitions believe, and one sentence where they disagree.

import { useEffect, useRef, useState } from "preact/hooks";
import { effect } from "@preact/signals";
import { act, ask, compareWith, doNow, drive, play, post } from "../api.js";
import { isStill, playing, readMs, toStep } from "../player.js";
import { html } from "../html.js";
import { READING, agreements, headline, unread } from "../agreement.js";
import { application } from "../application.js";
import { SHOWN_MAX, clientsAt, coordinated, highWatermark, idsOf, isBusy, messages, partitionsOf, readersAt, sharersAt, sharing, stepAt } from "../stage.js";
import { askedFact, begunOf, canAct, chooseView, comparison, count, drivenRun, events, explanation, goTo, hangsOnly, indexOf, lesson, link, moment, storyNotes, partition, source, transaction, writesOf } from "../store.js";
import { begunUntil, nameOf, outcomeOf, tape } from "../tape.js";
import { LOGS_MAX, pictureOf } from "../picture.js";
import { Compare } from "./compare.js";
import { Event } from "./event.js";
import { Folded } from "./folded.js";
import { First as First1, Lesson, Lessons } from "./lesson.js";
import { HANG } from "../hang.js";
import { PLAN } from "../plan.js";
import { Picture } from "./picture.js";
import { Coordinated, HOW, gets } from "./strip.js";
import { Tape } from "./tape.js";
import { jump } from "./why.js";

export function Stage() {
  const it = moment.value;
  const { now, index } = it;
  const order = explanation.value?.open ?? []; // who was in trouble last comes first, until it is known anew
  const nothing = !hasBegun(now);
  return html`<div class=${`stage${nothing ? " empty" : ""}`} data-event=${it.position}>
    ${lesson.value ? html`<${Lesson} />` : html`<${Story} index=${index} />`}
    <div class="picture">
    ${comparison.value ? html`<${Compare} />` : nothing ? html`<${Beginning} it=${it} />` : html`
      <${Drawn} it=${it} order=${order} />
      ${askedFact.value ? html`<p class="agreement reading">What coordinator and partition come to is shown when the question is answered.</p>` : html`
      <${Agreement} said=${sayings(it, order)} it=${it} />
      <${Due} now=${now} index=${index} />
      <${Folded} id="details" label="Details: every transaction, message and offset"><${Details} it=${it} order=${order} /><//>`}`}
    </div></div>`;
}

/** What the picture is of: {id, tps, ids, all}. A transactional id and partitions that were chosen, or those in most trouble. */
function focusOf({ now, index }, order) {
  const [ids, all] = [idsOf(now, order), partitionsOf(now, order)];
  const tp = inFocus(now, order);
  const writer = (place) => (place && writesOf(place).length ? tape(place, index, now.logs[place].lso).cells.findLast((cell) => cell.t)?.t.id : undefined);
  const opens = order.find((one) => one.partition === tp && ids.includes(one.transactional_id));
  const id = ids.includes(transaction.value) ? transaction.value : (opens?.transactional_id ?? (ids.length && isBusy(now, order, ids[0]) ? ids[0] : (writer(tp) ?? ids[0])));
  const more = all.filter((place) => place !== tp && writer(place) === id);
  return { id, tps: tp ? [tp, ...more].slice(0, LOGS_MAX) : [], ids, all };
}

const CHOICES_MAX = 6;

function Drawn({ it, order }) {
  const { id, tps, ids, all } = focusOf(it, order);
  const some = (label, names, now, choose_) => names.length > 1 && html`<span class="choose" role="group" aria-label=${label}>${names.slice(0, CHOICES_MAX).map((name) => html`<button aria-pressed=${now.includes(name)} title=${name} onClick=${() => choose_(name)}>${name}</button> `)}${names.length > CHOICES_MAX ? html`<small>and ${names.length - CHOICES_MAX} more, in the details</small>` : ""}</span>`;
  return html`${(ids.length > 1 || all.length > 1) && html`<p class="choices">${some("Transactional id", ids, [id], (name) => {
    transaction.value = name;
    partition.value = order.find((one) => one.transactional_id === name)?.partition ?? null;
  })} ${some("Partition", all, tps, (name) => (partition.value = name))}</p>`}
    <${Picture} it=${pictureOf(it, id, tps, askedFact.value)} />`;
}

/** What can be released, or lost, now. */
function Due({ now, index }) {
  const some = messages(now, index).filter((one) => one.isDue);
  return some.length > 0 && html`<section class="way due" aria-label="On its way now"><h2>On its way</h2><ul>${some.map((one) => html`<${Message} key=${one.key} one=${one} now=${now} />`)}</ul></section>`;
}

function Details({ it, order }) {
  const { now, index } = it;
  const ids = idsOf(now, order, hangsOnly.value);
  const all = partitionsOf(now, order, hangsOnly.value);
  return html`
    ${(hangsOnly.value || Object.keys(now.transactions).length > SHOWN_MAX) && html`<p class="hint"><label><input type="checkbox" id="hangs-only" checked=${hangsOnly.value} onChange=${(e) => (hangsOnly.value = e.target.checked)} /> only what hangs</label></p>`}
    <section class="believes" id="application"><h2>The application believes</h2>
      ${chosen(ids, transaction.value).map((id) => html`<${Applied} key=${id} id=${id} index=${index} />`)}</section>
    <section class="believes"><h2>The coordinator believes</h2>
      ${ids.length === 0 && html`<p class="hint">${hangsOnly.value ? noHang(it) : "No transactional id yet: a client gets one with InitProducerId."}</p>`}
      ${chosen(ids, transaction.value).map((id) => html`<${Coordinated} key=${id} it=${coordinated(now, id, index)} isShort=${id !== transaction.value && !isBusy(now, order, id) && isBusy(now, order, ids[0])} />`)}
      <${More} all=${ids} label="Transactional id" id="stage-txn" choice=${transaction} /></section>
    <${Lately} now=${now} index=${index} />
    <section class="believes"><h2>The partition believes</h2>
      ${all.length === 0 && html`<p class="hint">${hangsOnly.value ? noHang(it) : "Nothing is written yet."}</p>`}
      <${Partitions} it=${it} all=${all} order=${order} /></section>`;
}

const noHang = ({ said, error }) => (said ? "Nothing hangs." : error || READING);

/** Whether there is something to see: a transactional id, or a partition. */
export const hasBegun = (now) => Object.keys(now.transactions).length > 0 || Object.keys(now.logs).some((tp) => !tp.startsWith("__"));

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
  const choose_ = ({ target }) => {
    if (!all.includes(target.value)) return;
    choice.value = target.value;
    target.value = "";
  };
  return html`<p class="hint"><label>${all.length - SHOWN_MAX} more. ${label} <input id=${id} list=${`${id}-all`} size="24" placeholder="search …" onInput=${choose_} /></label>
    <datalist id=${`${id}-all`}>${all.map((name) => html`<option value=${name}></option>`)}</datalist></p>`;
}

// The story

function Story({ index }) {
  const told = storyNotes();
  const list = useRef(null);
  const step = stepAt(index)?.number ?? 0;
  useEffect(() => {
    const all = list.current;
    const now = all?.querySelector(".now");
    if (now) all.scrollTop = now.offsetTop - all.offsetTop - Math.max(0, Math.min(now.offsetHeight, all.clientHeight - now.offsetHeight)); // whole, and what was before
  }, [step, told.length]);
  if (!told.length) return null;
  const next = drivenRun.value?.next;
  return html`<section class="story" aria-label="What happens"><h2>What happens</h2><ol ref=${list}>
    ${told.map((note, n) => html`<li class=${n + 1 === step ? "now" : n + 1 > step ? "later" : ""} aria-current=${n + 1 === step ? "step" : undefined}>
      <button class="caption" onClick=${() => goTo((told[n + 1] ?? events.length) - 1)}>${events[note].d.text}</button></li>`)}
    ${next && html`<li class="later">${next.text}</li>`}</ol>
    ${source.value.kind === "live" && html`<p><button id="prevent" onClick=${prevent}>How to prevent it: compare with verification</button></p><p><${Practise} again=${true} /></p>`}</section>`;
}

// Where they disagree

/** What is said of a moment, in sentences about the partitions and transactional ids in question. */
function sayings(it, order) {
  const { now, said, open, index } = it;
  if (!said) return unread(it);
  return agreements(now, chosen(partitionsOf(now, order), inFocus(now, order)), chosen(idsOf(now, order), transaction.value), open, index);
}

/** One sentence for each partition in question; where all is well, one for all of them. */
const Agreement = ({ said, it }) => html`<section id="agreement" aria-label="Do they agree?" aria-live="polite" ...${headline(said, it)}>${said.map(({ kind, title, text }) =>
  html`<p class=${`agreement ${kind}`}><b>${title}</b> ${text}</p>`)}</section>`;

/** What the application knows of its newest transaction, and of those before where it is not what became of them. */
const LATEST = 3;
function Applied({ id, index }) {
  const newest = begunUntil(id, index);
  const some = newest ? begunOf(id).slice(Math.max(0, newest.number - LATEST), newest.number) : [];
  return some.map((t) => ({ t, it: application(t, index), outcome: outcomeOf(t, index) })).filter(({ t, it, outcome }) => t === newest || (outcome && it.how !== outcome))
    .map(({ t, it, outcome }) => html`<p class=${`knows${outcome && it.how !== outcome ? " other" : ""}`}><b>${nameOf(t)}</b> ${it.text}</p>`);
}

// Between

/** What was delivered, lost or refused a moment ago, and who has asked for something. */
function Lately({ now, index }) {
  const some = messages(now, index).filter((one) => !one.isDue);
  const clients = clientsAt(index);
  return html`<section class="way" aria-label="A moment ago"><h2>A moment ago</h2>
    ${some.length ? html`<ul>${some.map((one) => html`<${Message} key=${one.key} one=${one} now=${now} />`)}</ul>` : html`<p class="hint">Nothing.</p>`}
    ${clients.length > 0 && html`<p class="clients"><small>Clients lately:</small> ${clients.map(([name, api]) => html`<span class="end-of">${name} <small>${api}</small></span> `)}</p>`}</section>`;
}

/** A message; a click on it tells what can be done to it, or to the next one like it. */
function Message({ one, now }) {
  const [isOpen, setOpen] = useState(false);
  const { how, like, rule, since, times } = one;
  const isKept = rule && how !== "delayed"; // a delay ends by itself, and no release shortens it
  const next = `the next ${like.api}${like.client_id ? ` of ${like.client_id}` : ""}`;
  return html`<li class=${`message ${how}`}>
    <span class="end-of">${one.from}</span>
    <span class="arrow"><span class="what"><button class="link" aria-expanded=${isOpen} onClick=${() => setOpen(!isOpen)}>${one.label}</button> ${one.said}</span>
      <span class="how">${HOW[how]}${rule ? ` by ${rule}` : ""}${times > 1 ? `, ${times} times` : ""}</span></span>
    <span class="end-of">${one.to}</span>
    ${isKept && canAct.value && html`<button onClick=${() => release(rule)}>Release<span class="sr"> what ${rule} holds</span></button>`}
    ${isOpen && html`<p class="doing">${since && html`<${Event} i=${since.i} />`}
      ${!canAct.value && html`<span class="hint">This run has ended: nothing can be done to its messages.${drivenRun.value?.back ? " Step back, and you can." : ""}</span>`}
      ${canAct.value && isKept && html`<button onClick=${() => release(rule, "drop")}>Drop it</button> <button onClick=${() => release(rule, "duplicate")}>Deliver it twice</button>`}
      ${canAct.value && !isKept && html`${["hold", "drop", ...(like.point.endsWith("request") ? ["duplicate"] : [])].map((what) => html`<button onClick=${() => arm(now, like, what)}>${NEXT[what]} ${next}</button> `)}`}</p>`}</li>`;
}

const NEXT = { hold: "Hold", drop: "Drop", duplicate: "Deliver twice" };

function release(rule, as) {
  const isLive = source.value.kind === "live";
  const path = `/faults/${encodeURIComponent(rule)}`;
  return doNow(async () => {
    if (!isLive) return drive({ release: as ? { rule, as } : rule });
    await post(`${path}/release${as ? `?as=${as}` : ""}`);
    if (as === "duplicate") await ask(path, { method: "DELETE" }); // it would hold the copy, too
  }, `What ${rule} held ${{ drop: "is lost", duplicate: "arrives twice" }[as] ?? "goes on"}.`);
}

function arm(now, like, what) {
  const free = (n) => (now.faults[`page-${n}`] ? free(n + 1) : `page-${n}`);
  const rule = { id: free(1), ...like, limit: 1, action: { do: what } };
  return doNow(() => (source.value.kind === "live" ? post("/faults", rule) : drive({ arm: rule })), `The rule ${rule.id} waits for the next ${like.api}.`);
}

// The partition

function Partitions({ it, all, order }) {
  const focus = inFocus(it.now, order);
  return html`${chosen(all, focus).map((tp) => html`<${Partition} key=${tp} tp=${tp} it=${it} isFocus=${tp === focus} />`)}
    <${More} all=${all} label="Partition" id="partition" choice=${partition} />`;
}

function Partition({ tp, it, isFocus }) {
  const { now, index, open } = it;
  const log = now.logs[tp];
  const readers = readersAt(tp, index, log.lso);
  const hw = highWatermark(now, log);
  return html`<div class=${`strip partition${isFocus ? " focus" : ""}`}>
    <h3><button class="link" onClick=${() => (partition.value = tp)} aria-pressed=${isFocus} title="Why is its last stable offset here?">${tp}</button> <small>leader: broker ${log.leader}, epoch ${log.epoch}</small></h3>
    <dl class="figures">
      <dt>log start</dt><dd>${log.start}</dd>
      <dt>last stable offset</dt><dd><button class="value" onClick=${() => jump(tp, "log.lso", index)} title="Where does this value come from?">${log.lso}</button></dd>
      ${hw !== null && html`<dt>high watermark</dt><dd>${hw}</dd>`}
      <dt title=${hw === null ? "The high watermark is not shown: recorded at brief, the trace does not tell how far the followers are." : undefined}>log end</dt><dd>${log.end}</dd></dl>
    <${Tape} tp=${tp} log=${log} hw=${hw} of=${tape(tp, index, log.lso)} open=${open.filter((one) => one.partition === tp)} onChoose=${(cell) => goTo(indexOf(cell.i))} />
    <p class="readers">${readers.map(({ name, offset }) => html`<span class="end-of">▲ ${name} waits at ${offset}</span> `)}${sharersAt(now, tp).map((one) => html`<span class="end-of">▲ ${sharing(one)}</span> `)}${gets(log)}</p></div>`;
}

// Nothing yet

function Beginning({ it }) {
  const { kind } = source.value;
  if (kind === "site") return html`<${First} />`;
  if (kind === "live" && link.value !== "live" && !events.length) return html`<section class="why" data-verdict="reading"><h2>${READING}</h2></section>`;
  const of = headline(it.said ? [] : unread(it), it);
  if (kind !== "live") {
    return html`<section class="why" ...${of}><h2>Nothing is written yet at this event</h2><p>Go on with the key <kbd>.</kbd>, or to the end with <kbd>End</kbd>.</p></section>`;
  }
  return html`<div ...${of}><${First} /></div>`;
}

/** Where clients connect: the value of their bootstrap.servers. */
export function Servers() {
  const [address, setAddress] = useState("ADDRESS");
  useEffect(() => {
    void ask("/cluster").then((cluster) => setAddress(cluster.bootstrap.split(",")[0]), () => null); // the stream says what is wrong
  }, []);
  return address;
}

/** The story of a hang has so many steps. */
const HANG_STEPS = 6;

/** Show the first step of what was made, once all of it is there; then step by step, where that is wanted. */
function fromStep(number) {
  const stop = effect(() => {
    if (!count.value || storyNotes().length < number - 1 + HANG_STEPS) return;
    queueMicrotask(() => {
      stop();
      toStep(number);
      playing.value = !isStill();
    });
  });
}

/** The same story where the leader verifies, beside the one where it does not. */
const prevent = () => act(async () => {
  if (await play("z01", "V-", "armed")) await compareWith("V+");
});

/** The same on a site, where no cluster is: its story is played. */
const watch = () => act(async () => {
  if (!(await play("z01", "V-", "armed"))) return;
  toStep(1);
  playing.value = !isStill();
});

/** Makes a hanging transaction in the live cluster, and shows it. */
function Practise({ again = false, children }) {
  return html`<button id="practise" class=${again ? "" : "primary"} onClick=${() => {
    chooseView("stage"); // now, not with the answer: by then somebody may look at something else
    if (source.value.kind === "site") return void watch();
    const before = storyNotes().length;
    void doNow(() => post("/practise"), ({ hangs }) => {
      partition.value = hangs;
      transaction.value = null;
      fromStep(before + 1);
      return "It is made. Here is its first step.";
    });
  }}>${again ? "Make another one hang" : children}</button>`;
}

/** The first screen: one sentence, the hang as it happens, and where to go on. */
function First() {
  const [step, setStep] = useState(0);
  const [isHeld, hold] = useState(isStill());
  const [isAll, setAll] = useState(false);
  useEffect(() => {
    if (isHeld) return undefined;
    const timer = setTimeout(() => setStep((step + 1) % HANG.length), readMs(HANG[step].says));
    return () => clearTimeout(timer);
  }, [step, isHeld]);
  const isHere = source.value.kind === "live";
  const { says, it } = HANG[step];
  const [stop, go_] = [() => hold(true), () => hold(isStill())];
  return html`<div class="first"><div><h2>A committed or aborted transaction can stay open on a partition. Then its readers wait for ever.</h2>
    <div class="plays" tabindex="0" role="group" aria-label="How it happens" onMouseEnter=${stop} onMouseLeave=${go_} onFocusIn=${stop} onFocusOut=${go_}>
      <${Picture} it=${it} label="How a transaction hangs" isStill=${true} />
      <p class="says">Step ${step + 1} of ${HANG.length} · ${says}</p>
      <p><button onClick=${() => setStep((step + HANG.length - 1) % HANG.length)}>◀<span class="sr"> step before</span></button> <button onClick=${() => setStep((step + 1) % HANG.length)}>▶<span class="sr"> next step</span></button></p></div></div>
    <div class="ways"><p><${Practise}>Watch it happen, step by step (60 s)<//></p>
      <p><${First1} /></p>
      <p><button id="all-lessons" aria-expanded=${isAll} onClick=${() => setAll(!isAll)}>All lessons</button> <button id="all-stories" onClick=${() => chooseView("zoo")}>All stories</button></p>
      ${isAll && html`<div class="all"><${Lessons} isRest=${true} /></div>`}
      <details id="plan" class="folded"><summary>A plan for a class: two times 45 minutes</summary><table><tbody>${PLAN.map(([time, what, id]) => html`<tr><td class="hint">${time}</td><td>${what}${id && html`: <a class="link" href=${`#lesson=${id}&part=0`}>${id}</a>`}</td></tr>`)}</tbody></table></details>
      <hr />
      ${isHere ? html`<p class="hint">Or point a Kafka client at this cluster:</p><p><code>bootstrap.servers=<${Servers} /></code> <${CopyServers} /></p><p class="hint">What it does appears here.</p>` : html`
      <p class="hint">A simulator of Apache Kafka's transactions, run by this browser. Nothing is sent anywhere. After this visit it works without a network.</p>
      <p class="hint">Stories are documented anomalies: each is played with its fault, without it, and as Kafka has mended it.</p>
      <p class="hint" id="licence">Licence: <a class="link" href="./LICENSE.txt">Apache 2.0</a> · <a class="link" href="./source.tar.xz" download>Source</a></p>`}</div></div>`;
}

function CopyServers() {
  const [isCopied, setCopied] = useState(false);
  return html`<button onClick=${async ({ target }) => {
    await navigator.clipboard?.writeText(target.previousElementSibling.textContent).catch(() => null);
    setCopied(true);
  }}>${isCopied ? "Copied" : "Copy"}<span class="sr"> bootstrap.servers</span></button>`;
}
