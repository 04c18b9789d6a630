/** The operator's own rules decide about bounce mails as they do about replies in a session. */
import assert from 'node:assert/strict';
import { bounceRuleFile, type BounceRule } from '../../src/config/bounce-rule.ts';
import { readReport } from '../../src/inbound/classify.ts';
import { createJudge } from '../../src/messages/delivery/classify.ts';
import { readBounceWords } from '../../src/inbound/words-file.ts';
import { dsn } from '../support/harness/mail-back.ts';

const words = readBounceWords();
const rulesOf = (...rules: object[]): readonly BounceRule[] => bounceRuleFile.parse({ rules }).rules;
const house = rulesOf({ name: 'house', class: 'soft', reason: 'other', text: ['closed for repair'] });

/** Returns class, reason and rule of the first recipient. */
function verdictOf(mail: string, own: readonly BounceRule[]): readonly (string | null | undefined)[] {
  const { recipients } = readReport({ words, judge: createJudge(own) }, Buffer.from(mail));
  return [recipients[0]?.verdict?.class, recipients[0]?.verdict?.reason, recipients[0]?.rule];
}

describe('own rules and bounce mails', () => {
  const repair = { text: '550 5.1.1 closed for repair' };

  it('decide by the words that a report quotes, before the shipped ones', () => {
    const mail = dsn('ana@dest.test', repair);
    assert.deepEqual(verdictOf(mail, []).slice(0, 2), ['hard', 'mailbox_not_found']);
    assert.deepEqual(verdictOf(mail, house), ['soft', 'other', 'own:house']);
  });

  it('decide about a notice in prose, and make its words known', () => {
    const prose = (said: string): string =>
      `From: MAILER-DAEMON@mx.dest.test\nSubject: failure notice\n\n<ana@dest.test>:\n${said}\n`;
    assert.deepEqual(verdictOf(prose('550 5.1.1 closed for repair'), house), ['soft', 'other', 'own:house']);
    assert.deepEqual(verdictOf(prose('The house is closed for repair.'), house), ['soft', 'other', 'own:house']);
  });

  it('come before what is known of old mail', () => {
    const mail = dsn('ana@dest.test', { status: '4.4.7', text: '450 4.4.7 closed for repair' });
    assert.deepEqual(verdictOf(mail, []), ['soft', 'expired', null]);
    const away = rulesOf({ name: 'away', class: 'block', reason: 'policy', enhanced: ['4.4.7'] });
    assert.deepEqual(verdictOf(mail, away), ['block', 'policy', 'own:away']);
  });

  it('decide by the status that the words of a notice mean', () => {
    const mail = 'From: MAILER-DAEMON@mx.dest.test\nSubject: failure notice\n\n<ana@dest.test>:\ninsufficient disk\n';
    const full = rulesOf({ name: 'full', class: 'undetermined', reason: 'other', enhanced: ['x.2.2'] });
    assert.deepEqual(verdictOf(mail, []).slice(0, 2), ['soft', 'mailbox_full']);
    assert.deepEqual(verdictOf(mail, full), ['undetermined', 'other', 'own:full']);
  });

  it('may name the phase of bounce mails, or another', () => {
    const of = (phase: string): readonly BounceRule[] =>
      rulesOf({ name: 'house', class: 'soft', reason: 'other', text: ['closed for repair'], phases: [phase] });
    assert.equal(verdictOf(dsn('ana@dest.test', repair), of('report'))[2], 'own:house');
    assert.equal(verdictOf(dsn('ana@dest.test', repair), of('dot'))[0], 'hard');
    const named = dsn('ana@dest.test', { text: '550 5.1.1 closed for repair (in reply to end of DATA command)' });
    assert.equal(verdictOf(named, of('report'))[2], 'own:house');
    assert.equal(verdictOf(named, of('dot'))[2], 'own:house');
  });

  it('are not overruled where a filter sends the mail back', () => {
    const mail = [
      'From: ana@dest.test',
      'Auto-Submitted: auto-replied (rejected)',
      'Subject: Automatically rejected mail',
      'MIME-Version: 1.0',
      'Content-Type: multipart/report; report-type=disposition-notification; boundary=b',
      '',
      '--b',
      'Content-Type: text/plain',
      '',
      'Your message was automatically rejected: closed for repair',
      '',
      '--b',
      'Content-Type: message/disposition-notification',
      '',
      'Final-Recipient: rfc822; ana@dest.test',
      'Disposition: automatic-action/MDN-sent-automatically; deleted',
      '',
      '--b--',
      '',
    ].join('\n');
    const open = rulesOf({ name: 'open', class: 'undetermined', reason: 'other', text: ['closed for repair'] });
    assert.deepEqual(verdictOf(mail, []), ['block', 'policy', null]);
    assert.deepEqual(verdictOf(mail, open), ['undetermined', 'other', 'own:open']);
  });
});
