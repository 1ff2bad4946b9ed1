// @ts-check
// A term of the field that explains itself where it stands: under the pointer, with the keyboard, or touched.

import { html } from "../html.js";
import { WORD_MEANINGS } from "../words.js";

/** `word` is the term's name among the words of the help. */
export const Term = ({ word, children }) => html`<span class="term" tabindex="0" role="note" aria-label=${`${children}: ${WORD_MEANINGS[word]}`} data-meaning=${WORD_MEANINGS[word]}>${children}</span>`;

/** What a story's sentence may hold, and its name among the words: the first of each is explained. */
const TERMS_OF_STORIES = [[/\bread_committed\b/, "readers"], [/\bmarkers?\b/, "marker"], [/\bcoordinator\b/, "coordinator"], [/\bfault rule\b/, "fault rule"], [/\bepoch\b/, "epoch"], [/(?<=\s)[\w.-]+\/\d+\b/, "app/1, app/2"]];

/** A sentence with its terms. */
export function withTerms(sentence) {
  const places = TERMS_OF_STORIES.map(([pattern, word]) => ({ match: pattern.exec(sentence), word })).filter(({ match }) => match).sort((a, b) => a.match.index - b.match.index);
  let end = 0;
  const parts = places.filter(({ match }, n) => !n || match.index >= places[n - 1].match.index + places[n - 1].match[0].length).flatMap(({ match: { 0: text, index }, word }) => {
    const before = sentence.slice(end, index);
    end = index + text.length;
    return [before, html`<${Term} word=${word}>${text}<//>`];
  });
  return [...parts, sentence.slice(end)];
}
