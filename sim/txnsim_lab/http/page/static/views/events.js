// @ts-check
// All events as text: a grid of which only the rows on the screen exist.

import { signal } from "@preact/signals";
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { html } from "../html.js";
import { upTo } from "../book.js";
import { shownIndex, count, events, goTo, query, source } from "../store.js";
import { IMPORTANCE } from "../meanings.js";
import { hasFailed, matches, ms, payload } from "../words.js";

const ROW = 24;
const TURN_MS = 12;

// What was found so far: a long trace is searched in turns, so that the page stays usable.
let made = { text: "", of: null, upto: 0, found: [] };
let timer = 0;
const searched = signal(0);

/** The least importance that is shown, and what it is called. */
const LEAST = [[0, "all events"], [1, "without housekeeping"], [2, "what the story is about"]];
const least = signal(0);

const weightOf = ({ k, w }) => w ?? IMPORTANCE[k];

function search(text) {
  if (made.text !== text || made.of !== source.value || made.least !== least.value) made = { text, of: source.value, upto: 0, found: [], least: least.value };
  const began = performance.now();
  while (made.upto < events.length && performance.now() - began < TURN_MS) {
    const end = Math.min(made.upto + 200, events.length);
    for (; made.upto < end; made.upto += 1) if (weightOf(events[made.upto]) >= made.least && matches(events[made.upto], text)) made.found.push(made.upto);
  }
  clearTimeout(timer);
  if (made.upto < events.length) timer = setTimeout(() => (searched.value += 1));
  return made.found;
}

export function Events() {
  const box = useRef(null);
  const seen = useRef(-1);
  const [top, setTop] = useState(0);
  const text = query.value;
  void count.value;
  void searched.value;
  const found = text.trim() || least.value ? search(text) : null; // null: all of them, and no list is made
  const size = found ? found.length : events.length;
  const nth = (n) => (found ? found[n] : n);
  const here = found ? Math.max(0, upTo(found, shownIndex.value) - 1) : shownIndex.value;
  const height = box.current?.clientHeight ?? 480;
  let from = Math.max(0, Math.floor(Math.min(top, size * ROW - height) / ROW) - 5); // the list may have become shorter
  const isElsewhere = seen.current !== here && (here * ROW < top || (here + 1) * ROW > top + height);
  seen.current = here;
  if (isElsewhere) from = Math.max(0, here - Math.ceil(height / ROW / 2) - 5); // drawn at once: where events come quickly, the next one is due before it is scrolled
  const rows = Array.from({ length: Math.max(0, Math.min(size - from, Math.ceil(height / ROW) + 10)) }, (_, n) => nth(from + n));
  useLayoutEffect(() => {
    const el = box.current;
    if (el && (here * ROW < el.scrollTop || (here + 1) * ROW > el.scrollTop + el.clientHeight)) {
      el.scrollTop = Math.max(0, here * ROW - el.clientHeight / 2);
      setTop(el.scrollTop); // now: where events come quickly, the scroll's own event is late
    }
  }, [here, text]);
  const move = (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1, PageDown: 20, PageUp: -20 }[event.key];
    const to = step ? here + step : event.key === "Home" ? 0 : event.key === "End" ? size - 1 : null;
    if (to === null || size === 0) return;
    event.preventDefault();
    goTo(nth(Math.max(0, Math.min(to, size - 1))));
  };
  return html`
    <div class="bar"><label>Search <input id="query" type="search" value=${text} placeholder="kind:marker tx:app refused"
      onInput=${(e) => (query.value = e.target.value)} /></label>
      <label>Show <select id="least" value=${least.value} onChange=${(e) => (least.value = Number(e.target.value))}>${LEAST.map(([n, name]) => html`<option value=${n}>${name}</option>`)}</select></label>
      <span role="status">${size.toLocaleString("en")} of ${events.length.toLocaleString("en")} events${found && made.upto < events.length ? ", searching …" : ""}</span></div>
    <div class="events" ref=${box} tabindex="0" role="grid" aria-label="Events" aria-rowcount=${size}
      onScroll=${(e) => setTop(e.target.scrollTop)} onKeyDown=${move}>
      <div class="spacer" style=${{ height: `${size * ROW}px` }} role="presentation">
        ${rows.map((n, offset) => {
          const one = events[n];
          return html`<div key=${n} role="row" aria-rowindex=${from + offset + 1} aria-selected=${n === shownIndex.value}
            class=${`row${n === shownIndex.value ? " now" : ""}${hasFailed(one) ? " error" : ""}`} style=${{ top: `${(from + offset) * ROW}px` }} onClick=${() => goTo(n)}>
            <span role="gridcell">#${one.i}</span><span role="gridcell">${ms(one)}</span><span role="gridcell">${one.node}</span>
            <span role="gridcell"><b>${one.k}</b></span><span role="gridcell">${one.tx ?? ""}</span><span role="gridcell">${payload(one)}</span></div>`;
        })}
      </div></div>`;
}
