// @ts-check
// The service worker: it keeps the site's files, so that the site works without a network after the first visit.
// `txnsim site build` puts constants in front: `FILES`, file -> digest; `PACKED`, file -> the packed file that is sent
// for it; `BUILD`, the id of the build. Packed files are kept unpacked: browsers cache compiled WebAssembly for a file
// from a cache, but not for one that a script has unpacked.

const root = new URL("./", location.href).href;
const NAME = `txnsim ${root} ${BUILD}`; // sites at other paths of the same host have their own
const TYPES = { wasm: "application/wasm", zip: "application/zip" };
const fileRequest = (name) => new Request(root + name, { integrity: FILES[name], cache: "no-cache" });

async function keepUnpacked(cache, name) {
  const answer = await fetch(fileRequest(PACKED[name]));
  if (!answer.ok) throw new Error(`${PACKED[name]}: ${answer.status}`);
  const plain = answer.body.pipeThrough(new DecompressionStream("gzip"));
  await cache.put(`${root}${name}?${encodeURIComponent(FILES[PACKED[name]])}`, new Response(plain, { headers: { "Content-Type": TYPES[name.split(".").at(-1)] } }));
}

addEventListener("install", (event) => {
  event.waitUntil((async () => {
    const cache = await caches.open(NAME);
    const packed = Object.values(PACKED);
    await cache.addAll(Object.keys(FILES).filter((name) => !packed.includes(name)).map(fileRequest));
    await Promise.all(Object.keys(PACKED).map((name) => keepUnpacked(cache, name)));
    await skipWaiting();
  })());
});

addEventListener("activate", (event) => {
  event.waitUntil((async () => {
    for (const cacheName of await caches.keys()) if (cacheName.startsWith(`txnsim ${root} `) && cacheName !== NAME) await caches.delete(cacheName);
    await clients.claim();
  })());
});

addEventListener("fetch", (event) => {
  const { method, mode, url } = event.request;
  const name = url.split(/[?#]/)[0].replace(root, "") || "index.html";
  if (method !== "GET" || !(name in FILES || name in PACKED)) return;
  event.respondWith((async () => {
    const cachedUrl = name in PACKED ? url : root + (mode === "navigate" ? "index.html" : name);
    const cachedAnswer = await (await caches.open(NAME)).match(cachedUrl);
    return cachedAnswer ?? fetch(event.request);
  })());
});
