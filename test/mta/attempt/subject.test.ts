import assert from 'node:assert/strict';
import { judge, type Refusal } from '../../../src/messages/delivery/classify.ts';
import type { Subject } from '../../../src/messages/delivery/delivery.ts';
import { subjectOf } from '../../../src/mta/attempt/subject.ts';
import { NO_CORPORA } from '../../support/harness/corpora.ts';
import { labelledReplies } from '../../support/harness/labelled-replies.ts';

type Phase = Refusal['phase'];

/** `450 4.2.1 words` as a refusal. */
function said(phase: Phase, line: string): Refusal {
  const [, code = '', enhanced = null, text = ''] = /^(\d{3}) (?:(\d\.\d{1,3}\.\d{1,3}) )?(.*)$/s.exec(line) ?? [];
  return { phase, code: Number(code), enhanced, text: enhanced === null ? text : `${enhanced} ${text}` };
}
const about = (refusal: Refusal): Subject => subjectOf(refusal, judge(refusal));

const rows: [expected: Subject, who: string, phase: Phase, line: string][] = [
  // Recipients.
  [
    'recipient',
    'Gmail, a busy mailbox',
    'rcpt',
    '450 4.2.1 The user you are trying to contact is receiving mail too quickly. Please resend your message at a later time. If the user is able to receive mail at that time, your message will be delivered.',
  ],
  [
    'recipient',
    'Gmail, a busy mailbox, by rate',
    'rcpt',
    '450 4.2.1 The user you are trying to contact is receiving mail at a rate that prevents additional messages from being delivered.',
  ],
  [
    'recipient',
    'Gmail, for good',
    'rcpt',
    '550 5.2.1 The user you are trying to contact is receiving mail at a rate that prevents additional messages from being delivered.',
  ],
  [
    'recipient',
    'Gmail, unknown',
    'rcpt',
    "550 5.1.1 The email account that you tried to reach does not exist. Please try double-checking the recipient's email address for typos or unnecessary spaces.",
  ],
  [
    'recipient',
    'Gmail, full',
    'rcpt',
    '452 4.2.2 The email account that you tried to reach is over quota. Please direct the recipient to make space.',
  ],
  [
    'recipient',
    'Outlook, a mailbox over its hourly limit',
    'dot',
    '432 4.3.2 STOREDRV.Deliver; recipient thread limit exceeded',
  ],
  ['recipient', 'Outlook, unknown', 'rcpt', '550 5.5.0 Requested action not taken: mailbox unavailable (S2017062302).'],
  [
    'recipient',
    'Exchange, unknown',
    'rcpt',
    '550 5.1.10 RESOLVER.ADR.RecipientNotFound; Recipient ana@dest.test not found by SMTP address lookup',
  ],
  [
    'recipient',
    'Yandex, a busy mailbox by its address',
    'rcpt',
    '451 4.5.1 The recipient <ana@dest.test> has exceeded message rate limit. Try again later.',
  ],
  [
    'recipient',
    'Yahoo, disabled',
    'rcpt',
    "554 delivery error: dd This user doesn't have a yahoo.com account (x@yahoo.com) [0] - mta1.mail.yahoo.com",
  ],
  [
    'recipient',
    'Postfix, unknown',
    'rcpt',
    '550 5.1.1 <a@dest.test>: Recipient address rejected: User unknown in virtual mailbox table',
  ],
  [
    'recipient',
    'Postfix, unverified',
    'rcpt',
    '450 4.1.1 <a@dest.test>: Recipient address rejected: unverified address: Address verification in progress',
  ],
  [
    'recipient',
    'postgrey',
    'rcpt',
    '450 4.2.0 <a@dest.test>: Recipient address rejected: Greylisted, see http://postgrey.schweikert.ch/help/dest.test.html',
  ],
  ['recipient', 'milter-greylist', 'rcpt', '451 4.7.1 Greylisting in action, please come back in 00:05:00'],
  ['recipient', 'rspamd', 'dot', '451 4.7.1 Try again later, greylisted'],
  ['recipient', 'Exim, greylisted', 'rcpt', '451 Greylisted, please try again in 300 seconds'],
  ['recipient', 'sqlgrey', 'rcpt', '450 4.7.1 <a@dest.test>: Recipient address rejected: Greylisted for 5 minutes'],
  ['recipient', 'dovecot quota', 'rcpt', '452 4.2.2 <a@dest.test>: Recipient address rejected: Mailbox is full'],
  ['recipient', 'Exim, local problem', 'rcpt', '451 Temporary local problem - please try later'],
  ['recipient', 'a greylist by its code', 'rcpt', '451 4.7.1 Please try again later'],
  ['recipient', 'docomo, full', 'dot', '552 Too much mail data'],
  [
    'recipient',
    'iCloud, one busy mailbox',
    'dot',
    '421 4.7.1 Messages to ana@dest.test deferred due to excessive volume. Try again later',
  ],
  // Messages.
  [
    'message',
    'Gmail, a fault of form',
    'dot',
    '550 5.7.1 [192.0.2.1 12] This message is not RFC 5322 compliant, the issue is: duplicate To headers. To reduce the amount of spam sent to Gmail, this message has been blocked.',
  ],
  ['message', 'too large', 'mail', '552 5.3.4 Message size exceeds fixed limit'],
  ['sender', 'rspamd, spam: in a row it is about who sends', 'dot', '554 5.7.1 Spam message rejected'],
  ['message', 'ClamAV', 'dot', '550 5.7.1 virus infected message rejected (Eicar-Signature)'],
  // Tenants.
  [
    'domain',
    'Exchange, a group that takes mail from its own people',
    'rcpt',
    '550 5.7.133 RESOLVER.RST.SenderNotAuthenticatedForGroup; authentication required',
  ],
  [
    'domain',
    "Mimecast, a customer's rule",
    'rcpt',
    "550 Rejected by header based manually Blocked Senders - the recipient's organization policy",
  ],
  ['domain', 'a list of the recipient', 'rcpt', "550 5.7.1 You are on the recipient's blocklist"],
  [
    'domain',
    "Outlook, a tenant's rule",
    'dot',
    '550 5.7.1 TRANSPORT.RULES.RejectMessage; the message was rejected by organization policy',
  ],
  [
    'domain',
    "a tenant's administrator",
    'rcpt',
    '550 5.7.1 Client host [192.0.2.1] blocked by the administrator of this organisation',
  ],
  ['domain', 'one recipient', 'rcpt', '550 5.7.1 <a@dest.test>: Recipient has blocked you [192.0.2.1]'],
  ['domain', 'the wish of one recipient', 'rcpt', "554 Recipient doesn't want your mail"],
  ['domain', 'one user', 'rcpt', '550 5.7.1 Sender hi@t.test is blocked by this user; client [192.0.2.1]'],
  // Connections.
  ['connections', 'Postfix anvil', 'connect', '421 4.7.0 mx.dest.test Error: too many connections from 192.0.2.1'],
  [
    'connections',
    'Exim',
    'connect',
    '421 Too many concurrent SMTP connections from this IP address; please try again later.',
  ],
  [
    'connections',
    'Exim, by host',
    'connect',
    '421 mx.dest.test: Too many concurrent SMTP connections; please try again later.',
  ],
  [
    'connections',
    'Outlook',
    'mail',
    '421 4.3.2 The maximum number of concurrent server connections has exceeded a limit, closing transmission channel',
  ],
  ['connections', 'GMX', 'connect', '421 gmx.net (mxgmx016) Nemesis ESMTP Service not available, too many connections'],
  [
    'connections',
    'Exchange, a limit of a connector',
    'ehlo',
    '421 4.3.2 The maximum number of concurrent connections has exceeded a limit, closing transmission channel',
  ],
  // Of which domain the mail is.
  [
    'sender',
    'Gmail, a rate of one DKIM domain',
    'dot',
    '421 4.7.28 Gmail has detected an unusual rate of unsolicited mail originating from your DKIM domain [acme.test 36]. To protect our users from spam, mail sent from your domain has been temporarily rate limited.',
  ],
  [
    'sender',
    'Gmail, a rate of links',
    'dot',
    '421 4.7.28 Gmail has detected an unusual rate of unsolicited mail containing one of your URL domains. To protect our users from spam, mail with the URL has been temporarily rate limited.',
  ],
  [
    'sender',
    'Gmail, a domain of low reputation, for now',
    'dot',
    '421 4.7.0 [192.0.2.1 15] Our system has detected that this message is suspicious due to the very low reputation of the sending domain. To best protect our users from spam, the message has been blocked.',
  ],
  // Rates.
  ['rate', 'Postfix anvil, mails', 'mail', '450 4.7.1 Error: too much mail from 192.0.2.1'],
  ['rate', 'Postfix anvil, recipients', 'rcpt', '450 4.7.1 Error: too many recipients from 192.0.2.1'],
  [
    'rate',
    'Gmail',
    'dot',
    '421 4.7.28 Gmail has detected an unusual rate of unsolicited mail originating from your IP address. To protect our users from spam, mail sent from your IP address has been temporarily rate limited.',
  ],
  ['rate', 'Exchange, per hour', 'mail', '451 4.7.1 Too many messages per minute'],
  ['rate', 'words alone', 'mail', '451 4.7.0 Sending rate limit exceeded'],
  ['rate', 'ratelimit of Exim', 'rcpt', '450 Sender rate 61.0 / 1h exceeds the limit of this host: rate limit'],
  ['rate', 'a relay, of our account', 'mail', '421 4.7.0 Your account exceeded the allowed rate of messages'],
  ['rate', 'a relay, per hour', 'rcpt', '451 4.7.1 Your account has exceeded its hourly sending rate'],
  ['rate', 'a relay, per day', 'rcpt', '452 4.5.3 Your account daily recipient quota exceeded'],
  // Load.
  ['load', 'Outlook, busy', 'mail', '451 4.7.500 Server busy. Please try again later from [192.0.2.1]. (AS77713111)'],
  ['load', 'a 421 at RCPT closes the session, whoever it was said for', 'rcpt', '421 Closing transmission channel'],
  [
    'rate',
    'Google Workspace relay',
    'rcpt',
    '450 4.2.1 Peak SMTP relay limit exceeded for customer. This is a temporary error.',
  ],
  ['load', 'iCloud, or Postfix without its milter', 'rcpt', '451 4.7.1 Service unavailable - try again later'],
  [
    'load',
    'GMX, whose policy is about our address',
    'rcpt',
    '450 Requested mail action not taken: mailbox unavailable. Reject due to policy violations',
  ],
  ['load', 'NetEase, too many mails in a session', 'rcpt', '451 MI:DMC 163 mx5'],
  ['load', 'Postfix, our name in EHLO', 'rcpt', '450 4.7.1 <mail.t.test>: Helo command rejected: Host not found'],
  ['load', 'overloaded', 'mail', '451 4.3.2 System overloaded'],
  ['load', 'sendmail, disk', 'mail', '452 4.4.5 Insufficient disk space; try again later'],
  ['load', 'Postfix, storage', 'mail', '452 4.3.1 Insufficient system storage'],
  ['load', 'Exchange, back pressure', 'mail', '452 4.3.1 Insufficient system resources (UsedVersionBuckets)'],
  // The receiver's opinion of us.
  [
    'sender',
    'Gmail, unauthenticated',
    'dot',
    '550 5.7.26 This mail has been blocked because the sender is unauthenticated. Gmail requires all senders to authenticate with either SPF or DKIM.',
  ],
  [
    'sender',
    'Gmail, unsolicited',
    'dot',
    '550 5.7.1 Gmail has detected that this message is likely unsolicited mail. To reduce the amount of spam sent to Gmail, this message has been blocked.',
  ],
  ['sender', 'Postfix, relaying', 'rcpt', '554 5.7.1 <a@dest.test>: Relay access denied'],
  [
    'sender',
    'Gmail, TLS, with a word of a rate',
    'dot',
    '421 4.7.29 Your email has been rate limited because it was not sent over a TLS connection.',
  ],
  ['sender', 'STARTTLS demanded', 'mail', '530 5.7.0 Must issue a STARTTLS command first'],
  ['sender', 'Outlook, by reputation', 'mail', '550 5.7.606 Access denied, banned sender'],
  [
    'sender',
    'Gmail, unsolicited, with our address in front',
    'dot',
    '550 5.7.1 [192.0.2.1      12] Our system has detected that this message is 5.7.1 likely unsolicited mail. To reduce the amount of spam sent to Gmail, 5.7.1 this message has been blocked. Please visit 5.7.1  https://support.google.com/mail/?p=UnsolicitedMessageError',
  ],
  [
    'sender',
    'Gmail, unauthenticated, with our address at its end',
    'dot',
    '550 5.7.26 Your email has been blocked because the sender is unauthenticated. 5.7.26 Gmail requires all senders to authenticate with either SPF or DKIM. 5.7.26  5.7.26  Authentication results: 5.7.26  DKIM = did not pass 5.7.26  SPF [t.test] with ip: [192.0.2.1] = did not pass',
  ],
  ['sender', 'SPF, by our address', 'rcpt', '550 5.7.23 SPF validation failed, 192.0.2.1 blocked for domain t.test'],
  ['sender', 'a listed domain', 'dot', '554 5.7.1 The domain t.test in your mail is listed at spamhaus.org'],
  [
    'message',
    'a word',
    'dot',
    '554 5.7.1 This message has been blocked because it contains a banned word. [192.0.2.1]',
  ],
  ['message', 'a file', 'dot', '552 5.7.0 Message from [192.0.2.1] blocked: file type .exe banned'],
  ['sender', 'Gmail as a relay, our day', 'mail', '550 5.4.5 Daily user sending limit exceeded. For more information'],
  ['sender', 'Gmail as a relay, our day at RCPT', 'rcpt', '550 5.4.5 Daily user sending quota exceeded.'],
  ['sender', 'a relay, our quota', 'mail', '550 5.7.1 Your account has exceeded its daily sending quota'],
  ['sender', 'a mailbox that is named before any recipient is', 'mail', '554 5.2.2 user over quota'],
  // Lists.
  [
    'block_list',
    'Gmail, the reputation of our address',
    'dot',
    '550 5.7.1 [192.0.2.1 18] Our system has detected that this message is 5.7.1 likely suspicious due to the very low reputation of the sending IP 5.7.1 address. To best protect our users from spam, the message has been blocked.',
  ],
  [
    'block_list',
    'Yahoo, by Spamhaus',
    'mail',
    "553 5.7.1 [BL21] Connections will not be accepted from 192.0.2.1, because the ip is in Spamhaus's list; see http://postmaster.yahoo.com/550-bl23.html",
  ],
  [
    'block_list',
    'Outlook, an address as the sender',
    'rcpt',
    '550 5.7.511 Access denied, banned sender[192.0.2.1]. To request removal from this list please forward this message to delist@messaging.microsoft.com.',
  ],
  [
    'domain',
    'Mimecast, a list of an organisation',
    'dot',
    '550 Rejected by header based manually Blocked Senders - https://community.mimecast.com/docs/DOC-1369#550',
  ],
  [
    'domain',
    'Mimecast, an envelope that an organisation blocks',
    'rcpt',
    '550 Administrative prohibition - envelope blocked - https://community.mimecast.com/docs/DOC-1369#550',
  ],
  ['block_list', 'an address as such', 'rcpt', '550 5.7.1 Rejecting mail, 192.0.2.1 is blacklisted'],
  [
    'block_list',
    'Orange, blocked for spam',
    'mail',
    '550 5.7.1 Client host blocked for spamming issues. Ref http://csi.cloudmark.com/reset-request/?ip=192.0.2.1',
  ],
  ['block_list', 'Proofpoint, for all', 'rcpt', '554 5.7.0 Blocked - see https://ipcheck.proofpoint.com/?ip=192.0.2.1'],
  [
    'block_list',
    'a reputation service',
    'mail',
    '521 5.7.1 Service unavailable; client [192.0.2.1] blocked by our reputation service',
  ],
  [
    'block_list',
    'Outlook, our address',
    'mail',
    '550 5.7.606 Access denied, banned sending IP [192.0.2.1]. To request removal from this list please visit https://sender.office.com/',
  ],
  [
    'block_list',
    'Outlook consumer',
    'mail',
    "550 5.7.1 Unfortunately, messages from [192.0.2.1] weren't sent. Please contact your Internet service provider since part of their network is on our block list (S3140).",
  ],
  [
    'block_list',
    'Spamhaus',
    'rcpt',
    '554 5.7.1 Service unavailable; Client host [192.0.2.1] blocked using zen.spamhaus.org',
  ],
  ['block_list', 'Proofpoint', 'connect', '554 Blocked - see https://ipcheck.proofpoint.com/?ip=192.0.2.1'],
  [
    'block_list',
    'Barracuda',
    'connect',
    '554 Service unavailable; Client host [192.0.2.1] blocked using b.barracudacentral.org',
  ],
  ['block_list', 'T-Online', 'banner', '554 IP=192.0.2.1 - None/bad reputation. Ask your postmaster for help'],
  ['block_list', 'T-Online, the mark of its list', 'banner', '554 IP=192.0.2.1 - A problem occurred. (BL)'],
  ['block_list', 'Comcast', 'banner', '554 mx.dest.test comcast 192.0.2.1 found on one or more DNSBLs'],
  // Hosts.
  ['host', 'shutting down', 'connect', '421 4.3.2 Service shutting down'],
  ['host', 'no words', 'banner', '554 5.7.1 no'],
  ['ourselves', 'a relay that does not know our password', 'auth', '535 5.7.8 Authentication credentials invalid'],
];

