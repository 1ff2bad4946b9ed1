// @ts-check
// Faults: the armed rules and what each has matched, struck and holds; buttons to arm, release and disarm.

import { useState } from "preact/hooks";
import { askServer, changeCluster, sendInput, postJson } from "../api.js";
import { FAULT_ACTIONS, API_NAMES, CRITERION_TYPES, CLUSTER_ACTIONS, FAULT_POINTS } from "../fault_forms.js";
import { html } from "../html.js";
import { canChangeCluster, traceOrigin, shownState } from "../store.js";

const RULE_PRESETS = {
  "hold the next Produce of clients": { point: "client.request", api: "Produce", action: { do: "hold" } },
  "hold markers on their way to leaders": { point: "peer.request", api: "WriteTxnMarkers", action: { do: "hold" } },
  "hold EndTxn of clients": { point: "client.request", api: "EndTxn", action: { do: "hold" } },
  "lose the answer to EndTxn": { point: "client.response", api: "EndTxn", limit: 1, action: { do: "drop" } },
  "answer EndTxn with NOT_COORDINATOR, once": { point: "client.response", api: "EndTxn", limit: 1, action: { do: "error", error: "NOT_COORDINATOR" } },
  "delay markers by 2 s": { point: "peer.request", api: "WriteTxnMarkers", action: { do: "delay", delay_ms: 2000 } },
};

const OWN_RULE_LABEL = "a rule of your own …";
/** The form as it is at first: texts of a rule's criteria and of the fields of its actions, by name. */
const INITIAL_RULE_FORM = {
  id: "", point: "client.request", criteria: { api: "EndTxn", limit: "1" }, action: "hold", then: "",
  fields: { delay_ms: "1000", throttle_ms: "1000", by_ms: "60000", error: "NOT_COORDINATOR", what: "crc", how: "set" },
  thenFields: { delay_ms: "1000", throttle_ms: "1000", error: "NOT_COORDINATOR" },
};
const parseNumbers = (text) => text.trim().split(/[ ,]+/).map(Number);
const FIELD_PARSERS = {
  number: Number,
  numbers: parseNumbers,
  flag: (text) => text === "true",
  sides: (text) => text.split("|").map(parseNumbers),
  row: (text) => Object.fromEntries(text.trim().split(/[ ,]+/).map((pair) => {
    const [name, value = ""] = pair.split("=", 2);
    return [name, /^-?\d+$/.test(value) ? Number(value) : value];
  })),
};
/** Examples of values that are not single words. */
const FIELD_EXAMPLES = { numbers: "1 4", sides: "1 2 | 3", row: "producer_id=7 first_offset=0" };
const actionsAtPoint = (point) => [...FAULT_POINTS[point].actions, ...CLUSTER_ACTIONS];
/** What a rule may do to the message it struck after an action on the cluster. */
const thenActionsAtPoint = (point, action) => (CLUSTER_ACTIONS.includes(action) ? FAULT_POINTS[point].actions : []);
/** Criteria of a rule at a point -> their types, or their choices. `after` and `until` name a rule in force. */
function criteriaAtPoint(point, inForce) {
  const { criteria, kinds } = FAULT_POINTS[point];
  const choicesByCriterion = { api: API_NAMES, kind: kinds, role: ["leader", "follower"], after: inForce, until: inForce };
  return Object.fromEntries(criteria.map((name) => [name, choicesByCriterion[name] ?? CRITERION_TYPES[name]]));
}

/** Whether a field is filled in. A text that is not among the choices was chosen at another point, and does not count. */
const isFieldFilledIn = (text, type) => Boolean(text) && (!Array.isArray(type) || type.includes(text));
/** The values of the fields that are filled in. */
const readFields = (types, texts) => Object.fromEntries(
  Object.entries(types).filter(([name, type]) => isFieldFilledIn(texts[name], type)).map(([name, type]) => [name, (FIELD_PARSERS[type] ?? String)(texts[name])]));
const actionFromFields = (name, fields) => ({ do: name, ...readFields(FAULT_ACTIONS[name].fields, fields) });

/** The rule that the form describes, with a free id if it names none. The server refuses a rule that is wrong, with
 *  the reason. */
const ruleFromForm = ({ id, point, criteria, action, fields, then, thenFields }, freeId, inForce) => ({
  id: id || freeId, point, ...readFields(criteriaAtPoint(point, inForce), criteria), action: actionFromFields(action, fields),
  ...(thenActionsAtPoint(point, action).includes(then) ? { then: actionFromFields(then, thenFields) } : {}),
});

const optionElements = (names) => names.map((name) => html`<option value=${name}>${name}</option>`);

/** A label with a control for each field of `types`. `emptyChoice` is the text of the empty choice. */
const FieldControls = ({ group, types, texts, change, emptyChoice = "-" }) => Object.entries(types).map(([name, type]) => {
  const controlAttributes = { id: `own-${group}-${name}`, value: texts[name] ?? "", onInput: (e) => change({ ...texts, [name]: e.target.value }) };
  const fieldChoices = type === "flag" ? ["true", "false"] : type;
  return html`<label>${name.replaceAll("_", " ")} ${Array.isArray(fieldChoices)
    ? html`<select ...${controlAttributes}><option value="">${emptyChoice}</option>${optionElements(fieldChoices)}</select>`
    : html`<input type=${type === "number" ? "number" : "text"} step="any" size="14" placeholder=${FIELD_EXAMPLES[type] ?? ""} ...${controlAttributes} />`}</label>`;
});

