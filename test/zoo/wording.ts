/**
 * What receivers really say, several wordings for each thing they can mean: what an engine makes of a reply must not depend on
 * one product's words. `{ip}` is the client's address, `{id}` something else in each reply; a line break makes a reply of several lines.
 */
export const wordings = {
  tooManyConnections: [
    '421 4.7.0 mx.example.net Error: too many connections from {ip}',
    '421 Too many concurrent SMTP connections from this IP address; please try again later.',
    '421 4.3.2 The maximum number of concurrent connections has exceeded a limit, closing transmission channel',
    '421 Connection refused, too many sessions from {ip}. Please lower the number of concurrent sessions. IB007',
    '421 4.7.0 mx.example.net Too many open connections.',
    '421 mx.example.net OFR004_104 [104] Too many connections, slow down.',
    '421 too many concurrent',
  ],
  tooMuchMail: [
    '450 4.7.1 Error: too much mail from {ip}',
    '421 4.7.0 mx.example.net Error: too many messages from your address, slow down',
    '451 4.7.1 Too many messages per minute from {ip}, try later',
    '452 4.3.2 Message rate limit exceeded',
    '450 4.7.1 Ratelimit "to_ip" exceeded',
    '451 4.7.0 Message submission rate for this client has exceeded the configured limit',
  ],
  mailboxRate: [
    '450-4.2.1 The user you are trying to contact is receiving mail at a rate that\n450-4.2.1 prevents additional messages from being delivered. Please resend your\n450-4.2.1 message at a later time. If the user is able to receive mail at that\n450 4.2.1 time, your message will be delivered. {id} - gsmtp',
    '450 4.2.1 The user you are trying to contact is receiving mail too quickly. Please resend your message at a later time.',
    '452 4.2.1 Recipient receives too many messages per hour, come back later',
    '450 4.7.1 <hot> Recipient mailbox has exceeded its message rate limit',
    '451 4.2.1 mailbox is temporarily receiving more mail than it can take',
  ],
  greylisted: [
    '451 4.7.1 Greylisting in action, please come back later',
    '450 4.2.0 <user>: Recipient address rejected: Greylisted, see http://postgrey.schweikert.ch/help/example.net.html',
    '451 4.7.1 Service unavailable - try again later',
    '450 4.7.1 Please try again later, we do not know this sender yet',
    '451 Temporary failure, please try again later.',
    '451 Temporary local problem - please try later',
    '451-The response time of this first delivery is delayed for your own protection.\n451 Try again in five minutes, please.',
  ],
  senderRate: [
    '421-4.7.28 Gmail has detected an unusual rate of unsolicited mail originating\n421-4.7.28 from your IP address. To protect our users from spam, mail sent from\n421-4.7.28 your IP address has been temporarily rate limited. For more\n421 4.7.28 information, go to the bulk email senders guidelines. {id} - gsmtp',
    '421 4.7.0 [TSS04] Messages from {ip} temporarily deferred due to unexpected volume or user complaints - 4.16.55.1',
    '451 4.7.651 The mail server [{ip}] has been temporarily rate limited due to IP reputation. (S775)',
    '421 4.7.0 [TSS05] All messages from {ip} will be deferred temporarily due to complaints',
  ],
  serverBusy: [
    '451 4.7.500 Server busy. Please try again later from [{ip}]. (S77719) [VE1EUR01FT080.eop-EUR01.prod.protection.outlook.com {id}]',
    '451 4.3.2 System overloaded, not accepting messages at the moment',
    '452 4.3.1 Insufficient system storage',
    '451 4.3.0 Internal resource is temporarily unavailable',
    '421 4.3.2 System not accepting network messages, load average too high',
  ],
  bannedAddress: [
    '550 5.7.606 Access denied, banned sending IP [{ip}]. To request removal from this list please follow the directions. AS(1430) [{id}]',
    "550 5.7.1 Unfortunately, messages from [{ip}] weren't sent. Please contact your Internet service provider since part of their network is on our block list (S3150).",
    '554 5.7.0 Blocked - see the reputation of {ip}',
    '550 5.7.1 Rejecting mail, {ip} is blacklisted',
    '521 5.7.1 Service unavailable; client [{ip}] blocked by our reputation service',
    '554 5.7.1 Service unavailable; Client host [{ip}] blocked using zen.spamhaus.org; https://www.spamhaus.org/query/ip/{ip}',
  ],
  unauthenticated: [
    '550-5.7.26 Your email has been blocked because the sender is unauthenticated.\n550-5.7.26 Gmail requires all senders to authenticate with either SPF or DKIM.\n550-5.7.26 Authentication results: DKIM = did not pass SPF [bench.test] did not\n550 5.7.26 pass. {id} - gsmtp',
    '550 5.7.515 Access denied, sending domain bench.test does not meet the required authentication level.',
    '554 5.7.9 Message not accepted for policy reasons: sender failed authentication checks',
  ],
  likelySpam: [
    '550-5.7.1 [{ip}] Our system has detected that this message is likely unsolicited mail.\n550-5.7.1 To reduce the amount of spam sent, this message has been blocked.\n550 5.7.1 {id} - gsmtp',
    '554 5.7.1 Spam message rejected',
    '550 High probability of spam',
    '554 5.7.7 Email not accepted: content looks like bulk mail',
  ],
  relayDenied: [
    '554 5.7.1 <user>: Relay access denied',
    '550 relay not permitted',
    '550 5.7.54 SMTP; Unable to relay recipient in non-accepted domain',
    '553 sorry, that domain is not in my list of allowed rcpthosts (#5.7.1)',
  ],
  mustStartTls: [
    '530 5.7.0 Must issue a STARTTLS command first',
    '550 5.7.10 Encryption needed: this host takes mail over TLS only',
    '530 5.7.1 TLS required, please use STARTTLS',
  ],
  unknownUser: [
    '550 5.1.1 <user>: Recipient address rejected: User unknown in local recipient table',
    '550-5.1.1 The email account that you tried to reach does not exist. Please try\n550 5.1.1 double-checking the address for typos. {id} - gsmtp',
    '550 5.5.0 Requested action not taken: mailbox unavailable, no such user here',
    '550 No such person at this address',
    '550 5.4.1 Recipient address rejected: Access denied. [DB5EUR01FT.eop-EUR01.prod.protection.outlook.com {id}]',
  ],
  tenantBlocklist: [
    "550 5.7.1 You are on the recipient's blocklist",
    '550 5.7.1 The sender is on the blocked senders list of this organisation',
    '554 5.7.1 Rejected by the policy of the recipient organisation',
  ],
  contentRefused: [
    '554 5.7.1 Message rejected because of unacceptable content',
    '552 5.7.0 Our security policy refuses this attachment',
    '550 5.7.1 This message looks like a phishing mail',
  ],
} as const satisfies Record<string, readonly string[]>;

export type Meaning = keyof typeof wordings;

/** The wording of this number, which may be any: `--wording 1` takes the next one everywhere. */
export function worded(meaning: Meaning, number: number): string {
  const all: readonly string[] = wordings[meaning];
  return all[number % all.length] ?? '';
}
