import assert from 'node:assert/strict';
import { readOperators } from '../../../src/config/data-file.ts';
import { operatorOf } from '../../../src/mta/sites/sites.ts';

describe('mta/sites/operators', () => {
  const table = [
    { name: 'google', mx: ['google.com', 'googlemail.com'] },
    { name: 'outlook', mx: ['protection.outlook.com'], maxConnections: 3 },
  ];
  for (const [hosts, expected, reason] of [
    [['aspmx.l.google.com'], 'google', 'a name below'],
    [
      ['ASPMX.L.Google.com', 'alt1.aspmx.l.google.com', 'aspmx2.googlemail.com'],
      'google',
      'several, whatever the case',
    ],
    [['google.com'], 'google', 'the name itself'],
    [['acme-test.mail.protection.outlook.com'], 'outlook', 'another row'],
    [['aspmx.l.google.com', 'tarpit.example'], null, 'one that is not theirs: nobody parks their lane from behind it'],
    [['aspmx.l.google.com', 'x.protection.outlook.com'], null, 'of two operators'],
    [['notgoogle.com'], null, 'no label boundary'],
    [['google.com.evil.example'], null, 'the name in front'],
    [['mx.outlook.com'], null, 'above the name'],
    [[], null, 'no hosts'],
  ] as const) {
    it(`${JSON.stringify(hosts)} -> ${String(expected)}: ${reason}`, () => {
      assert.equal(operatorOf(hosts, table)?.name ?? null, expected);
    });
  }

  it('is shipped as data that holds together', () => {
    const shipped = readOperators(null);
    assert.ok(shipped.length >= 10);
    assert.equal(new Set(shipped.map(({ name }) => name)).size, shipped.length);
    const names = shipped.flatMap(({ mx }) => mx);
    assert.equal(new Set(names).size, names.length, 'no host belongs to two');
    assert.equal(operatorOf(['gmail-smtp-in.l.google.com'], shipped)?.name, 'google');
  });

  for (const [host, expected] of [
    ['inbound-smtp.eu-west-1.amazonaws.com', 'amazon'],
    ['ec2-192-0-2-1.compute-1.amazonaws.com', null],
    ['ec2-192-0-2-1.eu-west-1.compute.amazonaws.com', null],
    ['mx1.mail.ovh.net', 'ovh'],
    ['vps-1a2b3c4d.vps.ovh.net', null],
    ['mx1a1.comcast.net', 'comcast'],
    ['c-192-0-2-1.hsd1.ca.comcast.net', null],
    ['mx1.free.fr', 'free'],
    ['home.hd.free.fr', null],
    ['smtp-in.orange.fr', 'orange'],
    ['lputeaux-657-1-1-1.w192-0.abo.wanadoo.fr', null],
    ['mxs.mail.ru', 'mailru'],
    ['vm1.mcs.mail.ru', null],
    ['mx00.kundenserver.de', 'ionos'],
    ['server1.kundenserver.de', null],
  ] as const)
    it(`takes ${host} for ${expected ?? 'a customer, who is no operator'}`, () => {
      assert.equal(operatorOf([host], readOperators(null))?.name ?? null, expected);
    });
});
