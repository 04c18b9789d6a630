/**
 * Collections of others, as a whole: the bars of docs/bounces.md. The samples are split in two halves by their names;
 * the rules were made with the first half before its authors looked at the second.
 */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { readFileSync, readdirSync } from 'node:fs';
import path from 'node:path';
import { readReport } from '../../src/inbound/classify.ts';
import { judge } from '../../src/messages/delivery/classify.ts';
import { findingRecord, type FindingRecord } from '../../src/inbound/finding.ts';
import { readBounceWords } from '../../src/inbound/words-file.ts';
import { corpus, NO_CORPORA } from '../support/harness/corpora.ts';

interface Row {
  reason: string;
  recipient_derived?: string;
  action_derived?: string;
}
interface Label {
  expected: Row[] | null;
  derived?: { original_message_id?: string; x_failed_recipients?: string[] };
}

const words = readBounceWords();
const read = (file: string): FindingRecord => findingRecord(readReport({ words, judge }, readFileSync(file)));

/**
 * The reasons of that collection as our classes, where there is no doubt. Left out are reasons that cover several classes
 * (`filtered`, `suspend`, `onhold`, `undefined`, `syntaxerror`, `exceedlimit`, `notaccept`) and pace (`toomanyconn`, `speeding`).
 */
const classes: Readonly<Record<string, string>> = {
  userunknown: 'hard',
  hostunknown: 'hard',
  hasmoved: 'hard',
  mailboxfull: 'soft',
  expired: 'soft',
  networkerror: 'soft',
  systemerror: 'soft',
  mailererror: 'soft',
  systemfull: 'soft',
  mesgtoobig: 'soft',
  blocked: 'block',
  rejected: 'block',
  authfailure: 'block',
  policyviolation: 'block',
  requireptr: 'block',
  spamdetected: 'block',
  securityerror: 'block',
  norelaying: 'block',
  badreputation: 'block',
  notcompliantrfc: 'block',
  contenterror: 'block',
  virusdetected: 'block',
};

/** Right of all, by name, for each half. */
class Score {
  private readonly counts = new Map<string, [right: number, all: number]>();

  add(name: string, half: number, isRight: boolean): void {
    for (const key of [`${name} ${String(half)}`, name]) {
      const [right, all] = this.counts.get(key) ?? [0, 0];
      this.counts.set(key, [right + Number(isRight), all + 1]);
    }
  }

  percent(name: string): number {
    const [right, all] = this.counts.get(name) ?? [0, 0];
    return (100 * right) / all;
  }

  lines(): string[] {
    return [...this.counts].map(
      ([name, [right, all]]) => `${name}: ${String(right)}/${String(all)} ${this.percent(name).toFixed(1)} %`,
    );
  }
}

const halfOf = (file: string): number => (createHash('sha256').update(path.basename(file)).digest()[0] ?? 0) % 2;
/** Stands for the tests of a collection that is not present. */
const skipAll = (): Mocha.Test =>
  it('reads the collection', function () {
    this.skip(NO_CORPORA);
  });
const sameId = (one: string | null | undefined, other: string): boolean =>
  one?.replace(/[<>]/g, '') === other.replace(/[<>]/g, '');

