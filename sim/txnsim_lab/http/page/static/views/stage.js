// @ts-check
// The stage: the story, the picture of what application, coordinator and partitions believe, what is on its way,
// what is due. The verdict stands above (views/verdict.js).

import { useEffect, useState } from "preact/hooks";
import { askServer, changeCluster, sendInput, postJson } from "../api.js";
import { prefersReducedMotion, readingMs } from "../player.js";
import { html } from "../html.js";
import { SHOWN_MAX, coordinatorBeliefOf, hasUserData, highWatermark, idsOf, judgedIds, messagesAt, partitionsOf, recentClientsAt, stepAt } from "../stage.js";
import { askedFact, canChangeCluster, chooseView, comparison, drivenRun, events, explanation, goToEvent, showsHangingOnly, indexOfPosition, lesson, connectionState, judgedMoment, presentAnswer, readEventCount, chosenPartition, traceOrigin, chosenTransactionalId, leaderWritesOf } from "../store.js";
import { tapeOf } from "../tape.js";
import { PICTURE_LOGS_MAX, pictureOf } from "../picture.js";
import { Compare } from "./compare.js";
import { EventLink } from "./event.js";
import { Disclosure } from "./folded.js";
import { FirstLesson, Lesson } from "./lesson.js";
import { HANG_STORY } from "../hang.js";
import { CLASS_PLAN } from "../plan.js";
import { PartitionTable } from "./partitions.js";
import { Picture } from "./picture.js";
import { PractiseButton } from "./practise.js";
import { Story } from "./story.js";
import { CoordinatorBelief, readersSentence } from "./strip.js";
import { Tape } from "./tape.js";
import { READING_TEXT } from "./verdict.js";
import { goToLastMove } from "./why.js";

export function Stage() {
  const shownMoment = judgedMoment.value;
  const { clusterState } = shownMoment;
  const orderingVerdict = explanation.value?.verdict; // until there is a new explanation, the order is by the last one
  const isStageEmpty = !hasUserData(clusterState);
  return html`<div class=${`stage${isStageEmpty ? " empty" : ""}`} data-event=${shownMoment.position}>
    ${lesson.value && html`<div class="left"><${Lesson} /></div>`}
    <div class="picture">
    ${comparison.value ? html`<${Compare} />` : isStageEmpty ? html`<${EmptyStage} />` : html`
      <${StagePicture} shownMoment=${shownMoment} orderingVerdict=${orderingVerdict} />
      <${Story} shownMoment=${shownMoment} partitionName=${focusedPartitionOf(clusterState, orderingVerdict)} />
      ${!askedFact.value && html`
      <${DueMessages} shownMoment=${shownMoment} />
      <${StreamsGroups} groups=${shownMoment.serverExplanation?.words.streams_groups ?? {}} />
      <${Disclosure} id="details" label="Details: every transaction, message and offset"><${Details} shownMoment=${shownMoment} orderingVerdict=${orderingVerdict} /><//>`}`}
    </div></div>`;
}

/** What the picture shows: {id, partitionNames}: a transactional id and partitions, as chosen or those in most
 *  trouble. */
function pictureFocus({ clusterState, index }, orderingVerdict) {
  const [ids, partitions] = [idsOf(clusterState, orderingVerdict), partitionsOf(clusterState, orderingVerdict)];
  const focusedPartition = focusedPartitionOf(clusterState, orderingVerdict);
  const lastWriterOf = (partitionName) => (partitionName && leaderWritesOf(partitionName).length ? tapeOf(partitionName, index, clusterState.logs[partitionName]).cells.findLast((cell) => cell.t)?.t.id : undefined);
  const focusedVerdict = orderingVerdict?.partitions.find(({ partition }) => partition === focusedPartition)?.open_txns.find((txn) => ids.includes(txn.transactional_id));
  const shownId = ids.includes(chosenTransactionalId.value) ? chosenTransactionalId.value : (focusedVerdict?.transactional_id ?? (judgedIds(orderingVerdict).includes(ids[0]) ? ids[0] : (lastWriterOf(focusedPartition) ?? ids[0])));
  const otherPartitions = partitions.filter((partitionName) => partitionName !== focusedPartition && lastWriterOf(partitionName) === shownId);
  return { id: shownId, partitionNames: focusedPartition ? [focusedPartition, ...otherPartitions].slice(0, PICTURE_LOGS_MAX) : [] };
}

