/** Examples for `--help` of commands that have none of their own, by the command's path. */
import type { Command } from 'commander';
import { examples } from './options.ts';

const samples: Readonly<Record<string, readonly string[]>> = {
  serve: ['posthorn serve', 'posthorn --config /etc/posthorn/posthorn.yaml serve'],
  config: ['posthorn config check', 'posthorn config show'],
  'config check': [
    'posthorn config check',
    'posthorn config check --json',
    'posthorn --config new.yaml config check && systemctl reload posthorn',
  ],
  'config show': ['posthorn config show', 'posthorn config show --json | jq .smtp'],
  migrate: ['posthorn migrate', 'posthorn migrate --json'],
  'admin create': ['posthorn admin create ana@example.net'],
  'admin reset': ['posthorn admin reset ana@example.net', 'posthorn admin reset'],
  'accounts add': ['posthorn accounts add Acme', 'posthorn accounts add Acme --plan pro --json'],
  'accounts list': ['posthorn accounts list', 'posthorn accounts list --json'],
  'accounts plan': ['posthorn accounts plan Acme pro'],
  'accounts pause': ['posthorn accounts pause Acme'],
  'accounts resume': ['posthorn accounts resume Acme'],
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
  'domains dkim': ['posthorn domains dkim rotate example.com'],
  'domains dkim rotate': [
    'posthorn domains dkim rotate example.com',
    'posthorn domains dkim rotate intern.example --at-once',
  ],
  'domains show': ['posthorn domains show acme.example', 'posthorn domains show acme.example --json'],
  'domains list': ['posthorn domains list', 'posthorn domains list --account Acme --json'],
  'messages list': [
    'posthorn messages list --status deferred,bounced --limit 20',
    'posthorn messages list --to ana@example.net --json',
  ],
  'messages show': ['posthorn messages show msg_01jz...', 'posthorn messages show msg_01jz... --json'],
  'messages why': ['posthorn messages why msg_01jz...'],
  'messages resend': ['posthorn messages resend --bounced --domain example.net --dry-run'],
  'messages trace': ['posthorn messages trace msg_01jz...'],
  'queue lanes': ['posthorn queue lanes', 'posthorn queue lanes --lane mx.example.net'],
  'queue list': ['posthorn queue list --domain example.net', 'posthorn queue list --status deferred --json'],
  'queue flush': [
    'posthorn queue flush --domain example.net',
    'posthorn queue flush --message msg_01jz...',
    'posthorn queue flush --all',
  ],
  'queue holds': ['posthorn queue holds', 'posthorn queue holds --json'],
  'queue cancel': [
    'posthorn queue cancel --message msg_01jz...',
    'posthorn queue cancel --stream broadcast --account Acme',
  ],
  'queue hold': ['posthorn queue hold --stream broadcast', 'posthorn queue hold --domain example.net --new --for 2h'],
  'queue pause': ['posthorn queue pause --domain example.net --for 2h --note "they move their servers"'],
  'queue resume': ['posthorn queue resume --domain example.net'],
  'queue release': ['posthorn queue release --stream broadcast'],
  'queue sources': ['posthorn queue sources', 'posthorn queue sources --json'],
  'queue unblock': ['posthorn queue unblock'],
  'queue watch': [
    'posthorn queue watch --lane mx.example.net --for 1m',
    'posthorn queue watch --message msg_01jz... --json',
  ],
  backup: ['posthorn backup create'],
  'queue limit': [
    'posthorn queue limit --lane mx.example.net --connections 1 --for 6h',
    'posthorn queue limit --lane mx.example.net',
  ],
  events: ['posthorn events tail --types bounced'],
  'events tail': [
    'posthorn events tail',
    'posthorn events tail --types bounced,deferred --since 1h --no-follow --json',
  ],
  'suppressions list': ['posthorn suppressions list --reason hard_bounce', 'posthorn suppressions list --json'],
  'suppressions add': ['posthorn suppressions add old@example.org --note "asked by phone"'],
  'suppressions remove': ['posthorn suppressions remove old@example.org'],
  'suppressions import': [
    'posthorn suppressions import list.csv',
    'posthorn suppressions import bounced.txt --reason hard_bounce',
  ],
  'suppressions export': ['posthorn suppressions export > suppressions.csv'],
  'webhooks list': ['posthorn webhooks list', 'posthorn webhooks list --account Acme --json'],
  'webhooks pause': ['posthorn webhooks pause whk_01jz...'],
  'webhooks enable': ['posthorn webhooks enable whk_01jz...'],
  'inbound parse': ['posthorn inbound parse bounce.eml', 'posthorn inbound parse mails/*.eml --json | jq .kind'],
  'inbound self-test': ['posthorn inbound self-test'],
  books: ['posthorn books', 'posthorn books --json'],
};

/** Gives them to the commands below this one that show none. */
export function addSamples(command: Command, path: readonly string[] = []): void {
  const own = samples[path.join(' ')];
  if (own !== undefined) command.addHelpText('after', examples(...own));
  for (const below of command.commands) addSamples(below, [...path, below.name()]);
}
