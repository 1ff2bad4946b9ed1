// @ts-check
// Decodes the stream of events. The server sends them as rows in MessagePack, as it keeps them; the page works out
// the other fields of an event, so that this costs the brokers nothing (`TraceRows` in
// txnsim/runtime/_trace_encodings.py).

import { Decoder } from "@msgpack/msgpack";
import { yieldTurn } from "./book.js";

/** After so many events the browser gets its turn. */
const EVENTS_PER_TURN = 1024;

async function* chunksOf(body) {
  const reader = body.getReader();
  try {
    for (let part = await reader.read(); !part.done; part = await reader.read()) yield part.value;
  } finally {
    void reader.cancel();
  }
}

/** Make events of the rows of a batch that begins at a position of the trace. */
function eventsOf(firstPosition, rows, nodes, startNs) {
  const clocks = new Map();
  const lamport = [];
  return rows.map(([time, n, p, k, tx, d, w, l], index) => {
    let clock = clocks.get(n) ?? firstPosition;
    for (const parent of p) if (parent >= firstPosition) clock = Math.max(clock, lamport[parent - firstPosition]);
    clocks.set(n, clock + 1);
    lamport.push(clock + 1);
    const event = { node: nodes[n], i: firstPosition + index, t: startNs === null ? time : Math.floor((time - startNs) / 1000), n, l: l ?? clock + 1, p, k };
    if (tx.length) event.tx = typeof tx === "string" ? tx : `${tx[0]}/${tx[1]}:${tx[2]}`;
    if (d !== null) event.d = d;
    if (w !== null) event.w = w;
    return event;
  });
}

/** The batches of the stream, as {lost, events}: `lost` is how many events the server left out before the batch. */
export const batchesOf = async function* (body) {
  const nodes = [];
  let startNs = null;
  let lost = 0;
  let eventsThisTurn = 0;
  for await (const message of new Decoder().decodeStream(chunksOf(body))) {
    if (Array.isArray(message)) {
      yield { lost, events: eventsOf(message[0], message[1], nodes, startNs) };
      lost = 0;
      eventsThisTurn += message[1].length;
      if (eventsThisTurn >= EVENTS_PER_TURN) {
        eventsThisTurn = 0;
        await yieldTurn();
      }
      continue;
    }
    if (message.start_ns !== undefined) startNs = message.start_ns;
    if (message.nodes) nodes.push(...message.nodes);
    lost += message.lost ?? 0;
  }
};
