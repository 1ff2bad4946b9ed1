// The simulator of a site in Node.js: runs a program of Python in it, which gets `given` and leaves `answer`.
// Arguments: the folder of the site with its packed files unpacked; standard input: {"program", "given"} as JSON.

import { readFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const [site] = process.argv.slice(2);
const { program, given } = JSON.parse(readFileSync(0, "utf8"));
const worker = readFileSync(join(site, "site_worker.js"), "utf8");
const LOCK = JSON.parse(/^const LOCK = (.*);$/m.exec(worker)[1]);
const { loadPyodide } = await import(pathToFileURL(join(site, "pyodide.mjs")));
const python = await loadPyodide({
  indexURL: site, packageBaseUrl: `${site}/`, stdLibURL: join(site, "library.zip"),
  lockFileContents: { info: LOCK, packages: {} }, env: { HOME: "/home/pyodide", PYTHONHASHSEED: "0" },
  stdout: (line) => process.stderr.write(`${line}\n`),
});
for (const name of ["modules.zip", "txnsim.zip"]) {
  const { buffer, byteOffset, byteLength } = readFileSync(join(site, name));
  python.unpackArchive(buffer.slice(byteOffset, byteOffset + byteLength), "zip", { extractDir: "/site" });
}
python.globals.set("given", JSON.stringify(given));
try {
  await python.runPythonAsync(`import sys\nsys.path.insert(0, "/site")\n${program}`);
} catch (error) { // Node.js itself would show the line of Pyodide's script: a megabyte
  console.error(error.message);
  process.exit(1);
}
process.stdout.write(python.globals.get("answer"), () => process.exit(0)); // timers of what was asked may be left
