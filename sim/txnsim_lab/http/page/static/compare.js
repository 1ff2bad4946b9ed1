// @ts-check
// Two runs of one story side by side: their steps aligned by caption, what each shows at a step, and the first
// step at which they differ, in one sentence.

import { otherwise } from "./agreement.js";
import { LOGS_MAX, pictureOf } from "./picture.js";
import { SHOWN_MAX, TXN_APIS, coordinated, idsOf, isOwnerless, messages, partitionsOf, stepAt } from "./stage.js";
import { thisBook, events, storyNotes, stateAt, withBook } from "./store.js";
import { nameOf, tape } from "./tape.js";

/** Errors after which clients retry: they are no difference between two runs. */
const PASSING = new Set(["NONE", "CONCURRENT_TRANSACTIONS", "COORDINATOR_LOAD_IN_PROGRESS", "COORDINATOR_NOT_AVAILABLE", "NOT_COORDINATOR", "NOT_LEADER_OR_FOLLOWER", "UNKNOWN_TOPIC_OR_PARTITION"]);

const captions = (book) => withBook(book, () => storyNotes().map((n) => events[n].d.text.trim()));

/** Indices of the first and the last event of a step; `number` counts from 1. */
function span(book, number) {
  return withBook(book, () => ({ from: storyNotes()[number - 1], to: (storyNotes()[number] ?? events.length) - 1 }));
}

/** The steps of two runs as rows {text, left, right}: steps with the same caption share a row (longest common
 *  subsequence). */
export function rowsOf(mine, theirs) {
  const [a, b] = [captions(mine), captions(theirs)];
  const common = Array.from({ length: a.length + 1 }, () => new Array(b.length + 1).fill(0));
  for (let n = a.length - 1; n >= 0; n -= 1) {
    for (let m = b.length - 1; m >= 0; m -= 1) common[n][m] = a[n] === b[m] ? common[n + 1][m + 1] + 1 : Math.max(common[n + 1][m], common[n][m + 1]);
  }
  const rows = [];
  for (let n = 0, m = 0; n < a.length || m < b.length; ) {
    if (n < a.length && m < b.length && a[n] === b[m]) rows.push({ text: a[n], left: ++n, right: ++m });
    else if (m === b.length || (n < a.length && common[n + 1][m] >= common[n][m + 1])) rows.push({ text: a[n], left: ++n, right: null });
    else rows.push({ text: b[m], left: null, right: ++m });
  }
  return rows;
}

/** The index in the other trace that belongs to an index of the shown one: as far into the same step. */
export function indexBeside({ book, rows }, index) {
  const number = stepAt(index)?.number ?? 0;
  const row = rows.findIndex(({ left }) => left === number);
  const lastRow = rows.slice(0, row + 1).findLast(({ right }) => right !== null);
  if (!lastRow) return withBook(book, () => (storyNotes()[0] ?? events.length) - 1);
  const otherSpan = span(book, lastRow.right);
  if (rows[row].right === null) return otherSpan.to;
  const ownSpan = span(thisBook(), number);
  return otherSpan.from + Math.floor(((index - ownSpan.from) / Math.max(1, ownSpan.to - ownSpan.from)) * (otherSpan.to - otherSpan.from));
}

/** What one side shows at an index, as plain values. `open`: the open transactions as the server judges them;
 *  `sentencesOf` makes sentences of them; `likeSide`: the side whose transactional id is drawn here, too. */
export const sideAt = (book, index, open, sentencesOf, likeSide = null) => withBook(book, () => {
  const clusterState = stateAt(index);
  const ids = idsOf(clusterState, open).slice(0, SHOWN_MAX);
  const tps = partitionsOf(clusterState, open).slice(0, SHOWN_MAX);
  const id = ids.includes(likeSide?.id) ? likeSide.id : (open.find((verdict) => ids.includes(verdict.transactional_id))?.transactional_id ?? ids[0]);
  return {
    index, now: clusterState, open, id,
    drawn: pictureOf({ now: clusterState, index, open }, id, tps.slice(0, LOGS_MAX)),
    said: sentencesOf(clusterState, tps, ids, open, index),
    ids: ids.map((id) => coordinated(clusterState, id, index)),
    logs: tps.map((tp) => ({ tp, log: clusterState.logs[tp], logTape: tape(tp, index, clusterState.logs[tp].lso) })),
    messages: messages(clusterState, index),
  };
});

/** What could tell two runs apart at a step: what disagrees at its end, what was refused in it, the records. */
function signs(book, number) {
  const { from, to } = span(book, number);
  return withBook(book, () => {
    const clusterState = stateAt(to);
    /** Sentences about what disagrees at the end of the step. */
    const trouble = [];
    const records = [];
    for (const [tp, log] of Object.entries(clusterState.logs).sort()) {
      if (tp.startsWith("__")) continue;
      const torn = otherwise(clusterState, tp, to);
      if (torn) trouble.push(torn.text);
      for (const { how, t, first, values, isMarker, pid } of tape(tp, to, log.lso).cells) {
        if (isMarker) continue;
        records.push(`${tp} ${values ?? ""} ${how}`);
        if (how === "open" && isOwnerless(clusterState, tp, t?.id)) trouble.push(`${tp} has ${t ? nameOf(t) : `a transaction of producer ${pid}`} open from offset ${first} on, and no marker will come.`);
      }
    }
    const refused = new Map();
    for (let n = from; n <= to; n += 1) {
      const { k, d } = events[n];
      const api = k === "log.reject" ? "Produce" : k === "marker.refused" ? "WriteTxnMarkers" : k === "msg.send" && d.response && TXN_APIS.has(d.api) ? d.api : null;
      if (api && d.error && !PASSING.has(d.error)) refused.set(`${api} ${d.error}`, `${api} is refused with ${d.error}${d.reason ? `: ${d.reason}` : ""}.`);
    }
    return { trouble, refused, names: [...refused.keys()].sort(), states: Object.entries(clusterState.transactions).map(([id, { state }]) => `${id} is ${state}`).sort(), records };
  });
}

/** The sentence that tells most about one side of a difference. */
const sentenceOf = (ownSigns, otherSigns) => {
  const [ownTrouble] = ownSigns.trouble.filter((troubleText) => !otherSigns.trouble.includes(troubleText));
  const refusal = ownSigns.refused.get(ownSigns.names.find((name) => !otherSigns.refused.has(name)));
  return ownTrouble ?? refusal ?? ownSigns.trouble[0] ?? "nothing disagrees, and nothing is refused.";
};

/** The first step at which two runs differ: its row and a sentence; null where the stage shows no difference. What
 *  disagrees counts most, then what is refused, then states, then records. */
export function firstDifference({ book, rows, names }) {
  const pairs = rows.flatMap((row, n) => (row.left && row.right ? [{ row, n, a: signs(thisBook(), row.left), b: signs(book, row.right) }] : []));
  for (const kind of ["trouble", "names", "states", "records"]) {
    const difference = pairs.find(({ a, b }) => (kind === "trouble" ? (a.trouble.length > 0) !== (b.trouble.length > 0) : String(a[kind]) !== String(b[kind])));
    if (!difference) continue;
    const { row, a, b } = difference;
    const sides = kind === "states" || kind === "records" ? [a, b].map((sideSigns) => `${sideSigns[kind].join(", ") || "nothing is written"}.`) : [sentenceOf(a, b), sentenceOf(b, a)];
    return { row, text: `They differ first in “${row.text}” With ${names[0]}, ${sides[0]} With ${names[1]}, ${sides[1]}` };
  }
  return null;
}
