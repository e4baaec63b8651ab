import { useEffect, useState } from 'react';

/** How long a question can be answered. The gate decides when it is over; this only shows it. */
export function Countdown({ expiresAt, timeoutMs }: { expiresAt: string; timeoutMs: number }) {
  const left = () => Math.max(0, Math.min(timeoutMs, Date.parse(expiresAt) - Date.now()));
  const [ms, setMs] = useState(left);
  useEffect(() => {
    const timer = setInterval(() => setMs(left()), 500);
    return () => clearInterval(timer);
  });
  const seconds = Math.ceil(ms / 1000);
  const text = `${Math.floor(seconds / 60)}:${String(seconds % 60).padStart(2, '0')}`;
  return (
    <span className={seconds <= 15 ? 'countdown is-short' : 'countdown'} role="timer" aria-label={`${text} left, then it is refused`} title="Without an answer the call is refused">
      <span className="countdown-bar" aria-hidden="true">
        <span style={{ transform: `scaleX(${timeoutMs > 0 ? ms / timeoutMs : 0})` }} />
      </span>
      {text}
    </span>
  );
}