/** A step with more events is no act of a story: its cluster has gone on. */
const PLAYED_EVENTS_MAX = 500;

function StagePicture({ shownMoment, orderingVerdict }) {
  const { id, partitionNames } = pictureFocus(shownMoment, orderingVerdict);
  const step = stepAt(shownMoment.index);
  return html`<${Picture} picture=${pictureOf(shownMoment, id, partitionNames, askedFact.value)} isStep=${step?.to === shownMoment.index && step.to - step.from < PLAYED_EVENTS_MAX} />`;
}

/** Messages that are held, owed or under way now; some can be released or dropped. */
function DueMessages({ shownMoment: { clusterState, index, serverExplanation } }) {
  const dueMessages = messagesAt(clusterState, index, serverExplanation?.words.markers).filter((message) => message.isDue);
  return dueMessages.length > 0 && html`<section class="way due" aria-label="Still to arrive"><h2>Still to arrive</h2><ul>${dueMessages.map((message) => html`<${Message} key=${message.key} message=${message} clusterState=${clusterState} />`)}</ul></section>`;
}

/** What members of streams groups run and wait for, in the server's words. */
const StreamsGroups = ({ groups }) => Object.entries(groups).map(([name, sentences]) => html`<section class="believes streams" key=${name} data-group=${name}><h2>Streams group ${name}</h2><ul>${sentences.map((sentence) => html`<li>${sentence}</li>`)}</ul></section>`);

function Details({ shownMoment, orderingVerdict }) {
  const { clusterState, index } = shownMoment;
  const transactionalIds = idsOf(clusterState, orderingVerdict, showsHangingOnly.value);
  const partitionNames = partitionsOf(clusterState, orderingVerdict, showsHangingOnly.value);
  const explanationWords = shownMoment.serverExplanation?.words;
  return html`
    ${(showsHangingOnly.value || Object.keys(clusterState.transactions).length > SHOWN_MAX) && html`<p class="hint"><label><input type="checkbox" id="hangs-only" checked=${showsHangingOnly.value} onChange=${(e) => (showsHangingOnly.value = e.target.checked)} /> only what hangs</label></p>`}
    <section class="believes" id="application"><h2>The application knows</h2>
      ${firstNames(transactionalIds, chosenTransactionalId.value).map((id) => html`<${ApplicationBelief} key=${id} id=${id} application=${explanationWords?.applications[id]} />`)}</section>
    <section class="believes"><h2>The coordinator believes</h2>
      ${transactionalIds.length === 0 && html`<p class="hint">${showsHangingOnly.value ? noHangText(shownMoment) : "No transactional id yet: a coordinator knows one from its first InitProducerId on."}</p>`}
      ${firstNames(transactionalIds, chosenTransactionalId.value).map((id) => html`<${CoordinatorBelief} key=${id} idBelief=${coordinatorBeliefOf(clusterState, id, index)} sentence=${explanationWords?.coordinators[id]} isShort=${id !== chosenTransactionalId.value && !judgedIds(orderingVerdict).includes(id) && judgedIds(orderingVerdict).includes(transactionalIds[0])} />`)}
      <${MoreNames} names=${transactionalIds} label="Transactional id" id="stage-txn" choice=${chosenTransactionalId} /></section>
    <${RecentMessages} shownMoment=${shownMoment} />
    <section class="believes"><h2>The partition believes</h2>
      ${partitionNames.length === 0 && html`<p class="hint">${showsHangingOnly.value ? noHangText(shownMoment) : "Nothing is written yet."}</p>`}
      <${Partitions} shownMoment=${shownMoment} partitions=${partitionNames} orderingVerdict=${orderingVerdict} /></section>`;
}

const noHangText = ({ serverExplanation, error }) => (serverExplanation ? "Nothing hangs." : error || READING_TEXT);

/** The first names, the chosen one in front. */
const firstNames = (names, chosenName) => (names.includes(chosenName) ? [chosenName, ...names.filter((name) => name !== chosenName)] : names).slice(0, SHOWN_MAX);
/** The partition that "Why" is about: the chosen one, or the one in most trouble. */
export function focusedPartitionOf(clusterState, orderingVerdict) {
  const partitions = partitionsOf(clusterState, orderingVerdict);
  return partitions.includes(chosenPartition.value) ? chosenPartition.value : (partitions[0] ?? null);
}

