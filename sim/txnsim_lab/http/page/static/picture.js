// @ts-check
// The picture of the stage as plain values: what the application, the coordinator and the partitions have of the
// transactions of one transactional id, and the messages between them, on one axis of time. views/picture.js draws it.
// What it says of a transaction are the server's words (txnsim_lab.trace.picture_words, txnsim.verdict).

import { OUTSIDERS, coordinatorBeliefOf, messagesAt, stepAt } from "./stage.js";
import { events, getHoldIndices, indexOfPosition, nearestAncestor, storyNotes } from "./store.js";
import { transactionLabel, tapeOf } from "./tape.js";

/** How many batches of a log, logs, and share groups of a log are shown at most. A story has fewer batches: all are shown. */
const CELLS_PER_LOG_MAX = 9;
export const PICTURE_LOGS_MAX = 2;
const SHARE_GROUPS_MAX = 2;
/** Without steps of a story, the last so many events count as new. */
const NEW_EVENT_COUNT = 40;
const SECOND_US = 1_000_000;
const EXAMINED_HOLDS_MAX = 200;
const MARKER_LABELS = { COMMIT: "✓ COMMIT", ABORT: "✕ ABORT" };
/** Facts of questions that the coordinator's states would give away. Its sentence is hidden for every question. */
const FACTS_SHOWN_BY_STATES = new Set(["state", "epoch", "markers"]);
const NO_COORDINATOR = { where: "", spans: [] };
const NO_WORDS = { applications: Object.create(null), coordinators: Object.create(null), markers: Object.create(null) };
/** Facts of questions that the batches of a log would give away. */
const FACTS_SHOWN_BY_BATCHES = new Set(["markers", "reads", "delivered", "marker-refused"]);
/** What readers do with a batch, by what became of its transaction. */
const OUTCOME_WORDS = { open: "open", committed: "committed", aborted: "discarded" };

/** What is drawn of a moment for a transactional id and partitions. While a lesson asks about `askedFact`, what would
 *  answer the question is left out. */
export function pictureOf(moment, id, partitionNames, askedFact = null) {
  const { clusterState, index } = moment;
  if (FACTS_SHOWN_BY_BATCHES.has(askedFact)) partitionNames = [];
  const judgeWords = moment.serverExplanation?.words ?? NO_WORDS;
  const firstNewIndex = stepAt(index)?.from ?? index - NEW_EVENT_COUNT;
  const logPictures = partitionNames.map((tp) => logPicture(moment, tp, askedFact));
  const drawnMessages = messagesAt(clusterState, index, judgeWords.markers).filter((message) => message.isDue || message.how === "lost" || message.how === "refused" || message.how === "cancelled");
  const messageFlights = [];
  const newestRecord = lastCellWhere(logPictures, (cell) => !cell.isMarker && cell.id === id);
  const produceRequest = drawnMessages.find((message) => message.label === "Produce" && !OUTSIDERS.has(message.from));
  if (produceRequest) messageFlights.push({ kind: "record", label: `${produceRequest.detail && produceRequest.how !== "refused" ? produceRequest.detail : "a record"}, ${produceRequest.how === "cancelled" ? "never sent" : produceRequest.how}${produceRequest.how === "held" ? durationText(produceRequest.event, events[index]) : ""}`, how: produceRequest.how, n: sendIndex(produceRequest.event), to: null, isNew: true, rule: produceRequest.how === "held" ? produceRequest.rule : null });
  else if (newestRecord) messageFlights.push({ kind: "record", label: `${newestRecord.cell.text || "a record"}${holdDurationText(events[newestRecord.cell.n])}`, how: "delivered", n: sendIndex(events[newestRecord.cell.n]), to: newestRecord.to, isNew: newestRecord.cell.n >= firstNewIndex });
  logPictures.forEach(({ tp }, logIndex) => {
    const owedMarker = drawnMessages.find((message) => message.to === tp && message.label.endsWith(" marker") && !(askedFact && message.how === "owed"));
    const writtenMarkerCell = lastCellWhere([logPictures[logIndex]], (cell) => cell.isMarker && cell.id === id);
    if (owedMarker) messageFlights.push({ kind: "marker", label: `${owedMarker.label}, ${owedMarker.status}`, how: owedMarker.how, to: null, log: logIndex, isNew: true, rule: owedMarker.how === "held" ? owedMarker.rule : null });
    else if (writtenMarkerCell) messageFlights.push({ kind: "marker", label: writtenMarkerCell.cell.operatorLabel ?? `${writtenMarkerCell.cell.how} marker`, ...(writtenMarkerCell.cell.operatorLabel && { isByOperator: true }), how: "delivered", to: { ...writtenMarkerCell.to, log: logIndex }, log: logIndex, isNew: writtenMarkerCell.cell.n >= firstNewIndex });
  });
  const coordinatorEntry = clusterState.transactions[id];
  const application = judgeWords.applications[id];
  const emptyText = moment.serverExplanation && id === undefined ? "nothing yet" : "";
  const picture = {
    app: askedFact === "answer" ? { id, text: "?", spans: [] } : { id, text: application?.status ?? emptyText, spans: applicationSpans(application) },
    coordinator: FACTS_SHOWN_BY_STATES.has(askedFact) ? { ...NO_COORDINATOR, text: "?" } : { ...(coordinatorEntry ? coordinatorPicture(coordinatorBeliefOf(clusterState, id, index), clusterState) : NO_COORDINATOR), text: askedFact ? "" : judgeWords.coordinators[id] ?? emptyText },
    logs: logPictures, flights: messageFlights, ticks: [],
  };
  return onOneAxis(picture);
}

