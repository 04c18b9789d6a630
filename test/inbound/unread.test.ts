import assert from 'node:assert/strict';
import { budgets } from '../../src/base/budgets.ts';
import { Unread } from '../../src/inbound/receive.ts';

const mail = (id: string, network: string, deliveryId: string | null = null) => ({ id, network, deliveryId });

const stranger = (network: string, deliveryId: string | null = null) => ({ network, deliveryId });

describe('mail that waits to be read', () => {
  const taken = (unread: Unread<ReturnType<typeof mail>>, withTokenOnly = false): string[] => {
    const ids: string[] = [];
    for (let one = unread.take({ withTokenOnly }); one !== null; one = unread.take({ withTokenOnly })) ids.push(one.id);
    return ids;
  };

  it('gets its turn with a token first, and by networks in turn', () => {
    const unread = new Unread<ReturnType<typeof mail>>();
    for (const id of ['e1', 'e2', 'e3', 'e4']) unread.add(mail(id, 'eve'));
    unread.add(mail('b1', 'bob'));
    for (const id of ['t1', 't2', 't3']) unread.add(mail(id, 'eve', 'dlv_1'));
    unread.add(mail('t4', 'bob', 'dlv_2'));
    assert.deepEqual(taken(unread), ['t1', 't4', 't2', 't3', 'e1', 'b1', 'e2', 'e3', 'e4']);
    assert.deepEqual(taken(unread), []);
  });

  it('waits where only mail with a token is wanted', () => {
    const unread = new Unread<ReturnType<typeof mail>>();
    unread.add(mail('e1', 'eve'));
    unread.add(mail('t1', 'eve', 'dlv_1'));
    assert.deepEqual(taken(unread, true), ['t1']);
    assert.deepEqual(taken(unread), ['e1']);
  });

  it('has a budget for each network, and one for all', () => {
    const unread = new Unread<ReturnType<typeof mail>>();
    for (let n = 0; n < budgets.unread_mails_network.most; n++) unread.add(mail(`e${String(n)}`, 'eve'));
    assert.equal(unread.full(stranger('eve')), 'unread_mails_network');
    assert.equal(unread.full(stranger('bob')), null);
    unread.take({ withTokenOnly: false });
    assert.equal(unread.full(stranger('eve')), null);
    for (let n = 0; n < budgets.unread_mails.most; n++) unread.add(mail(`x${String(n)}`, String(n)));
    assert.equal(unread.full(stranger('bob')), 'unread_mails');
  });

  it('keeps room for a network that comes for the first time, when many send what they can', () => {
    for (const networks of [20, 200, 2000]) {
      const unread = new Unread<ReturnType<typeof mail>>();
      for (let round = 0; round < 600; round++)
        for (let n = 0; n < networks; n++)
          if (unread.full(stranger(String(n))) === null) unread.add(mail(`${String(n)} ${String(round)}`, String(n)));
      assert.equal(unread.full(stranger('bob')), null, String(networks));
      assert.equal(unread.full(stranger('0')), 'unread_mails');
    }
  });

  it('keeps room for mail with a token, whatever comes without one', () => {
    const unread = new Unread<ReturnType<typeof mail>>();
    for (let n = 0; n < budgets.unread_mails.most; n++) unread.add(mail(`e${String(n)}`, n < 500 ? 'eve' : String(n)));
    assert.equal(unread.full(stranger('bob')), 'unread_mails');
    assert.equal(unread.full(stranger('eve', 'dlv_1')), null);
    for (let n = 0; n < budgets.unread_mails_network.most; n++) unread.add(mail(`t${String(n)}`, 'eve', 'dlv_1'));
    assert.equal(unread.full(stranger('eve', 'dlv_1')), 'unread_mails_network');
    assert.equal(unread.full(stranger('bob', 'dlv_2')), null);
  });
});