describe('corpora/bounces', () => {
  const folder = corpus('bounces');
  if (folder === null) {
    skipAll();
    return;
  }
  const labels = JSON.parse(readFileSync(path.join(folder, 'labels.json'), 'utf8')) as Record<string, Label>;
  const score = new Score();
  const wrongKinds: string[] = [];

  before(() => {
    for (const [file, label] of Object.entries(labels)) {
      const record = read(path.join(folder, file));
      const half = halfOf(file);
      judgeKind(file, half, record, label);
      judgeRecipients(half, record, label);
      const id = label.derived?.original_message_id;
      if (id !== undefined) score.add('message', half, sameId(record.message_id, id));
    }
    for (const line of score.lines()) console.log(`      ${line}`);
  });

  function judgeKind(file: string, half: number, { kind }: FindingRecord, { expected }: Label): void {
    const reasons = new Set(expected?.map(({ reason }) => reason));
    const isAutoReply = reasons.has('vacation');
    const isDelay = expected?.some(({ action_derived: action }) => action === 'delayed') === true;
    const isGood = reasons.has('delivered');
    if ((isAutoReply || isDelay || isGood) && kind === 'bounce') wrongKinds.push(file);
    if (reasons.has('feedback')) score.add('complaint', half, kind === 'complaint' || kind === 'unsubscribe');
    else if (!isAutoReply && !isDelay && !isGood && reasons.size > 0)
      // Some samples are delay notices that the collection counts as bounces.
      score.add('bounce', half, kind === 'bounce' || kind === 'delay');
  }

  function judgeRecipients(half: number, { kind, recipients }: FindingRecord, { expected, derived }: Label): void {
    if (kind !== 'bounce' && kind !== 'delay') return;
    const found = new Set(recipients.map(({ address }) => address.toLowerCase()));
    const failed = (derived?.x_failed_recipients ?? []).filter((one) => one.includes('@'));
    const derivedRecipients = expected?.map((row) => row.recipient_derived).filter((one) => one !== undefined) ?? [];
    const shown = derivedRecipients.length > 0 ? derivedRecipients : failed;
    for (const one of shown) score.add('recipient', half, found.has(one.toLowerCase()));
    score.add('some recipient', half, found.size > 0);
    for (const [at, row] of expected?.entries() ?? []) {
      const one =
        recipients.find(({ address }) => address.toLowerCase() === row.recipient_derived?.toLowerCase()) ??
        recipients[at] ??
        recipients[0];
      const wanted = classes[row.reason];
      if (wanted === undefined || kind === 'delay') continue;
      score.add('class', half, one?.class === wanted);
      score.add('not hard by mistake', half, one?.class !== 'hard' || wanted === 'hard');
    }
  }

  it('no automatic answer, delay notice or notice of success counts as a bounce', () => {
    assert.deepEqual(wrongKinds, []);
  });

  for (const [name, least] of [
    ['bounce', 98],
    ['complaint', 94],
    ['recipient', 97],
    ['some recipient', 97],
    ['message', 99],
    ['class', 95],
    ['not hard by mistake', 98],
  ] as const) {
    it(`${name}: at least ${String(least)} %`, () => {
      assert.ok(score.percent(name) >= least, score.lines().join('\n'));
    });
  }

  it('docs/bounces.md has these figures', function () {
    const text = readFileSync(path.resolve(import.meta.dirname, '../../docs/bounces.md'), 'utf8');
    // They are those of one collection: another gives others.
    if (!text.includes(`Bounces (${String(Object.keys(labels).length)} mails)`))
      this.skip('the figures are those of another collection');
    for (const [row, name] of [
      ['bounces found', 'bounce'],
      ['recipients found', 'recipient'],
      ['bounces with a recipient', 'some recipient'],
      ['Message-ID found', 'message'],
      ['class as the label has it', 'class'],
      ['not `hard` by mistake', 'not hard by mistake'],
    ] as const) {
      const cells =
        text
          .split('\n')
          .find((line) => line.startsWith(`| ${row}`))
          ?.split('|') ?? [];
      assert.equal(Number.parseFloat(cells.at(-2) ?? ''), Number(score.percent(name).toFixed(1)), row);
    }
  });

  for (const [copies, lines] of [
    ['dos', 'CRLF'],
    ['mac', 'CR'],
  ] as const) {
    it(`${lines} copies say what their originals say`, () => {
      const originals = new Set(readdirSync(path.join(folder, 'bsd')));
      const files = readdirSync(path.join(folder, copies)).filter((file) => originals.has(file));
      assert.ok(files.length > 50);
      for (const file of files)
        assert.deepEqual(read(path.join(folder, copies, file)), read(path.join(folder, 'bsd', file)), file);
    });
  }
});

describe('corpora/arf', () => {
  const folder = corpus('arf');
  if (folder === null) {
    skipAll();
    return;
  }
  const labels = JSON.parse(readFileSync(path.join(folder, 'labels.json'), 'utf8')) as Record<
    string,
    {
      expected?: { feedback_type: string }[];
      derived: { original_message_id?: string; arf?: { 'original-rcpt-to'?: unknown }[] };
    }
  >;

  for (const [file, { expected, derived }] of Object.entries(labels)) {
    it(`${file} gives type, message and the recipients of the report`, () => {
      const { kind, feedback_type: type, message_id: id, recipients } = read(path.join(folder, file));
      assert.ok(kind === 'complaint' || kind === 'unsubscribe');
      if (expected?.[0] !== undefined) assert.equal(type, expected[0].feedback_type);
      if (derived.original_message_id !== undefined) assert.ok(sameId(id, derived.original_message_id));
      if (derived.arf?.[0]?.['original-rcpt-to'] !== undefined) assert.ok(recipients.length > 0);
    });
  }
});

