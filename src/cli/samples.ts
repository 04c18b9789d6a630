/** Examples for the `--help` of each command. */
import type { CommandUnknownOpts } from '@commander-js/extra-typings';

const samples: Readonly<Record<string, readonly string[]>> = {
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
  'admin create': ['posthorn admin create ana@example.net'],
  'admin reset': ['posthorn admin reset ana@example.net', 'posthorn admin reset'],
  status: ['posthorn status', 'posthorn status --json'],
  'tls install': [
    'posthorn tls install --cert /etc/letsencrypt/live/mail.example.com/fullchain.pem --key /etc/letsencrypt/live/mail.example.com/privkey.pem',
  ],
  'team list': ['posthorn team list', 'posthorn team list --json'],
  'team add': [
    'posthorn team add ana@example.net --role support --accounts Acme',
    'posthorn team add ana@example.net --role administrator --mail',
  ],
  'team link': ['posthorn team link ana@example.net', 'posthorn team link ana@example.net --mail --json'],
  'team role': [
    'posthorn team role ana@example.net read_only',
    'posthorn team role ana@example.net support --accounts Acme,Shop',
  ],
  'team remove': ['posthorn team remove ana@example.net'],
  'accounts add': ['posthorn accounts add Acme', 'posthorn accounts add Acme --plan pro --json'],
  'accounts list': ['posthorn accounts list', 'posthorn accounts list --json'],
  'accounts plan': ['posthorn accounts plan Acme pro'],
  'accounts pause': ['posthorn accounts pause Acme'],
  'accounts resume': ['posthorn accounts resume Acme'],
  audit: ['posthorn audit --account Acme', 'posthorn audit --server --limit 20'],
  export: [
    'posthorn export messages status=bounced > bounces.csv',
    'posthorn export audit by=key --json --account Acme',
  ],
  'keys create': [
    'posthorn keys create --name shop --scopes send,message:read',
    'posthorn keys create --name ci --scopes send --mode test --ttl 90d --json',
    'posthorn keys create --name office --scopes send --domains example.com --allowed-ips 192.0.2.0/24',
  ],
  'keys list': ['posthorn keys list', 'posthorn keys list --account Acme --json'],
  'keys revoke': ['posthorn keys revoke key_01jz...'],
  'domains add': [
    'posthorn domains add example.com',
    'posthorn domains add intern.example --trust',
    'posthorn domains add example.com --return-path bounces.example.com --account Acme',
  ],
  'domains records': ['posthorn domains records example.com', 'posthorn domains records example.com --json'],
  'domains verify': ['posthorn domains verify example.com'],
  'domains show': ['posthorn domains show acme.example', 'posthorn domains show acme.example --json'],
  'domains dkim rotate': [
    'posthorn domains dkim rotate example.com',
    'posthorn domains dkim rotate intern.example --at-once',
  ],
  'domains list': ['posthorn domains list', 'posthorn domains list --account Acme --json'],
  send: [
    'posthorn send --from ops@example.com --to ana@example.net --subject "Disk full" --text "sda1 is at 98 %"',
    'df -h | posthorn send --from ops@example.com --to ana@example.net --subject "Disks"',
  ],
  'messages list': [
    'posthorn messages list --status deferred,bounced --limit 20',
    'posthorn messages list --to ana@example.net --json',
    'posthorn messages list --request req_01jz...',
  ],
  'messages show': ['posthorn messages show msg_01jz...', 'posthorn messages show msg_01jz... --json'],
  'messages why': ['posthorn messages why msg_01jz...'],
  'messages trace': ['posthorn messages trace msg_01jz...', 'posthorn messages trace req_01jz...'],
  'queue hold': ['posthorn queue hold --stream broadcast', 'posthorn queue hold --domain example.net --new --for 2h'],
  'queue pause': ['posthorn queue pause --domain example.net --for 2h --note "they move their servers"'],
  'queue release': ['posthorn queue release --stream broadcast'],
  'queue resume': ['posthorn queue resume --domain example.net'],
  'queue holds': ['posthorn queue holds', 'posthorn queue holds --json'],
  'queue limit': [
    'posthorn queue limit --lane mx.example.net --connections 1 --for 6h',
    'posthorn queue limit --lane mx.example.net',
  ],
  'queue cancel': [
    'posthorn queue cancel --message msg_01jz...',
    'posthorn queue cancel --stream broadcast --account Acme',
    'posthorn queue cancel --lane mx.example.net',
  ],
  'queue sources': ['posthorn queue sources', 'posthorn queue sources --json'],
  'queue unblock': ['posthorn queue unblock'],
  'queue watch': [
    'posthorn queue watch --lane mx.example.net --for 1m',
    'posthorn queue watch --message msg_01jz... --json',
  ],
  'queue lanes': ['posthorn queue lanes', 'posthorn queue lanes --lane mx.example.net'],
  'queue list': [
    'posthorn queue list --domain example.net',
    'posthorn queue list --lane mx.example.net --older-than 6h',
    'posthorn queue list --class broadcast --status deferred --json',
  ],
  'queue flush': [
    'posthorn queue flush --domain example.net',
    'posthorn queue flush --lane mx.example.net',
    'posthorn queue flush --message msg_01jz...',
    'posthorn queue flush --all',
  ],
  resolve: ['posthorn resolve example.net', 'posthorn resolve example.net --json'],
  'events tail': [
    'posthorn events tail',
    'posthorn events tail --types bounced,deferred --since 1h --no-follow --json',
  ],
  stats: ['posthorn stats', 'posthorn stats --hours 24', 'posthorn stats --days 30 --by provider'],
  reputation: ['posthorn reputation', 'posthorn reputation --days 7 --json'],
  'suppressions list': ['posthorn suppressions list --reason hard_bounce', 'posthorn suppressions list --json'],
  'suppressions add': ['posthorn suppressions add old@example.org --note "asked by phone"'],
  'suppressions remove': ['posthorn suppressions remove old@example.org'],
  'suppressions import': [
    'posthorn suppressions import bounces.csv --reason hard_bounce',
    'posthorn suppressions import list.csv',
    'posthorn suppressions import bounced.txt --reason hard_bounce',
  ],
  'suppressions export': ['posthorn suppressions export > suppressions.csv'],
  'webhooks list': ['posthorn webhooks list', 'posthorn webhooks list --account Acme --json'],
  'webhooks pause': ['posthorn webhooks pause whk_01jz...'],
  'webhooks enable': ['posthorn webhooks enable whk_01jz...'],
  books: ['posthorn books', 'posthorn books --json'],
  'nodes list': ['posthorn nodes list', 'posthorn nodes list --json'],
  'nodes drain': ['posthorn nodes drain node-b'],
  'nodes resume': ['posthorn nodes resume node-b'],
  'nodes remove': ['posthorn nodes remove node-b', 'posthorn nodes remove node-b --force'],
  doctor: [
    'posthorn doctor',
    'posthorn doctor --only name,outbound,blocklists',
    'posthorn doctor --json | jq \'.data[] | select(.status != "ok")\'',
  ],
  'inbound self-test': ['posthorn inbound self-test'],
  'inbound unverified': ['posthorn inbound unverified', 'posthorn inbound unverified --json | jq .id'],
  'inbound show': ['posthorn inbound show rep_01kg9p6je0ec0s7m42jmky5pp2'],
  'inbound confirm': ['posthorn inbound confirm rep_01kg9p6je0ec0s7m42jmky5pp2'],
  'inbound parse': ['posthorn inbound parse bounce.eml', 'posthorn inbound parse mails/*.eml --json | jq .kind'],
  reclassify: ['posthorn reclassify --past 2d --dry-run', 'posthorn reclassify --past 2d'],
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
export function addSamples(group: CommandUnknownOpts, path: readonly string[] = []): readonly string[] {
  const found = group.commands.map((command) => {
    const name = [...path, command.name()];
    const lines = command.commands.length > 0 ? addSamples(command, name) : (samples[name.join(' ')] ?? []);
    command.addHelpText('after', ['', 'Examples:', ...lines.map((line) => `  $ ${line}`)].join('\n'));
    return lines;
  });
  return found.flatMap(([first]) => first ?? []);
}
