import assert from 'node:assert/strict';
import type { SmtpReply } from '../../../src/mail/smtp-reply.ts';
import { createJudge } from '../../../src/messages/delivery/classify.ts';
import type { RetryHint } from '../../../src/messages/delivery/retry.ts';
import { noTimings } from '../../../src/mta/connection/phases.ts';
import type { OpenResult } from '../../../src/mta/connection/open-session.ts';
import {
  cannotBuild,
  discarded,
  outcomeOfDial,
  outcomeOfRoute,
  outcomeOfTransfer,
  type EndedTransfer,
  waitForUs,
  type AttemptFrame,
} from '../../../src/mta/attempt/outcome.ts';

const frame: AttemptFrame = { startedAt: 1000, endedAt: 1300, retryAt: 61_000, viaRelay: false };
const place = { mx: 'mx1.dest.test', ip: '192.0.2.25', source: null };
const reply = (code: number, text: string, enhanced: string | null = null): SmtpReply => ({
  code,
  enhanced,
  lines: [text],
  text,
});
const common = { timings: { ...noTimings(), connect: 1.234_56 }, tls: null, earlier: 0 };
const nobody = { refusedRecipients: [] };
const failedDial = (
  changes: Partial<Extract<OpenResult, { kind: 'failed' }>>,
): Extract<OpenResult, { kind: 'failed' }> => ({
  kind: 'failed',
  phase: 'connect',
  reply: null,
  text: 'connection refused',
  tlsBroken: false,
  tlsUnsatisfied: false,
  tls: null,
  timings: noTimings(),
  ip: '192.0.2.25',
  ...changes,
});

