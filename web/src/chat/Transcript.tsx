import { useVirtualizer } from '@tanstack/react-virtual';
import { memo, useCallback, useLayoutEffect, useRef, useState } from 'react';
import { Markdown } from '../text/Markdown';
import { Revealed } from '../text/reveal';
import { Icon } from '../ui/Icon';
import { tokens } from '../ui/format';
import type { Block, Chat, TextBlock } from './model';
import { ToolBlock } from './ToolBlock';

/** This close to the end, new text is followed. */
const NEAR_END = 64;

/** The blocks of a conversation. Only those on the screen, and some around it, are in the document. */
export function Transcript({ chat: { blocks, running } }: { chat: Chat }) {
  const scroller = useRef<HTMLDivElement>(null);
  const isFollowing = useRef(true);
  const [isAway, setIsAway] = useState(false);
  const list = useVirtualizer({
    count: blocks.length,
    getScrollElement: () => scroller.current,
    estimateSize: (index) => estimate(blocks[index]),
    getItemKey: (index) => blocks[index]?.key ?? index,
    overscan: 4,
    paddingStart: 24,
    paddingEnd: 24,
    initialRect: { width: 800, height: 800 },
  });
  const total = list.getTotalSize();
  const toEnd = useCallback(() => {
    const element = scroller.current;
    if (element) element.scrollTop = element.scrollHeight;
  }, []);
  useLayoutEffect(() => {
    if (isFollowing.current) toEnd();
  }, [total, blocks, toEnd]);
  const scrolled = () => {
    const element = scroller.current;
    if (!element) return;
    isFollowing.current = element.scrollHeight - element.scrollTop - element.clientHeight < NEAR_END;
    setIsAway(!isFollowing.current);
  };
  return (
    <div className="transcript-frame">
      <div ref={scroller} className="transcript" role="log" aria-label="Messages" aria-live="off" aria-busy={running} tabIndex={0} onScroll={scrolled}>
        <div className="transcript-items" style={{ height: `${total}px` }}>
          {list.getVirtualItems().map((item) => {
            const block = blocks[item.index];
            return (
              block && (
                <div key={item.key} ref={list.measureElement} data-index={item.index} className={`item item-${block.kind}`} style={{ transform: `translateY(${item.start}px)` }}>
                  <BlockView block={block} />
                </div>
              )
            );
          })}
        </div>
      </div>
      {isAway && (
        <button type="button" className="to-end" aria-label="To the latest message" onClick={toEnd}>
          <Icon name="down" />
        </button>
      )}
    </div>
  );
}

function estimate(block: Block | undefined): number {
  if (!block) return 40;
  if (block.kind === 'text') return 28 + Math.ceil(block.text.length / 90) * 24;
  return 44;
}

const BlockView = memo(function BlockView({ block }: { block: Block }) {
  switch (block.kind) {
    case 'user':
      return (
        <article className="message-user" aria-label="You">
          <p>
            <Revealed text={block.text} kind="prose" />
          </p>
          {block.attachments?.map((name) => (
            <span key={name} className="chip">
              <Icon name="file" /> <Revealed text={name} />
            </span>
          ))}
        </article>
      );
    case 'text':
      return (
        <article className={block.open ? 'message is-open' : 'message'} aria-label="Agent">
          <Markdown text={block.text} live={block.open} />
        </article>
      );
    case 'thinking':
      return <Thinking block={block} />;
    case 'call':
      return <ToolBlock call={block} />;
    case 'notice':
      return (
        <p className="notice">
          <Icon name="shield" /> <Revealed text={block.text} />
        </p>
      );
    case 'error':
      return (
        <p className="notice is-error">
          <Icon name="ban" />
          <span>
            <Revealed text={block.text} />
            {block.retryable && ' Trying again.'}
          </span>
        </p>
      );
    case 'end':
      return <End reason={block.reason} input={block.usage.inputTokens} output={block.usage.outputTokens} />;
  }
});

function Thinking({ block }: { block: TextBlock }) {
  const [chosen, setChosen] = useState<boolean>();
  const isShown = chosen ?? block.open;
  return (
    <section className="thinking" aria-label="Thinking">
      <button type="button" className="thinking-head" aria-expanded={isShown} onClick={() => setChosen(!isShown)}>
        <Icon name="brain" /> {block.open ? 'Thinking…' : 'Thought'}
        <span className="fold">
          <Icon name="chevron" size={12} />
        </span>
      </button>
      {isShown && (
        <div className="thinking-text">
          <Revealed text={block.text} kind="prose" />
        </div>
      )}
    </section>
  );
}

const ENDS: Record<string, string> = {
  cancelled: 'Stopped by you',
  iteration_limit: 'Stopped: all steps with tools are used up',
  context_limit: 'Stopped: the conversation no longer fits the context',
  timeout: 'Stopped: the time for a turn is over',
  loop: 'Stopped: the same call was repeated',
  violation: 'Stopped: a call violated its bounds',
  provider_error: 'Stopped: the model could not be reached',
  failed: 'Stopped: the turn could not run',
};

function End({ reason, input, output }: { reason: string; input: number; output: number }) {
  return (
    <p className="turn-end">
      {reason !== 'done' && <strong>{ENDS[reason] ?? `Stopped: ${reason}`} · </strong>}
      {tokens(input)} tokens in, {tokens(output)} out
    </p>
  );
}
