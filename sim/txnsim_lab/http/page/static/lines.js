// @ts-check
// What the state asks of the events of a trace, from their lines. Nearly all of a long trace is read
// here, so no object is made and nothing is parsed that is not asked for. The trace's writer has one
// order of fields; where a line is different, the answer is null and JSON.parse is asked.

const QUOTE = 34, COMMA = 44, MINUS = 45, BRACKET = 91, BACKSLASH = 92, BRACKET_END = 93, K = 107, BRACE_END = 125;
const NEWLINE = 10, ASCII_END = 128;
const codes = (text) => new TextEncoder().encode(text);
const I = codes('{"i":'), T = codes(',"t":'), N = codes(',"n":'), KIND = codes(',"k":"'), TX = codes(',"tx":"'), D = codes(',"d":');
const CONSTANTS = [["true", true], ["false", false], ["null", null]].map(([word, meant]) => [codes(word), meant]);
/** More digits may be rounded. */
const DIGITS_MAX = 15;
const NONE = -1;

/** Where the line ends that a place is in. */
export function endOf(bytes, at) {
  const end = bytes.indexOf(NEWLINE, at);
  return end < 0 ? bytes.length : end;
}

const decoder = new TextDecoder();
export const textOf = (bytes, from, end) => decoder.decode(bytes.subarray(from, end));

/** The place behind what is expected here; NONE where something else stands. */
function behind(bytes, at, expected) {
  for (let n = 0; n < expected.length; n += 1) if (bytes[at + n] !== expected[n]) return NONE;
  return at + expected.length;
}

/** What `number`, `string` or `any` has read. */
let value;

/** Read digits; the place behind them, or NONE. */
function number(bytes, at) {
  let end = at;
  let sum = 0;
  for (let digit = bytes[end] - 48; digit >= 0 && digit <= 9; digit = bytes[end] - 48) {
    sum = sum * 10 + digit;
    end += 1;
  }
  value = sum;
  return end === at || end - at > DIGITS_MAX ? NONE : end;
}

/** Texts that were met, each at the place of its hash. The same few stand in nearly all lines: a text that
 *  is known needs not be made, and maps find it at once. */
const met = new Array(4096).fill("");

/** Read a text of ASCII up to its quote; the place behind that, or NONE. */
function string(bytes, from) {
  let hash = 0;
  let end = from;
  for (let code = bytes[end]; code !== QUOTE; code = bytes[end]) {
    if (code === BACKSLASH || !(code < ASCII_END)) return NONE; // also behind the last byte
    hash = (Math.imul(hash, 31) + code) | 0;
    end += 1;
  }
  const place = hash & (met.length - 1);
  value = met[place];
  if (!isAt(bytes, from, end, value)) value = met[place] = textOf(bytes, from, end);
  return end + 1;
}

/** Whether a text stands here. */
function isAt(bytes, from, end, text) {
  if (text.length !== end - from) return false;
  for (let n = 0; n < text.length; n += 1) if (text.charCodeAt(n) !== bytes[from + n]) return false;
  return true;
}

/** Read a value that is no object; the place behind it, or NONE. */
function any(bytes, at) {
  const code = bytes[at];
  if (code === QUOTE) return string(bytes, at + 1);
  if (code === BRACKET) return list(bytes, at + 1);
  const end = number(bytes, code === MINUS ? at + 1 : at);
  if (end !== NONE) {
    if (code === MINUS) value = -value;
    return end;
  }
  for (const [word, meant] of CONSTANTS) {
    const after = behind(bytes, at, word);
    if (after === NONE) continue;
    value = meant;
    return after;
  }
  return NONE;
}

/** Read a list behind its bracket; the place behind it, or NONE. */
function list(bytes, from) {
  const some = [];
  let at = from;
  while (bytes[at] !== BRACKET_END) {
    if (some.length) at = bytes[at] === COMMA ? at + 1 : NONE;
    at = at === NONE ? NONE : any(bytes, at);
    if (at === NONE) return NONE;
    some.push(value);
  }
  value = some;
  return at + 1;
}