describe('corpora/autoreply', () => {
  const folder = corpus('autoreply');
  if (folder === null) {
    skipAll();
    return;
  }
  const labels = JSON.parse(readFileSync(path.join(folder, 'labels.json'), 'utf8')) as Record<
    string,
    { expected: string }
  >;

  for (const [file, { expected }] of Object.entries(labels)) {
    it(`${file} is ${expected}`, () => {
      assert.equal(read(path.join(folder, file)).kind, expected === 'autoreply' ? 'auto_reply' : 'other');
    });
  }

  it('heads: nine in ten, contested ones apart', () => {
    const cases = JSON.parse(readFileSync(path.join(folder, 'header-cases.json'), 'utf8')) as {
      subject: string;
      headers: Record<string, string>;
      autoreply: boolean;
      contested?: string;
    }[];
    const sure = cases.filter(({ contested }) => contested === undefined);
    const right = sure.filter(({ subject, headers, autoreply }) => {
      const head = Object.entries({ From: 'a@b.example', Subject: subject, ...headers });
      const mail = head.map(([name, value]) => `${name}: ${value}\n`).join('');
      return (readReport({ words, judge }, Buffer.from(`${mail}\nhello\n`)).kind === 'auto_reply') === autoreply;
    });
    assert.ok(right.length >= sure.length * 0.9, `${String(right.length)} of ${String(sure.length)}`);
  });
});

describe('corpora/fresh3', () => {
  const folder = corpus('fresh3');
  if (folder === null) {
    skipAll();
    return;
  }
  const truth = JSON.parse(readFileSync(path.join(folder, 'truth.json'), 'utf8')) as Record<
    string,
    { kind: string; recipients?: string[]; cls?: string[] }
  >;
  const score = new Score();

  before(() => {
    for (const [file, { kind, recipients = [], cls: allowed }] of Object.entries(truth)) {
      const half = halfOf(file);
      const record = read(path.join(folder, file));
      score.add('kind', half, isKind(record, kind));
      const found = new Set(record.recipients.map(({ address }) => address.toLowerCase()));
      const isFound = recipients.every((one) => found.has(one.toLowerCase()));
      if (recipients.length > 0) score.add('recipient', half, isFound);
      if (allowed === undefined) continue;
      const given = record.recipients[0]?.class ?? '';
      score.add('class', half, allowed.includes(given));
      score.add('not hard by mistake', half, given !== 'hard' || allowed.includes('hard'));
    }
    for (const line of score.lines()) console.log(`      ${line}`);
  });

  /** `not_bounce` is everything that changes nothing; an `auth-failure` report is a complaint of no person. */
  function isKind({ kind, feedback_type: type }: FindingRecord, expected: string): boolean {
    if (expected === 'not_bounce') return !['bounce', 'delay', 'complaint'].includes(kind);
    if (expected === 'complaint_harmless') return kind === 'complaint' && type === 'auth-failure';
    return expected.split('_or_').includes(kind);
  }

  for (const [name, least] of [
    ['kind', 98],
    ['recipient', 97],
    ['class', 95],
    ['not hard by mistake', 100],
  ] as const) {
    it(`${name}: at least ${String(least)} %`, () => {
      assert.ok(score.percent(name) >= least, score.lines().join('\n'));
    });
  }
});

describe('corpora/mime', () => {
  const folder = corpus('mime');
  if (folder === null) {
    skipAll();
    return;
  }

  it('mails of every kind are read, and mails of people are no bounces', () => {
    const files = readdirSync(folder, { recursive: true, encoding: 'utf8' }).filter((file) => file.endsWith('.eml'));
    assert.ok(files.length > 100);
    const bounces = files.filter((file) => read(path.join(folder, file)).kind === 'bounce');
    // Named so by those who collected them.
    assert.deepEqual(
      bounces.filter((file) => !/bounce|report|delivery/i.test(file)),
      [],
    );
  });
});
