/**
 * Markdown of a model as React elements. There is no HTML in it: tags are text, pictures are text, and a link is a button that shows its whole address
 * before anything is opened. Nothing here loads anything.
 */
import MarkdownIt, { type Token } from 'markdown-it';
import { Fragment, memo, type ReactNode } from 'react';
import { CopyButton } from '../ui/CopyButton';
import { Highlighted } from './Code';
import { languageOf } from './highlight';
import { ModelLink } from './ModelLink';
import { Revealed } from './reveal';

const parser = new MarkdownIt({ html: false, linkify: false, typographer: false });
parser.options.maxNesting = 24;
// Addresses are shown as they are, so none needs to be hidden here; what may be opened is decided by `ModelLink`.
parser.validateLink = () => true;

/** More markup than a person writes into one block. Some of it takes a parser quadratic time, so such a block is shown as it was written. */
const MAX_DELIMITERS = 1200;

/** Code that still streams and is longer than this gets its colours when it is complete. */
const MAX_LIVE_CODE = 1500;

interface Props {
  text: string;
  /** More of it is coming. */
  live?: boolean;
}

export const Markdown = memo(function Markdown({ text, live = false }: Props) {
  if (delimiters(text) > MAX_DELIMITERS) {
    return (
      <div className="prose prose-plain">
        <Revealed text={text} kind="prose" />
      </div>
    );
  }
  return <div className="prose">{tree(parser.parse(text, {})).map((node, key) => block(node, key, live && text.length > MAX_LIVE_CODE))}</div>;
});

/** Characters that may be markup, outside of fenced code. */
function delimiters(text: string): number {
  let [count, isFenced] = [0, false];
  for (const line of text.split('\n')) {
    if (/^ {0,3}(```|~~~)/.test(line)) isFenced = !isFenced;
    else if (!isFenced) count += line.replace(/[^[\]()*_`~|!<>&\\]/g, '').length;
  }
  return count;
}

/** A node of the tree that the flat tokens describe. */
interface Node {
  token: Token;
  children: Node[];
}

function tree(tokens: Token[]): Node[] {
  const root: Node[] = [];
  const open: Node[] = [];
  for (const token of tokens) {
    const siblings = open.at(-1)?.children ?? root;
    if (token.nesting === -1) open.pop();
    else {
      const node: Node = { token, children: [] };
      siblings.push(node);
      if (token.nesting === 1) open.push(node);
    }
  }
  return root;
}

function block({ token, children }: Node, key: number, isPlain: boolean): ReactNode {
  const inner = () => children.map((child, index) => block(child, index, isPlain));
  switch (token.type) {
    case 'inline':
      return <Fragment key={key}>{inline(tree(token.children ?? []))}</Fragment>;
    case 'paragraph_open':
      return token.hidden ? <Fragment key={key}>{inner()}</Fragment> : <p key={key}>{inner()}</p>;
    case 'heading_open':
      return heading(token.tag, inner(), key);
    case 'blockquote_open':
      return <blockquote key={key}>{inner()}</blockquote>;
    case 'bullet_list_open':
      return <ul key={key}>{inner()}</ul>;
    case 'ordered_list_open':
      return (
        <ol key={key} start={Number(token.attrGet('start') ?? 1)}>
          {inner()}
        </ol>
      );
    case 'list_item_open':
      return <li key={key}>{inner()}</li>;
    case 'hr':
      return <hr key={key} />;
    case 'fence':
    case 'code_block':
      return <CodeBlock key={key} text={token.content} name={token.info.trim().split(/\s/)[0] ?? ''} isPlain={isPlain} />;
    case 'table_open':
      return (
        <div key={key} className="table-scroll" role="region" aria-label="Table" tabIndex={0}>
          <table>{inner()}</table>
        </div>
      );
    case 'thead_open':
      return <thead key={key}>{inner()}</thead>;
    case 'tbody_open':
      return <tbody key={key}>{inner()}</tbody>;
    case 'tr_open':
      return <tr key={key}>{inner()}</tr>;
    case 'th_open':
      return <th key={key}>{inner()}</th>;
    case 'td_open':
      return <td key={key}>{inner()}</td>;
    default:
      return <Revealed key={key} text={token.content} kind="prose" />;
  }
}

/** Headings of a model are below those of the page. */
function heading(tag: string, inner: ReactNode, key: number): ReactNode {
  const level = Math.min(6, Number(tag.slice(1)) + 2);
  const Tag = `h${level}` as 'h3';
  return (
    <Tag key={key} className={`prose-${tag}`}>
      {inner}
    </Tag>
  );
}

function inline(nodes: Node[]): ReactNode[] {
  return nodes.map(({ token, children }, key) => {
    const inner = () => inline(children);
    switch (token.type) {
      case 'text':
      case 'text_special':
      case 'html_inline':
        return <Revealed key={key} text={token.content} kind="prose" />;
      case 'code_inline':
        return (
          <code key={key}>
            <Revealed text={token.content} />
          </code>
        );
      case 'strong_open':
        return <strong key={key}>{inner()}</strong>;
      case 'em_open':
        return <em key={key}>{inner()}</em>;
      case 's_open':
        return <s key={key}>{inner()}</s>;
      case 'softbreak':
        return '\n';
      case 'hardbreak':
        return <br key={key} />;
      case 'link_open':
        return (
          <ModelLink key={key} address={String(token.attrGet('href') ?? '')}>
            {inner()}
          </ModelLink>
        );
      case 'image':
        return (
          <ModelLink key={key} address={String(token.attrGet('src') ?? '')}>
            picture: <Revealed text={token.content} kind="prose" />
          </ModelLink>
        );
      default:
        return <Revealed key={key} text={token.content} kind="prose" />;
    }
  });
}

function CodeBlock({ text, name, isPlain }: { text: string; name: string; isPlain: boolean }) {
  const code = text.endsWith('\n') ? text.slice(0, -1) : text;
  return (
    <figure className="code-block">
      <figcaption>
        <span>
          <Revealed text={name.slice(0, 32) || 'text'} />
        </span>
        <CopyButton text={code} />
      </figcaption>
      <pre tabIndex={0}>
        <code>
          <Highlighted text={code} language={isPlain ? undefined : languageOf(name)} />
        </code>
      </pre>
    </figure>
  );
}
