// @ts-check
// The service worker: it keeps the site's files, so that the site works without a network after the first visit.
// `txnsim site build` puts constants in front: `FILES`, file -> digest; `PACKED`, file -> the packed file that is sent
// for it; `BUILD`, the id of the build. Packed files are kept unpacked: browsers cache compiled WebAssembly for a file
// from a cache, but not for one that a script has unpacked.

const siteRoot = new URL("./", location.href).href;
const CACHE_NAME = `txnsim ${siteRoot} ${BUILD}`; // sites at other paths of the same host have their own
const CONTENT_TYPES = { wasm: "application/wasm", zip: "application/zip" };
const fileRequest = (name) => new Request(siteRoot + name, { integrity: FILES[name], cache: "no-cache" });

async function keepUnpacked(cache, fileName) {
  const response = await fetch(fileRequest(PACKED[fileName]));
  if (!response.ok) throw new Error(`${PACKED[fileName]}: ${response.status}`);
  const unpackedContent = response.body.pipeThrough(new DecompressionStream("gzip"));
  await cache.put(`${siteRoot}${fileName}?${encodeURIComponent(FILES[PACKED[fileName]])}`, new Response(unpackedContent, { headers: { "Content-Type": CONTENT_TYPES[fileName.split(".").at(-1)] } }));
}

addEventListener("install", (event) => {
  event.waitUntil((async () => {
    const cache = await caches.open(CACHE_NAME);
    const packedNames = Object.values(PACKED);
    await cache.addAll(Object.keys(FILES).filter((name) => !packedNames.includes(name)).map(fileRequest));
    await Promise.all(Object.keys(PACKED).map((name) => keepUnpacked(cache, name)));
    await skipWaiting();
  })());
});

addEventListener("activate", (event) => {
  event.waitUntil((async () => {
    for (const cacheName of await caches.keys()) if (cacheName.startsWith(`txnsim ${siteRoot} `) && cacheName !== CACHE_NAME) await caches.delete(cacheName);
    await clients.claim();
  })());
});

addEventListener("fetch", (event) => {
  const { method, mode, url } = event.request;
  const fileName = url.split(/[?#]/)[0].replace(siteRoot, "") || "index.html";
  if (method !== "GET" || !(fileName in FILES || fileName in PACKED)) return;
  event.respondWith((async () => {
    const cachedUrl = fileName in PACKED ? url : siteRoot + (mode === "navigate" ? "index.html" : fileName);
    const cachedAnswer = await (await caches.open(CACHE_NAME)).match(cachedUrl);
    return cachedAnswer ?? fetch(event.request);
  })());
});
