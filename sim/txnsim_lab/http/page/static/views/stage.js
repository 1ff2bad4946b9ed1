// @ts-check
// The stage: the story, the picture of what application, coordinator and partitions believe, what is on its way, and
// one sentence about whether they agree.

import { useEffect, useRef, useState } from "preact/hooks";
import { effect } from "@preact/signals";
import { act, ask, compareWith, doNow, drive, play, post } from "../api.js";
import { prefersStillness, playing, readingMs, goToStep } from "../player.js";
import { html } from "../html.js";
import { READING, agreements, headline, unread } from "../agreement.js";
import { application } from "../application.js";
import { SHOWN_MAX, clientsAt, coordinated, highWatermark, idsOf, isBusy, messages, partitionsOf, readersAt, sharersAt, sharing, stepAt } from "../stage.js";
import { askedFact, begunOf, canAct, chooseView, comparison, count, drivenRun, events, explanation, goTo, hangsOnly, indexOf, lesson, link, moment, storyNotes, partition, source, transaction, writesOf } from "../store.js";
import { begunUntil, nameOf, outcomeOf, tape } from "../tape.js";
import { LOGS_MAX, pictureOf } from "../picture.js";
import { Compare } from "./compare.js";
import { Event } from "./event.js";
import { Disclosure } from "./folded.js";
import { FirstLesson, Lesson, Lessons } from "./lesson.js";
import { HANG } from "../hang.js";
import { PLAN } from "../plan.js";
import { Picture } from "./picture.js";
import { CoordinatorBelief, STATUS_WORDS, readerText } from "./strip.js";
import { Tape } from "./tape.js";
import { goToLastMove } from "./why.js";

export function Stage() {
  const shownMoment = moment.value;
  const { now, index } = shownMoment;
  const order = explanation.value?.open ?? []; // until there is a new explanation, the order is by the last one
  const isEmpty = !hasBegun(now);
  return html`<div class=${`stage${isEmpty ? " empty" : ""}`} data-event=${shownMoment.position}>
    ${lesson.value ? html`<${Lesson} />` : html`<${Story} index=${index} />`}
    <div class="picture">
    ${comparison.value ? html`<${Compare} />` : isEmpty ? html`<${Beginning} shownMoment=${shownMoment} />` : html`
      <${StagePicture} shownMoment=${shownMoment} order=${order} />
      ${askedFact.value ? html`<p class="agreement reading">What coordinator and partition come to is shown when the question is answered.</p>` : html`
      <${Agreement} sentences=${stageSentences(shownMoment, order)} shownMoment=${shownMoment} />
      <${DueMessages} now=${now} index=${index} />
      <${Disclosure} id="details" label="Details: every transaction, message and offset"><${Details} shownMoment=${shownMoment} order=${order} /><//>`}`}
    </div></div>`;
}

/** What the picture shows: {id, tps, ids, partitions}: a transactional id and partitions, as chosen or those in most
 *  trouble, and all there are to choose from. */
function focusOf({ now, index }, order) {
  const [ids, partitions] = [idsOf(now, order), partitionsOf(now, order)];
  const tp = focusPartition(now, order);
  const writerOf = (partitionName) => (partitionName && writesOf(partitionName).length ? tape(partitionName, index, now.logs[partitionName].lso).cells.findLast((cell) => cell.t)?.t.id : undefined);
  const openVerdict = order.find((verdict) => verdict.partition === tp && ids.includes(verdict.transactional_id));
  const id = ids.includes(transaction.value) ? transaction.value : (openVerdict?.transactional_id ?? (ids.length && isBusy(now, order, ids[0]) ? ids[0] : (writerOf(tp) ?? ids[0])));
  const otherPartitions = partitions.filter((partitionName) => partitionName !== tp && writerOf(partitionName) === id);
  return { id, tps: tp ? [tp, ...otherPartitions].slice(0, LOGS_MAX) : [], ids, partitions };
}

const CHOICES_MAX = 6;

