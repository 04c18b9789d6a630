/** The commands that do more than show an operation's result: their help, and the module that works, loaded only when needed, so help is quick. */
import { InvalidArgumentError } from '@commander-js/extra-typings';
import { systemClock } from '../base/clock.ts';
import { ofAccount } from '../presentations/presentation.ts';
import { type OwnCommand, durationOption, wholeOption } from './derive.ts';

const BY_LINE = 'one JSON object a line';
const passphrase = {
  flag: '--passphrase-file <file>',
  says: 'file with the passphrase of the keys (default: the setting backup.passphrase)',
};

/** The rules of replies name the same (config/bounce-rule.ts, which takes time to load). */
const phases = ['connect', 'banner', 'ehlo', 'tls', 'auth', 'mail', 'rcpt', 'data', 'dot', 'report'];

/** Reads `name=value`, of which there may be several. */
function filterArgument(text: string, before?: Record<string, string>): Record<string, string> {
  const at = text.indexOf('=');
  if (at < 1) throw new InvalidArgumentError('Expected name=value, such as status=bounced.');
  const name = text.slice(0, at);
  if (before !== undefined && Object.hasOwn(before, name))
    throw new InvalidArgumentError(`${name} is given twice. If it takes several values, separate them by commas.`);
  if (at + 1 === text.length) throw new InvalidArgumentError(`${name} has no value: leave it out for all.`);
  return { ...before, [name]: text.slice(at + 1) };
}

function sinceOption(text: string): string {
  const at = /^\d{4}-\d\d-\d\dT/.test(text) ? Date.parse(text) : systemClock.now() - durationOption(text);
  if (Number.isNaN(at) || at < 0)
    throw new InvalidArgumentError('Expected a time such as 2026-01-31T09:30:00Z or a duration such as 1h.');
  return new Date(at).toISOString();
}

