// @ts-check
// Reads from the lines of a trace what the state needs of each event. Nearly all of a long trace passes here, so no
// object is made and only what is needed is parsed. txnsim writes fields in one order; where a line differs, the
// answer is null and the caller uses JSON.parse.

const QUOTE = 34, COMMA = 44, MINUS = 45, BRACKET = 91, BACKSLASH = 92, BRACKET_END = 93, LETTER_K = 107, BRACE_END = 125;
const NEWLINE = 10, ASCII_END = 128;
const bytesOfText = (text) => new TextEncoder().encode(text);
const POSITION_FIELD = bytesOfText('{"i":'), TIME_FIELD = bytesOfText(',"t":'), NODE_FIELD = bytesOfText(',"n":'), KIND_FIELD = bytesOfText(',"k":"'), TRANSACTION_FIELD = bytesOfText(',"tx":"'), PAYLOAD_FIELD = bytesOfText(',"d":');
const JSON_CONSTANTS = [["true", true], ["false", false], ["null", null]].map(([literal, constant]) => [bytesOfText(literal), constant]);
/** A number of more digits could be rounded. */
const DIGITS_MAX = 15;
const NO_MATCH = -1;

/** Where the line that contains a byte ends. */
export function lineEndOf(bytes, pos) {
  const lineEnd = bytes.indexOf(NEWLINE, pos);
  return lineEnd < 0 ? bytes.length : lineEnd;
}

const textDecoder = new TextDecoder();
export const decodeText = (bytes, from, end) => textDecoder.decode(bytes.subarray(from, end));

/** The position after the expected bytes; NO_MATCH where other bytes stand here. */
function skipBytes(bytes, pos, expected) {
  for (let byteOffset = 0; byteOffset < expected.length; byteOffset += 1) if (bytes[pos + byteOffset] !== expected[byteOffset]) return NO_MATCH;
  return pos + expected.length;
}

/** The value that `readDigits`, `readString`, `readValue` or `readList` has read last. */
let lastReadValue;

/** Read digits; returns the position after them, or NO_MATCH. */
function readDigits(bytes, pos) {
  let digitsEnd = pos;
  let numberSoFar = 0;
  for (let digit = bytes[digitsEnd] - 48; digit >= 0 && digit <= 9; digit = bytes[digitsEnd] - 48) {
    numberSoFar = numberSoFar * 10 + digit;
    digitsEnd += 1;
  }
  lastReadValue = numberSoFar;
  return digitsEnd === pos || digitsEnd - pos > DIGITS_MAX ? NO_MATCH : digitsEnd;
}

/** Texts that were read before, each in the slot of its hash. Nearly all lines repeat the same few: a known text
 *  is not decoded again, and maps find it quickly. */
const textCache = new Array(4096).fill("");

/** Read an ASCII text up to its quote; returns the position after the quote, or NO_MATCH. */
function readString(bytes, from) {
  let textHash = 0;
  let textEnd = from;
  for (let byteCode = bytes[textEnd]; byteCode !== QUOTE; byteCode = bytes[textEnd]) {
    if (byteCode === BACKSLASH || !(byteCode < ASCII_END)) return NO_MATCH; // true after the last byte, too
    textHash = (Math.imul(textHash, 31) + byteCode) | 0;
    textEnd += 1;
  }
  const cacheSlot = textHash & (textCache.length - 1);
  lastReadValue = textCache[cacheSlot];
  if (!isTextAt(bytes, from, textEnd, lastReadValue)) lastReadValue = textCache[cacheSlot] = decodeText(bytes, from, textEnd);
  return textEnd + 1;
}

/** Whether the bytes spell the text. */
function isTextAt(bytes, from, end, text) {
  if (text.length !== end - from) return false;
  for (let byteOffset = 0; byteOffset < text.length; byteOffset += 1) if (text.charCodeAt(byteOffset) !== bytes[from + byteOffset]) return false;
  return true;
}

/** Read a value that is not an object; returns the position after it, or NO_MATCH. */
function readValue(bytes, pos) {
  const firstByte = bytes[pos];
  if (firstByte === QUOTE) return readString(bytes, pos + 1);
  if (firstByte === BRACKET) return readList(bytes, pos + 1);
  const numberEnd = readDigits(bytes, firstByte === MINUS ? pos + 1 : pos);
  if (numberEnd !== NO_MATCH) {
    if (firstByte === MINUS) lastReadValue = -lastReadValue;
    return numberEnd;
  }
  for (const [literalBytes, constant] of JSON_CONSTANTS) {
    const constantEnd = skipBytes(bytes, pos, literalBytes);
    if (constantEnd === NO_MATCH) continue;
    lastReadValue = constant;
    return constantEnd;
  }
  return NO_MATCH;
}

/** Read a list after its opening bracket; returns the position after it, or NO_MATCH. */
function readList(bytes, from) {
  const listValues = [];
  let bytePosition = from;
  while (bytes[bytePosition] !== BRACKET_END) {
    if (listValues.length) bytePosition = bytes[bytePosition] === COMMA ? bytePosition + 1 : NO_MATCH;
    bytePosition = bytePosition === NO_MATCH ? NO_MATCH : readValue(bytes, bytePosition);
    if (bytePosition === NO_MATCH) return NO_MATCH;
    listValues.push(lastReadValue);
  }
  lastReadValue = listValues;
  return bytePosition + 1;
}