function StagePicture({ shownMoment, order }) {
  const { id, tps, ids, partitions } = focusOf(shownMoment, order);
  const choiceButtons = (label, names, chosenNames, onChoose) => names.length > 1 && html`<span class="choose" role="group" aria-label=${label}>${names.slice(0, CHOICES_MAX).map((name) => html`<button aria-pressed=${chosenNames.includes(name)} title=${name} onClick=${() => onChoose(name)}>${name}</button> `)}${names.length > CHOICES_MAX ? html`<small>and ${names.length - CHOICES_MAX} more, in the details</small>` : ""}</span>`;
  return html`${(ids.length > 1 || partitions.length > 1) && html`<p class="choices">${choiceButtons("Transactional id", ids, [id], (name) => {
    transaction.value = name;
    partition.value = order.find((verdict) => verdict.transactional_id === name)?.partition ?? null;
  })} ${choiceButtons("Partition", partitions, tps, (name) => (partition.value = name))}</p>`}
    <${Picture} picture=${pictureOf(shownMoment, id, tps, askedFact.value)} />`;
}

/** Messages that are under way now, and can be released or dropped. */
function DueMessages({ now, index }) {
  const dueMessages = messages(now, index).filter((message) => message.isDue);
  return dueMessages.length > 0 && html`<section class="way due" aria-label="On its way now"><h2>On its way</h2><ul>${dueMessages.map((message) => html`<${Message} key=${message.key} message=${message} now=${now} />`)}</ul></section>`;
}

function Details({ shownMoment, order }) {
  const { now, index } = shownMoment;
  const ids = idsOf(now, order, hangsOnly.value);
  const partitions = partitionsOf(now, order, hangsOnly.value);
  return html`
    ${(hangsOnly.value || Object.keys(now.transactions).length > SHOWN_MAX) && html`<p class="hint"><label><input type="checkbox" id="hangs-only" checked=${hangsOnly.value} onChange=${(e) => (hangsOnly.value = e.target.checked)} /> only what hangs</label></p>`}
    <section class="believes" id="application"><h2>The application believes</h2>
      ${shownNames(ids, transaction.value).map((id) => html`<${ApplicationBelief} key=${id} id=${id} index=${index} />`)}</section>
    <section class="believes"><h2>The coordinator believes</h2>
      ${ids.length === 0 && html`<p class="hint">${hangsOnly.value ? noHang(shownMoment) : "No transactional id yet: a client gets one with InitProducerId."}</p>`}
      ${shownNames(ids, transaction.value).map((id) => html`<${CoordinatorBelief} key=${id} idBelief=${coordinated(now, id, index)} isShort=${id !== transaction.value && !isBusy(now, order, id) && isBusy(now, order, ids[0])} />`)}
      <${MoreNames} names=${ids} label="Transactional id" id="stage-txn" choice=${transaction} /></section>
    <${RecentMessages} now=${now} index=${index} />
    <section class="believes"><h2>The partition believes</h2>
      ${partitions.length === 0 && html`<p class="hint">${hangsOnly.value ? noHang(shownMoment) : "Nothing is written yet."}</p>`}
      <${Partitions} shownMoment=${shownMoment} partitions=${partitions} order=${order} /></section>`;
}

const noHang = ({ said, error }) => (said ? "Nothing hangs." : error || READING);

/** Whether the cluster has a transactional id or a partition of users. */
export const hasBegun = (clusterState) => Object.keys(clusterState.transactions).length > 0 || Object.keys(clusterState.logs).some((tp) => !tp.startsWith("__"));

/** The first names, the chosen one in front. */
const shownNames = (names, chosenName) => (names.includes(chosenName) ? [chosenName, ...names.filter((name) => name !== chosenName)] : names).slice(0, SHOWN_MAX);
/** The partition that "Why" is about: the chosen one, or the one in most trouble. */
export function focusPartition(clusterState, open) {
  const partitions = partitionsOf(clusterState, open);
  return partitions.includes(partition.value) ? partition.value : (partitions[0] ?? null);
}

/** A search field for the names that are not shown. */
function MoreNames({ names, label, id, choice }) {
  if (names.length <= SHOWN_MAX) return null;
  const onChoose = ({ target }) => {
    if (!names.includes(target.value)) return;
    choice.value = target.value;
    target.value = "";
  };
  return html`<p class="hint"><label>${names.length - SHOWN_MAX} more. ${label} <input id=${id} list=${`${id}-all`} size="24" placeholder="search …" onInput=${onChoose} /></label>
    <datalist id=${`${id}-all`}>${names.map((name) => html`<option value=${name}></option>`)}</datalist></p>`;
}

// The story

