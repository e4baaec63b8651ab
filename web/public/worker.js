// The service worker of the page. It shows notifications, which phones allow only from here, and focuses the page when one is chosen. It caches and
// intercepts nothing: every file and answer comes from the gate.
self.addEventListener('install', () => self.skipWaiting());
self.addEventListener('activate', (event) => event.waitUntil(self.clients.claim()));
self.addEventListener('notificationclick', (event) => {
  event.notification.close();
  const session = String(event.notification.data?.session ?? '');
  const address = /^[A-Za-z0-9_-]{1,64}$/.test(session) ? `/#/s/${session}` : '/';
  event.waitUntil(
    self.clients.matchAll({ type: 'window' }).then((pages) => {
      const page = pages[0];
      if (!page) return self.clients.openWindow(address);
      page.postMessage({ open: address });
      return page.focus();
    }),
  );
});