describe('mta/attempt/outcome', () => {
  it('keeps the mail where a smarthost wants a login or TLS first, at whatever command', () => {
    for (const [viaRelay, phase, code, kind] of [
      [true, 'mail', 530, 'deferred'],
      [true, 'rcpt', 530, 'deferred'],
      [true, 'mail', 550, 'refused'],
      [false, 'mail', 530, 'refused'],
    ] as const) {
      const refused = reply(code, '5.7.0 Authentication required', '5.7.0');
      const outcome = outcomeOfTransfer({ ...frame, viaRelay }, place, {
        ...common,
        ...nobody,
        kind: 'refused',
        phase,
        reply: refused,
      });
      assert.equal(outcome.kind, kind);
      if (outcome.kind !== 'deferred') continue;
      assert.deepEqual(outcome.verdict, { class: 'soft', reason: 'auth_required' });
      assert.equal(outcome.grounds?.about, 'sender');
    }
  });

  it('keeps the mail where a host demands TLS and this connection had none', () => {
    const tls = { protocol: 'TLSv1.3', cipher: 'x', verified: true, policy: 'opportunistic', fault: null } as const;
    for (const [code, text, session, kind] of [
      [530, '5.7.0 Must issue a STARTTLS command first', null, 'deferred'],
      [550, '5.7.10 Encryption needed: this host takes mail over TLS only', null, 'deferred'],
      [530, '5.7.0 Must issue a STARTTLS command first', tls, 'refused'],
      [550, '5.7.1 we do not want your mail', null, 'refused'],
    ] as const) {
      const refused = reply(code, text, text.slice(0, text.indexOf(' ')));
      const transfer = { ...common, ...nobody, kind: 'refused', phase: 'mail', reply: refused, tls: session } as const;
      const outcome = outcomeOfTransfer(frame, place, transfer);
      assert.equal(outcome.kind, kind, text);
      if (outcome.kind === 'deferred') assert.deepEqual(outcome.verdict, { class: 'soft', reason: 'tls_required' });
    }
  });

  describe('of a transfer', () => {
    const rows: readonly (readonly [reason: string, transfer: EndedTransfer, kind: string, verdict: string | null])[] =
      [
        ['taken', { ...common, ...nobody, kind: 'accepted', reply: reply(250, '2.0.0 ok', '2.0.0') }, 'accepted', null],
        [
          'an unknown mailbox',
          { ...common, ...nobody, kind: 'refused', phase: 'rcpt', reply: reply(550, '5.1.1 unknown', '5.1.1') },
          'refused',
          'hard mailbox_not_found',
        ],
        [
          'the same at MAIL is about us',
          { ...common, ...nobody, kind: 'refused', phase: 'mail', reply: reply(550, '5.1.1 unknown', '5.1.1') },
          'refused',
          'block policy',
        ],
        [
          'greylisting',
          { ...common, ...nobody, kind: 'refused', phase: 'rcpt', reply: reply(451, '4.7.1 greylisted', '4.7.1') },
          'deferred',
          'soft rate_limited',
        ],
        [
          'a closing server',
          { ...common, ...nobody, kind: 'refused', phase: 'data', reply: reply(421, '4.3.2 bye', '4.3.2') },
          'deferred',
          'soft other',
        ],
        [
          'broken before the dot',
          { ...common, kind: 'broken', phase: 'block', text: 'reset', reply: null, uncertain: false },
          'deferred',
          'soft network',
        ],
        [
          'broken after the dot',
          { ...common, kind: 'broken', phase: 'dot', text: 'reset', reply: null, uncertain: true },
          'uncertain',
          null,
        ],
        [
          'too large',
          { ...common, kind: 'unsupported', what: 'size', limit: 1000 },
          'refused',
          'soft message_too_large',
        ],
        [
          'not beyond ASCII',
          { ...common, kind: 'unsupported', what: 'smtputf8', limit: null },
          'refused',
          'undetermined other',
        ],
      ];
    for (const [reason, transfer, kind, verdict] of rows) {
      it(`${reason}: ${kind}`, () => {
        const outcome = outcomeOfTransfer(frame, place, transfer);
        assert.equal(outcome.kind, kind);
        const said = 'verdict' in outcome ? `${outcome.verdict.class} ${outcome.verdict.reason}` : null;
        assert.equal(said, verdict);
        if ('retryAt' in outcome) assert.equal(outcome.retryAt, 61_000);
        const { startedAt, endedAt, mx, ip } = outcome.facts;
        assert.deepEqual(
          [startedAt, endedAt, mx, ip, outcome.facts.timings['connect']],
          [1000, 1300, 'mx1.dest.test', '192.0.2.25', 1.2],
        );
      });
    }

    it('takes 552 for 452 where a recipient is one too many', () => {
      for (const [phase, text, kind] of [
        ['rcpt', '5.5.3 too many recipients', 'deferred'],
        ['rcpt', 'Too many recipients', 'deferred'],
        ['rcpt', '5.2.2 mailbox full', 'refused'],
        ['dot', '5.5.3 too many recipients', 'refused'],
      ] as const) {
        const refused = reply(552, text, /^5\S*/.exec(text)?.[0] ?? null);
        const outcome = outcomeOfTransfer(frame, place, {
          ...common,
          ...nobody,
          kind: 'refused',
          phase,
          reply: refused,
        });
        assert.deepEqual([outcome.kind, outcome.facts.smtpCode], [kind, 552], text);
        assert.ok(outcome.kind !== 'deferred' || outcome.verdict.class === 'soft');
      }
    });

    it('says by which rule a refusal was read, by the rules it is given', () => {
      const transfer: EndedTransfer = {
        ...common,
        ...nobody,
        kind: 'refused',
        phase: 'rcpt',
        reply: reply(550, '5.7.25 no', '5.7.25'),
      };
      const shipped = outcomeOfTransfer(frame, place, transfer);
      assert.deepEqual('grounds' in shipped && shipped.grounds, {
        rule: 'enhanced:host-name-code',
        infrastructure: true,
        greylisting: false,
        about: 'sender',
      });
      const judge = createJudge([{ name: 'own', class: 'soft', reason: 'other', codes: [550] }]);
      const own = outcomeOfTransfer({ ...frame, judge }, place, transfer);
      assert.deepEqual('verdict' in own && own.verdict, { class: 'soft', reason: 'other' });
    });

    for (const [text, hint] of [
      ['4.7.1 greylisted', { greylisting: true, askedMs: null }],
      ['4.7.1 greylisted, try again in 5 minutes', { greylisting: true, askedMs: 300_000 }],
      ['4.3.0 try again in 90 seconds', { greylisting: false, askedMs: 90_000 }],
      ['4.3.0 later', null],
    ] as const) {
      it(`asks when to come back after "${text}"`, () => {
        const hints: RetryHint[] = [];
        const retryWith = (said: RetryHint): number => hints.push(said) + 99;
        const transfer: EndedTransfer = {
          ...common,
          ...nobody,
          kind: 'refused',
          phase: 'rcpt',
          reply: reply(451, text, text.slice(0, 5)),
        };
        const outcome = outcomeOfTransfer({ ...frame, retryWith }, place, transfer);
        assert.deepEqual(hints, hint === null ? [] : [hint]);
        assert.equal('retryAt' in outcome && outcome.retryAt, hint === null ? 61_000 : 100);
      });
    }

    it('keeps the server’s words, or ours, with the phase, where the session broke', () => {
      const told = outcomeOfTransfer(frame, place, {
        ...common,
        ...nobody,
        kind: 'accepted',
        reply: reply(250, '2.0.0 ok', '2.0.0'),
      });
      assert.deepEqual(
        [told.facts.smtpCode, told.facts.enhancedCode, told.facts.smtpReply],
        [250, '2.0.0', '2.0.0 ok'],
      );
      const broken = outcomeOfTransfer(frame, place, {
        ...common,
        kind: 'broken',
        phase: 'dot',
        text: 'it hung up',
        reply: null,
        uncertain: true,
      });
      assert.deepEqual([broken.facts.smtpCode, broken.facts.smtpReply], [null, 'dot: it hung up']);
      const confused = outcomeOfTransfer(frame, place, {
        ...common,
        kind: 'broken',
        phase: 'mail',
        text: 'out of step',
        reply: reply(354, 'go ahead'),
        uncertain: false,
      });
      assert.deepEqual([confused.facts.smtpCode, confused.facts.smtpReply], [354, 'mail: out of step']);
      const large = outcomeOfTransfer(frame, place, { ...common, kind: 'unsupported', what: 'size', limit: 1000 });
      assert.deepEqual(
        [large.facts.enhancedCode, large.facts.smtpReply],
        ['5.3.4', 'the message is larger than the server takes (it takes 1000 octets)'],
      );
    });

    it('notes TLS without what only the client needs, and whether a relay took it', () => {
      const tls = { protocol: 'TLSv1.3', cipher: 'X', verified: true, policy: 'opportunistic', why: null };
      const outcome = outcomeOfTransfer({ ...frame, viaRelay: true }, place, {
        ...common,
        ...nobody,
        tls: tls as never,
        kind: 'accepted',
        reply: reply(250, 'ok'),
      });
      assert.deepEqual(outcome.facts.tls, {
        protocol: 'TLSv1.3',
        cipher: 'X',
        verified: true,
        policy: 'opportunistic',
      });
      assert.ok(outcome.kind === 'accepted' && outcome.viaRelay);
    });
  });

  describe('of a host that let no connection in', () => {
    for (const [reason, failed, verdict, said] of [
      ['no connection', failedDial({}), 'network', 'connect: connection refused'],
      [
        'turned away at the banner',
        failedDial({ phase: 'banner', reply: reply(554, '5.7.1 blocked using a dnsbl', '5.7.1') }),
        'reputation',
        '5.7.1 blocked using a dnsbl',
      ],
      [
        'busy',
        failedDial({ phase: 'banner', reply: reply(421, 'too many connections') }),
        'rate_limited',
        'too many connections',
      ],
      [
        'no TLS where it is demanded',
        failedDial({ phase: 'tls', tlsUnsatisfied: true, text: 'certificate expired' }),
        'tls_required',
        'tls: certificate expired',
      ],
    ] as const) {
      it(`${reason}: tried again, ${verdict}`, () => {
        const outcome = outcomeOfDial(frame, place, failed);
        assert.equal(outcome.kind, 'deferred');
        assert.deepEqual('verdict' in outcome && outcome.verdict, { class: 'soft', reason: verdict });
        assert.equal(outcome.facts.smtpReply, said);
      });
    }
  });

  describe('where DNS names no host', () => {
    for (const [reason, route, kind, verdict] of [
      [
        'null MX',
        { kind: 'refused', enhanced: '5.1.10', reason: 'null_mx', text: 'no mail' },
        'refused',
        'hard null_mx',
      ],
      [
        'a loop',
        { kind: 'refused', enhanced: '5.4.6', reason: 'routing_loop', text: 'us' },
        'refused',
        'undetermined routing_loop',
      ],
      [
        'private addresses',
        { kind: 'refused', enhanced: '5.4.4', reason: 'private_address', text: 'private' },
        'refused',
        'undetermined network',
      ],
      [
        'no address',
        { kind: 'refused', enhanced: '5.4.4', reason: 'no_address', text: 'none' },
        'refused',
        'undetermined network',
      ],
      ['no such domain, once', { kind: 'no_domain', fresh: true }, 'deferred', 'soft domain_not_found'],
    ] as const) {
      it(`${reason}: ${kind}, ${verdict}`, () => {
        const outcome = outcomeOfRoute(frame, route);
        assert.equal(outcome.kind, kind);
        assert.equal('verdict' in outcome && `${outcome.verdict.class} ${outcome.verdict.reason}`, verdict);
        assert.deepEqual([outcome.facts.mx, outcome.facts.smtpCode], [null, null]);
        assert.equal('noDomain' in outcome, route.kind === 'no_domain');
      });
    }
  });

  it('of our own making: waits, fails or is thrown away, with a word why', () => {
    const waits = waitForUs(frame, 'the key is missing');
    const fails = cannotBuild(frame, 'no content');
    const gone = discarded(frame);
    assert.deepEqual(
      [waits.kind, waits.facts.smtpReply, waits.facts.enhancedCode, waits.facts.mx],
      ['deferred', 'the key is missing', '4.3.5', null],
    );
    assert.deepEqual([fails.kind, fails.kind === 'failed' && fails.message], ['failed', 'no content']);
    assert.deepEqual([gone.kind, gone.facts.mx], ['accepted', null]);
  });
});
