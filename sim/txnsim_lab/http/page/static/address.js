// @ts-check
// The address says what is shown: run, lesson and part, view, event. So a reload shows the same, and Back
// leads to what was shown before.

import { effect } from "@preact/signals";
import { act, listen, repeatRun } from "./api.js";
import { addressed, wanted } from "./share.js";
import { choose, comparison, count, cursor, runFile, goTo, indexOf, lesson, goLive, partition, presenting, source, view } from "./store.js";
import { resume } from "./views/lesson.js";

/** So long the page stands still before its address is written: browsers refuse more than a few a second. */
const REST_MS = 250;
let written = "";
let place = ""; // without the event: another one is a step that Back takes
let timer = 0;
let isRestoring = false;

const placeOf = (where) => [where.get("run"), where.get("label"), where.get("take"), where.get("lesson"), where.get("view"), where.get("with")].join(" ");

function write() {
  const where = addressed();
  const text = `#${where}`;
  if (isRestoring || text === written) return;
  const isNew = written !== "" && placeOf(where) !== place;
  [written, place] = [text, placeOf(where)];
  history[isNew ? "pushState" : "replaceState"](null, "", location.pathname + text);
}

/** Show what the address names. */
async function restore() {
  const named = wanted(location.hash);
  isRestoring = true;
  try {
    if (named.lesson) await resume(named.lesson, named.part ?? 0);
    else if (named.name) await repeatRun(named);
    else if (source.value.kind === "run" || lesson.value) void listen();
    if (!named.name && !named.lesson) {
      choose(named.view);
      const index = named.at === undefined ? undefined : indexOf(named.at);
      if (index === undefined) goLive();
      else goTo(index);
    }
  } finally {
    isRestoring = false;
    [written, place] = [location.hash, placeOf(new URLSearchParams(location.hash.slice(1)))];
  }
}

/** Go to an event of the live cluster once it is read. */
function onceThere(position) {
  const stop = effect(() => {
    if (!count.value || indexOf(position) === undefined) return;
    queueMicrotask(() => {
      stop();
      goTo(indexOf(position));
    });
  });
}

/** Keep the address up to date from now on; first show what it names. */
export async function follow() {
  const named = wanted(location.hash);
  if (named.name || named.lesson) await act(restore);
  else {
    choose(named.view);
    partition.value = named.partition;
    if (named.at !== undefined) onceThere(named.at);
  }
  if (!runFile.value) write(); // at once, so that Back leads here from what is shown next
  effect(() => {
    void [view.value, cursor.value, source.value, lesson.value, presenting.value, comparison.value];
    clearTimeout(timer);
    if (!runFile.value) timer = setTimeout(write, REST_MS);
  });
  addEventListener("popstate", () => void act(restore));
}
