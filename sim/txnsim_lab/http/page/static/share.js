// @ts-check
// What is shown, for others: as a link, a command, a test, an issue. A run is repeated from its scenario,
// seed and inputs alone, so a link holds no trace.

import { VIEWS } from "./keys.js";
import { at, comparison, cursor, drivenRun, embedded, events, explanation, info, lesson, partition, presenting, source, view, violations } from "./store.js";
import { line } from "./words.js";

const LAST = 20;
const ascii = (text) => text.replace(/[^ -~]/g, (one) => `\\u${one.charCodeAt(0).toString(16).padStart(4, "0")}`);
const encoded = (value) => btoa(ascii(JSON.stringify(value))).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
const decoded = (text) => JSON.parse(atob(text.replaceAll("-", "+").replaceAll("_", "/")));
/** As one word of a shell: what is shown may be somebody else's trace. */
export const word = (text) => (/^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`);

/** Of what is shown: scenario, run, take, seed, inputs, the step it waits at; null where nothing repeats it. */
function about() {
  const from = source.value;
  if (from.yaml) return null; // it is not shipped: its text has to go along
  if (from.kind === "run") {
    return { name: from.name, run: from.run, take: from.take, seed: from.seed, inputs: drivenRun.value?.inputs ?? [], step: drivenRun.value?.next?.number };
  }
  const { scenario, run, take, seed } = info.value;
  return scenario && seed !== null && !from.id ? { name: scenario, run, take, seed, inputs: [] } : null;
}

/** What is shown, as the part of an address behind its #. */
export function addressed() {
  const where = new URLSearchParams();
  const one = source.value.kind === "live" ? null : about();
  if (lesson.value) {
    where.set("lesson", lesson.value.id);
    where.set("part", String(lesson.value.part));
    if (presenting.value) where.set("present", "1");
  } else if (one) {
    for (const [name, value] of Object.entries({ run: one.name, label: one.run, take: one.take, seed: one.seed })) where.set(name, String(value));
    if (one.inputs.length) where.set("in", encoded(one.inputs));
    if (one.step !== undefined) where.set("step", String(one.step));
    if (comparison.value) where.set("with", comparison.value.about.run);
  }
  if (embedded) where.set("embed", "1");
  if (!lesson.value && presenting.value) where.set("present", "1");
  if (one || cursor.value !== null) where.set("at", String(events[at.value]?.i ?? 0));
  where.set("view", view.value);
  if (partition.value) where.set("p", partition.value);
  return where;
}

/** The arguments that repeat it. */
export const commandOf = ({ name, run, take, seed }) => `${word(name)} --mode ${word(run)} ${word(`--${take}`)} --seed ${word(String(seed))}`;

/** Title and text of each form. */
export function shared() {
  const one = about();
  if (!one) return [];
  const inputs = JSON.stringify(one.inputs);
  const where = addressed();
  const found = [...new Set(violations.value.map(({ d }) => d.rule))].sort();
  const base = location.protocol === "file:" ? "http://127.0.0.1:9080/" : location.origin + location.pathname;
  const link = `${base}#${where}`;
  const command = `txnsim scenario run ${commandOf(one)}${one.inputs.length ? ` --inputs ${word(inputs)}` : ""}`;
  const given = one.inputs.length ? `,\n        inputs=json.loads(${JSON.stringify(inputs)}),` : ",";
  const test = `${one.inputs.length ? "import json\n\n" : ""}from txnsim.testing import run_scenario


def test_${one.name.replace(/\W/g, "_")}():
    result = run_scenario(
        ${JSON.stringify(one.name)}, run=${JSON.stringify(one.run)}, take=${JSON.stringify(one.take)}, seed=${JSON.stringify(one.seed)}${given}
    )
    ${found.length ? "# What the judges find; () once it is mended.\n    " : ""}assert result.verdict.observed == (${found.map((rule) => `${JSON.stringify(rule)},`).join(" ")})
`;
  const title = `${one.name}, ${one.run}, ${one.take}, seed ${one.seed}`;
  const issue = issueOf(title, ["```console", `$ ${command}`, "```", ""]);
  return [["Link", link], ["Command", command], ["pytest test", test], ["Issue", issue]];
}

/** What is shown, as the text of an issue. */
function issueOf(title, repeat) {
  const said = explanation.value?.partitions.find((found) => found.partition === partition.value) ?? explanation.value?.partitions[0];
  return [
    `### ${title}`, "", `txnsim ${info.value.sim ?? ""}`, "", ...repeat,
    ...violations.value.map((found) => `- **${found.d.rule}**: ${found.d.found}`),
    ...(said ? [`- ${said.partition} at event #${said.at}: ${said.sentences.join(" ")}`] : []),
    "", `The last ${LAST} events:`, "", "```", ...events.slice(Math.max(0, at.value + 1 - LAST), at.value + 1).map(line), "```", "",
  ].join("\n");
}

/** What can't be repeated: its trace, or its text, has to go along. */
export const sharedLive = () => issueOf(source.value.kind === "live" ? "A live cluster" : (source.value.title ?? source.value.name), source.value.yaml ? ["```yaml", source.value.yaml, "```", ""] : ["The trace is in the file trace.jsonl.", ""]);

/** What an address names: a run, a part of a lesson, or a moment of the live cluster. */
export function wanted(hash) {
  const found = new URLSearchParams(hash.slice(1));
  const number = (name) => (found.has(name) ? Number(found.get(name)) : undefined);
  return {
    lesson: found.get("lesson"), part: number("part"),
    name: found.get("run"), run: found.get("label"), take: found.get("take") ?? "armed", seed: number("seed") ?? 1,
    inputs: found.has("in") ? decoded(found.get("in")) : [], step: number("step"), at: number("at"),
    view: VIEWS.some(([name]) => name === found.get("view")) ? found.get("view") : "stage", partition: found.get("p"), other: found.get("with"),
  };
}