function Story({ index }) {
  const noteIndices = storyNotes();
  const listRef = useRef(null);
  const step = stepAt(index)?.number ?? 0;
  useEffect(() => {
    const listElement = listRef.current;
    const currentItem = listElement?.querySelector(".now");
    if (currentItem) listElement.scrollTop = currentItem.offsetTop - listElement.offsetTop - Math.max(0, Math.min(currentItem.offsetHeight, listElement.clientHeight - currentItem.offsetHeight)); // the step is visible as a whole, and what came before it
  }, [step, noteIndices.length]);
  if (!noteIndices.length) return null;
  const next = drivenRun.value?.next;
  return html`<section class="story" aria-label="What happens"><h2>What happens</h2><ol ref=${listRef}>
    ${noteIndices.map((note, n) => html`<li class=${n + 1 === step ? "now" : n + 1 > step ? "later" : ""} aria-current=${n + 1 === step ? "step" : undefined}>
      <button class="caption" onClick=${() => goTo((noteIndices[n + 1] ?? events.length) - 1)}>${events[note].d.text}</button></li>`)}
    ${next && html`<li class="later">${next.text}</li>`}</ol>
    ${source.value.kind === "live" && html`<p><button id="prevent" onClick=${showPrevention}>How to prevent it: compare with verification</button></p><p><${Practise} again=${true} /></p>`}</section>`;
}

// Where they disagree

/** Sentences about a moment: whether the partitions and transactional ids in question agree. */
function stageSentences(shownMoment, order) {
  const { now, said, open, index } = shownMoment;
  if (!said) return unread(shownMoment);
  return agreements(now, shownNames(partitionsOf(now, order), focusPartition(now, order)), shownNames(idsOf(now, order), transaction.value), open, index);
}

/** A sentence for each partition in question; if all agree, one sentence for all of them. */
const Agreement = ({ sentences, shownMoment }) => html`<section id="agreement" aria-label="Do they agree?" aria-live="polite" ...${headline(sentences, shownMoment)}>${sentences.map(({ kind, title, text }) =>
  html`<p class=${`agreement ${kind}`}><b>${title}</b> ${text}</p>`)}</section>`;

/** What the application knows of its newest transaction, and of earlier ones where it is wrong about the outcome. */
const TRANSACTIONS_MAX = 3;
function ApplicationBelief({ id, index }) {
  const newest = begunUntil(id, index);
  const transactions = newest ? begunOf(id).slice(Math.max(0, newest.number - TRANSACTIONS_MAX), newest.number) : [];
  return transactions.map((t) => ({ t, belief: application(t, index), outcome: outcomeOf(t, index) })).filter(({ t, belief, outcome }) => t === newest || (outcome && belief.how !== outcome))
    .map(({ t, belief, outcome }) => html`<p class=${`knows${outcome && belief.how !== outcome ? " other" : ""}`}><b>${nameOf(t)}</b> ${belief.text}</p>`);
}

// Between

/** Messages that were delivered, lost or refused a moment ago, and clients that have sent requests lately. */
function RecentMessages({ now, index }) {
  const recentMessages = messages(now, index).filter((message) => !message.isDue);
  const clients = clientsAt(index);
  return html`<section class="way" aria-label="A moment ago"><h2>A moment ago</h2>
    ${recentMessages.length ? html`<ul>${recentMessages.map((message) => html`<${Message} key=${message.key} message=${message} now=${now} />`)}</ul>` : html`<p class="hint">Nothing.</p>`}
    ${clients.length > 0 && html`<p class="clients"><small>Clients lately:</small> ${clients.map(([name, api]) => html`<span class="end-of">${name} <small>${api}</small></span> `)}</p>`}</section>`;
}

/** A message; a click on it offers what can be done to it, or to the next one like it. */
function Message({ message, now }) {
  const [isOpen, setOpen] = useState(false);
  const { how, like, rule, since, times } = message;
  const isKept = rule && how !== "delayed"; // a delay ends by itself, and a release does not shorten it
  const next = `the next ${like.api}${like.client_id ? ` of ${like.client_id}` : ""}`;
  return html`<li class=${`message ${how}`}>
    <span class="end-of">${message.from}</span>
    <span class="arrow"><span class="what"><button class="link" aria-expanded=${isOpen} onClick=${() => setOpen(!isOpen)}>${message.label}</button> ${message.said}</span>
      <span class="how">${STATUS_WORDS[how]}${rule ? ` by ${rule}` : ""}${times > 1 ? `, ${times} times` : ""}</span></span>
    <span class="end-of">${message.to}</span>
    ${isKept && canAct.value && html`<button onClick=${() => release(rule)}>Release<span class="sr"> what ${rule} holds</span></button>`}
    ${isOpen && html`<p class="doing">${since && html`<${Event} i=${since.i} />`}
      ${!canAct.value && html`<span class="hint">This run has ended: nothing can be done to its messages.${drivenRun.value?.back ? " Step back, and you can." : ""}</span>`}
      ${canAct.value && isKept && html`<button onClick=${() => release(rule, "drop")}>Drop it</button> <button onClick=${() => release(rule, "duplicate")}>Deliver it twice</button>`}
      ${canAct.value && !isKept && html`${["hold", "drop", ...(like.point.endsWith("request") ? ["duplicate"] : [])].map((what) => html`<button onClick=${() => arm(now, like, what)}>${NEXT[what]} ${next}</button> `)}`}</p>`}</li>`;
}

