// @ts-check
// Reads from the lines of a trace what the state needs of each event. Nearly all of a long trace passes here, so no
// object is made and only what is needed is parsed. txnsim writes fields in one order; where a line differs, the
// answer is null and the caller uses JSON.parse.

const QUOTE = 34, COMMA = 44, MINUS = 45, BRACKET = 91, BACKSLASH = 92, BRACKET_END = 93, K = 107, BRACE_END = 125;
const NEWLINE = 10, ASCII_END = 128;
const codes = (text) => new TextEncoder().encode(text);
const I = codes('{"i":'), T = codes(',"t":'), N = codes(',"n":'), KIND = codes(',"k":"'), TX = codes(',"tx":"'), D = codes(',"d":');
const CONSTANTS = [["true", true], ["false", false], ["null", null]].map(([word, constant]) => [codes(word), constant]);
/** A number of more digits could be rounded. */
const DIGITS_MAX = 15;
const NONE = -1;

/** Where the line that contains a byte ends. */
export function endOf(bytes, pos) {
  const end = bytes.indexOf(NEWLINE, pos);
  return end < 0 ? bytes.length : end;
}

const decoder = new TextDecoder();
export const textOf = (bytes, from, end) => decoder.decode(bytes.subarray(from, end));

/** The position after the expected bytes; NONE where other bytes stand here. */
function skip(bytes, pos, expected) {
  for (let n = 0; n < expected.length; n += 1) if (bytes[pos + n] !== expected[n]) return NONE;
  return pos + expected.length;
}

/** The value that `readDigits`, `readString`, `readValue` or `readList` has read last. */
let lastValue;

/** Read digits; returns the position after them, or NONE. */
function readDigits(bytes, pos) {
  let end = pos;
  let sum = 0;
  for (let digit = bytes[end] - 48; digit >= 0 && digit <= 9; digit = bytes[end] - 48) {
    sum = sum * 10 + digit;
    end += 1;
  }
  lastValue = sum;
  return end === pos || end - pos > DIGITS_MAX ? NONE : end;
}

/** Texts that were read before, each in the slot of its hash. Nearly all lines repeat the same few: a known text
 *  is not decoded again, and maps find it quickly. */
const knownTexts = new Array(4096).fill("");

/** Read an ASCII text up to its quote; returns the position after the quote, or NONE. */
function readString(bytes, from) {
  let hash = 0;
  let end = from;
  for (let code = bytes[end]; code !== QUOTE; code = bytes[end]) {
    if (code === BACKSLASH || !(code < ASCII_END)) return NONE; // true after the last byte, too
    hash = (Math.imul(hash, 31) + code) | 0;
    end += 1;
  }
  const slot = hash & (knownTexts.length - 1);
  lastValue = knownTexts[slot];
  if (!isTextAt(bytes, from, end, lastValue)) lastValue = knownTexts[slot] = textOf(bytes, from, end);
  return end + 1;
}

/** Whether the bytes spell the text. */
function isTextAt(bytes, from, end, text) {
  if (text.length !== end - from) return false;
  for (let n = 0; n < text.length; n += 1) if (text.charCodeAt(n) !== bytes[from + n]) return false;
  return true;
}

/** Read a value that is not an object; returns the position after it, or NONE. */
function readValue(bytes, pos) {
  const code = bytes[pos];
  if (code === QUOTE) return readString(bytes, pos + 1);
  if (code === BRACKET) return readList(bytes, pos + 1);
  const end = readDigits(bytes, code === MINUS ? pos + 1 : pos);
  if (end !== NONE) {
    if (code === MINUS) lastValue = -lastValue;
    return end;
  }
  for (const [word, constant] of CONSTANTS) {
    const wordEnd = skip(bytes, pos, word);
    if (wordEnd === NONE) continue;
    lastValue = constant;
    return wordEnd;
  }
  return NONE;
}

/** Read a list after its opening bracket; returns the position after it, or NONE. */
function readList(bytes, from) {
  const values = [];
  let pos = from;
  while (bytes[pos] !== BRACKET_END) {
    if (values.length) pos = bytes[pos] === COMMA ? pos + 1 : NONE;
    pos = pos === NONE ? NONE : readValue(bytes, pos);
    if (pos === NONE) return NONE;
    values.push(lastValue);
  }
  lastValue = values;
  return pos + 1;
}

