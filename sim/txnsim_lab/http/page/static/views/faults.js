// @ts-check
// Faults: the armed rules and what each has matched, struck and holds; buttons to arm, release and disarm.

import { useState } from "preact/hooks";
import { ask, doNow, drive, post } from "../api.js";
import { ACTIONS, APIS, CRITERIA, EVERYWHERE, POINTS } from "../fault_forms.js";
import { html } from "../html.js";
import { canAct, source, state } from "../store.js";

const PLANS = {
  "hold the next Produce of clients": { point: "client.request", api: "Produce", action: { do: "hold" } },
  "hold markers on their way to leaders": { point: "peer.request", api: "WriteTxnMarkers", action: { do: "hold" } },
  "hold EndTxn of clients": { point: "client.request", api: "EndTxn", action: { do: "hold" } },
  "lose the answer to EndTxn": { point: "client.response", api: "EndTxn", limit: 1, action: { do: "drop" } },
  "answer EndTxn with NOT_COORDINATOR, once": { point: "client.response", api: "EndTxn", limit: 1, action: { do: "error", error: "NOT_COORDINATOR" } },
  "delay markers by 2 s": { point: "peer.request", api: "WriteTxnMarkers", action: { do: "delay", delay_ms: 2000 } },
};

const OWN_RULE = "a rule of your own …";
/** The form as it is at first: texts of a rule's criteria and of the fields of its actions, by name. */
const FIRST_FORM = {
  id: "", point: "client.request", criteria: { api: "EndTxn", limit: "1" }, action: "hold", then: "",
  fields: { delay_ms: "1000", throttle_ms: "1000", by_ms: "60000", error: "NOT_COORDINATOR", what: "crc", how: "set" },
  thenFields: { delay_ms: "1000", throttle_ms: "1000", error: "NOT_COORDINATOR" },
};
const numbers = (text) => text.trim().split(/[ ,]+/).map(Number);
const READERS = {
  number: Number,
  numbers,
  flag: (text) => text === "true",
  sides: (text) => text.split("|").map(numbers),
  row: (text) => Object.fromEntries(text.trim().split(/[ ,]+/).map((pair) => {
    const [name, value = ""] = pair.split("=", 2);
    return [name, /^-?\d+$/.test(value) ? Number(value) : value];
  })),
};
/** Examples of values that are not single words. */
const EXAMPLES = { numbers: "1 4", sides: "1 2 | 3", row: "producer_id=7 first_offset=0" };
const actionsAt = (point) => [...POINTS[point].actions, ...EVERYWHERE];
/** What a rule may do to the message it struck after an action on the cluster. */
const thenActionsAt = (point, action) => (EVERYWHERE.includes(action) ? POINTS[point].actions : []);
/** Criteria of a rule at a point -> their types, or their choices. `after` and `until` name a rule in force. */
function criteriaAt(point, inForce) {
  const { criteria, kinds } = POINTS[point];
  const lists = { api: APIS, kind: kinds, role: ["leader", "follower"], after: inForce, until: inForce };
  return Object.fromEntries(criteria.map((name) => [name, lists[name] ?? CRITERIA[name]]));
}

/** Whether a field is filled in. A text that is not among the choices was chosen at another point, and does not count. */
const isFilledIn = (text, type) => Boolean(text) && (!Array.isArray(type) || type.includes(text));
/** The values of the fields that are filled in. */
const readFields = (types, texts) => Object.fromEntries(
  Object.entries(types).filter(([name, type]) => isFilledIn(texts[name], type)).map(([name, type]) => [name, (READERS[type] ?? String)(texts[name])]));
const actionOf = (name, fields) => ({ do: name, ...readFields(ACTIONS[name].fields, fields) });

/** The rule that the form describes, with a free id if it names none. The server refuses a rule that is wrong, with
 *  the reason. */
const ruleOf = ({ id, point, criteria, action, fields, then, thenFields }, freeId, inForce) => ({
  id: id || freeId, point, ...readFields(criteriaAt(point, inForce), criteria), action: actionOf(action, fields),
  ...(thenActionsAt(point, action).includes(then) ? { then: actionOf(then, thenFields) } : {}),
});

const options = (names) => names.map((name) => html`<option value=${name}>${name}</option>`);

/** A label with a control for each field of `types`. `any` is the text of the empty choice. */
const FieldControls = ({ group, types, texts, change, any = "-" }) => Object.entries(types).map(([name, type]) => {
  const control = { id: `own-${group}-${name}`, value: texts[name] ?? "", onInput: (e) => change({ ...texts, [name]: e.target.value }) };
  const choices = type === "flag" ? ["true", "false"] : type;
  return html`<label>${name.replaceAll("_", " ")} ${Array.isArray(choices)
    ? html`<select ...${control}><option value="">${any}</option>${options(choices)}</select>`
    : html`<input type=${type === "number" ? "number" : "text"} step="any" size="14" placeholder=${EXAMPLES[type] ?? ""} ...${control} />`}</label>`;
});

