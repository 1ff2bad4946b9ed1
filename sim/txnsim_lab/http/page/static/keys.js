// @ts-check
// One table of keys: it feeds the handler, the help and the test. None acts while somebody types.

import { byStep, toggle } from "./player.js";
import { idOf } from "./reducer.js";
import { isSite } from "./site.js";
import { at, choose, events, filed, go, help, indexOf, last, live, query, said, sharing, shown } from "./store.js";
import { failed } from "./words.js";

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

/** Views that can be shown: a page in a file has no cluster to act on. */
const NEED_A_SERVER = ["cluster", "zoo", "write"];
export const views = () => VIEWS.filter(([name]) => !filed.value || isSite || !NEED_A_SERVER.includes(name));

/** Open or close what lies over the view: one of them at a time. */
export function over(one) {
  const opens = !one.value;
  help.value = false;
  sharing.value = false;
  one.value = opens;
}

/** Keys answer with false where there is nothing to go to. */
const seek = (from, step, wanted) => {
  for (let n = from + step; n >= 0 && n < events.length; n += step) if (wanted(events[n])) return go(n);
  return false;
};
const by = (step) => seek(at.value, step, () => true);
const isError = (one) => one.k === "log.reject" || one.k === "marker.refused" || failed(one);
const sameTx = (one) => Boolean(one.tx) && idOf(one.tx) === idOf(shown.value?.tx ?? "");

export const KEYS = [
  [" ", "play, or stand still", toggle],
  [".", "next event", () => by(1)],
  [",", "previous event", () => by(-1)],
  ["n", "next event of this transaction", () => seek(at.value, 1, sameTx)],
  ["p", "previous event of this transaction", () => seek(at.value, -1, sameTx)],
  ["[", "the event that is the cause", () => {
    const index = shown.value?.p.length ? indexOf(shown.value.p[0]) : undefined;
    return index !== undefined && go(index);
  }],
  ["]", "the first event that is an effect", () => {
    const now = shown.value;
    return Boolean(now) && seek(at.value, 1, (one) => one.p[0] === now.i);
  }],
  ["e", "next error", () => seek(at.value, 1, isError)],
  ["v", "next violation", () => seek(at.value, 1, (one) => one.k === "check.violation")],
  ["ArrowRight", "next step of the story", () => byStep(1)],
  ["ArrowLeft", "step of the story before", () => byStep(-1)],
  ["Home", "first event", () => go(0)],
  ["End", "last event", () => go(last())],
  ["l", "live: stay at the newest event, also when more come", () => live()],
  ["w", "why does the reader wait?", () => {
    choose("stage");
    requestAnimationFrame(() => document.querySelector("#why")?.focus());
  }],
  ["/", "search events", () => {
    choose("events");
    requestAnimationFrame(() => document.querySelector("#query")?.focus());
  }],
  ["s", "share what is shown", () => over(sharing)],
  ["?", "keys and words", () => over(help)],
  ["Escape", "close the help or Share, empty the search", () => {
    help.value = false;
    sharing.value = false;
    query.value = "";
  }],
  ...VIEWS.map(([name, title], n) => [String(n + 1), `view: ${title}`, () => {
    if (views()[n]) choose(views()[n][0]);
  }]),
];

/** What sliders and tables use themselves. */
const NAVIGATE = ["Home", "End", "ArrowLeft", "ArrowRight"];

export function onKey(event) {
  if (event.ctrlKey || event.altKey || event.metaKey) return;
  const typing = event.target.closest?.("input:not([type=range], [type=checkbox], [type=radio]), textarea, select");
  if (typing && event.key !== "Escape") return;
  const found = KEYS.find(([key]) => key === event.key);
  if (!found) return;
  if (event.target.closest?.("[type=range], [role=grid], .lane-box") && NAVIGATE.includes(event.key)) return;
  if (found[0] === " " && event.target.closest?.("button, a, [type=radio], [type=checkbox], summary")) return; // Space presses it
  event.preventDefault();
  const came = found[2]();
  said.value = came === false ? `Nothing to go to: ${found[1]}.` : "";
}
