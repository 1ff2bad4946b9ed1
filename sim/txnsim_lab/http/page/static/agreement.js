// @ts-check
// Whether application, coordinator and partition agree on the transactions that are shown: a sentence for each.

import { application } from "./application.js";
import { NO_TROUBLE, TROUBLE, belief, coordinated, owedIn, sharersAt, underWay } from "./stage.js";
import { transactionsOf, events, indexOfPosition } from "./store.js";
import { transactionBegunUntil, transactionLabel, openTransactionAt, transactionOutcome, tapeOf } from "./tape.js";

/** A decided transaction is about to be complete for a moment, in which a coordinator under load often is. */
const WAITS_US = 1_000_000;
/** So many sentences are told; of the others, how many there are. */
const SENTENCES_MAX = 4;
const GROUPS_MAX = 3;
/** So many transactions of an id are compared with what the application knows. */
const LATEST = 3;

/** Kinds of sentences, the gravest first, and the verdict of each as the page's attribute `data-verdict` has it. */
const VERDICT = { hanging: "hanging", unknown: "owed", decided: "owed", alive: "open", told: "agree", nothing: "agree", reading: "reading" };
const GRAVITY = Object.keys(VERDICT);

const gravest = (some) => VERDICT[GRAVITY.find((kind) => some.some((one) => one.kind === kind)) ?? "nothing"];

/** The headline's attributes: the gravest verdict of its sentences, and the event that they are of. */
export const headline = (some, { position, said }) => ({ "data-verdict": gravest(some), "data-event": said ? position : undefined, "aria-busy": !said });

/** What stands where something is judged, until it is. */
export const READING = "reading …";
/** In place of sentences about a moment that is not judged. */
export const unread = ({ error }) => [{ kind: "reading", title: error ? "It is not told here." : READING, text: error }];

/** What there is to say of these partitions and transactional ids, the gravest first: {kind, title, text, id} each. */
export function agreements(now, tps, ids, open, index) {
  const some = ids.map((id) => waiting(now, id, index)).filter(Boolean);
  const groups = new Map(); // of what is open on partitions: one for each transaction
  for (const tp of tps) {
    const torn = otherwise(now, tp, index);
    if (torn) some.push(torn);
    const theirs = open.filter((one) => one.partition === tp && (!torn || one.verdict === "hanging"));
    for (const one of theirs) {
      const id = one.transactional_id;
      const t = openTransactionAt(tp, index, now.logs[tp].lso, one.first) ?? (id === null ? null : transactionBegunUntil(id, index));
      const key = `${one.verdict} ${t ? transactionLabel(t) : one.producer_id}`;
      const group = groups.get(key) ?? { one, t, id, places: [] };
      group.places.push({ tp, first: one.first });
      groups.set(key, group);
    }
    if (!torn) some.push(...unwritten(now, tp, theirs, index));
  }
  for (const group of groups.values()) some.push(ofGroup(now, group, index));
  const told = new Set(some.map(({ id }) => id));
  some.push(...ids.filter((id) => !told.has(id)).map((id) => atCoordinator(now, id, index)).filter(Boolean));
  some.push(...ids.map((id) => toldOtherwise(id, index)).filter(Boolean));
  some.sort((a, b) => GRAVITY.indexOf(a.kind) - GRAVITY.indexOf(b.kind));
  const more = some.length - SENTENCES_MAX;
  if (more > 0) some.splice(SENTENCES_MAX, more, { kind: some.at(-1).kind, title: "", text: `${more} more sentences are not shown.` });
  return some.length ? some : [{ kind: "nothing", title: "They agree.", text: "No transaction is open." }];
}

const joined = (some) => some.join(", ");

/** The sentence about one transaction that is open on partitions. */
function ofGroup(now, { one, t, id, places }, index) {
  const name = t ? transactionLabel(t) : `a transaction of producer ${one.producer_id}`;
  const since = joined(places.map(({ tp, first }) => `on ${tp} it is open since offset ${first}`));
  const entry = id !== null && now.transactions[id];
  const starves = starving(now, places);
  const who = entry ? `The coordinator ${belief(coordinated(now, id, index))}` : `No coordinator knows producer ${one.producer_id}`;
  if (one.verdict === "hanging") {
    const outcome = t && transactionOutcome(t, index);
    const knows = outcome && application(t, index);
    const others = !outcome ? who : knows.how === outcome ? `For the application and the coordinator it is ${outcome}` : `For the coordinator it is ${outcome}; the application ${knows.how === "unknown" ? "does not know" : `believes that it ${knows.text}`}`;
    return { kind: "hanging", title: `They disagree: ${name} hangs.`, text: `${others}; ${since}. No timeout ends it.${starves}`, id, t };
  }
  if (one.verdict === "decided") return { kind: "decided", title: "They will agree.", text: `${who}; ${since}: its marker is still to come.${starves}`, id, t };
  if (one.verdict === "alive") return { kind: "alive", title: "They agree.", text: `${who}; ${since}. Its producer can end it, or its timeout will.${starves}`, id, t };
  return { kind: "unknown", title: "It is not known.", text: `${who}; ${since}. ${one.reason}`, id, t };
}

