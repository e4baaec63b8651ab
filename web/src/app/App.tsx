import { lazy, Suspense, useEffect, useSyncExternalStore } from 'react';
import { Conversation } from '../chat/Conversation';
import { Mark } from '../ui/Icon';
import { FirstRun } from '../views/FirstRun';
import { Login } from '../views/Login';
import { Navigation, SessionList } from './Sidebar';
import { useRoute, type Route } from './route';
import { app } from './store';

const Changes = lazy(() => import('../views/Changes'));
const Tools = lazy(() => import('../views/Tools'));
const Audit = lazy(() => import('../views/Audit'));
const Settings = lazy(() => import('../views/Settings'));
const Traffic = lazy(() => import('../views/Traffic'));

const TITLES = { sessions: 'Sessions', changes: 'Changes', tools: 'Tools', audit: 'Audit', settings: 'Settings', traffic: 'Traffic' } as const;

export function App() {
  const { login, approvals } = useSyncExternalStore(app.subscribe, app.snapshot);
  const route = useRoute();
  useEffect(() => {
    const waiting = approvals.length > 0 ? `(${approvals.length}) ` : '';
    document.title = `${waiting}${TITLES[route.view]} · Toolgate`;
  }, [approvals.length, route.view]);
  if (login === 'unknown') return <Splash />;
  if (login !== 'in') return <Login state={login} />;
  const isConversation = route.view === 'sessions' && route.item !== undefined;
  return (
    <div className={isConversation ? 'shell is-conversation' : 'shell'}>
      <a className="skip" href="#main" onClick={(event) => skip(event)}>
        Skip to the content
      </a>
      <aside className="sidebar">
        <div className="brand">
          <Mark /> <span>Toolgate</span>
        </div>
        <Navigation view={route.view} />
        <div className="sidebar-sessions">
          <SessionList current={route.view === 'sessions' ? route.item : undefined} />
        </div>
      </aside>
      <main id="main" tabIndex={-1}>
        <Suspense fallback={<p className="loading">Loading…</p>}>
          <Content route={route} />
        </Suspense>
      </main>
    </div>
  );
}

/** The address is the route, so the link moves the focus itself. */
function skip(event: { preventDefault: () => void }) {
  event.preventDefault();
  document.getElementById('main')?.focus();
}

function Content({ route: { view, item } }: { route: Route }) {
  switch (view) {
    case 'changes':
      return <Changes key={item ?? ''} session={item} />;
    case 'tools':
      return <Tools />;
    case 'audit':
      return <Audit call={item} />;
    case 'traffic':
      return <Traffic />;
    case 'settings':
      return <Settings />;
    default:
      return item ? <Conversation key={item} id={item} /> : <FirstRun />;
  }
}

function Splash() {
  return (
    <div className="splash" role="status">
      <Mark size={40} />
      <span className="visually-hidden">Loading</span>
    </div>
  );
}