const NEXT = { hold: "Hold", drop: "Drop", duplicate: "Deliver twice" };

/** Release what a rule holds; `fate`: drop or duplicate it instead. */
function release(rule, fate) {
  const isLive = source.value.kind === "live";
  const path = `/faults/${encodeURIComponent(rule)}`;
  return doNow(async () => {
    if (!isLive) return drive({ release: fate ? { rule, as: fate } : rule });
    await post(`${path}/release${fate ? `?as=${fate}` : ""}`);
    if (fate === "duplicate") await ask(path, { method: "DELETE" }); // the rule would hold the copy, too
  }, `What ${rule} held ${{ drop: "is lost", duplicate: "arrives twice" }[fate] ?? "goes on"}.`);
}

/** Arm a rule that does something to the next message like one. */
function arm(now, like, actionName) {
  const freeId = (n) => (now.faults[`page-${n}`] ? freeId(n + 1) : `page-${n}`);
  const rule = { id: freeId(1), ...like, limit: 1, action: { do: actionName } };
  return doNow(() => (source.value.kind === "live" ? post("/faults", rule) : drive({ arm: rule })), `The rule ${rule.id} waits for the next ${like.api}.`);
}

// The partition

function Partitions({ shownMoment, partitions, order }) {
  const focus = focusPartition(shownMoment.now, order);
  return html`${shownNames(partitions, focus).map((tp) => html`<${Partition} key=${tp} tp=${tp} shownMoment=${shownMoment} isFocus=${tp === focus} />`)}
    <${MoreNames} names=${partitions} label="Partition" id="partition" choice=${partition} />`;
}

function Partition({ tp, shownMoment, isFocus }) {
  const { now, index, open } = shownMoment;
  const log = now.logs[tp];
  const readers = readersAt(tp, index, log.lso);
  const hw = highWatermark(now, log);
  return html`<div class=${`strip partition${isFocus ? " focus" : ""}`}>
    <h3><button class="link" onClick=${() => (partition.value = tp)} aria-pressed=${isFocus} title="Why is its last stable offset here?">${tp}</button> <small>leader: broker ${log.leader}, epoch ${log.epoch}</small></h3>
    <dl class="figures">
      <dt>log start</dt><dd>${log.start}</dd>
      <dt>last stable offset</dt><dd><button class="value" onClick=${() => goToLastMove(tp, "log.lso", index)} title="Where does this value come from?">${log.lso}</button></dd>
      ${hw !== null && html`<dt>high watermark</dt><dd>${hw}</dd>`}
      <dt title=${hw === null ? "The high watermark is not shown: recorded at brief, the trace does not tell how far the followers are." : undefined}>log end</dt><dd>${log.end}</dd></dl>
    <${Tape} tp=${tp} log=${log} hw=${hw} logTape=${tape(tp, index, log.lso)} open=${open.filter((verdict) => verdict.partition === tp)} onChoose=${(cell) => goTo(indexOf(cell.i))} />
    <p class="readers">${readers.map(({ name, offset }) => html`<span class="end-of">▲ ${name} waits at ${offset}</span> `)}${sharersAt(now, tp).map((sharer) => html`<span class="end-of">▲ ${sharing(sharer)}</span> `)}${readerText(log)}</p></div>`;
}

// Nothing yet

function Beginning({ shownMoment }) {
  const { kind } = source.value;
  if (kind === "site") return html`<${FirstScreen} />`;
  if (kind === "live" && link.value !== "live" && !events.length) return html`<section class="why" data-verdict="reading"><h2>${READING}</h2></section>`;
  const headlineAttributes = headline(shownMoment.said ? [] : unread(shownMoment), shownMoment);
  if (kind !== "live") {
    return html`<section class="why" ...${headlineAttributes}><h2>Nothing is written yet at this event</h2><p>Go on with the key <kbd>.</kbd>, or to the end with <kbd>End</kbd>.</p></section>`;
  }
  return html`<div ...${headlineAttributes}><${FirstScreen} /></div>`;
}