/** A search field for the names that are not shown. */
function MoreNames({ names, label, id, choice }) {
  if (names.length <= SHOWN_MAX) return null;
  const chooseName = ({ target }) => {
    if (!names.includes(target.value)) return;
    choice.value = target.value;
    target.value = "";
  };
  return html`<p class="hint"><label>${names.length - SHOWN_MAX} more. ${label} <input id=${id} list=${`${id}-all`} size="24" placeholder="search …" onInput=${chooseName} /></label>
    <datalist id=${`${id}-all`}>${names.map((name) => html`<option value=${name}></option>`)}</datalist></p>`;
}

/** What the application of a transactional id knows of its newest transaction, in the judge's words. */
const ApplicationBelief = ({ id, application }) => application && html`<p class="knows"><b>${id}</b> ${application.sentence}</p>`;

// Between

/** Messages that were delivered, lost or refused a moment ago, and clients that have sent requests lately. */
function RecentMessages({ shownMoment: { clusterState, index, serverExplanation } }) {
  const recentMessages = messagesAt(clusterState, index, serverExplanation?.words.markers).filter((message) => !message.isDue);
  const recentClients = recentClientsAt(index);
  return html`<section class="way" aria-label="A moment ago"><h2>A moment ago</h2>
    ${recentMessages.length ? html`<ul>${recentMessages.map((message) => html`<${Message} key=${message.key} message=${message} clusterState=${clusterState} />`)}</ul>` : html`<p class="hint">Nothing.</p>`}
    ${recentClients.length > 0 && html`<p class="clients"><small>Clients lately:</small> ${recentClients.map(([name, api]) => html`<span class="end-of">${name} <small>${api}</small></span> `)}</p>`}</section>`;
}

/** A message; a click on it offers what can be done to it, or to the next one like it. */
function Message({ message, clusterState }) {
  const [isOpen, setOpen] = useState(false);
  const { how, nextMatch, rule, event, times } = message;
  const isHeld = rule && how !== "delayed"; // a delay ends by itself, and a release does not shorten it
  const nextLikeThis = `the next ${nextMatch.api}${nextMatch.client_id ? ` of ${nextMatch.client_id}` : ""}`;
  return html`<li class=${`message ${how}`}>
    <span class="end-of">${message.from}</span>
    <span class="arrow"><span class="what"><button class="link" aria-expanded=${isOpen} onClick=${() => setOpen(!isOpen)}>${message.label}</button> ${message.detail}</span>
      <span class="how">${message.status}${times > 1 ? `, ${times} times` : ""}</span></span>
    <span class="end-of">${message.to}</span>
    ${isHeld && canChangeCluster.value && html`<button onClick=${() => releaseHeld(rule)}>Release<span class="sr"> what ${rule} holds</span></button>`}
    ${isOpen && html`<p class="doing">${event && html`<${EventLink} i=${event.i} />`}
      ${!canChangeCluster.value && html`<span class="hint">This run has ended: nothing can be done to its messages.${drivenRun.value?.back ? " Step back, and you can." : ""}</span>`}
      ${canChangeCluster.value && isHeld && html`<button onClick=${() => releaseHeld(rule, "drop")}>Drop it</button> <button onClick=${() => releaseHeld(rule, "duplicate")}>Deliver it twice</button>`}
      ${canChangeCluster.value && !isHeld && html`${["hold", "drop", ...(nextMatch.point.endsWith("request") ? ["duplicate"] : [])].map((actionName) => html`<button onClick=${() => armForNext(clusterState, nextMatch, actionName)}>${NEXT_MESSAGE_LABELS[actionName]} ${nextLikeThis}</button> `)}`}</p>`}</li>`;
}

const NEXT_MESSAGE_LABELS = { hold: "Hold", drop: "Drop", duplicate: "Deliver twice" };

