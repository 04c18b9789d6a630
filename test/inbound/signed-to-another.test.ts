import assert from 'node:assert/strict';
import { generateKeyPairSync, hash, sign } from 'node:crypto';
import type { Finding } from '../../src/inbound/finding.ts';
import type { InboundContext } from '../../src/inbound/context.ts';
import { findMatch, type Owner } from '../../src/inbound/report-owner.ts';

const owner: Owner = {
  id: 'dlv_1',
  account_id: 'acc_1',
  message_id: 'msg_1',
  address: 'ana@example.net',
  address_key: 'ana@example.net',
  stream: 'transactional',
  from_domain: 'example.com',
  request_id: null,
};

/** The facts of the report about the returned mail: who complained, the domains of its From and of its signatures. */
interface Said {
  complained?: readonly string[];
  authors?: readonly string[];
  signers?: readonly string[];
}

/** Proof of a complaint that a feedback loop has signed over these fields. */
const proofOf = (...fields: string[]): Promise<string | null | undefined> => proofFor({}, fields);

async function proofFor(
  { complained = [], authors = [], signers = [] }: Said,
  fields = ['from:fbl@loop.example', 'to:fbl@mail.example.com'],
): Promise<string | null | undefined> {
  const { publicKey, privateKey } = generateKeyPairSync('ed25519');
  const data = Buffer.from([...fields, 'dkim-signature:v=1; d=loop.example; b='].join('\r\n'));
  const key = publicKey.export({ format: 'der', type: 'spki' }).subarray(-32).toString('base64');
  const deps = {
    db: { prepared: { all: () => Promise.resolve([owner]) } },
    log: { warn: () => undefined },
    keys: [],
    resolver: { txt: () => Promise.resolve({ kind: 'found', records: [`v=DKIM1; k=ed25519; p=${key}`] }) },
    isVerifiedHost: (host: string) => Promise.resolve(host === 'mail.example.com'),
  } as unknown as InboundContext;
  const claim = {
    domain: 'loop.example',
    selector: 's',
    algorithm: 'ed25519-sha256',
    data,
    signature: sign(null, hash('sha256', data, 'buffer'), privateKey),
  } as const;
  const finding = {
    kind: 'complaint',
    token: null,
    copy: null,
    messageId: '<1@example.com>',
    recipients: complained.map((address) => ({ address })),
    returned: { authors, signers },
    loop: { name: 'Loop', claims: [claim] },
  };
  return (await findMatch(deps, finding as unknown as Finding))?.proof;
}

describe('a complaint that a feedback loop has signed', () => {
  it('proves where it was written to us', async () => {
    assert.equal(await proofOf('from:fbl@loop.example', 'to:<fbl@mail.example.com>'), 'feedback_loop');
  });

  it('proves nothing where the provider wrote it to another, who sends it on to us', async () => {
    assert.equal(await proofOf('from:fbl@loop.example', 'to:fbl@mallory.example'), null);
    assert.equal(await proofOf('from:fbl@loop.example', 'subject:to: fbl@mail.example.com'), null);
    assert.equal(await proofOf('from:fbl@loop.example'), null);
  });

  for (const [what, said, counts] of [
    ['names the recipient', { complained: ['Ana@Example.net'] }, true],
    ['has the name of the recipient taken out', { complained: ['redacted@example.net'] }, true],
    ['names the recipient among others', { complained: ['bo@example.net', 'ana@example.net'] }, true],
    ['names another recipient', { complained: ['eve@example.net'] }, false],
    ['brings back mail from our domain', { authors: ['example.com'] }, true],
    ['brings back mail from another domain', { authors: ['mallory.example'] }, false],
    ['brings back mail from ours and another one', { authors: ['example.com', 'mallory.example'] }, false],
    ['brings back what our domain and our relay signed', { signers: ['relay.example', 'example.com'] }, true],
    ['brings back what another one signed', { authors: ['example.com'], signers: ['mallory.example'] }, false],
  ] as const)
    it(`proves ${counts ? 'something' : 'nothing'} where it ${what}`, async () => {
      assert.equal(await proofFor(said), counts ? 'feedback_loop' : null);
    });
});
