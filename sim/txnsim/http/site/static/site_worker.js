// @ts-check
// The simulator in a worker: Python in WebAssembly. It takes requests as the control port does, and answers
// them one after the other. `FILES` is put in front by `txnsim site build`: each file and its digest.

const here = new URL("./", location.href).href;
const plain = fetch;
/** What is fetched is what was built, or it is not taken. */
globalThis.fetch = (what, options) => {
  const name = String(what.url ?? what).replace(here, "").replace("./", "");
  return plain(what, { ...options, ...(FILES[name] && { integrity: FILES[name] }) });
};
/** The smallest module: where a policy or a setting forbids WebAssembly, it says so at once. */
const LEAST = new Uint8Array([0, 97, 115, 109, 1, 0, 0, 0]);

const tell = (what) => postMessage({ told: what });

async function bytesOf(name) {
  const answer = await fetch(here + name);
  if (!answer.ok) throw new Error(`${name}: ${answer.status} ${answer.statusText}`);
  return answer.arrayBuffer();
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
  python.unpackArchive(await modules, "zip", { extractDir: "/site" });
  python.unpackArchive(await own, "zip", { extractDir: "/site" });
  tell("The simulator starts …");
  const answer = await python.runPythonAsync(`
import sys
sys.path.insert(0, "/site")
from txnsim.http.site.backend import Backend
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
