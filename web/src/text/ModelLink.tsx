import { useRef, type ReactNode } from 'react';
import { CopyButton } from '../ui/CopyButton';
import { Revealed, revealed } from './reveal';

/** The address if a browser may open it: http and https, without user names. */
export function openable(address: string): URL | undefined {
  if (!URL.canParse(address)) return undefined;
  const url = new URL(address);
  const isWeb = url.protocol === 'https:' || url.protocol === 'http:';
  return isWeb && !url.username && !url.password ? url : undefined;
}

/**
 * A link in a model's text: the text, and where it leads. Choosing it shows the whole address; only then can it be opened. What a model knows can
 * leave in an address, so nothing is opened or prefetched by itself.
 */
export function ModelLink({ address, children }: { address: string; children: ReactNode }) {
  const dialog = useRef<HTMLDialogElement>(null);
  const url = openable(address);
  const place = url ? url.host : 'not a web address';
  return (
    <>
      <button type="button" className="model-link" onClick={() => dialog.current?.showModal()}>
        <span className="model-link-text">{children}</span>
        <span className="model-link-host">
          <Revealed text={place} />
        </span>
      </button>
      <dialog ref={dialog} className="dialog link-dialog" aria-label="Address in the model's text">
        <h2>An address in the model's text</h2>
        {url ? (
          <p className="muted">
            Opening it sends everything in it to <code>{revealed(url.host)}</code>.
          </p>
        ) : (
          <p className="muted">It is no address of the web, so it cannot be opened from here.</p>
        )}
        <p className="address">
          <Revealed text={address} />
        </p>
        <div className="dialog-actions">
          <button type="button" className="button" onClick={() => dialog.current?.close()}>
            Close
          </button>
          <CopyButton text={address} label="Copy address" className="button" />
          {url && (
            <a className="button" href={url.href} target="_blank" rel="noopener noreferrer nofollow">
              Open in a new tab
            </a>
          )}
        </div>
      </dialog>
    </>
  );
}
