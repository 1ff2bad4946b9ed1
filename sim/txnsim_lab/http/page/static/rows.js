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
    for (let chunk = await reader.read(); !chunk.done; chunk = await reader.read()) yield chunk.value;
  } finally {
    void reader.cancel();
  }
}

/** Make events of the rows of a batch that begins at a position of the trace. */
function eventsOf(firstPosition, rows, nodeNames, startNs) {
  const clockOfNode = new Map();
  const lamportClocks = [];
  return rows.map(([time, nodeIndex, parents, kind, transaction, payload, weight, lamportClock], index) => {
    let clock = clockOfNode.get(nodeIndex) ?? firstPosition;
    for (const parent of parents) if (parent >= firstPosition) clock = Math.max(clock, lamportClocks[parent - firstPosition]);
    clockOfNode.set(nodeIndex, clock + 1);
    lamportClocks.push(clock + 1);
    const event = { node: nodeNames[nodeIndex], i: firstPosition + index, t: startNs === null ? time : Math.floor((time - startNs) / 1000), n: nodeIndex, l: lamportClock ?? clock + 1, p: parents, k: kind };
    if (transaction.length) event.tx = typeof transaction === "string" ? transaction : `${transaction[0]}/${transaction[1]}:${transaction[2]}`;
    if (payload !== null) event.d = payload;
    if (weight !== null) event.w = weight;
    return event;
  });
}

/** The batches of the stream, as {lost, events}: `lost` is how many events the server left out before the batch. */
export const batchesOf = async function* (body) {
  const nodeNames = [];
  let startNs = null;
  let lostCount = 0;
  let eventsThisTurn = 0;
  for await (const message of new Decoder().decodeStream(chunksOf(body))) {
    if (Array.isArray(message)) {
      yield { lost: lostCount, events: eventsOf(message[0], message[1], nodeNames, startNs) };
      lostCount = 0;
      eventsThisTurn += message[1].length;
      if (eventsThisTurn >= EVENTS_PER_TURN) {
        eventsThisTurn = 0;
        await yieldTurn();
      }
      continue;
    }
    if (message.start_ns !== undefined) startNs = message.start_ns;
    if (message.nodes) nodeNames.push(...message.nodes);
    lostCount += message.lost ?? 0;
  }
};
