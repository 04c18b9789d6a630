import assert from 'node:assert/strict';
import { allEventTypes, eventTypes } from '../../src/events/event.ts';
import { chosenTypes, validSecrets, wants, type Choice } from '../../src/webhooks/endpoint.ts';

const usual: Choice = {
  events: new Set(eventTypes),
  streams: [],
  domains: [],
  addresses: [],
  include_machine_events: false,
};
const event = { type: 'opened', machine: 0, stream: 'transactional', from_address: 'hi@acme.test', detail_json: '{}' };
/** A mail that came to two addresses of acme.test. */
const received = {
  type: 'received',
  stream: '',
  from_address: '',
  detail_json: JSON.stringify({ domain: 'acme.test', envelope: { to: ['sales@acme.test', 'Reply+17@acme.test'] } }),
};
const wanted = { events: new Set(['received']) };

describe('webhooks/endpoint', () => {
  for (const [choice, what, isWanted, reason] of [
    [{}, {}, true, 'no filter'],
    [{}, { type: 'deferred' }, false, 'an opt-in kind'],
    [{ events: new Set(['deferred']) }, { type: 'deferred' }, true, 'asked for by name'],
    [{ events: new Set(['sent']) }, {}, false, 'another kind'],
    [{}, { machine: 1 }, false, 'by a machine'],
    [{ include_machine_events: true }, { machine: 1 }, true, 'by a machine, and asked for'],
    [{ streams: ['broadcast'] }, {}, false, 'another stream'],
    [{ streams: ['broadcast', 'transactional'] }, {}, true, 'one of the streams'],
    [{ domains: ['acme.test'] }, {}, true, 'the domain'],
    [{ domains: ['cme.test'] }, {}, false, 'the end of a domain'],
    [{ domains: ['acme.test'] }, { from_address: '"a@other.test"@acme.test' }, true, 'an @ in the local part'],
    [{ domains: ['acme.test'] }, { from_address: 'hi@sub.acme.test' }, false, 'a domain below it'],
    [{ domains: ['acme.test'], streams: ['broadcast'] }, {}, false, 'both filters hold'],
    [wanted, received, true, 'received mail'],
    [{ ...wanted, domains: ['acme.test'] }, received, true, 'received mail of the domain'],
    [{ ...wanted, domains: ['shop.test'] }, received, false, 'received mail of another domain'],
    [{ ...wanted, addresses: ['reply+*@acme.test'] }, received, true, 'one of the addresses'],
    [{ ...wanted, addresses: ['*@acme.test'] }, received, true, 'any address of a domain'],
    [{ ...wanted, addresses: ['reply@acme.test', '*@sub.acme.test'] }, received, false, 'other addresses'],
    [{ ...wanted, streams: ['broadcast'] }, received, false, 'received mail of another stream'],
  ] as const) {
    it(`${isWanted ? 'wants' : 'leaves'} ${reason}`, () => {
      assert.equal(wants({ ...usual, ...choice }, { ...event, ...what }), isWanted);
    });
  }

  it('puts kinds in the order of the contract, each once, and reads * as the six', () => {
    assert.deepEqual(chosenTypes(['clicked', 'sent', 'clicked'], allEventTypes), ['sent', 'clicked']);
    assert.deepEqual(chosenTypes(['*'], allEventTypes), [...eventTypes]);
    assert.deepEqual(chosenTypes(['deferred', '*'], allEventTypes), [...eventTypes, 'deferred']);
  });

  it('signs with a replaced secret up to its end', () => {
    const [a, b] = [Buffer.from('a'), Buffer.from('b')];
    const secrets = [
      { secret: a, until: null },
      { secret: b, until: 1000 },
    ];
    assert.deepEqual(validSecrets(secrets, 999), [a, b]);
    assert.deepEqual(validSecrets(secrets, 1000), [a]);
  });
});
