import { StrictMode } from 'react';
import { createRoot } from 'react-dom/client';
import { App } from './app/App';
import { ErrorBoundary } from './app/ErrorBoundary';
import { register } from './app/notify';
import { takeToken } from './app/route';
import { app } from './app/store';
import { applyTheme } from './app/theme';
import './styles/tokens.css';
import './styles/base.css';
import './styles/shell.css';
import './styles/chat.css';
import './styles/gate.css';
import './styles/code.css';
import './styles/views.css';

applyTheme();
const token = takeToken();
// The printed address may also be pasted into a tab that shows the page already: that changes the fragment alone. Registered before the routes.
addEventListener('hashchange', () => {
  const pasted = takeToken();
  if (pasted) void app.start(pasted).catch(() => undefined);
});
const root = document.getElementById('root');
if (root) {
  createRoot(root).render(
    <StrictMode>
      <ErrorBoundary>
        <App />
      </ErrorBoundary>
    </StrictMode>,
  );
}
// A refused token shows the login, which says what to do.
void app.start(token).catch(() => undefined);
void register().catch(() => undefined);
