// @ts-check
// The table of keys, used by the handler, the help and a test. No key acts while somebody types.

import { goBySteps, togglePlaying } from "./player.js";
import { idOf } from "./reducer.js";
import { isSite } from "./site.js";
import { shownIndex, chooseView, events, runFile, goTo, isHelpOpen, indexOf, lastIndex, goLive, query, notice, isShareOpen, shownEvent } from "./store.js";
import { hasFailed } from "./words.js";

export const VIEWS = [
  ["stage", "Stage"],
  ["coordinator", "Coordinator"],
  ["producers", "Producers"],
  ["lanes", "Lanes"],
  ["events", "Events"],
  ["faults", "Faults"],
  ["cluster", "Cluster"],
  ["zoo", "Zoo and lessons"],
  ["write", "Write a story"],
];

/** Views that need a server: a page in a file does not show them. */
const NEED_A_SERVER = ["cluster", "zoo", "write"];
export const views = () => VIEWS.filter(([name]) => !runFile.value || isSite || !NEED_A_SERVER.includes(name));

/** Open or close the help or Share, which lie over the view; at most one of them is open. */
export function toggleOverlay(overlay) {
  const opens = !overlay.value;
  isHelpOpen.value = false;
  isShareOpen.value = false;
  overlay.value = opens;
}

/** Go to the next event, forwards or backwards, for which `isMeant` holds; false where there is none. */
const seek = (from, step, isMeant) => {
  for (let n = from + step; n >= 0 && n < events.length; n += step) if (isMeant(events[n])) return goTo(n);
  return false;
};
const seekBy = (step) => seek(shownIndex.value, step, () => true);
const isError = (event) => event.k === "log.reject" || event.k === "marker.refused" || hasFailed(event);
const sameTx = (event) => Boolean(event.tx) && idOf(event.tx) === idOf(shownEvent.value?.tx ?? "");

export const KEYS = [
  [" ", "play, or stand still", togglePlaying],
  [".", "next event", () => seekBy(1)],
  [",", "previous event", () => seekBy(-1)],
  ["n", "next event of this transaction", () => seek(shownIndex.value, 1, sameTx)],
  ["p", "previous event of this transaction", () => seek(shownIndex.value, -1, sameTx)],
  ["[", "the event that is the cause", () => {
    const index = shownEvent.value?.p.length ? indexOf(shownEvent.value.p[0]) : undefined;
    return index !== undefined && goTo(index);
  }],
  ["]", "the first event that is an effect", () => {
    const fromEvent = shownEvent.value;
    return Boolean(fromEvent) && seek(shownIndex.value, 1, (event) => event.p[0] === fromEvent.i);
  }],
  ["e", "next error", () => seek(shownIndex.value, 1, isError)],
  ["v", "next violation", () => seek(shownIndex.value, 1, (event) => event.k === "check.violation")],
  ["ArrowRight", "next step of the story", () => goBySteps(1)],
  ["ArrowLeft", "step of the story before", () => goBySteps(-1)],
  ["Home", "first event", () => goTo(0)],
  ["End", "last event", () => goTo(lastIndex())],
  ["l", "live: stay at the newest event, also when more come", () => goLive()],
  ["w", "why does the reader wait?", () => {
    chooseView("stage");
    requestAnimationFrame(() => document.querySelector("#why")?.focus());
  }],
  ["/", "search events", () => {
    chooseView("events");
    requestAnimationFrame(() => document.querySelector("#query")?.focus());
  }],
  ["s", "share what is shown", () => toggleOverlay(isShareOpen)],
  ["?", "keys and words", () => toggleOverlay(isHelpOpen)],
  ["Escape", "close the help or Share, empty the search", () => {
    isHelpOpen.value = false;
    isShareOpen.value = false;
    query.value = "";
  }],
  ...VIEWS.map(([name, title], n) => [String(n + 1), `view: ${title}`, () => {
    if (views()[n]) chooseView(views()[n][0]);
  }]),
];

/** Keys that sliders and tables handle themselves. */
const NAVIGATE = ["Home", "End", "ArrowLeft", "ArrowRight"];

export function onKey(event) {
  if (event.ctrlKey || event.altKey || event.metaKey) return;
  const typing = event.target.closest?.("input:not([type=range], [type=checkbox], [type=radio]), textarea, select");
  if (typing && event.key !== "Escape") return;
  const binding = KEYS.find(([key]) => key === event.key);
  if (!binding) return;
  if (event.target.closest?.("[type=range], [role=grid], .lane-box") && NAVIGATE.includes(event.key)) return;
  if (binding[0] === " " && event.target.closest?.("button, a, [type=radio], [type=checkbox], summary")) return; // Space presses the control
  event.preventDefault();
  const outcome = binding[2]();
  notice.value = outcome === false ? `Nothing to go to: ${binding[1]}.` : "";
}
