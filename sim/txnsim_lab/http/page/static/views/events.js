// @ts-check
// All events as text, in a grid; only the rows on the screen are elements.

import { signal } from "@preact/signals";
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { html } from "../html.js";
import { upTo } from "../book.js";
import { shownIndex, count, events, goTo, query, source } from "../store.js";
import { IMPORTANCE } from "../meanings.js";
import { hasFailed, matches, ms, payload } from "../words.js";

const ROW_HEIGHT = 24;
const TURN_MS = 12;

// The search and its matches so far: a long trace is searched in turns, so that the page stays usable.
let searchState = { text: "", of: null, upto: 0, found: [] };
let timer = 0;
const searchTurns = signal(0);

/** Levels of importance: the least importance that is shown, and what the level is called. */
const LEVELS = [[0, "all events"], [1, "without housekeeping"], [2, "what the story is about"]];
const leastImportance = signal(0);

const weightOf = ({ k, w }) => w ?? IMPORTANCE[k];

function search(text) {
  if (searchState.text !== text || searchState.of !== source.value || searchState.least !== leastImportance.value) searchState = { text, of: source.value, upto: 0, found: [], least: leastImportance.value };
  const began = performance.now();
  while (searchState.upto < events.length && performance.now() - began < TURN_MS) {
    const end = Math.min(searchState.upto + 200, events.length);
    for (; searchState.upto < end; searchState.upto += 1) if (weightOf(events[searchState.upto]) >= searchState.least && matches(events[searchState.upto], text)) searchState.found.push(searchState.upto);
  }
  clearTimeout(timer);
  if (searchState.upto < events.length) timer = setTimeout(() => (searchTurns.value += 1));
  return searchState.found;
}

export function Events() {
  const gridRef = useRef(null);
  const drawnRow = useRef(-1);
  const [top, setTop] = useState(0);
  const text = query.value;
  void count.value;
  void searchTurns.value;
  const matchIndices = text.trim() || leastImportance.value ? search(text) : null; // null: all events are shown, and no list is made
  const size = matchIndices ? matchIndices.length : events.length;
  const indexOfRow = (n) => (matchIndices ? matchIndices[n] : n);
  const cursorRow = matchIndices ? Math.max(0, upTo(matchIndices, shownIndex.value) - 1) : shownIndex.value;
  const height = gridRef.current?.clientHeight ?? 480;
  let from = Math.max(0, Math.floor(Math.min(top, size * ROW_HEIGHT - height) / ROW_HEIGHT) - 5); // the list may be shorter than at the last drawing
  const isCursorOutside = drawnRow.current !== cursorRow && (cursorRow * ROW_HEIGHT < top || (cursorRow + 1) * ROW_HEIGHT > top + height);
  drawnRow.current = cursorRow;
  if (isCursorOutside) from = Math.max(0, cursorRow - Math.ceil(height / ROW_HEIGHT / 2) - 5); // drawn there now: where events arrive quickly, the next drawing comes before the scrolling
  const rows = Array.from({ length: Math.max(0, Math.min(size - from, Math.ceil(height / ROW_HEIGHT) + 10)) }, (_, n) => indexOfRow(from + n));
  useLayoutEffect(() => {
    const el = gridRef.current;
    if (el && (cursorRow * ROW_HEIGHT < el.scrollTop || (cursorRow + 1) * ROW_HEIGHT > el.scrollTop + el.clientHeight)) {
      el.scrollTop = Math.max(0, cursorRow * ROW_HEIGHT - el.clientHeight / 2);
      setTop(el.scrollTop); // now: where events arrive quickly, the scroll event is late
    }
  }, [cursorRow, text]);
  const onKeyDown = (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1, PageDown: 20, PageUp: -20 }[event.key];
    const to = step ? cursorRow + step : event.key === "Home" ? 0 : event.key === "End" ? size - 1 : null;
    if (to === null || size === 0) return;
    event.preventDefault();
    goTo(indexOfRow(Math.max(0, Math.min(to, size - 1))));
  };
  return html`
    <div class="bar"><label>Search <input id="query" type="search" value=${text} placeholder="kind:marker tx:app refused"
      onInput=${(e) => (query.value = e.target.value)} /></label>
      <label>Show <select id="least" value=${leastImportance.value} onChange=${(e) => (leastImportance.value = Number(e.target.value))}>${LEVELS.map(([n, name]) => html`<option value=${n}>${name}</option>`)}</select></label>
      <span role="status">${size.toLocaleString("en")} of ${events.length.toLocaleString("en")} events${matchIndices && searchState.upto < events.length ? ", searching …" : ""}</span></div>
    <div class="events" ref=${gridRef} tabindex="0" role="grid" aria-label="Events" aria-rowcount=${size}
      onScroll=${(e) => setTop(e.target.scrollTop)} onKeyDown=${onKeyDown}>
      <div class="spacer" style=${{ height: `${size * ROW_HEIGHT}px` }} role="presentation">
        ${rows.map((n, offset) => {
          const event = events[n];
          return html`<div key=${n} role="row" aria-rowindex=${from + offset + 1} aria-selected=${n === shownIndex.value}
            class=${`row${n === shownIndex.value ? " now" : ""}${hasFailed(event) ? " error" : ""}`} style=${{ top: `${(from + offset) * ROW_HEIGHT}px` }} onClick=${() => goTo(n)}>
            <span role="gridcell">#${event.i}</span><span role="gridcell">${ms(event)}</span><span role="gridcell">${event.node}</span>
            <span role="gridcell"><b>${event.k}</b></span><span role="gridcell">${event.tx ?? ""}</span><span role="gridcell">${payload(event)}</span></div>`;
        })}
      </div></div>`;
}
