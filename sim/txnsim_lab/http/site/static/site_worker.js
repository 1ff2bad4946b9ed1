// @ts-check
// The simulator in a worker: Python in WebAssembly. It takes the requests of the control port, and answers them one
// after the other. `txnsim site build` puts constants in front: `FILES`, file -> digest; `PACKED`, file -> the packed
// file that is sent for it; `LOCK`. The worker's name is "kept" where a service worker has the files.

const siteUrl = new URL("./", location.href).href;
const originalFetch = fetch;
const TYPES = { wasm: "application/wasm", zip: "application/zip" };
/** Fetch a file of the site: its digest is checked, and a packed file is unpacked. */
globalThis.fetch = async (resource, options) => {
  const name = String(resource.url ?? resource).replace(siteUrl, "").replace("./", "");
  const packedName = PACKED[name];
  if (packedName && self.name === "kept") {
    const cachedAnswer = await originalFetch(`${siteUrl}${name}?${encodeURIComponent(FILES[packedName])}`, options).catch(() => null);
    if (cachedAnswer?.ok) return cachedAnswer; // unpacked, by the service worker of this build
  }
  const answer = await originalFetch(packedName ? siteUrl + packedName : resource, { ...options, ...(FILES[packedName ?? name] && { integrity: FILES[packedName ?? name] }) });
  if (!packedName || !answer.ok) return answer;
  return new Response(answer.body.pipeThrough(new DecompressionStream("gzip")), { headers: { "Content-Type": TYPES[name.split(".").at(-1)] } });
};
/** The smallest WebAssembly module: loading it fails at once where a policy or a setting forbids WebAssembly. */
const LEAST = new Uint8Array([0, 97, 115, 109, 1, 0, 0, 0]);

const reportProgress = (text) => postMessage({ told: text });

async function bytesOf(name) {
  const answer = await fetch(siteUrl + name);
  if (!answer.ok) throw new Error(`${name}: ${answer.status} ${answer.statusText}`);
  return answer.arrayBuffer();
}

/** Write the files of a zip archive below /site. Its members are stored uncompressed, so this needs no Python. */
function unpack({ FS }, archive) {
  const zip = new DataView(archive);
  const createdFolders = new Set();
  for (let headerOffset = 0; zip.getUint32(headerOffset, true) === 0x04034b50; ) { // a local file header
    const size = zip.getUint32(headerOffset + 18, true), contentStart = headerOffset + 30 + zip.getUint16(headerOffset + 26, true);
    const name = new TextDecoder().decode(new Uint8Array(archive, headerOffset + 30, contentStart - headerOffset - 30));
    const folder = `/site/${name}`.replace(/\/[^/]*$/, "");
    if (!createdFolders.has(folder)) FS.mkdirTree(folder);
    createdFolders.add(folder);
    FS.writeFile(`/site/${name}`, new Uint8Array(archive, contentStart, size), { canOwn: true });
    headerOffset = contentStart + size;
  }
}

async function startSimulator() {
  if (typeof WebAssembly !== "object") throw new Error("this browser has no WebAssembly");
  await WebAssembly.instantiate(LEAST);
  reportProgress("Python is fetched …");
  const modules = bytesOf("modules.zip"), ownModules = bytesOf("txnsim.zip");
  const { loadPyodide } = await import("./pyodide.mjs");
  const python = await loadPyodide({
    indexURL: siteUrl, packageBaseUrl: siteUrl, stdLibURL: `${siteUrl}library.zip`,
    lockFileContents: { info: LOCK, packages: {} },
    env: { HOME: "/home/pyodide", PYTHONHASHSEED: "0" },
  });
  reportProgress("The simulator is unpacked …");
  unpack(python, await modules);
  unpack(python, await ownModules);
  reportProgress("The simulator starts …");
  const answer = await python.runPythonAsync(`
import sys
sys.path.insert(0, "/site")
from txnsim_lab.http.site._backend import Backend
import txnsim_lab.scenario.runner  # the first run needs it: it is there while the visitor still reads
Backend().answer
`);
  return async ({ method, path, query, body }) => {
    const reply = await answer(method, path, query, body ?? "");
    try {
      const [status, type, content] = reply.toJs();
      return { status, type, content };
    } finally {
      reply.destroy();
    }
  };
}

const simulatorReady = startSimulator();
simulatorReady.then(() => reportProgress(""), (error) => postMessage({ failed: error.message }));
let lastAnswer = Promise.resolve();
addEventListener("message", ({ data }) => {
  lastAnswer = lastAnswer.then(async () => {
    try {
      const { status, type, content } = await (await simulatorReady)(data);
      postMessage({ id: data.id, status, type, content }, { transfer: [content.buffer] });
    } catch (error) {
      postMessage({ id: data.id, status: 500, type: "application/json", content: new TextEncoder().encode(JSON.stringify({ error: error.message })) });
    }
  });
});
