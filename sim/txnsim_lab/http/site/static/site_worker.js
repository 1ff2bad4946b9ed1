// @ts-check
// The simulator in a worker: Python in WebAssembly. It takes the requests of the control port, and answers them one
// after the other. `txnsim site build` puts constants in front: `FILES`, file -> digest; `PACKED`, file -> the packed
// file that is sent for it; `LOCK`. The worker's name is "kept" where a service worker has the files.

const siteUrl = new URL("./", location.href).href;
const originalFetch = fetch;
const MEDIA_TYPES = { wasm: "application/wasm", zip: "application/zip" };
/** Fetch a file of the site: its digest is checked, and a packed file is unpacked. */
globalThis.fetch = async (resource, options) => {
  const fileName = String(resource.url ?? resource).replace(siteUrl, "").replace("./", "");
  const packedName = PACKED[fileName];
  if (packedName && self.name === "kept") {
    const cachedResponse = await originalFetch(`${siteUrl}${fileName}?${encodeURIComponent(FILES[packedName])}`, options).catch(() => null);
    if (cachedResponse?.ok) return cachedResponse; // unpacked, by the service worker of this build
  }
  const response = await originalFetch(packedName ? siteUrl + packedName : resource, { ...options, ...(FILES[packedName ?? fileName] && { integrity: FILES[packedName ?? fileName] }) });
  if (!packedName || !response.ok) return response;
  return new Response(response.body.pipeThrough(new DecompressionStream("gzip")), { headers: { "Content-Type": MEDIA_TYPES[fileName.split(".").at(-1)] } });
};
/** The smallest WebAssembly module: loading it fails at once where a policy or a setting forbids WebAssembly. */
const SMALLEST_MODULE = new Uint8Array([0, 97, 115, 109, 1, 0, 0, 0]);

const reportProgress = (text) => postMessage({ told: text });

async function fetchBytes(fileName) {
  const response = await fetch(siteUrl + fileName);
  if (!response.ok) throw new Error(`${fileName}: ${response.status} ${response.statusText}`);
  return response.arrayBuffer();
}

/** Write the files of a zip archive below /site. Its members are stored uncompressed, so this needs no Python. */
function unpackZip({ FS }, archive) {
  const zipView = new DataView(archive);
  const createdFolders = new Set();
  for (let headerOffset = 0; zipView.getUint32(headerOffset, true) === 0x04034b50; ) { // a local file header
    const contentSize = zipView.getUint32(headerOffset + 18, true), contentStart = headerOffset + 30 + zipView.getUint16(headerOffset + 26, true);
    const memberName = new TextDecoder().decode(new Uint8Array(archive, headerOffset + 30, contentStart - headerOffset - 30));
    const memberFolder = `/site/${memberName}`.replace(/\/[^/]*$/, "");
    if (!createdFolders.has(memberFolder)) FS.mkdirTree(memberFolder);
    createdFolders.add(memberFolder);
    FS.writeFile(`/site/${memberName}`, new Uint8Array(archive, contentStart, contentSize), { canOwn: true });
    headerOffset = contentStart + contentSize;
  }
}

async function startSimulator() {
  if (typeof WebAssembly !== "object") throw new Error("this browser has no WebAssembly");
  await WebAssembly.instantiate(SMALLEST_MODULE);
  reportProgress("Python is fetched …");
  const moduleArchive = fetchBytes("modules.zip"), ownModuleArchive = fetchBytes("txnsim.zip");
  const { loadPyodide } = await import("./pyodide.mjs");
  const python = await loadPyodide({
    indexURL: siteUrl, packageBaseUrl: siteUrl, stdLibURL: `${siteUrl}library.zip`,
    lockFileContents: { info: LOCK, packages: {} },
    env: { HOME: "/home/pyodide", PYTHONHASHSEED: "0" },
  });
  reportProgress("The simulator is unpacked …");
  unpackZip(python, await moduleArchive);
  unpackZip(python, await ownModuleArchive);
  reportProgress("The simulator starts …");
  const answerRequest = await python.runPythonAsync(`
import sys
sys.path.insert(0, "/site")
from txnsim_lab.http.site._backend import Backend
import txnsim_lab.scenario.runner  # the first run needs it: it is there while the visitor still reads
Backend().answer
`);
  return async ({ method, path, query, body }) => {
    const pythonReply = await answerRequest(method, path, query, body ?? "");
    try {
      const [status, type, replyBytes] = pythonReply.toJs();
      return { status, type, replyBytes };
    } finally {
      pythonReply.destroy();
    }
  };
}

const simulatorReady = startSimulator();
simulatorReady.then(() => reportProgress(""), (error) => postMessage({ failed: error.message }));
let lastAnswerSent = Promise.resolve();
addEventListener("message", ({ data }) => {
  lastAnswerSent = lastAnswerSent.then(async () => {
    try {
      const { status, type, replyBytes } = await (await simulatorReady)(data);
      postMessage({ id: data.id, status, type, replyBytes }, { transfer: [replyBytes.buffer] });
    } catch (error) {
      postMessage({ id: data.id, status: 500, type: "application/json", replyBytes: new TextEncoder().encode(JSON.stringify({ error: error.message })) });
    }
  });
});
