// @ts-check
// Play: time moves by itself, from one event that matters to the next, as quickly as is wanted.

import { effect, signal } from "@preact/signals";
import { at, count, events, go } from "./store.js";

export const SPEEDS = [0.5, 1, 2, 4];
const PAUSE_MS = 700;
/** Kinds that tell something; a sentence of the story is one. */
const MATTERS = new Set([
  "note", "client.call", "client.deliver", "txn.complete", "txn.append", "log.append", "log.reject", "log.truncate", "marker.owed",
  "marker.written", "marker.refused", "msg.hold", "msg.drop", "fault.arm", "fault.release", "node.up", "node.down", "input", "check.violation",
]);

export const playing = signal(false);
export const speed = signal(1);

/** Begin, or stand still; from the start where the end is reached. */
export function toggle() {
  if (!playing.value && at.value >= count.value - 1) go(0);
  playing.value = !playing.value;
}

function on() {
  const end = count.value - 1;
  let next = at.value + 1;
  while (next < end && !MATTERS.has(events[next].k)) next += 1;
  go(Math.min(next, end));
  if (next >= end) playing.value = false;
}

let timer = 0;
effect(() => {
  clearInterval(timer);
  if (playing.value) timer = setInterval(on, PAUSE_MS / speed.value);
});