/** Release what a rule holds; `fate`: drop or duplicate it instead. */
function releaseHeld(rule, fate) {
  const isLive = traceOrigin.value.kind === "live";
  const rulePath = `/faults/${encodeURIComponent(rule)}`;
  return changeCluster(async () => {
    if (!isLive) return sendInput({ release: fate ? { rule, as: fate } : rule });
    await postJson(`${rulePath}/release${fate ? `?as=${fate}` : ""}`);
    if (fate === "duplicate") await askServer(rulePath, { method: "DELETE" }); // the rule would hold the copy, too
  }, `What ${rule} held ${{ drop: "is lost", duplicate: "arrives twice" }[fate] ?? "goes on"}.`);
}

/** Arm a rule that does something to the next message like one. */
function armForNext(clusterState, nextMatch, actionName) {
  const freeRuleId = (n) => (clusterState.faults[`page-${n}`] ? freeRuleId(n + 1) : `page-${n}`);
  const newRule = { id: freeRuleId(1), ...nextMatch, limit: 1, action: { do: actionName } };
  return changeCluster(() => (traceOrigin.value.kind === "live" ? postJson("/faults", newRule) : sendInput({ arm: newRule })), `The rule ${newRule.id} waits for the next ${nextMatch.api}.`);
}

// The partition

function Partitions({ shownMoment, partitions, orderingVerdict }) {
  const focusedPartition = focusedPartitionOf(shownMoment.clusterState, orderingVerdict);
  return html`${firstNames(partitions, focusedPartition).map((tp) => html`<${Partition} key=${tp} tp=${tp} shownMoment=${shownMoment} isFocus=${tp === focusedPartition} />`)}
    <${MoreNames} names=${partitions} label="Partition" id="partition" choice=${chosenPartition} />`;
}

function Partition({ tp, shownMoment, isFocus }) {
  const { clusterState, index, open } = shownMoment;
  const partitionLog = clusterState.logs[tp];
  const judged = shownMoment.serverExplanation?.verdict.partitions.find(({ partition }) => partition === tp);
  const highWatermarkOffset = highWatermark(clusterState, partitionLog);
  return html`<div class=${`strip partition${isFocus ? " focus" : ""}`}>
    <h3><button class="link" onClick=${() => (chosenPartition.value = tp)} aria-pressed=${isFocus} title="Why is its last stable offset here?">${tp}</button> <small>leader: broker ${partitionLog.leader}, epoch ${partitionLog.epoch}</small></h3>
    <dl class="figures">
      <dt>log start</dt><dd>${partitionLog.start}</dd>
      <dt>last stable offset</dt><dd><button class="value" onClick=${() => goToLastMove(tp, "log.lso", index)} title="Where does this value come from?">${partitionLog.lso}</button></dd>
      ${highWatermarkOffset !== null && html`<dt>high watermark</dt><dd>${highWatermarkOffset}</dd>`}
      <dt title=${highWatermarkOffset === null ? "The high watermark is not shown: recorded at brief, the trace does not tell how far the followers are." : undefined}>log end</dt><dd>${partitionLog.end}</dd></dl>
    <${Tape} tp=${tp} repeatReasonByMarker=${shownMoment.serverExplanation?.words.repeated_markers} log=${partitionLog} hw=${highWatermarkOffset} logTape=${tapeOf(tp, index, partitionLog)} open=${open.filter((verdict) => verdict.partition === tp)} onChoose=${(cell) => goToEvent(indexOfPosition(cell.i))} />
    <p class="readers">${judged?.readers?.map((name) => html`<span class="end-of">▲ ${name} waits at ${judged.stands_at}</span> `)}${(shownMoment.serverExplanation?.words.share_groups[tp] ?? []).map((sentence) => html`<span class="end-of">▲ ${sentence}</span> `)}${readersSentence(shownMoment.serverExplanation, tp)}</p></div>`;
}

// Nothing yet

function EmptyStage() {
  const { kind } = traceOrigin.value;
  if (kind === "site") return html`<${FirstScreen} />`;
  if (kind === "live" && connectionState.value !== "live" && !events.length) {
    return html`<section class="why" id="reading" role="status"><h2>Reading what the cluster has recorded …</h2><p>${readEventCount.value ? `${readEventCount.value.toLocaleString("en")} events so far. ` : ""}${presentAnswer.value ? "The verdict above is the present one." : ""}</p>
      <${PartitionTable} partitions=${presentAnswer.value?.partitions ?? []} /></section>`;
  }
  if (kind !== "live") {
    return html`<section class="why"><h2>Nothing is written yet at this event</h2><p>Go on with the key <kbd>.</kbd>, or to the end with <kbd>End</kbd>.</p></section>`;
  }
  return html`<${FirstScreen} />`;
}

