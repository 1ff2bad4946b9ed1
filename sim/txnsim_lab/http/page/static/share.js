// @ts-check
// What is shown, in forms to share: a link, a command, a test, an issue. Scenario, seed and inputs are enough to
// repeat a run, so a link holds no trace.

import { VIEWS } from "./keys.js";
import { shownIndex, comparison, cursor, drivenRun, isEmbedded, events, explanation, info, lesson, partition, isPresenting, source, view, violations } from "./store.js";
import { line } from "./words.js";

const LAST_EVENTS = 20;
const escapeNonAscii = (text) => text.replace(/[^ -~]/g, (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`);
const encode = (value) => btoa(escapeNonAscii(JSON.stringify(value))).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
const decode = (text) => JSON.parse(atob(text.replaceAll("-", "+").replaceAll("_", "/")));
/** Quote a text as one word of a shell: it may come from somebody else's trace. */
export const shellWord = (text) => (/^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`);

/** The run that is shown: scenario, run, take, seed, inputs, the step at which it waits. Null if it can't be repeated. */
function shownRun() {
  const origin = source.value;
  if (origin.yaml) return null; // the story is not shipped: its text has to be sent along
  if (origin.kind === "run") {
    return { name: origin.name, run: origin.run, take: origin.take, seed: origin.seed, inputs: drivenRun.value?.inputs ?? [], step: drivenRun.value?.next?.number };
  }
  const { scenario, run, take, seed } = info.value;
  return scenario && seed !== null && !origin.id ? { name: scenario, run, take, seed, inputs: [] } : null;
}

/** What is shown, as the part of an address after the #. */
export function currentAddress() {
  const parameters = new URLSearchParams();
  const run = source.value.kind === "live" ? null : shownRun();
  if (lesson.value) {
    parameters.set("lesson", lesson.value.id);
    parameters.set("part", String(lesson.value.part));
    if (isPresenting.value) parameters.set("present", "1");
  } else if (run) {
    for (const [name, value] of Object.entries({ run: run.name, label: run.run, take: run.take, seed: run.seed })) parameters.set(name, String(value));
    if (run.inputs.length) parameters.set("in", encode(run.inputs));
    if (run.step !== undefined) parameters.set("step", String(run.step));
    if (comparison.value) parameters.set("with", comparison.value.about.run);
  }
  if (isEmbedded) parameters.set("embed", "1");
  if (!lesson.value && isPresenting.value) parameters.set("present", "1");
  if (run || cursor.value !== null) parameters.set("at", String(events[shownIndex.value]?.i ?? 0));
  parameters.set("view", view.value);
  if (partition.value) parameters.set("p", partition.value);
  return parameters;
}

/** The arguments of `txnsim scenario run` that repeat a run. */
export const commandOf = ({ name, run, take, seed }) => `${shellWord(name)} --mode ${shellWord(run)} ${shellWord(`--${take}`)} --seed ${shellWord(String(seed))}`;

/** Title and text of each form of the run that is shown; empty if it can't be repeated. */
export function shareForms() {
  const run = shownRun();
  if (!run) return [];
  const inputs = JSON.stringify(run.inputs);
  const parameters = currentAddress();
  const rules = [...new Set(violations.value.map(({ d }) => d.rule))].sort();
  const base = location.protocol === "file:" ? "http://127.0.0.1:9080/" : location.origin + location.pathname;
  const link = `${base}#${parameters}`;
  const command = `txnsim scenario run ${commandOf(run)}${run.inputs.length ? ` --inputs ${shellWord(inputs)}` : ""}`;
  const inputsArgument = run.inputs.length ? `,\n        inputs=json.loads(${JSON.stringify(inputs)}),` : ",";
  const test = `${run.inputs.length ? "import json\n\n" : ""}from txnsim.testing import run_scenario


def test_${run.name.replace(/\W/g, "_")}():
    result = run_scenario(
        ${JSON.stringify(run.name)}, run=${JSON.stringify(run.run)}, take=${JSON.stringify(run.take)}, seed=${JSON.stringify(run.seed)}${inputsArgument}
    )
    ${rules.length ? "# What the judges find; () once it is mended.\n    " : ""}assert result.verdict.observed == (${rules.map((rule) => `${JSON.stringify(rule)},`).join(" ")})
`;
  const title = `${run.name}, ${run.run}, ${run.take}, seed ${run.seed}`;
  const issue = issueOf(title, ["```console", `$ ${command}`, "```", ""]);
  return [["Link", link], ["Command", command], ["pytest test", test], ["Issue", issue]];
}

/** The text of an issue about what is shown. */
function issueOf(title, repeatLines) {
  const judgement = explanation.value?.partitions.find((verdict) => verdict.partition === partition.value) ?? explanation.value?.partitions[0];
  return [
    `### ${title}`, "", `txnsim ${info.value.sim ?? ""}`, "", ...repeatLines,
    ...violations.value.map((violation) => `- **${violation.d.rule}**: ${violation.d.found}`),
    ...(judgement ? [`- ${judgement.partition} at event #${judgement.at}: ${judgement.sentences.join(" ")}`] : []),
    "", `The last ${LAST_EVENTS} events:`, "", "```", ...events.slice(Math.max(0, shownIndex.value + 1 - LAST_EVENTS), shownIndex.value + 1).map(line), "```", "",
  ].join("\n");
}

/** The issue for what can't be repeated: the trace, or the text of the story, is sent along. */
export const liveIssue = () => issueOf(source.value.kind === "live" ? "A live cluster" : (source.value.title ?? source.value.name), source.value.yaml ? ["```yaml", source.value.yaml, "```", ""] : ["The trace is in the file trace.jsonl.", ""]);

/** What an address names: a run, a part of a lesson, or a moment of the live cluster. */
export function parseAddress(hash) {
  const parameters = new URLSearchParams(hash.slice(1));
  const numberOf = (name) => (parameters.has(name) ? Number(parameters.get(name)) : undefined);
  return {
    lesson: parameters.get("lesson"), part: numberOf("part"),
    name: parameters.get("run"), run: parameters.get("label"), take: parameters.get("take") ?? "armed", seed: numberOf("seed") ?? 1,
    inputs: parameters.has("in") ? decode(parameters.get("in")) : [], step: numberOf("step"), at: numberOf("at"),
    view: VIEWS.some(([name]) => name === parameters.get("view")) ? parameters.get("view") : "stage", partition: parameters.get("p"), other: parameters.get("with"),
  };
}
