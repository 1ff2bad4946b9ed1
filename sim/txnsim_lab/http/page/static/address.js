// @ts-check
// The address names what is shown: run, lesson and part, view, event. A reload therefore shows the same, and
// Back leads to what was shown before.

import { effect } from "@preact/signals";
import { runTask, followLiveTrace, repeatRun } from "./api.js";
import { currentAddress, parseAddress } from "./share.js";
import { chooseView, comparison, eventCount, cursorIndex, runFile, goToEvent, indexOfPosition, lesson, goToNewest, chosenPartition, isPresenting, traceOrigin, shownView } from "./store.js";
import { resumeLesson } from "./views/lesson.js";

/** The address is written once the page has stood still for so long: browsers refuse more than a few changes
 *  per second. */
const WRITE_DELAY_MS = 250;
let writtenAddress = "";
let writtenScreen = ""; // without the event: Back returns to another screen, not to another event
let writeTimer = 0;
let isRestoring = false;

const screenOf = (parameters) => [parameters.get("run"), parameters.get("label"), parameters.get("take"), parameters.get("lesson"), parameters.get("view"), parameters.get("with")].join(" ");

function writeAddress() {
  const addressParameters = currentAddress();
  const fragment = `#${addressParameters}`;
  if (isRestoring || fragment === writtenAddress) return;
  const isNewScreen = writtenAddress !== "" && screenOf(addressParameters) !== writtenScreen;
  [writtenAddress, writtenScreen] = [fragment, screenOf(addressParameters)];
  history[isNewScreen ? "pushState" : "replaceState"](null, "", location.pathname + fragment);
}

/** Show what the address names. */
async function restoreAddress() {
  const addressTarget = parseAddress(location.hash);
  isRestoring = true;
  try {
    if (addressTarget.lesson) await resumeLesson(addressTarget.lesson, addressTarget.part ?? 0);
    else if (addressTarget.name) await repeatRun(addressTarget);
    else if (traceOrigin.value.kind === "run" || lesson.value) void followLiveTrace();
    if (!addressTarget.name && !addressTarget.lesson) {
      chooseView(addressTarget.view);
      const eventIndex = addressTarget.at === undefined ? undefined : indexOfPosition(addressTarget.at);
      if (eventIndex === undefined) goToNewest();
      else goToEvent(eventIndex);
    }
  } finally {
    isRestoring = false;
    [writtenAddress, writtenScreen] = [location.hash, screenOf(new URLSearchParams(location.hash.slice(1)))];
  }
}

/** Go to an event of the live cluster once it is read. */
function goToEventOnceRead(position) {
  const stopWatching = effect(() => {
    if (!eventCount.value || indexOfPosition(position) === undefined) return;
    queueMicrotask(() => {
      stopWatching();
      goToEvent(indexOfPosition(position));
    });
  });
}

/** Keep the address up to date from now on; first show what it names. */
export async function followAddress() {
  const addressTarget = parseAddress(location.hash);
  if (addressTarget.name || addressTarget.lesson) await runTask(restoreAddress);
  else {
    chooseView(addressTarget.view);
    chosenPartition.value = addressTarget.partition;
    if (addressTarget.at !== undefined) goToEventOnceRead(addressTarget.at);
  }
  if (!runFile.value) writeAddress(); // now, so that Back leads here from what is shown next
  effect(() => {
    void [shownView.value, cursorIndex.value, traceOrigin.value, lesson.value, isPresenting.value, comparison.value];
    clearTimeout(writeTimer);
    if (!runFile.value) writeTimer = setTimeout(writeAddress, WRITE_DELAY_MS);
  });
  addEventListener("popstate", () => void runTask(restoreAddress));
}