function OwnRuleForm({ own, change, inForce }) {
  const { id, point, action, criteria, fields, then, thenFields } = own;
  const onPointChange = (e) => {
    const actions = actionsAt(e.target.value);
    change({ ...own, point: e.target.value, action: actions.includes(action) ? action : actions[0] });
  };
  const thenActions = thenActionsAt(point, action);
  return html`<div id="own">
    <div class="bar"><label>Name <input id="own-id" value=${id} placeholder="page-1, page-2 …" size="14" onInput=${(e) => change({ ...own, id: e.target.value })} /></label>
      <label>Point <select id="own-point" value=${point} onChange=${onPointChange}>${options(Object.keys(POINTS))}</select></label>
      <${FieldControls} group="rule" any="any" types=${criteriaAt(point, inForce)} texts=${criteria} change=${(criteriaTexts) => change({ ...own, criteria: criteriaTexts })} /></div>
    <p class="hint">${POINTS[point].about}</p>
    <div class="bar"><label>Action <select id="own-do" value=${action} onChange=${(e) => change({ ...own, action: e.target.value })}>${options(actionsAt(point))}</select></label>
      <${FieldControls} group="action" types=${ACTIONS[action].fields} texts=${fields} change=${(fieldTexts) => change({ ...own, fields: fieldTexts })} /></div>
    <p class="hint">${ACTIONS[action].about}</p>
    ${thenActions.length > 0 && html`<div class="bar"><label>Then <select id="own-then" value=${then} onChange=${(e) => change({ ...own, then: e.target.value })}>
      <option value="">let it go on</option>${options(thenActions)}</select></label>
      ${thenActions.includes(then) && html`<${FieldControls} group="then" types=${ACTIONS[then].fields} texts=${thenFields} change=${(thenTexts) => change({ ...own, thenFields: thenTexts })} />`}</div>
    <p class="hint">What becomes of the struck crossing, once the action on the cluster is done.</p>`}</div>`;
}

/** Quote a text as one word of a POSIX shell. */
const inShell = (text) => `'${text.replaceAll("'", "'\\''")}'`;

export function Faults() {
  const [planName, choosePlan] = useState(Object.keys(PLANS)[0]);
  const [ownRule, changeOwnRule] = useState(FIRST_FORM);
  const { now } = state.value;
  const rules = Object.entries(now.faults);
  const freeId = (n) => (now.faults[`page-${n}`] ? freeId(n + 1) : `page-${n}`);
  const inForce = Object.keys(now.faults);
  const rule = planName === OWN_RULE ? ruleOf(ownRule, freeId(1), inForce) : { id: freeId(1), ...PLANS[planName] };
  const isLive = source.value.kind === "live";
  const release = (id) => (isLive ? post(`/faults/${encodeURIComponent(id)}/release`) : drive({ release: id }));
  const disarm = (id) => (isLive ? ask(`/faults/${encodeURIComponent(id)}`, { method: "DELETE" }) : drive({ disarm: id }));
  return html`
    <table class="wide"><caption>Fault rules in force</caption><thead><tr><th>rule</th><th>point</th><th>action</th>
      <th>matched</th><th>struck</th><th>held</th><th>do</th></tr></thead><tbody>
      ${rules.length === 0 && html`<tr><td colspan="7">none</td></tr>`}
      ${rules.map(([id, armedRule]) => html`<tr><td>${id}</td><td>${armedRule.point}</td><td>${armedRule.action}</td><td>${armedRule.matched}</td><td>${armedRule.struck}</td>
        <td>${armedRule.held ? html`<b>${armedRule.held} held</b>` : 0}</td><td>${canAct.value && html`
          <button onClick=${() => doNow(() => release(id), `What ${id} held goes on.`)}>Release<span class="sr"> ${id}</span></button>
          <button onClick=${() => doNow(() => disarm(id), `The rule ${id} is taken back.`)}>Disarm<span class="sr"> ${id}</span></button>`}</td></tr>`)}
    </tbody></table>
    ${!canAct.value && html`<p class="hint">This is a recorded run: faults can be armed in a live cluster, and in a run that waits at a step.</p>`}
    ${canAct.value && html`<section><h2>Arm a rule</h2>
      <div class="bar"><label>What <select id="plan" value=${planName} onChange=${(e) => choosePlan(e.target.value)}>
        ${Object.keys(PLANS).map((name) => html`<option value=${name}>${name}</option>`)}<option value=${OWN_RULE}>${OWN_RULE}</option></select></label>
        <button class="primary" id="arm" onClick=${() => doNow(() => (isLive ? post("/faults", rule) : drive({ arm: rule })), `The rule ${rule.id} is armed.`)}>Arm</button></div>
      ${planName === OWN_RULE && html`<${OwnRuleForm} own=${ownRule} change=${changeOwnRule} inForce=${inForce} />`}
      ${isLive && html`<p class="hint">The same from a terminal:</p>
      <pre tabindex="0">curl -s ${location.origin}/api/v1/faults -d ${inShell(JSON.stringify(rule))}</pre>`}</section>`}`;
}