/** The fields of a payload in their order: the next payload of its kind mostly has the same. */
class PayloadShape {
  constructor(payload) {
    this.payload = { ...payload }; // each reading fills it anew
    this.fieldNames = Object.keys(payload);
    this.fieldPrefixes = this.fieldNames.map((name, n) => bytesOfText(`${n ? "," : "{"}${JSON.stringify(name)}:`));
  }

  /** Read an object of this shape into `payload`; returns the position after it, NO_MATCH where the shape differs. */
  read(bytes, from) {
    const { payload, fieldNames, fieldPrefixes } = this;
    let bytePosition = from;
    for (let fieldIndex = 0; fieldIndex < fieldNames.length; fieldIndex += 1) {
      bytePosition = skipBytes(bytes, bytePosition, fieldPrefixes[fieldIndex]);
      if (bytePosition === NO_MATCH) return NO_MATCH;
      bytePosition = readValue(bytes, bytePosition);
      if (bytePosition === NO_MATCH) return NO_MATCH;
      payload[fieldNames[fieldIndex]] = lastReadValue;
    }
    return bytes[bytePosition] === BRACE_END ? bytePosition + 1 : NO_MATCH;
  }
}

const SHAPES_PER_KIND_MAX = 4;
/** Name of a kind -> {name, isWanted, shapes}: the shapes of its payloads so far. */
const kindsByName = new Map();

/** The lines of a trace. */
export class LineReader {
  /** `isWanted` tells for a kind whether its payload is needed. */
  constructor(bytes, isWanted) {
    this.bytes = bytes;
    this.isWanted = isWanted;
    /** What `glance` returns: the same object for each event, because no caller keeps it. */
    this.glimpse = { i: 0, t: 0, n: 0, k: "", tx: "", d: undefined, node: "" };
    /** Where the line that `glance` has read ends. */
    this.lineEnd = 0;
  }

  /** Read what the state needs of the event on a line; null where the fields are not in the usual order. */
  glance(from) {
    const { bytes, glimpse } = this;
    let bytePosition = skipBytes(bytes, from, POSITION_FIELD);
    if (bytePosition === NO_MATCH || (bytePosition = readDigits(bytes, bytePosition)) === NO_MATCH) return null;
    glimpse.i = lastReadValue;
    bytePosition = skipBytes(bytes, bytePosition, TIME_FIELD);
    if (bytePosition === NO_MATCH || (bytePosition = readDigits(bytes, bytePosition)) === NO_MATCH) return null;
    glimpse.t = lastReadValue;
    bytePosition = skipBytes(bytes, bytePosition, NODE_FIELD);
    if (bytePosition === NO_MATCH || (bytePosition = readDigits(bytes, bytePosition)) === NO_MATCH) return null;
    glimpse.n = lastReadValue;
    while (bytes[bytePosition] !== LETTER_K) { // only numbers stand between
      if (bytes[bytePosition] === NEWLINE || bytePosition >= bytes.length) return null;
      bytePosition += 1;
    }
    bytePosition = skipBytes(bytes, bytePosition - 2, KIND_FIELD);
    if (bytePosition === NO_MATCH || (bytePosition = readString(bytes, bytePosition)) === NO_MATCH) return null;
    const eventKind = this.kindOf(lastReadValue);
    glimpse.k = eventKind.name;
    glimpse.tx = "";
    glimpse.d = undefined;
    if (!eventKind.isWanted) {
      this.lineEnd = lineEndOf(bytes, bytePosition);
      return glimpse;
    }
    const transactionStart = skipBytes(bytes, bytePosition, TRANSACTION_FIELD);
    if (transactionStart !== NO_MATCH) {
      if ((bytePosition = readString(bytes, transactionStart)) === NO_MATCH) return null;
      glimpse.tx = lastReadValue;
    }
    const payloadStart = skipBytes(bytes, bytePosition, PAYLOAD_FIELD);
    if (payloadStart !== NO_MATCH) bytePosition = this.readPayload(eventKind, payloadStart);
    if (bytes[bytePosition] !== BRACE_END) return null;
    this.lineEnd = bytePosition + 1;
    return this.lineEnd === bytes.length || bytes[this.lineEnd] === NEWLINE ? glimpse : null;
  }

  kindOf(name) {
    let eventKind = kindsByName.get(name);
    if (!eventKind) kindsByName.set(name, (eventKind = { name, isWanted: this.isWanted(name), shapes: [] }));
    return eventKind;
  }

  /** Read a payload; returns the position after it. */
  readPayload(kind, from) {
    const { bytes, glimpse } = this;
    for (const payloadShape of kind.shapes) {
      const payloadEnd = payloadShape.read(bytes, from);
      if (payloadEnd === NO_MATCH) continue;
      glimpse.d = payloadShape.payload;
      return payloadEnd;
    }
    const payloadEnd = lineEndOf(bytes, from) - 1; // before the brace of the event: the payload is its last field
    glimpse.d = JSON.parse(decodeText(bytes, from, payloadEnd));
    if (kind.shapes.length < SHAPES_PER_KIND_MAX) {
      const newShape = new PayloadShape(glimpse.d);
      if (newShape.read(bytes, from) === payloadEnd) kind.shapes.push(newShape);
    }
    return payloadEnd;
  }
}