describe('mta/attempt/subject', () => {
  for (const [expected, who, phase, line] of rows)
    it(`${expected}: ${who}: ${line.slice(0, 60)}`, () => {
      const refusal = said(phase, line);
      assert.equal(about(refusal), expected, JSON.stringify(judge(refusal)));
    });

  it('a labelled reply is about a list of addresses only where those who labelled it say that an address is blocked', function () {
    const replies = labelledReplies();
    if (replies === null) this.skip(NO_CORPORA);
    const listed = replies.filter(({ refusal }) => {
      const { code } = refusal;
      return code !== null && code >= 500 && about({ ...refusal, phase: 'rcpt' }) === 'block_list';
    });
    const ours = ['blocked', 'badreputation', 'toomanyconn'];
    assert.ok(listed.length >= 10, String(listed.length));
    assert.deepEqual(
      listed.filter(({ label }) => !ours.includes(label)).map(({ line }) => line),
      [],
    );
  });

  it('no labelled greylisting or mailbox reply is about the whole receiver or about us', function () {
    const replies = labelledReplies();
    if (replies === null) this.skip(NO_CORPORA);
    const one = ['userunknown', 'mailboxfull', 'greylisted', 'hasmoved', 'suspend'];
    const wide = ['load', 'rate', 'sender', 'connections', 'block_list'];
    const wrong: string[] = [];
    let count = 0;
    for (const { label, line, refusal } of replies) {
      if (!one.includes(label) || refusal.code === null || (refusal.phase !== 'rcpt' && refusal.phase !== 'dot'))
        continue;
      count++;
      const subject = about(refusal);
      if (wide.includes(subject)) wrong.push(`${label} -> ${subject}: ${line}`);
    }
    assert.ok(count > 50, String(count));
    // Others labelled these by hand from many sources, a few of them wrongly.
    assert.ok(wrong.length <= count * 0.01, `${wrong.length} of ${count}:\n${wrong.join('\n')}`);
  });

  it('labelled refusals for too many connections or mails never wait for one recipient alone', function () {
    const replies = labelledReplies();
    if (replies === null) this.skip(NO_CORPORA);
    const wrong: string[] = [];
    let count = 0;
    for (const { label, line, refusal } of replies) {
      if ((label !== 'toomanyconn' && label !== 'speeding') || refusal.code === null || refusal.code >= 500) continue;
      // One mailbox may be too busy, too.
      if (refusal.phase === 'report' || /\buser\b|\bmessages to \S+@/i.test(line)) continue;
      count++;
      const subject = about(refusal);
      if (subject === 'recipient' || subject === 'message')
        wrong.push(`${label} ${refusal.phase} -> ${subject}: ${line}`);
    }
    assert.ok(count > 5, String(count));
    assert.ok(wrong.length <= count * 0.1, `${wrong.length} of ${count}:\n${wrong.join('\n')}`);
  });
});
