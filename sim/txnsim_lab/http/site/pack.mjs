// Run by Node.js when the site is built: Python in WebAssembly compiles for Python in WebAssembly.
// Arguments: the folder with Pyodide, the folder with pack.py and what it packs.

import { readFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const [pyodide, work] = process.argv.slice(2);
const { loadPyodide } = await import(pathToFileURL(join(pyodide, "pyodide.mjs")));
const python = await loadPyodide({ indexURL: pyodide, stdout: (line) => process.stdout.write(`${line}\n`) });
python.mountNodeFS("/given", work);
try {
  await python.runPythonAsync(`${readFileSync(join(work, "pack.py"), "utf8")}\nawait main()`);
} catch (error) { // Node.js itself would show the line of Pyodide's script: a megabyte
  console.error(error.message);
  process.exit(1);
}
process.exit(0); // timers of what was asked may be left
