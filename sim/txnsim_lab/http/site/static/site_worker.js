// @ts-check
// The simulator in a worker: Python in WebAssembly. It takes requests as the control port does, and answers
// them one after the other. `txnsim site build` puts in front: `FILES`, each file and its digest; `PACKED`, what
// is sent packed, and as which file. The worker's name is "kept" where a service worker has the files.

const here = new URL("./", location.href).href;
const plain = fetch;
const TYPES = { wasm: "application/wasm", zip: "application/zip" };
/** What is fetched is what was built, or it is not taken; what is packed is unpacked. */
globalThis.fetch = async (what, options) => {
  const name = String(what.url ?? what).replace(here, "").replace("./", "");
  const sent = PACKED[name];
  if (sent && self.name === "kept") {
    const kept = await plain(`${here}${name}?${encodeURIComponent(FILES[sent])}`, options).catch(() => null);
    if (kept?.ok) return kept; // unpacked, by the service worker of this build
  }
  const answer = await plain(sent ? here + sent : what, { ...options, ...(FILES[sent ?? name] && { integrity: FILES[sent ?? name] }) });
  if (!sent || !answer.ok) return answer;
  return new Response(answer.body.pipeThrough(new DecompressionStream("gzip")), { headers: { "Content-Type": TYPES[name.split(".").at(-1)] } });
};
/** The smallest module: where a policy or a setting forbids WebAssembly, it says so at once. */
const LEAST = new Uint8Array([0, 97, 115, 109, 1, 0, 0, 0]);

const tell = (what) => postMessage({ told: what });

async function bytesOf(name) {
  const answer = await fetch(here + name);
  if (!answer.ok) throw new Error(`${name}: ${answer.status} ${answer.statusText}`);
  return answer.arrayBuffer();
}

/** Put the files of an archive below /site. What pack.py writes is not compressed inside, so it takes no Python. */
function unpack({ FS }, archive) {
  const view = new DataView(archive);
  const made = new Set();
  for (let at = 0; view.getUint32(at, true) === 0x04034b50; ) { // a local file header
    const size = view.getUint32(at + 18, true), begin = at + 30 + view.getUint16(at + 26, true);
    const name = new TextDecoder().decode(new Uint8Array(archive, at + 30, begin - at - 30));
    const folder = `/site/${name}`.replace(/\/[^/]*$/, "");
    if (!made.has(folder)) FS.mkdirTree(folder);
    made.add(folder);
    FS.writeFile(`/site/${name}`, new Uint8Array(archive, begin, size), { canOwn: true });
    at = begin + size;
  }
}

async function begin() {
  if (typeof WebAssembly !== "object") throw new Error("this browser has no WebAssembly");
  await WebAssembly.instantiate(LEAST);
  tell("Python is fetched …");
  const modules = bytesOf("modules.zip"), own = bytesOf("txnsim.zip");
  const { loadPyodide } = await import("./pyodide.mjs");
  const python = await loadPyodide({
    indexURL: here, packageBaseUrl: here, stdLibURL: `${here}library.zip`,
    lockFileContents: { info: LOCK, packages: {} },
    env: { HOME: "/home/pyodide", PYTHONHASHSEED: "0" },
  });
  tell("The simulator is unpacked …");
  unpack(python, await modules);
  unpack(python, await own);
  tell("The simulator starts …");
  const answer = await python.runPythonAsync(`
import sys
sys.path.insert(0, "/site")
from txnsim_lab.http.site._backend import Backend
import txnsim_lab.scenario.runner  # the first run needs it: it is there while the visitor still reads
Backend().answer
`);
  return async ({ method, path, query, body }) => {
    const found = await answer(method, path, query, body ?? "");
    try {
      const [status, type, content] = found.toJs();
      return { status, type, content };
    } finally {
      found.destroy();
    }
  };
}

const begun = begin();
begun.then(() => tell(""), (error) => postMessage({ failed: error.message }));
let last = Promise.resolve();
addEventListener("message", ({ data }) => {
  last = last.then(async () => {
    try {
      const { status, type, content } = await (await begun)(data);
      postMessage({ id: data.id, status, type, content }, { transfer: [content.buffer] });
    } catch (error) {
      postMessage({ id: data.id, status: 500, type: "application/json", content: new TextEncoder().encode(JSON.stringify({ error: error.message })) });
    }
  });
});