/** The address of the cluster, for the bootstrap.servers of clients. */
export function BootstrapAddress() {
  const [address, setAddress] = useState("ADDRESS");
  useEffect(() => {
    void askServer("/cluster").then((cluster) => setAddress(cluster.bootstrap.split(",")[0]), () => null); // the stream says what is wrong
  }, []);
  return address;
}

/** The first screen: one sentence, the hang step by step, and where to go from here. */
function FirstScreen() {
  const [isStopped, stop] = useState(prefersReducedMotion());
  const [step, setStep] = useState(HANG_STORY.length - 1); // first it shows how the story ends
  const [isLookedAt, lookAt] = useState(false);
  useEffect(() => {
    if (isStopped || isLookedAt) return undefined;
    const stepTimer = setTimeout(() => setStep((step + 1) % HANG_STORY.length), readingMs(HANG_STORY[step].sentence));
    return () => clearTimeout(stepTimer);
  }, [step, isStopped, isLookedAt]);
  const isLive = traceOrigin.value.kind === "live";
  const { sentence, picture } = HANG_STORY[step];
  const [pause, resume] = [() => lookAt(true), () => lookAt(false)];
  const goBy = (steps) => () => {
    stop(true);
    setStep((step + steps + HANG_STORY.length) % HANG_STORY.length);
  };
  const goByArrow = (event) => {
    const steps = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!steps) return;
    event.stopPropagation(); // the cluster has no story yet to walk in
    goBy(steps)();
  };
  return html`<div class="first"><h2>See what happens to Kafka transactions, step by step</h2>
    <p class="about">A committed or aborted transaction can stay open on a partition. Then consumers of that partition wait forever.</p>
    <p class="begin"><${PractiseButton}>Watch it happen (60 s)<//></p>
    <div class="plays" tabindex="0" role="group" aria-label="How it happens" onMouseEnter=${pause} onMouseLeave=${resume} onFocusIn=${pause} onFocusOut=${resume} onKeyDown=${goByArrow}>
      <${Picture} picture=${picture} label="How a transaction hangs" isStill=${true} />
      <p class="player"><button onClick=${goBy(-1)}>◀<span class="sr"> step before</span></button> <button id="playing" onClick=${() => stop(!isStopped)}>${isStopped ? "▶ play" : "❚❚ pause"}</button> <button onClick=${goBy(1)}>▶<span class="sr"> next step</span></button> <span class="step-of">Example, step ${step + 1} of ${HANG_STORY.length}</span></p>
      <p class="says">${sentence}</p></div>
    <div class="ways"><${FirstLesson} />
      <button id="all-stories" onClick=${() => chooseView("zoo")}>All lessons and stories</button>
      <details id="plan" class="folded"><summary>A plan for a class: two times 45 minutes</summary><table><tbody>${CLASS_PLAN.map(([time, activity, id]) => html`<tr><td class="hint">${time}</td><td>${activity}${id && html`: <a class="link" href=${`#lesson=${id}&part=0`}>${id}</a>`}</td></tr>`)}</tbody></table></details>
      ${isLive ? html`<p class="hint">Or point a Kafka client at this cluster. What it does appears here.</p><p><code>bootstrap.servers=<${BootstrapAddress} /></code> <${CopyAddressButton} /></p>` : html`
      <p class="hint">A simulator of Apache Kafka's transactions, run by this browser. Nothing is sent anywhere. After this visit it works without a network.</p>
      <p class="hint" id="licence">Licence: <a class="link" href="./LICENSE.txt">Apache 2.0</a> · <a class="link" href="./source.tar.xz" download>Source</a></p>`}</div></div>`;
}

function CopyAddressButton() {
  const [isCopied, setCopied] = useState(false);
  return html`<button onClick=${async ({ target }) => {
    await navigator.clipboard?.writeText(target.previousElementSibling.textContent).catch(() => null);
    setCopied(true);
  }}>${isCopied ? "Copied" : "Copy"}<span class="sr"> bootstrap.servers</span></button>`;
}