/** How a payload was written: the next one of its kind mostly has the same fields. */
class Shape {
  constructor(payload) {
    this.made = { ...payload }; // each reading fills it anew
    this.names = Object.keys(payload);
    this.marks = this.names.map((name, n) => codes(`${n ? "," : "{"}${JSON.stringify(name)}:`));
  }

  /** Read the object that is written here into `made`; the place behind it, NONE where it looks different. */
  read(bytes, from) {
    const { made, names, marks } = this;
    let at = from;
    for (let n = 0; n < names.length; n += 1) {
      at = behind(bytes, at, marks[n]);
      if (at === NONE) return NONE;
      at = any(bytes, at);
      if (at === NONE) return NONE;
      made[names[n]] = value;
    }
    return bytes[at] === BRACE_END ? at + 1 : NONE;
  }
}

const SHAPES_MAX = 4;
/** Name of a kind -> {name, isWanted, shapes}: how its payloads were written so far. */
const known = new Map();

/** The lines of a trace. */
export class Lines {
  /** `isWanted` says of a kind whether its payload is asked for. */
  constructor(bytes, isWanted) {
    this.bytes = bytes;
    this.isWanted = isWanted;
    /** What `glance` answers: one object for all events, as nothing keeps it. */
    this.seen = { i: 0, t: 0, n: 0, k: "", tx: "", d: undefined, node: "" };
    /** Where the line ends that `glance` has read. */
    this.end = 0;
  }

  /** What the state asks of the event of a line; null where the line is different. */
  glance(from) {
    const { bytes, seen } = this;
    let at = behind(bytes, from, I);
    if (at === NONE || (at = number(bytes, at)) === NONE) return null;
    seen.i = value;
    at = behind(bytes, at, T);
    if (at === NONE || (at = number(bytes, at)) === NONE) return null;
    seen.t = value;
    at = behind(bytes, at, N);
    if (at === NONE || (at = number(bytes, at)) === NONE) return null;
    seen.n = value;
    while (bytes[at] !== K) { // between are numbers only
      if (bytes[at] === NEWLINE || at >= bytes.length) return null;
      at += 1;
    }
    at = behind(bytes, at - 2, KIND);
    if (at === NONE || (at = string(bytes, at)) === NONE) return null;
    const kind = this.kind(value);
    seen.k = kind.name;
    seen.tx = "";
    seen.d = undefined;
    if (!kind.isWanted) {
      this.end = endOf(bytes, at);
      return seen;
    }
    const tx = behind(bytes, at, TX);
    if (tx !== NONE) {
      if ((at = string(bytes, tx)) === NONE) return null;
      seen.tx = value;
    }
    const d = behind(bytes, at, D);
    if (d !== NONE) at = this.payload(kind, d);
    if (bytes[at] !== BRACE_END) return null;
    this.end = at + 1;
    return this.end === bytes.length || bytes[this.end] === NEWLINE ? seen : null;
  }

  kind(name) {
    let one = known.get(name);
    if (!one) known.set(name, (one = { name, isWanted: this.isWanted(name), shapes: [] }));
    return one;
  }

  /** Read a payload; the place behind it. */
  payload(kind, from) {
    const { bytes, seen } = this;
    for (const shape of kind.shapes) {
      const end = shape.read(bytes, from);
      if (end === NONE) continue;
      seen.d = shape.made;
      return end;
    }
    const end = endOf(bytes, from) - 1; // of the event, which it is the last field of
    seen.d = JSON.parse(textOf(bytes, from, end));
    if (kind.shapes.length < SHAPES_MAX) {
      const shape = new Shape(seen.d);
      if (shape.read(bytes, from) === end) kind.shapes.push(shape);
    }
    return end;
  }
}