/** Which share groups get nothing before it ends. */
function starving(now, places) {
  const some = places.filter(({ tp, first }) => now.logs[tp].lso === first).flatMap(({ tp }) => sharersAt(now, tp)).filter(({ waitsAt }) => waitsAt !== null);
  const groups = [...new Set(some.map(({ group }) => group))];
  if (!groups.length) return "";
  const more = groups.length > GROUPS_MAX ? ` and ${groups.length - GROUPS_MAX} more` : "";
  return ` Behind it share group${groups.length > 1 ? "s" : ""} ${joined(groups.slice(0, GROUPS_MAX))}${more} get${groups.length > 1 ? "" : "s"} nothing.`;
}

/** What coordinators have open, or owe, on a partition that has no record of it. */
function unwritten(now, tp, theirs, index) {
  const graver = new Set(theirs.filter(({ verdict }) => TROUBLE[verdict] <= TROUBLE.decided).map((one) => one.transactional_id));
  const owed = owedIn(now).find((one) => one.tp === tp && now.transactions[one.id] && !graver.has(one.id));
  if (owed) {
    const text = `The coordinator of ${owed.id} ${belief(coordinated(now, owed.id, index))}. Nothing of it is open on ${tp}, and the coordinator does not know yet that its marker is written there.`;
    return [{ kind: "decided", title: "They will agree.", text, id: owed.id }];
  }
  if (theirs.length) return [];
  const id = Object.keys(now.transactions).find((name) => now.transactions[name].state === "Ongoing" && now.transactions[name].partitions.includes(tp));
  const t = id !== undefined && transactionBegunUntil(id, index);
  return t ? [{ kind: "alive", title: "They agree.", text: `The coordinator has ${transactionLabel(t)} open. Nothing of it is written on ${tp} yet.`, id }] : [];
}

/** The same where no partition that is shown tells of it: what its coordinator has open, or has decided; null for neither. */
function atCoordinator(now, id, index) {
  const rank = underWay(now, id);
  if (rank === NO_TROUBLE) return null;
  const { entry: { state, partitions = [] }, t, outcome, owed } = coordinated(now, id, index);
  const name = t && !outcome ? transactionLabel(t) : `a transaction of ${id}`;
  if (rank === TROUBLE.alive) {
    return { kind: "alive", title: "They agree.", text: `The coordinator has ${name} open, with ${partitions.length ? joined(partitions) : "no partition yet"}.`, id };
  }
  const left = [...new Set([...owed.map(({ tp }) => tp), ...partitions])];
  const rest = left.length ? `The marker of ${joined(left)} is still to come.` : "Every partition has its marker; the coordinator has yet to write that down.";
  return { kind: "decided", title: "They will agree.", text: `The coordinator has decided to ${state === "PrepareCommit" ? "commit" : "abort"} ${name}. ${rest}`, id };
}

/** A decided transaction whose coordinator waits, though no marker is owed; null where there is none. */
function waiting(now, id, index) {
  const said = coordinated(now, id, index);
  if (!said.t || !said.entry.state.startsWith("Prepare") || said.entry.pending || said.owed.length) return null;
  const decided = events[indexOfPosition(said.entry.i) ?? -1];
  if (decided && events[index].t - decided.t < WAITS_US) return null;
  const what = said.entry.state === "PrepareCommit" ? "commit" : "abort";
  return { kind: "unknown", title: "The coordinator waits.", text: `It has decided to ${what} ${transactionLabel(said.t)}, and goes on waiting. Every partition has its marker, and none is owed.`, id };
}

/** What the application was told of a transaction of an id, where that is not what became of it; null where it is. */
function toldOtherwise(id, index) {
  const until = transactionBegunUntil(id, index)?.number ?? 0;
  for (const t of transactionsOf(id).slice(Math.max(0, until - LATEST), until)) {
    const outcome = transactionOutcome(t, index);
    const knows = outcome && application(t, index);
    if (!outcome || knows.how === outcome) continue;
    const [title, text] = knows.how === "unknown"
      ? ["The application does not know.", `Coordinator and partitions have ${transactionLabel(t)} ${outcome}. The application ${knows.text}.`]
      : ["The application believes otherwise.", `For it ${transactionLabel(t)} ${knows.text}. For coordinator and partitions it is ${outcome}.`];
    return { kind: "told", title, text, id, t };
  }
  return null;
}

/** Records whose end on a partition is not what their coordinator has decided. */
export function otherwise(now, tp, index) {
  for (const cell of tapeOf(tp, index, now.logs[tp].lso).cells) {
    if (cell.how !== "committed" && cell.how !== "aborted") continue;
    const { t } = cell;
    const outcome = t && transactionOutcome(t, index);
    if (!outcome || outcome === cell.how) continue;
    return { kind: "hanging", title: "They disagree.", text: `The coordinator has ended ${transactionLabel(t)}: ${outcome}. On ${tp} its record at ${cell.first} is ${cell.how}, and it stays so.` };
  }
  return null;
}
