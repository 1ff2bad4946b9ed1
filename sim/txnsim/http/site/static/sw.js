// @ts-check
// Keeps the site's files, so that it works without a network after the first visit. `FILES` and `BUILD` are put
// in front by `txnsim site build`: each file and its digest, and what this build is called.

const root = new URL("./", location.href).href;
const NAME = `txnsim ${root} ${BUILD}`; // sites below other paths of the host have their own

addEventListener("install", (event) => {
  event.waitUntil((async () => {
    const cache = await caches.open(NAME);
    const all = Object.entries(FILES).map(([name, integrity]) => new Request(root + name, { integrity, cache: "no-cache" }));
    await cache.addAll(all);
    await skipWaiting();
  })());
});

addEventListener("activate", (event) => {
  event.waitUntil((async () => {
    for (const one of await caches.keys()) if (one.startsWith(`txnsim ${root} `) && one !== NAME) await caches.delete(one);
    await clients.claim();
  })());
});

addEventListener("fetch", (event) => {
  const { method, mode, url } = event.request;
  const name = url.split(/[?#]/)[0].replace(root, "") || "index.html";
  if (method !== "GET" || !(name in FILES)) return;
  event.respondWith((async () => {
    const kept = await (await caches.open(NAME)).match(root + (mode === "navigate" ? "index.html" : name));
    return kept ?? fetch(event.request);
  })());
});
