// @ts-check
// The page on a static site (`txnsim site build`): a worker answers in place of the control port.

/** Whether the page is on a static site. */
export const isSite = document.documentElement.hasAttribute("data-site");

/** Answers that are the same in every visit. They are files of the site, so they need no simulator. */
const knownAnswers = isSite ? fetch("./known.json").then((answer) => answer.json(), () => ({})) : null;
let simulatorWorker = null;
let requestCount = 0;
const answerResolvers = new Map();

/** Start the simulator. `tell` gets its progress, "" once it runs; `fail` gets the reason if it can't start. */
export function startWorker(tell, fail) {
  const workerName = navigator.serviceWorker?.controller ? "kept" : "";
  simulatorWorker = new Worker("./site_worker.js", { type: "module", name: workerName });
  simulatorWorker.onerror = (event) => fail(event.message ?? "its script can't be run");
  simulatorWorker.onmessage = ({ data }) => {
    if (data.told !== undefined) return tell(data.told);
    if (data.failed) return fail(data.failed);
    answerResolvers.get(data.id)(new Response(data.status === 204 ? null : data.content, { status: data.status, headers: { "Content-Type": data.type } }));
    answerResolvers.delete(data.id);
  };
}

/** Like `fetch`, for a path of the control port. */
export async function askWorker(target, { method = "GET", body, signal } = {}) {
  const [path, query = ""] = target.split("?");
  const knownAnswer = method === "GET" ? (await knownAnswers)[path] : undefined;
  if (knownAnswer !== undefined) return Response.json(knownAnswer);
  return new Promise((answer, refuse) => {
    signal?.addEventListener("abort", () => refuse(signal.reason));
    answerResolvers.set((requestCount += 1), answer);
    simulatorWorker.postMessage({ id: requestCount, method, path, query, body });
  });
}

/** Keep the files for visits without a network. */
export const keepFilesOffline = () => navigator.serviceWorker?.register("./sw.js", { scope: "./" });
