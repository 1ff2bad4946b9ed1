// @ts-check
// The table of keys, used by the handler, the help and a test. No key acts while somebody types.

import { chooseEvent, chooseStep, togglePlaying } from "./player.js";
import { transactionalIdOf } from "./reducer.js";
import { isSite } from "./site.js";
import { shownIndex, chooseView, events, runFile, isHelpOpen, indexOfPosition, newestEventIndex, goToNewest, searchQuery, noticeText, isPresenting, isShareOpen, shownEvent } from "./store.js";
import { hasFailed } from "./words.js";

export const VIEW_TITLES = [
  ["stage", "Picture"],
  ["coordinator", "Coordinator"],
  ["producers", "Producers and groups"],
  ["lanes", "Timeline"],
  ["events", "Events"],
  ["faults", "Faults"],
  ["cluster", "Cluster"],
  ["zoo", "Stories and lessons"],
  ["write", "Write a story"],
];

/** Views that need a server: a page in a file does not show them. */
const SERVER_VIEWS = ["cluster", "zoo", "write"];
export const availableViews = () => VIEW_TITLES.filter(([name]) => !runFile.value || isSite || !SERVER_VIEWS.includes(name));

/** What had the focus when the help or Share was opened. */
let focusedBefore = null;

/** Open or close the help or Share, which lie over the view; at most one of them is open. The focus goes along, and returns. */
export function toggleOverlay(overlay) {
  if (overlay.value) return closeOverlays();
  if (!isHelpOpen.value && !isShareOpen.value) focusedBefore = document.activeElement;
  isHelpOpen.value = overlay === isHelpOpen;
  isShareOpen.value = overlay === isShareOpen;
  requestAnimationFrame(() => document.querySelector("main > .view:not([hidden])")?.focus());
  return true;
}

/** Close the help and Share; the focus returns to where it was. False where none is open. */
function closeOverlays() {
  if (!isHelpOpen.value && !isShareOpen.value) return false;
  isHelpOpen.value = false;
  isShareOpen.value = false;
  requestAnimationFrame(() => (focusedBefore === document.body ? document.querySelector("main > .view") : focusedBefore)?.focus());
  return true;
}

/** Go to the next event, forwards or backwards, for which `isMeant` holds; false where there is none. */
const seekEvent = (from, step, isMeant) => {
  for (let eventIndex = from + step; eventIndex >= 0 && eventIndex < events.length; eventIndex += step) if (isMeant(events[eventIndex])) return chooseEvent(eventIndex);
  return false;
};
const goByEvents = (step) => seekEvent(shownIndex.value, step, () => true);
const isErrorEvent = (event) => event.k === "log.reject" || event.k === "marker.refused" || hasFailed(event);
const isOfShownTransaction = (event) => Boolean(event.tx) && transactionalIdOf(event.tx) === transactionalIdOf(shownEvent.value?.tx ?? "");

export const KEY_BINDINGS = [
  [" ", "play, or pause", togglePlaying],
  [".", "next event", () => goByEvents(1)],
  [",", "previous event", () => goByEvents(-1)],
  ["n", "next event of this transaction", () => seekEvent(shownIndex.value, 1, isOfShownTransaction)],
  ["p", "previous event of this transaction", () => seekEvent(shownIndex.value, -1, isOfShownTransaction)],
  ["[", "the event that is the cause", () => {
    const causeEventIndex = shownEvent.value?.p.length ? indexOfPosition(shownEvent.value.p[0]) : undefined;
    return causeEventIndex !== undefined && chooseEvent(causeEventIndex);
  }],
  ["]", "the first event that is an effect", () => {
    const causeEvent = shownEvent.value;
    return Boolean(causeEvent) && seekEvent(shownIndex.value, 1, (event) => event.p[0] === causeEvent.i);
  }],
  ["e", "next error", () => seekEvent(shownIndex.value, 1, isErrorEvent)],
  ["v", "next violation", () => seekEvent(shownIndex.value, 1, (event) => event.k === "check.violation")],
  ["ArrowRight", "next step of the story", () => chooseStep(1)],
  ["ArrowLeft", "step of the story before", () => chooseStep(-1)],
  ["Home", "first event", () => chooseEvent(0)],
  ["End", "last event", () => chooseEvent(newestEventIndex())],
  ["l", "live: stay at the newest event, also when more come", () => goToNewest()],
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
  ["Escape", "close the help or Share, else leave Present; empty the search", () => {
    if (!closeOverlays()) isPresenting.value = false;
    searchQuery.value = "";
  }],
  ...VIEW_TITLES.map(([name, title], n) => [String(n + 1), `view: ${title}`, () => {
    if (availableViews()[n]) chooseView(availableViews()[n][0]);
  }]),
];

/** Keys that sliders and tables handle themselves. */
const NAVIGATION_KEYS = ["Home", "End", "ArrowLeft", "ArrowRight"];

export function onKey(event) {
  if (event.ctrlKey || event.altKey || event.metaKey) return;
  const textField = event.target.closest?.("input:not([type=range], [type=checkbox], [type=radio]), textarea, select");
  if (textField && event.key !== "Escape") return;
  const keyBinding = KEY_BINDINGS.find(([key]) => key === event.key);
  if (!keyBinding) return;
  if (event.target.closest?.("[type=range], [role=grid], .lane-box") && NAVIGATION_KEYS.includes(event.key)) return;
  if (keyBinding[0] === " " && event.target.closest?.("button, a, [type=radio], [type=checkbox], summary")) return; // Space presses the control
  event.preventDefault();
  const actionOutcome = keyBinding[2]();
  noticeText.value = actionOutcome === false ? `Nothing to go to: ${keyBinding[1]}.` : "";
}