/** The fields of a payload in their order: the next payload of its kind mostly has the same. */
class Shape {
  constructor(payload) {
    this.payload = { ...payload }; // each reading fills it anew
    this.names = Object.keys(payload);
    this.marks = this.names.map((name, n) => codes(`${n ? "," : "{"}${JSON.stringify(name)}:`));
  }

  /** Read an object of this shape into `payload`; returns the position after it, NONE where the shape differs. */
  read(bytes, from) {
    const { payload, names, marks } = this;
    let pos = from;
    for (let n = 0; n < names.length; n += 1) {
      pos = skip(bytes, pos, marks[n]);
      if (pos === NONE) return NONE;
      pos = readValue(bytes, pos);
      if (pos === NONE) return NONE;
      payload[names[n]] = lastValue;
    }
    return bytes[pos] === BRACE_END ? pos + 1 : NONE;
  }
}

const SHAPES_MAX = 4;
/** Name of a kind -> {name, isWanted, shapes}: the shapes of its payloads so far. */
const kindsByName = new Map();

/** The lines of a trace. */
export class Lines {
  /** `isWanted` tells for a kind whether its payload is needed. */
  constructor(bytes, isWanted) {
    this.bytes = bytes;
    this.isWanted = isWanted;
    /** What `glance` returns: the same object for each event, because no caller keeps it. */
    this.glimpse = { i: 0, t: 0, n: 0, k: "", tx: "", d: undefined, node: "" };
    /** Where the line that `glance` has read ends. */
    this.end = 0;
  }

  /** Read what the state needs of the event on a line; null where the fields are not in the usual order. */
  glance(from) {
    const { bytes, glimpse } = this;
    let pos = skip(bytes, from, I);
    if (pos === NONE || (pos = readDigits(bytes, pos)) === NONE) return null;
    glimpse.i = lastValue;
    pos = skip(bytes, pos, T);
    if (pos === NONE || (pos = readDigits(bytes, pos)) === NONE) return null;
    glimpse.t = lastValue;
    pos = skip(bytes, pos, N);
    if (pos === NONE || (pos = readDigits(bytes, pos)) === NONE) return null;
    glimpse.n = lastValue;
    while (bytes[pos] !== K) { // only numbers stand between
      if (bytes[pos] === NEWLINE || pos >= bytes.length) return null;
      pos += 1;
    }
    pos = skip(bytes, pos - 2, KIND);
    if (pos === NONE || (pos = readString(bytes, pos)) === NONE) return null;
    const kind = this.kindOf(lastValue);
    glimpse.k = kind.name;
    glimpse.tx = "";
    glimpse.d = undefined;
    if (!kind.isWanted) {
      this.end = endOf(bytes, pos);
      return glimpse;
    }
    const tx = skip(bytes, pos, TX);
    if (tx !== NONE) {
      if ((pos = readString(bytes, tx)) === NONE) return null;
      glimpse.tx = lastValue;
    }
    const d = skip(bytes, pos, D);
    if (d !== NONE) pos = this.readPayload(kind, d);
    if (bytes[pos] !== BRACE_END) return null;
    this.end = pos + 1;
    return this.end === bytes.length || bytes[this.end] === NEWLINE ? glimpse : null;
  }

  kindOf(name) {
    let kind = kindsByName.get(name);
    if (!kind) kindsByName.set(name, (kind = { name, isWanted: this.isWanted(name), shapes: [] }));
    return kind;
  }

  /** Read a payload; returns the position after it. */
  readPayload(kind, from) {
    const { bytes, glimpse } = this;
    for (const shape of kind.shapes) {
      const end = shape.read(bytes, from);
      if (end === NONE) continue;
      glimpse.d = shape.payload;
      return end;
    }
    const end = endOf(bytes, from) - 1; // before the brace of the event: the payload is its last field
    glimpse.d = JSON.parse(textOf(bytes, from, end));
    if (kind.shapes.length < SHAPES_MAX) {
      const shape = new Shape(glimpse.d);
      if (shape.read(bytes, from) === end) kind.shapes.push(shape);
    }
    return end;
  }
}
