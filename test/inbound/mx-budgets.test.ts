import assert from 'node:assert/strict';
import { budgets, type BudgetName } from '../../src/base/budgets.ts';
import type { ReceivingDomain } from '../../src/inbound/context.ts';
import { createMxBudgets, type MxBudgets, type Stranger } from '../../src/inbound/mx-budgets.ts';
import { FakeClock } from '../support/fakes/fake-clock.ts';

const eve: Stranger = { network: '192.0.2.0/24', deliveryId: null };
const bob: Stranger = { network: '198.51.100.0/24', deliveryId: null };
const [acme, shop] = ['acme.test', 'shop.test'].map((name) => ({ account_id: 'acc_1', name })) as [
  ReceivingDomain,
  ReceivingDomain,
];
const bounce = (delivery: number, network = eve.network): Stranger => ({
  network,
  deliveryId: `dlv_${String(delivery)}`,
});

describe('budgets of port 25', () => {
  let clock: FakeClock;
  let mx: MxBudgets;
  let used: BudgetName[];
  beforeEach(() => {
    clock = new FakeClock();
    used = [];
    mx = createMxBudgets({ clock, usedUp: (name) => used.push(name) });
  });

  const spend = (stranger: Stranger, times: number, bytes: number): void => {
    for (let n = 0; n < times; n++) mx.spend(stranger, bytes);
  };

  it('count the mails of a network, and leave the others alone', () => {
    spend(eve, budgets.loose_mails_network.most, 1);
    assert.equal(mx.refusal(eve)?.code, 452);
    assert.deepEqual(used, ['loose_mails_network']);
    assert.equal(mx.refusal(bob), null);
    assert.equal(mx.refusal(bounce(1)), null);
    clock.advance(3_600_000);
    assert.equal(mx.refusal(eve), null);
  });

  it('count mail to a domain that receives apart, by network and by domain', () => {
    const toAcme: Stranger = { ...eve, receiving: acme };
    spend(toAcme, budgets.received_mails_network.most, 1);
    assert.equal(mx.refusal(toAcme)?.code, 452);
    assert.deepEqual(used, ['received_mails_network']);
    for (const other of [eve, bounce(1), { ...bob, receiving: acme }]) assert.equal(mx.refusal(other), null);
    for (let n = 0; n < 10; n++)
      spend(
        { network: `203.0.113.${String(n)}`, deliveryId: null, receiving: acme },
        budgets.received_mails_domain.most / 10,
        1,
      );
    assert.equal(mx.refusal({ ...bob, receiving: acme })?.code, 452);
    assert.equal(mx.refusal({ ...bob, receiving: shop }), null);
    mx.noteReading({ ...bob, receiving: shop }, budgets.received_reading_network.most + 1);
    assert.equal(mx.refusal({ ...bob, receiving: shop })?.code, 452);
    assert.equal(mx.refusal(bob), null);
  });

  it('count what is kept of them', () => {
    spend(eve, 1, budgets.loose_bytes_network.most - 1000);
    assert.equal(mx.refusal(eve, 1000), null);
    assert.equal(mx.refusal(eve, 1001)?.code, 452);
    assert.deepEqual(used, ['loose_bytes_network']);
  });

  it('count what is kept once a mail was read, not what came', () => {
    const mail = 500_000;
    const kept = budgets.kept_of_mail.most;
    for (let n = 0; n < 900; n++) {
      assert.equal(mx.refusal(eve, mail), null);
      mx.spend(eve, mail);
      mx.giveBack(eve, mail - kept, clock.now());
    }
    const left = budgets.loose_bytes_network.most - 900 * kept;
    assert.equal(mx.refusal(eve, left), null);
    assert.equal(mx.refusal(eve, left + 1)?.code, 452);
  });

  it('give nothing back of an hour that is over', () => {
    mx.spend(eve, 1_000_000);
    const then = clock.now();
    clock.advance(3_600_000);
    mx.spend(eve, budgets.loose_bytes_network.most);
    mx.giveBack(eve, 900_000, then);
    assert.equal(mx.refusal(eve, 1)?.code, 452);
  });

  it('count what comes from all networks together', () => {
    const networks = Math.ceil(budgets.loose_bytes.most / budgets.loose_bytes_network.most);
    for (let n = 0; n < networks; n++)
      spend({ network: `2001:db8:0:${String(n)}::/64`, deliveryId: null }, 1, budgets.loose_bytes_network.most);
    assert.equal(mx.refusal(bob, 1)?.code, 452);
    assert.deepEqual(used, ['loose_bytes']);
    assert.equal(mx.refusal(bounce(1), 1), null);
  });

  it('count mails from all networks together', () => {
    const networks = Math.ceil(budgets.loose_mails.most / budgets.loose_mails_network.most);
    for (let n = 0; n < networks; n++)
      spend({ network: `2001:db8:0:${String(n)}::/64`, deliveryId: null }, budgets.loose_mails_network.most, 1);
    assert.equal(mx.refusal(bob)?.code, 452);
    assert.deepEqual(used, ['loose_mails']);
  });

  for (const networks of [20, 200, 2000])
    it(`let a provider in at its first try when ${String(networks)} networks send what they can`, () => {
      const provider: Stranger = { network: '203.0.113.0/24', deliveryId: null };
      const known: Stranger = { network: '203.0.114.0/24', deliveryId: null };
      mx.noteGood(known);
      const flood = Array.from({ length: networks }, (_, n) => ({ network: `flood ${String(n)}`, deliveryId: null }));
      // Ten minutes: each tries ten mails a minute, or two a second where they are few, of a size that makes octets scarce as well.
      for (let minute = 0; minute < 10; minute++) {
        for (let n = 0; n < Math.max(10, 2400 / networks); n++)
          for (const one of flood) {
            if (mx.refusal(one) !== null || mx.refusal(one, 20_000) !== null) continue;
            mx.spend(one, 20_000);
          }
        for (const one of [provider, known, bounce(minute)]) {
          assert.equal(mx.refusal(one), null, `minute ${String(minute)}`);
          assert.equal(mx.refusal(one, 20_000), null, `minute ${String(minute)}`);
        }
        clock.advance(60_000);
      }
      assert.ok(used.includes('loose_bytes') || used.includes('loose_mails'), 'the common budget was scarce');
      // One that is known for good signatures has all that a network may have.
      for (let n = 0; n < 500; n++) {
        assert.equal(mx.refusal(known, 1000), null);
        mx.spend(known, 1000);
      }
    });

  it('count the time that reading took', () => {
    mx.noteReading(eve, budgets.loose_reading_network.most + 1);
    assert.equal(mx.refusal(eve)?.code, 452);
    assert.deepEqual(used, ['loose_reading_network']);
    mx.noteReading(bounce(1), 10 * budgets.loose_reading_network.most);
    assert.equal(mx.refusal(bob), null);
  });

  it('let few mails in for each delivery', () => {
    spend(bounce(1), budgets.token_mails_delivery.most, 1);
    assert.equal(mx.refusal(bounce(1))?.code, 452);
    assert.equal(mx.refusal(bounce(2)), null);
    spend(bounce(2), 1, budgets.token_bytes_delivery.most);
    assert.equal(mx.refusal(bounce(2), 1)?.code, 452);
    assert.deepEqual(used, ['token_mails_delivery', 'token_bytes_delivery']);
  });

  it('let in mail about any number of deliveries of a broadcast', () => {
    for (let n = 0; n < 25_000; n++) {
      assert.equal(mx.refusal(bounce(n), 1), null, String(n));
      spend(bounce(n), 1, 1);
    }
    assert.deepEqual(used, []);
  });

  it('bound what one network may send about many deliveries', () => {
    for (let n = 0; n < budgets.token_bytes_network.most / budgets.token_bytes_delivery.most; n++)
      spend(bounce(n), 1, budgets.token_bytes_delivery.most);
    assert.equal(mx.refusal(bounce(-1), 1)?.code, 452);
    assert.equal(mx.refusal(bounce(-1, bob.network), 1), null);
    assert.deepEqual(used, ['token_bytes_network']);
  });
});
