// @ts-check
// The page on a static site (`txnsim site build`): a worker answers in place of the control port.

/** Whether the page is on a static site. */
export const isSite = document.documentElement.hasAttribute("data-site");

/** Answers that are the same in every visit. They are files of the site, so they need no simulator. */
const knownAnswers = isSite ? fetch("./known.json").then((answer) => answer.json(), () => ({})) : null;
let simulatorWorker = null;
let requestCount = 0;
const resolverById = new Map();

/** Start the simulator. `onProgress` gets its progress, "" once it runs; `onFailure` gets the reason if it can't start. */
export function startWorker(onProgress, onFailure) {
  const workerName = navigator.serviceWorker?.controller ? "kept" : "";
  simulatorWorker = new Worker("./site_worker.js", { type: "module", name: workerName });
  simulatorWorker.onerror = (event) => onFailure(event.message ?? "its script can't be run");
  simulatorWorker.onmessage = ({ data }) => {
    if (data.told !== undefined) return onProgress(data.told);
    if (data.failed) return onFailure(data.failed);
    resolverById.get(data.id)(new Response(data.status === 204 ? null : data.replyBytes, { status: data.status, headers: { "Content-Type": data.type } }));
    resolverById.delete(data.id);
  };
}

/** Like `fetch`, for a path of the control port. */
export async function askWorker(pathAndQuery, { method = "GET", body, signal } = {}) {
  const [path, query = ""] = pathAndQuery.split("?");
  const knownAnswer = method === "GET" ? (await knownAnswers)[path] : undefined;
  if (knownAnswer !== undefined) return Response.json(knownAnswer);
  return new Promise((answer, refuse) => {
    signal?.addEventListener("abort", () => refuse(signal.reason));
    resolverById.set((requestCount += 1), answer);
    simulatorWorker.postMessage({ id: requestCount, method, path, query, body });
  });
}

/** Keep the files for visits without a network. */
export const keepFilesOffline = () => navigator.serviceWorker?.register("./sw.js", { scope: "./" });