/** The address of the cluster, for the bootstrap.servers of clients. */
export function Servers() {
  const [address, setAddress] = useState("ADDRESS");
  useEffect(() => {
    void ask("/cluster").then((cluster) => setAddress(cluster.bootstrap.split(",")[0]), () => null); // the stream says what is wrong
  }, []);
  return address;
}

/** How many steps the story of a hang has. */
const HANG_STEPS = 6;

/** Once all steps of the hang have arrived, show its first step, and play on unless motion is unwanted. */
function playFromStep(number) {
  const stop = effect(() => {
    if (!count.value || storyNotes().length < number - 1 + HANG_STEPS) return;
    queueMicrotask(() => {
      stop();
      goToStep(number);
      playing.value = !prefersStillness();
    });
  });
}

/** Compare the story without verification with the same story where the leader verifies. */
const showPrevention = () => act(async () => {
  if (await play("z01", "V-", "armed")) await compareWith("V+");
});

/** Play the story of a hang on a site, where there is no cluster. */
const playHang = () => act(async () => {
  if (!(await play("z01", "V-", "armed"))) return;
  goToStep(1);
  playing.value = !prefersStillness();
});

/** A button that makes a transaction hang on the live cluster, and shows it. */
function Practise({ again = false, children }) {
  return html`<button id="practise" class=${again ? "" : "primary"} onClick=${() => {
    chooseView("stage"); // now: when the answer arrives, the reader may be in another view
    if (source.value.kind === "site") return void playHang();
    const stepsBefore = storyNotes().length;
    void doNow(() => post("/practise"), ({ hangs }) => {
      partition.value = hangs;
      transaction.value = null;
      playFromStep(stepsBefore + 1);
      return "It is made. Here is its first step.";
    });
  }}>${again ? "Make another one hang" : children}</button>`;
}

/** The first screen: one sentence, the hang step by step, and where to go from here. */
function FirstScreen() {
  const [step, setStep] = useState(0);
  const [isHeld, hold] = useState(prefersStillness());
  const [isAll, setAll] = useState(false);
  useEffect(() => {
    if (isHeld) return undefined;
    const timer = setTimeout(() => setStep((step + 1) % HANG.length), readingMs(HANG[step].says));
    return () => clearTimeout(timer);
  }, [step, isHeld]);
  const isLive = source.value.kind === "live";
  const { says, it } = HANG[step];
  const [pause, resume] = [() => hold(true), () => hold(prefersStillness())];
  return html`<div class="first"><div><h2>A committed or aborted transaction can stay open on a partition. Then its readers wait for ever.</h2>
    <div class="plays" tabindex="0" role="group" aria-label="How it happens" onMouseEnter=${pause} onMouseLeave=${resume} onFocusIn=${pause} onFocusOut=${resume}>
      <${Picture} picture=${it} label="How a transaction hangs" isStill=${true} />
      <p class="says">Step ${step + 1} of ${HANG.length} · ${says}</p>
      <p><button onClick=${() => setStep((step + HANG.length - 1) % HANG.length)}>◀<span class="sr"> step before</span></button> <button onClick=${() => setStep((step + 1) % HANG.length)}>▶<span class="sr"> next step</span></button></p></div></div>
    <div class="ways"><p><${Practise}>Watch it happen, step by step (60 s)<//></p>
      <p><${FirstLesson} /></p>
      <p><button id="all-lessons" aria-expanded=${isAll} onClick=${() => setAll(!isAll)}>All lessons</button> <button id="all-stories" onClick=${() => chooseView("zoo")}>All stories</button></p>
      ${isAll && html`<div class="all"><${Lessons} isRest=${true} /></div>`}
      <details id="plan" class="folded"><summary>A plan for a class: two times 45 minutes</summary><table><tbody>${PLAN.map(([time, what, id]) => html`<tr><td class="hint">${time}</td><td>${what}${id && html`: <a class="link" href=${`#lesson=${id}&part=0`}>${id}</a>`}</td></tr>`)}</tbody></table></details>
      <hr />
      ${isLive ? html`<p class="hint">Or point a Kafka client at this cluster:</p><p><code>bootstrap.servers=<${Servers} /></code> <${CopyServers} /></p><p class="hint">What it does appears here.</p>` : html`
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
