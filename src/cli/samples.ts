/** Examples for the `--help` of each command: those of presentations, and of the commands that are written by hand. */
import type { CommandUnknownOpts } from '@commander-js/extra-typings';
import type { Presentation } from '../presentations/presentation.ts';

type Samples = Readonly<Record<string, readonly string[]>>;

const samples: Samples = {
  serve: ['posthorn serve', 'posthorn --config /etc/posthorn/posthorn.yaml serve'],
  'config check': [
    'posthorn config check',
    'posthorn config check --json',
    'posthorn --config new.yaml config check && systemctl reload posthorn',
  ],
  'config show': ['posthorn config show', 'posthorn config show --json | jq .smtp'],
  migrate: ['posthorn migrate', 'posthorn migrate --json'],
  'backup create': ['posthorn backup create', 'posthorn backup create /mnt/backups --json'],
  'backup verify': ['posthorn backup verify /var/backups/posthorn/posthorn-20260131T031700Z'],
  'backup restore': [
    'posthorn backup restore posthorn-20260131T031700Z --passphrase-file /var/lib/posthorn/passphrase',
  ],
  'storage move': [
    'posthorn storage move --to postgres://posthorn@db.example.com/posthorn?sslmode=verify-full --password-file /var/lib/posthorn/password',
    'posthorn storage move --to sqlite:/var/lib/posthorn/posthorn.db --json',
  ],
  'tls install': [
    'posthorn tls install --cert /etc/letsencrypt/live/mail.example.com/fullchain.pem --key /etc/letsencrypt/live/mail.example.com/privkey.pem',
  ],
  export: [
    'posthorn export messages status=bounced > bounces.csv',
    'posthorn export audit by=key --json --account Acme',
  ],
  send: [
    'posthorn send --from ops@example.com --to ana@example.net --subject "Disk full" --text "sda1 is at 98 %"',
    'df -h | posthorn send --from ops@example.com --to ana@example.net --subject "Disks"',
  ],
  'queue watch': [
    'posthorn queue watch --lane mx.example.net --for 1m',
    'posthorn queue watch --message msg_01jz... --json',
  ],
  'queue lanes': ['posthorn queue lanes', 'posthorn queue lanes --lane mx.example.net'],
  'events tail': [
    'posthorn events tail',
    'posthorn events tail --types bounced,deferred --since 1h --no-follow --json',
  ],
  'suppressions import': [
    'posthorn suppressions import bounces.csv --reason hard_bounce',
    'posthorn suppressions import list.csv',
    'posthorn suppressions import bounced.txt --reason hard_bounce',
  ],
  'suppressions export': ['posthorn suppressions export > suppressions.csv'],
  doctor: [
    'posthorn doctor',
    'posthorn doctor --only name,outbound,blocklists',
    'posthorn doctor --json | jq \'.data[] | select(.status != "ok")\'',
  ],
  'received save': [
    'posthorn received save rcv_01jz... answer.eml',
    'posthorn received save rcv_01jz... photo.jpg --attachment 0',
  ],
  'inbound simulate': ['posthorn inbound simulate answer.eml --from ana@example.net --to support@example.com'],
  'inbound show': ['posthorn inbound show rep_01kg9p6je0ec0s7m42jmky5pp2'],
  'inbound parse': ['posthorn inbound parse bounce.eml', 'posthorn inbound parse mails/*.eml --json | jq .kind'],
  classify: [
    "posthorn classify '550 5.1.1 no such user'",
    "posthorn classify '421 4.7.0 try again later' --mx gmail-smtp-in.l.google.com",
    'posthorn classify - --json < replies.txt',
  ],
  completion: [
    'posthorn completion bash > /etc/bash_completion.d/posthorn',
    'posthorn completion zsh > ~/.zfunc/_posthorn',
    'posthorn completion fish > ~/.config/fish/completions/posthorn.fish',
  ],
};

/** Adds its examples to each command below this one. A group of commands shows the first example of each. */
export function addSamples(program: CommandUnknownOpts, presented: readonly Presentation[]): void {
  const all = { ...samples, ...Object.fromEntries(presented.map(({ command, examples }) => [command, examples])) };
  addBelow(program, all, []);
}

function addBelow(group: CommandUnknownOpts, all: Samples, path: readonly string[]): readonly string[] {
  const found = group.commands.map((command) => {
    const name = [...path, command.name()];
    const lines = command.commands.length > 0 ? addBelow(command, all, name) : (all[name.join(' ')] ?? []);
    command.addHelpText('after', ['', 'Examples:', ...lines.map((line) => `  $ ${line}`)].join('\n'));
    return lines;
  });
  return found.flatMap(([first]) => first ?? []);
}
