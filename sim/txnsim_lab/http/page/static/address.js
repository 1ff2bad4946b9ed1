// @ts-check
// The address names what is shown: run, lesson and part, view, event. A reload therefore shows the same, and
// Back leads to what was shown before.

import { effect } from "@preact/signals";
import { act, followLiveTrace, repeatRun } from "./api.js";
import { currentAddress, parseAddress } from "./share.js";
import { chooseView, comparison, count, cursor, runFile, goTo, indexOf, lesson, goLive, partition, isPresenting, source, view } from "./store.js";
import { resumeLesson } from "./views/lesson.js";

/** The address is written once the page has stood still for so long: browsers refuse more than a few changes
 *  per second. */
const REST_MS = 250;
let writtenAddress = "";
let writtenScreen = ""; // without the event: Back returns to another screen, not to another event
let timer = 0;
let isRestoring = false;

const screenOf = (parameters) => [parameters.get("run"), parameters.get("label"), parameters.get("take"), parameters.get("lesson"), parameters.get("view"), parameters.get("with")].join(" ");

function writeAddress() {
  const parameters = currentAddress();
  const text = `#${parameters}`;
  if (isRestoring || text === writtenAddress) return;
  const isNew = writtenAddress !== "" && screenOf(parameters) !== writtenScreen;
  [writtenAddress, writtenScreen] = [text, screenOf(parameters)];
  history[isNew ? "pushState" : "replaceState"](null, "", location.pathname + text);
}

/** Show what the address names. */
async function restoreAddress() {
  const request = parseAddress(location.hash);
  isRestoring = true;
  try {
    if (request.lesson) await resumeLesson(request.lesson, request.part ?? 0);
    else if (request.name) await repeatRun(request);
    else if (source.value.kind === "run" || lesson.value) void followLiveTrace();
    if (!request.name && !request.lesson) {
      chooseView(request.view);
      const index = request.at === undefined ? undefined : indexOf(request.at);
      if (index === undefined) goLive();
      else goTo(index);
    }
  } finally {
    isRestoring = false;
    [writtenAddress, writtenScreen] = [location.hash, screenOf(new URLSearchParams(location.hash.slice(1)))];
  }
}

/** Go to an event of the live cluster once it is read. */
function goOnceRead(position) {
  const stop = effect(() => {
    if (!count.value || indexOf(position) === undefined) return;
    queueMicrotask(() => {
      stop();
      goTo(indexOf(position));
    });
  });
}

/** Keep the address up to date from now on; first show what it names. */
export async function followAddress() {
  const request = parseAddress(location.hash);
  if (request.name || request.lesson) await act(restoreAddress);
  else {
    chooseView(request.view);
    partition.value = request.partition;
    if (request.at !== undefined) goOnceRead(request.at);
  }
  if (!runFile.value) writeAddress(); // now, so that Back leads here from what is shown next
  effect(() => {
    void [view.value, cursor.value, source.value, lesson.value, isPresenting.value, comparison.value];
    clearTimeout(timer);
    if (!runFile.value) timer = setTimeout(writeAddress, REST_MS);
  });
  addEventListener("popstate", () => void act(restoreAddress));
}
