// @ts-check
// The page without a server: a worker answers what the control port answers (txnsim site build).

/** Whether the page is such a site. */
export const isSite = document.documentElement.hasAttribute("data-site");

/** Answers that are the same in every visit: they are there before the simulator is. */
const knownAnswers = isSite ? fetch("./known.json").then((answer) => answer.json(), () => ({})) : null;
let worker = null;
let requestCount = 0;
const resolvers = new Map();

/** Start the simulator. `tell` hears how far it is, "" once it is there; `fail` why it is not to be had. */
export function start(tell, fail) {
  const name = navigator.serviceWorker?.controller ? "kept" : "";
  worker = new Worker("./site_worker.js", { type: "module", name });
  worker.onerror = (event) => fail(event.message ?? "its script can't be run");
  worker.onmessage = ({ data }) => {
    if (data.told !== undefined) return tell(data.told);
    if (data.failed) return fail(data.failed);
    resolvers.get(data.id)(new Response(data.status === 204 ? null : data.content, { status: data.status, headers: { "Content-Type": data.type } }));
    resolvers.delete(data.id);
  };
}

/** As `fetch`, of a path of the control port. */
export async function reach(target, { method = "GET", body, signal } = {}) {
  const [path, query = ""] = target.split("?");
  const knownAnswer = method === "GET" ? (await knownAnswers)[path] : undefined;
  if (knownAnswer !== undefined) return Response.json(knownAnswer);
  return new Promise((answer, refuse) => {
    signal?.addEventListener("abort", () => refuse(signal.reason));
    resolvers.set((requestCount += 1), answer);
    worker.postMessage({ id: requestCount, method, path, query, body });
  });
}

/** Keep the files for a visit without a network. */
export const keepFiles = () => navigator.serviceWorker?.register("./sw.js", { scope: "./" });
