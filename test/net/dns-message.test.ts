import assert from 'node:assert/strict';
import { AUTHORITATIVE_ANSWER, TRUNCATED_RESPONSE, encode } from 'dns-packet';
import fc from 'fast-check';
import { readReply, writeQuery } from '../../src/net/dns-message.ts';

const query = { id: 4711, name: 'dest.test', type: 'MX' as const };

describe('base/dns-message', () => {
  it('never throws on any bytes, nor takes them for an answer to another question', () => {
    const kinds = new Set(['foreign', 'trouble', 'truncated', 'no_data', 'no_domain', 'records', 'alias']);
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 300 }), (bytes) => {
        assert.ok(kinds.has(readReply(Buffer.from(bytes), query).kind));
      }),
    );
  });

  it('asks again over TCP where an answer was cut in the middle of a record', () => {
    const answer = encode({
      type: 'response',
      id: query.id,
      flags: TRUNCATED_RESPONSE,
      questions: [{ type: 'MX', name: query.name }],
      answers: [{ type: 'MX', name: query.name, ttl: 5, data: { preference: 1, exchange: 'mx.dest.test' } }],
    });
    for (let length = 12; length <= answer.length; length++) {
      const reply = readReply(answer.subarray(0, length), query);
      assert.equal(reply.kind, 'truncated', `cut after ${String(length)} octets`);
    }
  });

  it('never throws on a damaged answer', () => {
    const answer = encode({
      type: 'response',
      id: query.id,
      questions: [{ type: 'MX', name: query.name }],
      answers: [
        { type: 'CNAME', name: query.name, ttl: 5, data: 'other.test' },
        { type: 'MX', name: 'other.test', ttl: 5, data: { preference: 5, exchange: 'mx.other.test' } },
      ],
    });
    fc.assert(
      fc.property(fc.nat(answer.length - 3), fc.nat(255), fc.nat(answer.length), (at, byte, length) => {
        const damaged = Buffer.from(answer.subarray(0, length));
        if (at + 2 < damaged.length) damaged[at + 2] = byte;
        readReply(damaged, query);
      }),
    );
  });

  it('counts a TTL with the top bit as zero, and passes over records of other names', () => {
    const bytes = encode({
      type: 'response',
      id: query.id,
      questions: [{ type: 'MX', name: 'DEST.test' }],
      answers: [
        { type: 'MX', name: 'dest.TEST', ttl: 0xffffffff, data: { preference: 5, exchange: 'mx.test' } },
        { type: 'MX', name: 'victim.test', ttl: 9, data: { preference: 1, exchange: 'evil.test' } },
      ],
    });
    assert.deepEqual(readReply(bytes, query), {
      kind: 'records',
      records: [{ preference: 5, exchange: 'mx.test' }],
      name: 'dest.test',
      ttl: 0,
      secure: false,
    });
  });

  for (const [reason, type, flags, kind] of [
    ['other servers are named instead', 'NS', 0, 'trouble'],
    ['the server that has the zone names its servers as well', 'NS', AUTHORITATIVE_ANSWER, 'no_data'],
    ['nothing is said', null, 0, 'no_data'],
  ] as const)
    it(`reads a reply without records as ${kind} where ${reason}`, () => {
      const bytes = encode({
        type: 'response',
        id: query.id,
        flags,
        questions: [{ name: query.name, type: query.type }],
        authorities: type === null ? [] : [{ type, name: 'test', ttl: 60, data: 'ns.elsewhere.test' }],
      });
      assert.equal(readReply(bytes, query).kind, kind);
    });

  it('does not take a query for its own answer', () => {
    assert.equal(readReply(writeQuery(query), query).kind, 'foreign');
  });
});
