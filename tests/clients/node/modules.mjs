// Where the libraries are: outside of the sources, in a folder that is named at start.

import { createRequire } from 'node:module'
import path from 'node:path'
import { pathToFileURL } from 'node:url'

let require

/** From here on libraries are looked for in this folder. */
export function useModules (folder) {
  require = createRequire(path.join(path.resolve(folder), 'beside.js'))
}

/** A library by its name, whichever kind of module it is. */
export async function library (name) {
  return import(pathToFileURL(require.resolve(name)).href)
}
