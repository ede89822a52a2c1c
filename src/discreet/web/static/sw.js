// Keeps a copy of every file of this site, so that the page opens without a network. It requests nothing else.
const OWN = `discreet-${new URL("./", self.location).pathname}-`; // another site of the same host has its own copy
const NAME = OWN + "VERSION";
const FILES = ["FILES"];

self.addEventListener("install", (event) => {
  event.waitUntil(
    caches
      .open(NAME)
      .then((cache) => cache.addAll(["./", ...FILES]))
      .then(() => self.skipWaiting()),
  );
});

self.addEventListener("activate", (event) => {
  const forget = (names) => Promise.all(names.filter(isOld).map((name) => caches.delete(name)));
  event.waitUntil(
    caches
      .keys()
      .then(forget)
      .then(() => self.clients.claim()),
  );
});

const isOld = (name) => name.startsWith(OWN) && name !== NAME;

// Network first, so that a new model is seen at once; the copy without a network.
self.addEventListener("fetch", (event) => {
  if (event.request.method !== "GET") return;
  event.respondWith(
    fetch(event.request).catch(
      async () =>
        (await caches.match(event.request, { cacheName: NAME, ignoreSearch: true })) ?? Response.error(),
    ),
  );
});
