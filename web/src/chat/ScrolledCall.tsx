import { useEffect, useRef, useState, type ReactNode } from 'react';
import { Icon } from '../ui/Icon';

/** The whole call, scrolled where it is long; what is below is said, so that a cut call does not look like a whole one. */
export function ScrolledCall({ children }: { children: ReactNode }) {
  const box = useRef<HTMLDivElement>(null);
  const [isMore, setIsMore] = useState(false);
  const look = () => {
    const element = box.current;
    if (element) setIsMore(element.scrollHeight - element.clientHeight - element.scrollTop > 8);
  };
  useEffect(() => {
    const observer = new ResizeObserver(look);
    const element = box.current;
    if (element) [element, ...element.children].forEach((one) => observer.observe(one));
    look();
    return () => observer.disconnect();
  }, [children]);
  return (
    <div className="gate-call">
      <div ref={box} className="gate-scroll" tabIndex={0} role="region" aria-label="The whole call" onScroll={look}>
        {children}
      </div>
      {isMore && (
        <button type="button" className="gate-below" tabIndex={-1} onClick={() => box.current?.scrollBy({ top: box.current.clientHeight - 40 })}>
          <Icon name="down" size={12} /> The call goes on
        </button>
      )}
    </div>
  );
}