/** Give all that has happened its place on one axis: `tick` counts the events that the picture shows, in their order.
 *  `ticks` has a label for each: the step of the story, or the time since the first. */
function onOneAxis(picture) {
  const { app, coordinator, logs, flights } = picture;
  const placedItems = [...app.spans, ...coordinator.spans, ...logs.flatMap(({ cells }) => cells), ...flights.filter(({ n }) => n !== undefined)];
  const indices = [...new Set(placedItems.map(({ n }) => n))].sort((a, b) => a - b);
  const tickByIndex = new Map(indices.map((n, tick) => [n, tick]));
  for (const item of placedItems) item.tick = tickByIndex.get(item.n);
  for (const item of [...app.spans, ...coordinator.spans, ...flights]) delete item.n;
  const repairIndices = new Set(logs.flatMap(({ cells }) => cells).filter(({ operatorLabel }) => operatorLabel).map(({ n }) => n)); // no step tells of them
  picture.ticks = indices.map((n) => (storyNotes().length ? (repairIndices.has(n) ? "repair" : stepAt(n) ? `step ${stepAt(n).number}` : "") : `${((events[n].t - events[indices[0]].t) / SECOND_US).toFixed(1)} s`));
  return picture;
}

/** The index of the event with which the record of a batch, or a message, was sent: its arrival at the broker. */
function sendIndex(event) {
  const receiveEvent = nearestAncestor(event, ({ k, d }) => k === "msg.recv" && !d.response);
  return receiveEvent ? indexOfPosition(receiveEvent.i) : undefined;
}

/** What the application did and was answered, as spans from one event to the next. */
const applicationSpans = (application) => (application?.moves ?? []).map(({ at, text, how }) => ({ n: indexOfPosition(at), text, how })).filter(({ n }) => n !== undefined);

function lastCellWhere(logs, isSought) {
  for (let logIndex = 0; logIndex < logs.length; logIndex += 1) {
    const cellIndex = logs[logIndex].cells.findLastIndex(isSought);
    if (cellIndex >= 0) return { cell: logs[logIndex].cells[cellIndex], to: { log: logIndex, number: logs[logIndex].cells[cellIndex].number } };
  }
  return null;
}

const durationText = (from, to) => (to.t - from.t >= SECOND_US / 10 ? ` ${((to.t - from.t) / SECOND_US).toFixed(1)} s` : "");

/** For how long the request that wrote a batch was held, as text; "" if it was not. */
function holdDurationText(event) {
  const receiveEvent = nearestAncestor(event, (cause) => cause.k === "msg.recv" && cause.d.api === "Produce");
  const heldMessageIndices = getHoldIndices();
  for (let holdNumber = heldMessageIndices.length - 1; receiveEvent && holdNumber >= Math.max(0, heldMessageIndices.length - EXAMINED_HOLDS_MAX); holdNumber -= 1) {
    const holdEvent = events[heldMessageIndices[holdNumber]];
    if (holdEvent.i < receiveEvent.i) return "";
    if (holdEvent.i < event.i && nearestAncestor(holdEvent, (cause) => cause.i === receiveEvent.i)) return `, was held${durationText(holdEvent, event)}`;
  }
  return "";
}

const coordinatorPicture = ({ entry, moves }, clusterState) => ({ where: entry.node.startsWith("broker/") ? brokerText(clusterState, entry.node.split("/")[1]) : "no broker has it loaded", spans: moves.map((move, n) => ({ ...move, pending: n === moves.length - 1 ? entry.pending : null })) });

/** A broker, and whether it runs. */
const brokerText = (clusterState, id, isUp = isBrokerUp(clusterState, id)) => (Number(id) < 0 ? "no leader ✖" : `broker ${id} ${isUp ? "● up" : "✖ down"}`);
/** Where no broker runs, the run has ended: that is no part of its story. */
const isBrokerUp = (clusterState, id) => clusterState.brokers[`broker/${id}`] !== "down" || !Object.values(clusterState.brokers).includes("running");

