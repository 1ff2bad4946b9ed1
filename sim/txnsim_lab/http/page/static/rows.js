// @ts-check
// Decodes the stream of events. The server sends them as rows in MessagePack, as it keeps them; the page works out
// the other fields of an event, so that this costs the brokers nothing (`TraceRows` in
// txnsim/runtime/_trace_encodings.py).

import { Decoder } from "@msgpack/msgpack";
import { yieldToBrowser } from "./book.js";

/** After so many events the browser gets its turn. */
const EVENTS_PER_TURN = 1024;

async function* chunksOf(body) {
  const bodyReader = body.getReader();
  try {
    for (let readResult = await bodyReader.read(); !readResult.done; readResult = await bodyReader.read()) yield readResult.value;
  } finally {
    void bodyReader.cancel();
  }
}

/** Make events of the rows of a batch that begins at a position of the trace. */
function eventsOf(firstPosition, rows, nodeNames, startNs) {
  const lamportClockByNode = new Map();
  const lamportClocks = [];
  return rows.map(([time, nodeIndex, parents, kind, transaction, payload, weight, lamportClock], index) => {
    let lamportClockBefore = lamportClockByNode.get(nodeIndex) ?? firstPosition;
    for (const parentPosition of parents) if (parentPosition >= firstPosition) lamportClockBefore = Math.max(lamportClockBefore, lamportClocks[parentPosition - firstPosition]);
    lamportClockByNode.set(nodeIndex, lamportClockBefore + 1);
    lamportClocks.push(lamportClockBefore + 1);
    const event = { node: nodeNames[nodeIndex], i: firstPosition + index, t: startNs === null ? time : Math.floor((time - startNs) / 1000), n: nodeIndex, l: lamportClock ?? lamportClockBefore + 1, p: parents, k: kind };
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
  for await (const streamMessage of new Decoder().decodeStream(chunksOf(body))) {
    if (Array.isArray(streamMessage)) {
      yield { lost: lostCount, events: eventsOf(streamMessage[0], streamMessage[1], nodeNames, startNs) };
      lostCount = 0;
      eventsThisTurn += streamMessage[1].length;
      if (eventsThisTurn >= EVENTS_PER_TURN) {
        eventsThisTurn = 0;
        await yieldToBrowser();
      }
      continue;
    }
    if (streamMessage.start_ns !== undefined) startNs = streamMessage.start_ns;
    if (streamMessage.nodes) nodeNames.push(...streamMessage.nodes);
    lostCount += streamMessage.lost ?? 0;
  }
};
