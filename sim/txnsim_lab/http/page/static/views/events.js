// @ts-check
// All events as text, in a grid; only the rows on the screen are elements.

import { signal } from "@preact/signals";
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { html } from "../html.js";
import { countUpTo } from "../book.js";
import { shownIndex, eventCount, events, goToEvent, searchQuery, traceOrigin } from "../store.js";
import { KIND_IMPORTANCE } from "../meanings.js";
import { hasFailed, matchesSearch, millisecondsText, payloadText } from "../words.js";

const ROW_HEIGHT = 24;
const SEARCH_TURN_MS = 12;

// The search and its matches so far: a long trace is searched in turns, so that the page stays usable.
let searchProgress = { query: "", origin: null, searchedCount: 0, matchIndices: [] };
let searchTimer = 0;
const searchTurnCount = signal(0);

/** Levels of importance: the least importance that is shown, and what the level is called. */
const IMPORTANCE_LEVELS = [[0, "all events"], [1, "without housekeeping"], [2, "what the story is about"]];
const leastImportance = signal(0);

const importanceOf = ({ k, w }) => w ?? KIND_IMPORTANCE[k];

function searchEvents(searchText) {
  if (searchProgress.query !== searchText || searchProgress.origin !== traceOrigin.value || searchProgress.least !== leastImportance.value) searchProgress = { query: searchText, origin: traceOrigin.value, searchedCount: 0, matchIndices: [], least: leastImportance.value };
  const turnStartMs = performance.now();
  while (searchProgress.searchedCount < events.length && performance.now() - turnStartMs < SEARCH_TURN_MS) {
    const blockEnd = Math.min(searchProgress.searchedCount + 200, events.length);
    for (; searchProgress.searchedCount < blockEnd; searchProgress.searchedCount += 1) if (importanceOf(events[searchProgress.searchedCount]) >= searchProgress.least && matchesSearch(events[searchProgress.searchedCount], searchText)) searchProgress.matchIndices.push(searchProgress.searchedCount);
  }
  clearTimeout(searchTimer);
  if (searchProgress.searchedCount < events.length) searchTimer = setTimeout(() => (searchTurnCount.value += 1));
  return searchProgress.matchIndices;
}

export function Events() {
  const gridRef = useRef(null);
  const drawnRow = useRef(-1);
  const [scrollTop, setScrollTop] = useState(0);
  const searchText = searchQuery.value;
  void eventCount.value;
  void searchTurnCount.value;
  const matchIndices = searchText.trim() || leastImportance.value ? searchEvents(searchText) : null; // null: all events are shown, and no list is made
  const rowCount = matchIndices ? matchIndices.length : events.length;
  const indexOfRow = (row) => (matchIndices ? matchIndices[row] : row);
  const cursorRow = matchIndices ? Math.max(0, countUpTo(matchIndices, shownIndex.value) - 1) : shownIndex.value;
  const gridHeight = gridRef.current?.clientHeight ?? 480;
  let firstRow = Math.max(0, Math.floor(Math.min(scrollTop, rowCount * ROW_HEIGHT - gridHeight) / ROW_HEIGHT) - 5); // the list may be shorter than at the last drawing
  const isCursorOutside = drawnRow.current !== cursorRow && (cursorRow * ROW_HEIGHT < scrollTop || (cursorRow + 1) * ROW_HEIGHT > scrollTop + gridHeight);
  drawnRow.current = cursorRow;
  if (isCursorOutside) firstRow = Math.max(0, cursorRow - Math.ceil(gridHeight / ROW_HEIGHT / 2) - 5); // drawn there now: where events arrive quickly, the next drawing comes before the scrolling
  const shownIndices = Array.from({ length: Math.max(0, Math.min(rowCount - firstRow, Math.ceil(gridHeight / ROW_HEIGHT) + 10)) }, (_, rowOffset) => indexOfRow(firstRow + rowOffset));
  useLayoutEffect(() => {
    const gridElement = gridRef.current;
    if (gridElement && (cursorRow * ROW_HEIGHT < gridElement.scrollTop || (cursorRow + 1) * ROW_HEIGHT > gridElement.scrollTop + gridElement.clientHeight)) {
      gridElement.scrollTop = Math.max(0, cursorRow * ROW_HEIGHT - gridElement.clientHeight / 2);
      setScrollTop(gridElement.scrollTop); // now: where events arrive quickly, the scroll event is late
    }
  }, [cursorRow, searchText]);
  const onKeyDown = (event) => {
    const rowStep = { ArrowDown: 1, ArrowUp: -1, PageDown: 20, PageUp: -20 }[event.key];
    const targetRow = rowStep ? cursorRow + rowStep : event.key === "Home" ? 0 : event.key === "End" ? rowCount - 1 : null;
    if (targetRow === null || rowCount === 0) return;
    event.preventDefault();
    goToEvent(indexOfRow(Math.max(0, Math.min(targetRow, rowCount - 1))));
  };
  return html`
    <div class="bar"><label>Search <input id="query" type="search" value=${searchText} placeholder="kind:marker tx:app refused"
      onInput=${(e) => (searchQuery.value = e.target.value)} /></label>
      <label>Show <select id="least" value=${leastImportance.value} onChange=${(e) => (leastImportance.value = Number(e.target.value))}>${IMPORTANCE_LEVELS.map(([level, levelName]) => html`<option value=${level}>${levelName}</option>`)}</select></label>
      <span role="status">${rowCount.toLocaleString("en")} of ${events.length.toLocaleString("en")} events${matchIndices && searchProgress.searchedCount < events.length ? ", searching …" : ""}</span></div>
    ${rowCount === 0 ? html`<p class="nothing">${events.length ? html`No event matches. <button onClick=${() => { searchQuery.value = ""; leastImportance.value = 0; }}>Show all events</button>` : "No event yet."}</p>` : html`<div class="row heads" aria-hidden="true">${["event", "time", "where", "kind", "transaction", "fields"].map((title) => html`<span>${title}</span>`)}</div>`}
    <div class="events" ref=${gridRef} hidden=${rowCount === 0} tabindex="0" role="grid" aria-label="Events" aria-rowcount=${rowCount}
      onScroll=${(e) => setScrollTop(e.target.scrollTop)} onKeyDown=${onKeyDown}>
      <div class="spacer" style=${{ height: `${rowCount * ROW_HEIGHT}px` }} role="presentation">
        ${shownIndices.map((eventIndex, offset) => {
          const event = events[eventIndex];
          return html`<div key=${eventIndex} role="row" aria-rowindex=${firstRow + offset + 1} aria-selected=${eventIndex === shownIndex.value}
            class=${`row${eventIndex === shownIndex.value ? " now" : ""}${hasFailed(event) ? " error" : ""}`} style=${{ top: `${(firstRow + offset) * ROW_HEIGHT}px` }} onClick=${() => goToEvent(eventIndex)}>
            <span role="gridcell">#${event.i}</span><span role="gridcell">${millisecondsText(event)}</span><span role="gridcell">${event.node}</span>
            <span role="gridcell"><b>${event.k}</b></span><span role="gridcell">${event.tx ?? ""}</span><span role="gridcell">${payloadText(event)}</span></div>`;
        })}
      </div></div>`;
}