export const ownCommands: readonly OwnCommand[] = [
  {
    command: 'serve',
    says: 'run the server until SIGTERM or SIGINT',
    input: [
      {
        flag: '--greeting',
        says: 'print a test key at the first start, also if no terminal shows it, as `npm start` does',
      },
    ],
    json: null,
    load: async () => (await import('./serve.ts')).serve,
    examples: ['posthorn serve', 'posthorn --config /etc/posthorn/posthorn.yaml serve'],
  },
  {
    command: 'config check',
    says: 'read all settings and report every mistake; exit code 78 if there is one',
    load: async () => (await import('./tls.ts')).checkSettings,
    examples: [
      'posthorn config check',
      'posthorn config check --json',
      'posthorn --config new.yaml config check && systemctl reload posthorn',
    ],
  },
  {
    command: 'config show',
    says: 'print the settings in effect and where each came from; secrets are hidden',
    json: 'as one JSON object; durations in milliseconds, sizes in bytes',
    load: async () => (await import('./tls.ts')).showSettings,
    examples: ['posthorn config show', 'posthorn config show --json | jq .smtp'],
  },
  {
    command: 'migrate',
    says: 'bring the database up to date (serve does this too)',
    load: async () => (await import('./storage.ts')).migrate,
    examples: ['posthorn migrate', 'posthorn migrate --json'],
  },
  {
    command: 'backup create',
    says: 'make a backup in this folder (default: backup.dir), while the server runs or without it',
    input: [{ flag: '[folder]' }, passphrase],
    load: async () => (await import('./storage.ts')).create,
    examples: ['posthorn backup create', 'posthorn backup create /mnt/backups --json'],
  },
  {
    command: 'backup verify',
    says: 'check every byte, the database and its books; exit code 1 if something is wrong',
    input: [{ flag: '<backup>' }, passphrase],
    load: async () => (await import('./storage.ts')).verify,
    examples: ['posthorn backup verify /var/backups/posthorn/posthorn-20260131T031700Z'],
  },
  {
    command: 'backup restore',
    says: 'put a backup into storage.url, where no database and no server may be',
    input: [{ flag: '<backup>' }, passphrase],
    load: async () => (await import('./storage.ts')).restore,
    examples: ['posthorn backup restore posthorn-20260131T031700Z --passphrase-file /var/lib/posthorn/passphrase'],
  },
  {
    command: 'storage move',
    says: 'move everything from SQLite to PostgreSQL, while no server runs; afterwards set storage.url to it',
    input: [
      { flag: '--to <url>', says: 'postgres://<user>@<host>/<empty database>', isRequired: true },
      {
        flag: '--password-file <file>',
        says: 'file with the password of the PostgreSQL user (default: as in the settings)',
      },
    ],
    load: async () => (await import('./storage.ts')).move,
    examples: [
      'posthorn storage move --to postgres://posthorn@db.example.com/posthorn?sslmode=verify-full --password-file /var/lib/posthorn/password',
      'posthorn storage move --to sqlite:/var/lib/posthorn/posthorn.db --json',
    ],
  },
  {
    command: 'send',
    says: 'send one mail',
    input: [
      {
        flag: '--from <mailbox>',
        says: 'of a verified domain: `a@example.com` or `Name <a@example.com>`',
        isRequired: true,
      },
      { flag: '--to <mailbox>', isRequired: true },
      { flag: '--subject <subject>', isRequired: true },
      { flag: '--text <text>', says: 'without it and --html, the text is read from standard input' },
      { flag: '--html <html>' },
      ofAccount,
    ],
    load: async () => (await import('./mail.ts')).send,
    examples: [
      'posthorn send --from ops@example.com --to ana@example.net --subject "Disk full" --text "sda1 is at 98 %"',
      'df -h | posthorn send --from ops@example.com --to ana@example.net --subject "Disks"',
    ],
  },
  {
    command: 'received save',
    says: 'save a received mail, or a file of it, octet for octet',
    input: [
      { flag: '<id>' },
      { flag: '<file>', says: 'what it is saved as; it must not exist' },
      { flag: '--attachment <index>', says: 'a file of the mail instead of its source', kind: wholeOption(0, 99) },
    ],
    load: async () => (await import('./mail.ts')).save,
    examples: [
      'posthorn received save rcv_01jz... answer.eml',
      'posthorn received save rcv_01jz... photo.jpg --attachment 0',
    ],
  },
  {
    command: 'queue watch',
    says: 'show SMTP dialogues live, until Ctrl-C; never the contents of mails',
    input: [
      { flag: '--lane <lane>', says: 'on the connections of this lane, as `queue lanes` shows it' },
      { flag: '--message <id>', says: 'about this message' },
      { flag: '--for <time>', says: 'end after so long, such as 1m', kind: 'duration' },
    ],
    json: BY_LINE,
    load: async () => (await import('./mail.ts')).watch,
    examples: [
      'posthorn queue watch --lane mx.example.net --for 1m',
      'posthorn queue watch --message msg_01jz... --json',
    ],
  },
  {
    command: 'events tail',
    says: 'show the newest events, and then those that come, until Ctrl-C',
    input: [
      {
        flag: '--types <types>',
        says: 'only these; deferred, suppressed, failed and unsubscribed are shown only when named',
        kind: 'list',
      },
      {
        flag: '--since <time>',
        says: 'from then on: an RFC 3339 time, or a duration before now, such as 1h',
        kind: sinceOption,
      },
      { flag: '--limit <n>', says: 'how many of the newest to begin with', kind: 'limit', default: 10 },
      { flag: '--no-follow', says: 'end after the last event' },
      ofAccount,
    ],
    json: BY_LINE,
    load: async () => (await import('./mail.ts')).tail,
    examples: ['posthorn events tail', 'posthorn events tail --types bounced,deferred --since 1h --no-follow --json'],
  },
  {
    command: 'export',
    says: 'write a whole list as CSV to standard output; filters are the parameters of the list in the API',
    input: [
      { flag: '<list>', choices: ['messages', 'events', 'stats', 'audit', 'suppressions'] },
      { flag: '[filters...]', says: 'such as status=bounced created_after=2026-01-01T00:00:00Z', kind: filterArgument },
      ofAccount,
    ],
    json: `${BY_LINE} instead`,
    load: async () => (await import('./mail.ts')).exportList,
    examples: [
      'posthorn export messages status=bounced > bounces.csv',
      'posthorn export audit by=key --json --account Acme',
    ],
  },
  {
    command: 'suppressions import',
    says: 'add the addresses of a CSV file to the suppressions; the others stay',
    input: [
      {
        flag: '<file>',
        says: 'an export of this or another service (CSV or JSON), or addresses alone; - for standard input',
      },
      { flag: '--reason <reason>', says: 'if the file has none', default: 'manual' },
      { flag: '--stream <slug>', says: 'if the file has none: only for this stream' },
      { flag: '--preview', says: 'only say what is read, and what is not and why' },
      ofAccount,
    ],
    load: async () => (await import('./mail.ts')).importSuppressions,
    examples: [
      'posthorn suppressions import bounces.csv --reason hard_bounce',
      'posthorn suppressions import list.csv',
    ],
  },
  {
    command: 'suppressions export',
    says: 'write all suppressions as CSV to standard output, newest first',
    input: [
      { flag: '--reason <reason>', says: 'only this' },
      { flag: '--stream <slug>', says: 'only those for this stream' },
      ofAccount,
    ],
    json: `${BY_LINE} instead`,
    load: async () => (await import('./mail.ts')).exportSuppressions,
    examples: ['posthorn suppressions export > suppressions.csv'],
  },
  {
    command: 'doctor',
    says: 'check everything that mail depends on; exit code 1 if a check failed',
    input: [
      { flag: '--only <checks>', says: 'only these checks: name,outbound,...', kind: 'list' },
      { flag: '--dnssec', says: 'try the DNS servers for DNSSEC, although no setting needs it' },
    ],
    load: async () => (await import('./doctor.ts')).doctor,
    examples: [
      'posthorn doctor',
      'posthorn doctor --only name,outbound,blocklists',
      'posthorn doctor --json | jq \'.data[] | select(.status != "ok")\'',
    ],
  },
  {
    command: 'tls install',
    says: 'check a certificate and its key, copy them to where the server reads them, and have them used',
    input: [
      {
        flag: '--cert <file>',
        says: 'PEM file with the chain, the own certificate first (fullchain.pem)',
        isRequired: true,
      },
      { flag: '--key <file>', says: 'PEM file with the private key (privkey.pem)', isRequired: true },
      { flag: '--any-name', says: 'take a certificate without the name of this server' },
    ],
    more: `
Run it as root or as the user of the service; again after each renewal. A pair that is not good changes nothing.

Exit codes: 0 installed, or there already; 65 the pair is not good; 66 no such file; 69 the server did not take it;
73 the data folder cannot be written; 77 this user may not read a file; 78 the settings name other files.`,
    load: async () => (await import('./tls.ts')).install,
    examples: [
      'posthorn tls install --cert /etc/letsencrypt/live/mail.example.com/fullchain.pem --key /etc/letsencrypt/live/mail.example.com/privkey.pem',
    ],
  },
  {
    command: 'inbound show',
    says: 'show a mail that came back as a mail program would: addresses, subject, text and files',
    input: [{ flag: '<report>', says: 'its id' }],
    load: async () => (await import('./mail.ts')).showReport,
    examples: ['posthorn inbound show rep_01kg9p6je0ec0s7m42jmky5pp2'],
  },
  {
    command: 'inbound parse',
    says: 'show how the listener would read mails in files',
    input: [{ flag: '<file...>' }],
    json: BY_LINE,
    load: async () => (await import('./explain.ts')).parse,
    examples: ['posthorn inbound parse bounce.eml', 'posthorn inbound parse mails/*.eml --json | jq .kind'],
  },
  {
    command: 'inbound simulate',
    says: 'hand in a mail from a file as if it came from outside, and show what came of it; exit code 1 if not taken',
    input: [
      { flag: '<file>', says: 'a mail, with its header' },
      { flag: '--to <address>', says: 'the recipient', isRequired: true },
      { flag: '--from <address>', says: 'the sender of the envelope', default: '' },
    ],
    load: async () => (await import('./mail.ts')).simulate,
    examples: ['posthorn inbound simulate answer.eml --from ana@example.net --to support@example.com'],
  },
  {
    command: 'classify',
    says: 'explain what an SMTP reply, or the diagnostic of a bounce mail, would mean here, by which rule, which limit would follow, and which rules for mail hold',
    input: [
      { flag: '<reply>', says: 'the reply with its code, or - for one a line from standard input' },
      { flag: '--mx <host>', says: 'the mail host that said it' },
      { flag: '--domain <domain>', says: 'the recipient domain: only the rules for mail that hold for it are shown' },
      { flag: '--phase <phase>', says: 'what it answered (default: as it says, else rcpt)', choices: phases },
    ],
    json: 'as JSON: one object, or one a line with -',
    load: async () => (await import('./explain.ts')).classify,
    examples: [
      "posthorn classify '550 5.1.1 no such user'",
      "posthorn classify '421 4.7.0 try again later' --mx gmail-smtp-in.l.google.com",
      'posthorn classify - --json < replies.txt',
    ],
  },
  {
    command: 'completion',
    says: 'print a script that completes commands and options in your shell',
    input: [{ flag: '<shell>', choices: ['bash', 'zsh', 'fish'] }],
    json: null,
    load: async () => (await import('./completion.ts')).completion,
    examples: [
      'posthorn completion bash > /etc/bash_completion.d/posthorn',
      'posthorn completion zsh > ~/.zfunc/_posthorn',
      'posthorn completion fish > ~/.config/fish/completions/posthorn.fish',
    ],
  },
];
