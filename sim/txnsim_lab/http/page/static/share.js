// @ts-check
// What is shown, in forms to share: a link, a command, a test, an issue. Scenario, seed and inputs are enough to
// repeat a run, so a link holds no trace.

import { VIEW_TITLES } from "./keys.js";
import { askedFact, shownIndex, comparison, cursorIndex, drivenRun, isEmbedded, events, explanation, traceHeader, lesson, chosenPartition, isPresenting, traceOrigin, shownView, violations } from "./store.js";
import { eventLine } from "./words.js";

const ISSUE_EVENT_COUNT = 20;
const escapeNonAscii = (text) => text.replace(/[^ -~]/g, (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`);
const encodeInputs = (value) => btoa(escapeNonAscii(JSON.stringify(value))).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
const decodeInputs = (text) => JSON.parse(atob(text.replaceAll("-", "+").replaceAll("_", "/")));
/** Quote a text as one word of a shell: it may come from somebody else's trace. */
export const shellWord = (text) => (/^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`);

/** The run that is shown: scenario, run, take, seed, inputs, the step at which it waits. Null if it can't be repeated. */
function repeatableRun() {
  const shownOrigin = traceOrigin.value;
  if (shownOrigin.yaml) return null; // the story is not shipped: its text has to be sent along
  if (shownOrigin.kind === "run") {
    return { name: shownOrigin.name, run: shownOrigin.run, take: shownOrigin.take, seed: shownOrigin.seed, inputs: drivenRun.value?.inputs ?? [], step: drivenRun.value?.next?.number };
  }
  const { scenario, run, take, seed } = traceHeader.value;
  return scenario && seed !== null && !shownOrigin.id ? { name: scenario, run, take, seed, inputs: [] } : null;
}

/** What is shown, as the part of an address after the #. */
export function currentAddress() {
  const addressParameters = new URLSearchParams();
  const sharedRun = traceOrigin.value.kind === "live" ? null : repeatableRun();
  if (lesson.value) {
    addressParameters.set("lesson", lesson.value.id);
    addressParameters.set("part", String(lesson.value.part));
    if (isPresenting.value) addressParameters.set("present", "1");
  } else if (sharedRun) {
    for (const [name, value] of Object.entries({ run: sharedRun.name, label: sharedRun.run, take: sharedRun.take, seed: sharedRun.seed })) addressParameters.set(name, String(value));
    if (sharedRun.inputs.length) addressParameters.set("in", encodeInputs(sharedRun.inputs));
    if (sharedRun.step !== undefined) addressParameters.set("step", String(sharedRun.step));
    if (comparison.value) addressParameters.set("with", comparison.value.about.run);
  }
  if (isEmbedded) addressParameters.set("embed", "1");
  if (!lesson.value && isPresenting.value) addressParameters.set("present", "1");
  if (sharedRun || cursorIndex.value !== null) addressParameters.set("at", String(events[shownIndex.value]?.i ?? 0));
  addressParameters.set("view", shownView.value);
  if (chosenPartition.value) addressParameters.set("p", chosenPartition.value);
  return addressParameters;
}

/** The arguments of `txnsim scenario run` that repeat a run. */
export const scenarioArguments = ({ name, run, take, seed }) => `${shellWord(name)} --mode ${shellWord(run)} ${shellWord(`--${take}`)} --seed ${shellWord(String(seed))}`;

/** Title and text of each form of the run that is shown; empty if it can't be repeated. */
export function shareForms() {
  const sharedRun = repeatableRun();
  if (!sharedRun) return [];
  const inputsJson = JSON.stringify(sharedRun.inputs);
  const addressParameters = currentAddress();
  const violatedRules = [...new Set(violations.value.map(({ d }) => d.rule))].sort();
  const pageAddress = location.protocol === "file:" ? "http://127.0.0.1:9080/" : location.origin + location.pathname;
  const runLink = `${pageAddress}#${addressParameters}`;
  const runCommand = `txnsim scenario run ${scenarioArguments(sharedRun)}${sharedRun.inputs.length ? ` --inputs ${shellWord(inputsJson)}` : ""}`;
  const inputsArgument = sharedRun.inputs.length ? `,\n        inputs=json.loads(${JSON.stringify(inputsJson)}),` : ",";
  const testCode = `${sharedRun.inputs.length ? "import json\n\n" : ""}from txnsim.testing import run_scenario


def test_${sharedRun.name.replace(/\W/g, "_")}():
    result = run_scenario(
        ${JSON.stringify(sharedRun.name)}, run=${JSON.stringify(sharedRun.run)}, take=${JSON.stringify(sharedRun.take)}, seed=${JSON.stringify(sharedRun.seed)}${inputsArgument}
    )
    ${violatedRules.length ? "# What the judges find; () once it is mended.\n    " : ""}assert result.verdict.observed == (${violatedRules.map((rule) => `${JSON.stringify(rule)},`).join(" ")})
`;
  const runTitle = `${sharedRun.name}, ${sharedRun.run}, ${sharedRun.take}, seed ${sharedRun.seed}`;
  if (askedFact.value) return [["Link", runLink]]; // the rest would answer the question
  const issueText = writeIssue(runTitle, ["```console", `$ ${runCommand}`, "```", ""]);
  return [["Link", runLink], ["Command", runCommand], ["pytest test", testCode], ["Issue", issueText]];
}

/** The text of an issue about what is shown. */
function writeIssue(title, repeatLines) {
  const partitionJudgement = explanation.value?.partitions.find((verdict) => verdict.partition === chosenPartition.value) ?? explanation.value?.partitions[0];
  return [
    `### ${title}`, "", `txnsim ${traceHeader.value.sim ?? ""}`, "", ...repeatLines,
    ...violations.value.map((violation) => `- **${violation.d.rule}**: ${violation.d.found}`),
    ...(partitionJudgement ? [`- ${partitionJudgement.partition} at event #${partitionJudgement.at}: ${partitionJudgement.sentences.join(" ")}`] : []),
    "", `The last ${ISSUE_EVENT_COUNT} events:`, "", "```", ...events.slice(Math.max(0, shownIndex.value + 1 - ISSUE_EVENT_COUNT), shownIndex.value + 1).map(eventLine), "```", "",
  ].join("\n");
}

/** The issue for what can't be repeated: the trace, or the text of the story, is sent along. */
export const unrepeatableIssue = () => writeIssue(traceOrigin.value.kind === "live" ? "A live cluster" : (traceOrigin.value.title ?? traceOrigin.value.name), traceOrigin.value.yaml ? ["```yaml", traceOrigin.value.yaml, "```", ""] : ["The trace is in the file trace.jsonl.", ""]);

/** What an address names: a run, a part of a lesson, or a moment of the live cluster. */
export function parseAddress(hash) {
  const addressParameters = new URLSearchParams(hash.slice(1));
  const numberParameter = (name) => (addressParameters.has(name) ? Number(addressParameters.get(name)) : undefined);
  return {
    lesson: addressParameters.get("lesson"), part: numberParameter("part"),
    name: addressParameters.get("run"), run: addressParameters.get("label"), take: addressParameters.get("take") ?? "armed", seed: numberParameter("seed") ?? 1,
    inputs: addressParameters.has("in") ? decodeInputs(addressParameters.get("in")) : [], step: numberParameter("step"), at: numberParameter("at"),
    view: VIEW_TITLES.some(([name]) => name === addressParameters.get("view")) ? addressParameters.get("view") : "stage", partition: addressParameters.get("p"), other: addressParameters.get("with"),
  };
}