function OwnRuleForm({ ownRule, change, inForce }) {
  const { id, point, action, criteria, fields, then, thenFields } = ownRule;
  const onPointChange = (e) => {
    const pointActions = actionsAtPoint(e.target.value);
    change({ ...ownRule, point: e.target.value, action: pointActions.includes(action) ? action : pointActions[0] });
  };
  const thenActions = thenActionsAtPoint(point, action);
  return html`<div id="own">
    <div class="bar"><label>Name <input id="own-id" value=${id} placeholder="page-1, page-2 …" size="14" onInput=${(e) => change({ ...ownRule, id: e.target.value })} /></label>
      <label>Point <select id="own-point" value=${point} onChange=${onPointChange}>${optionElements(Object.keys(FAULT_POINTS))}</select></label>
      <${FieldControls} group="rule" emptyChoice="any" types=${criteriaAtPoint(point, inForce)} texts=${criteria} change=${(criteriaTexts) => change({ ...ownRule, criteria: criteriaTexts })} /></div>
    <p class="hint">${FAULT_POINTS[point].about}</p>
    <div class="bar"><label>Action <select id="own-do" value=${action} onChange=${(e) => change({ ...ownRule, action: e.target.value })}>${optionElements(actionsAtPoint(point))}</select></label>
      <${FieldControls} group="action" types=${FAULT_ACTIONS[action].fields} texts=${fields} change=${(fieldTexts) => change({ ...ownRule, fields: fieldTexts })} /></div>
    <p class="hint">${FAULT_ACTIONS[action].about}</p>
    ${thenActions.length > 0 && html`<div class="bar"><label>Then <select id="own-then" value=${then} onChange=${(e) => change({ ...ownRule, then: e.target.value })}>
      <option value="">let it go on</option>${optionElements(thenActions)}</select></label>
      ${thenActions.includes(then) && html`<${FieldControls} group="then" types=${FAULT_ACTIONS[then].fields} texts=${thenFields} change=${(thenTexts) => change({ ...ownRule, thenFields: thenTexts })} />`}</div>
    <p class="hint">What becomes of the struck crossing, once the action on the cluster is done.</p>`}</div>`;
}

/** Quote a text as one word of a POSIX shell. */
const shellQuoted = (text) => `'${text.replaceAll("'", "'\\''")}'`;

export function Faults() {
  const [presetName, choosePreset] = useState(Object.keys(RULE_PRESETS)[0]);
  const [ownRule, changeOwnRule] = useState(INITIAL_RULE_FORM);
  const { clusterState } = shownState.value;
  const armedRules = Object.entries(clusterState.faults);
  const freeRuleId = (n) => (clusterState.faults[`page-${n}`] ? freeRuleId(n + 1) : `page-${n}`);
  const armedRuleIds = Object.keys(clusterState.faults);
  const newRule = presetName === OWN_RULE_LABEL ? ruleFromForm(ownRule, freeRuleId(1), armedRuleIds) : { id: freeRuleId(1), ...RULE_PRESETS[presetName] };
  const isLive = traceOrigin.value.kind === "live";
  const releaseRule = (id) => (isLive ? postJson(`/faults/${encodeURIComponent(id)}/release`) : sendInput({ release: id }));
  const disarmRule = (id) => (isLive ? askServer(`/faults/${encodeURIComponent(id)}`, { method: "DELETE" }) : sendInput({ disarm: id }));
  return html`
    ${armedRules.length === 0 ? html`<h2>No fault rule is in force</h2><p class="hint">Every message passes unhindered.</p>` : html`<table class="wide"><caption>Fault rules in force</caption><thead><tr><th>rule</th><th>point</th><th>action</th>
      <th>matched</th><th>struck</th><th>held</th><th>actions</th></tr></thead><tbody>
      ${armedRules.map(([id, armedRule]) => html`<tr><td>${id}</td><td>${armedRule.point}</td><td>${armedRule.action}</td><td>${armedRule.matched}</td><td>${armedRule.struck}</td>
        <td>${armedRule.held ? html`<b>${armedRule.held} held</b>` : 0}</td><td>${canChangeCluster.value && html`
          <button onClick=${() => changeCluster(() => releaseRule(id), `What ${id} held goes on.`)}>Release<span class="sr"> ${id}</span></button>
          <button onClick=${() => changeCluster(() => disarmRule(id), `The rule ${id} is taken back.`)}>Disarm<span class="sr"> ${id}</span></button>`}</td></tr>`)}
    </tbody></table>`}
    ${!canChangeCluster.value && html`<p class="hint">This is a recorded run: faults can be armed in a live cluster, and in a run that waits at a step.</p>`}
    ${canChangeCluster.value && html`<section><h2>Arm a rule</h2>
      <div class="bar"><label>What <select id="plan" value=${presetName} onChange=${(e) => choosePreset(e.target.value)}>
        ${Object.keys(RULE_PRESETS).map((name) => html`<option value=${name}>${name}</option>`)}<option value=${OWN_RULE_LABEL}>${OWN_RULE_LABEL}</option></select></label>
        <button class="primary" id="arm" onClick=${() => changeCluster(() => (isLive ? postJson("/faults", newRule) : sendInput({ arm: newRule })), `The rule ${newRule.id} is armed.`)}>Arm</button></div>
      ${presetName === OWN_RULE_LABEL && html`<${OwnRuleForm} ownRule=${ownRule} change=${changeOwnRule} inForce=${armedRuleIds} />`}
      ${isLive && html`<p class="hint">The same from a terminal:</p>
      <pre tabindex="0">curl -s ${location.origin}/api/v1/faults -d ${shellQuoted(JSON.stringify(newRule))}</pre>`}</section>`}`;
}
