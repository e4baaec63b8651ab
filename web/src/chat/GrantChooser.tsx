import { useEffect, useRef } from 'react';
import type { GrantOffer } from '../api/types';
import { Revealed } from '../text/reveal';
import { Icon } from '../ui/Icon';

const LASTS: Record<string, string> = {
  session: 'This session',
  day: 'A day',
  week: 'A week',
  month: '30 days',
  workspace: 'Until revoked',
};

/** The end of an offer's id says how long it lasts. */
const duration = (offer: GrantOffer) => offer.id.split('-').pop() ?? offer.lasts;

interface Props {
  offers: GrantOffer[];
  chosen: GrantOffer | undefined;
  choose: (offer: GrantOffer) => void;
}

/** Lasting grants: what one would cover and for how long, and the offer of the gate, word by word, before it can be given. */
export function GrantChooser({ offers, chosen, choose }: Props) {
  const box = useRef<HTMLDivElement>(null);
  // The choices may begin below what is visible of a long call.
  useEffect(() => {
    // Returns a promise since Chromium 156, and React takes what an effect returns for its cleanup.
    box.current?.scrollIntoView({ block: 'nearest' });
  }, [chosen]);
  const coverages = [...new Set(offers.map((offer) => offer.covers))];
  const durations = offers.filter((offer) => offer.covers === (chosen?.covers ?? coverages[0]));
  const cover = (covers: string) => {
    const same = offers.filter((offer) => offer.covers === covers);
    const next = same.find((offer) => chosen && duration(offer) === duration(chosen)) ?? same[0];
    if (next) choose(next);
  };
  return (
    <div ref={box} className="gate-choices">
      <fieldset>
        <legend>From now on, do not ask about</legend>
        {coverages.map((covers, index) => (
          <label key={covers}>
            <input type="radio" name="covers" autoFocus={index === 0} checked={chosen?.covers === covers} onChange={() => cover(covers)} />
            <span>
              <Revealed text={covers} />
            </span>
          </label>
        ))}
      </fieldset>
      {chosen && (
        <fieldset className="gate-durations">
          <legend>For how long</legend>
          {durations.map((offer) => (
            <label key={offer.id}>
              <input type="radio" name="lasts" checked={offer.id === chosen.id} onChange={() => choose(offer)} />
              <span>{LASTS[duration(offer)] ?? offer.lasts}</span>
            </label>
          ))}
        </fieldset>
      )}
      <p className="gate-grant" role="status">
        <Icon name="key" />
        <span>
          {chosen ? (
            <>
              Grants: <strong>{<Revealed text={chosen.text ?? chosen.covers} />}</strong>.{' '}
            </>
          ) : null}
          A grant gives no rights; it saves the question. Settings lists and revokes it.
        </span>
      </p>
    </div>
  );
}