/** What became of a batch, as text: its transaction, or whether readers get it that is in none. */
function fateTextOf({ how, t, pid, last }, partitionVerdict, askedFact) {
  if (how === "plain") return !partitionVerdict || partitionVerdict.stands_at === null ? "" : last < partitionVerdict.stands_at ? "readable ✓" : "withheld";
  if (!t) return pid >= 0 ? `producer ${pid}` : "";
  return askedFact || !OUTCOME_WORDS[how] ? transactionLabel(t) : `${OUTCOME_WORDS[how]}: ${transactionLabel(t)}`;
}

function logPicture({ clusterState, index, serverExplanation }, tp, askedFact) {
  const partitionVerdict = askedFact ? undefined : serverExplanation?.verdict.partitions.find(({ partition }) => partition === tp);
  const partitionLog = clusterState.logs[tp];
  const { cells, far, earlierCount } = tapeOf(tp, index, partitionLog);
  const areReadersHeld = Boolean(partitionVerdict?.holder_mark);
  const isWall = ({ first, last }) => areReadersHeld && first <= partitionVerdict.stands_at && partitionVerdict.stands_at <= last;
  const wrongEndKeys = new Set(partitionVerdict?.wrong_data.map(({ producer_id: producerId, offset }) => `${producerId} ${offset}`));
  const isWrong = ({ pid, first, endedAt, isMarker }) => wrongEndKeys.has(`${pid} ${isMarker ? first : endedAt}`);
  const operatorMarkerAt = ({ isMarker, first }) => (isMarker ? serverExplanation?.words.operator_markers?.[`${tp} ${first}`] : undefined);
  const newestMarker = cells.findLast(({ isMarker }) => isMarker);
  const repairOffset = newestMarker && operatorMarkerAt(newestMarker) ? newestMarker.first : null;
  const endsAtRepair = ({ endedAt, isMarker }) => !isMarker && endedAt === repairOffset;
  const isHanging = ({ how, pid, last }) => how === "open" && partitionVerdict?.open_txns.some(({ state, producer_id: producerId, first_offset: firstOffset }) => state === "hangs" && producerId === pid && firstOffset <= last);
  const allCells = [...(far ? [{ cell: far.cell, number: earlierCount }] : []), ...cells.map((cell, n) => ({ cell, number: earlierCount + (far ? 1 + far.between : 0) + n }))];
  const shownCells = decisiveAndNewest(allCells, ({ cell }) => isWall(cell) || isWrong(cell) || endsAtRepair(cell));
  const shareGroups = askedFact ? [] : serverExplanation?.words.share_groups[tp] ?? [];
  return {
    tp, where: partitionVerdict ? brokerText(clusterState, partitionVerdict.leader_id, partitionVerdict.is_leader_up) : brokerText(clusterState, partitionLog.leader), end: partitionLog.end, count: earlierCount + (far ? 1 + far.between : 0) + cells.length,
    cells: shownCells.map(({ cell, number }) => ({
      number, at: cell.first === cell.last ? `${cell.first}` : `${cell.first}–${cell.last}`, how: isHanging(cell) ? "hanging" : askedFact && !cell.isMarker ? "asked" : cell.how, hue: cell.t?.hue, id: cell.t?.id, isMarker: cell.isMarker, i: cell.i, n: cell.n,
      text: cell.values?.filter(Boolean).map((recordValue) => `“${recordValue}”`).join(", ") ?? "",
      title: MARKER_LABELS[cell.how] ?? "", sub: fateTextOf(cell, partitionVerdict, askedFact),
      ...(operatorMarkerAt(cell) && { operatorLabel: operatorMarkerAt(cell).label }), isWall: isWall(cell), isWrong: isWrong(cell), isUnread: areReadersHeld && cell.last >= partitionVerdict.stands_at,
    })),
    isOpen: areReadersHeld, bracket: partitionVerdict?.holder_mark ?? "", isHanging: partitionVerdict?.holder?.state === "hangs", readers: partitionVerdict?.reader_mark ?? "",
    ...(shareGroups.length && { sharers: shareGroups.slice(0, SHARE_GROUPS_MAX) }),
  };
}

/** Of the batches of a log those that decide, and the newest: CELLS_PER_LOG_MAX in all, in their order. */
function decisiveAndNewest(cells, isDecisive) {
  const chosenCells = new Set(cells.filter(isDecisive).slice(-CELLS_PER_LOG_MAX));
  for (const cell of cells.toReversed()) if (chosenCells.size < CELLS_PER_LOG_MAX) chosenCells.add(cell);
  return cells.filter((cell) => chosenCells.has(cell));
}
