// @ts-check
// A term of the field that explains itself where it stands: under the pointer, with the keyboard, or touched.

import { html } from "../html.js";
import { WORD_MEANINGS } from "../words.js";

/** `word` is the term's name among the words of the help. */
export const Term = ({ word, children }) => html`<span class="term" tabindex="0" role="note" aria-label=${`${children}: ${WORD_MEANINGS[word]}`} data-meaning=${WORD_MEANINGS[word]}>${children}</span>`;

/** Terms in a story's sentence: a transaction, or a word. */
const TERM_PATTERN = /((?<=\s)[\w.-]+\/\d+\b|\b(?:read_committed|markers?|coordinator|fault rule|epoch)\b)/;
const wordOf = (term) => (term.includes("/") ? "app/1, app/2" : { read_committed: "readers", markers: "marker" }[term] ?? term);

/** A sentence in which each term explains itself where it comes first. */
export function withTerms(sentence) {
  const explainedWords = new Set();
  return sentence.split(TERM_PATTERN).map((part, n) => {
    const isTerm = n % 2 === 1; // the pattern's group stands between what it divides
    if (!isTerm || explainedWords.has(wordOf(part))) return part;
    explainedWords.add(wordOf(part));
    return html`<${Term} word=${wordOf(part)}>${part}<//>`;
  });
}
