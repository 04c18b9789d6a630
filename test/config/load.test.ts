import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { parse } from 'yaml';
import { ConfigError, loadConfig, readSettings, variableOf, type LoadOptions } from '../../src/config/load.ts';
import { exampleSettings } from '../support/tools/configuration-manual.ts';
import { complete, listSettings } from '../../src/config/schema.ts';
import { nameInHosts, readSurroundings } from '../../src/config/surroundings.ts';

const around = { cwd: '/srv/posthorn', privileged: false, terminal: false, hostname: 'mail.example.com' };

describe('loadConfig', () => {
  let folder: string;
  const put = (name: string, text: string): string => {
    const file = path.join(folder, name);
    mkdirSync(path.dirname(file), { recursive: true });
    writeFileSync(file, text);
    return file;
  };
  const load = (options: Partial<LoadOptions> = {}) => loadConfig({ ...around, cwd: folder, env: {}, ...options });
  const mistakes = (options: Partial<LoadOptions>): readonly string[] => {
    try {
      load(options);
    } catch (error) {
      assert.ok(error instanceof ConfigError);
      return error.mistakes;
    }
    return assert.fail('the settings were taken');
  };

  beforeEach(() => {
    folder = mkdtempSync(path.join(os.tmpdir(), 'posthorn-config-'));
  });
  afterEach(() => {
    rmSync(folder, { recursive: true });
  });

  describe('defaults', () => {
    it('needs nothing', () => {
      const { config, warnings, origins } = load();
      assert.deepEqual(warnings, []);
      assert.equal(origins.size, 0);
      assert.equal(config.dataDir, path.join(folder, 'data'));
      assert.equal(config.storage.url, `sqlite:${folder}/data/posthorn.db`);
      assert.equal(config.http.publicUrl, 'http://127.0.0.1:8025');
      assert.equal(config.dashboard.port, 8025);
      assert.equal(config.smtp.hostname, 'mail.example.com');
      assert.equal(config.log.format, 'json');
      assert.equal(config.tls, null);
      assert.equal(config.delivery.maxAge, 72 * 3_600_000);
      assert.deepEqual(config.delivery.retry.schedule.slice(0, 2), [60_000, 300_000]);
      assert.equal(config.limits.messageBytes, 25 * 2 ** 20);
      assert.equal(config.limits.blockedExtensions.length, 41);
      assert.deepEqual(config.plans['standard'], { requestsPerMinute: 600, mailsPerDay: null, mailsPerMonth: null });
    });

    it('depend on what the process may and is connected to', () => {
      const ports = ({ smtp }: typeof config) => [smtp.mx.port, smtp.submission.port, smtp.submission.tlsPort];
      const { config } = load();
      assert.deepEqual(ports(config), [2525, 2587, 2465]);
      assert.deepEqual(ports(load({ privileged: true }).config), [25, 587, 465]);
      assert.equal(load({ terminal: true }).config.log.format, 'pretty');
    });

    it('follow other settings', () => {
      const { config } = load({ env: { POSTHORN_HTTP__PORT: '9000', POSTHORN_DATA_DIR: '/var/lib/posthorn' } });
      assert.equal(config.http.publicUrl, 'http://127.0.0.1:9000');
      assert.equal(config.dashboard.port, 9000);
      assert.equal(config.storage.url, 'sqlite:/var/lib/posthorn/posthorn.db');
    });

    it('pass the checks that written values pass', () => {
      assert.equal(readSettings(complete({}), around).kind, 'ok');
    });

    it('warn of a setting without a value, such as a passphrase that YAML takes for a comment or an anchor', () => {
      for (const written of ['', ' #correct horse battery', ' &correct-horse-battery']) {
        const file = put('empty.yaml', `backup:\n  passphrase:${written}\n  keep: 3\n`);
        const { warnings, config } = load({ file });
        assert.equal(config.backup.passphrase, null);
        assert.deepEqual(warnings, [
          `backup.passphrase: has no value in ${file}, so the default holds; text that begins with # or & needs quotes`,
        ]);
      }
      const elsewhere = { POSTHORN_BACKUP__PASSPHRASE: 'correct horse battery' };
      assert.deepEqual(load({ file: put('elsewhere.yaml', 'backup:\n  passphrase:\n'), env: elsewhere }).warnings, []);
      for (const written of [' null', ' ~', ' "#correct horse battery"'])
        assert.deepEqual(load({ file: put('said.yaml', `backup:\n  passphrase:${written}\n`) }).warnings, []);
    });

    it('warn of a name that is not fully qualified, where it is the one used', () => {
      assert.match(load({ hostname: 'box' }).warnings.join(), /smtp\.hostname: "box"/);
      assert.deepEqual(load({ hostname: 'box', env: { POSTHORN_SMTP__HOSTNAME: 'a.example' } }).warnings, []);
    });

    it('warn of a route whose password goes over the network in clear', () => {
      const routesOf = (tls: string): string =>
        JSON.stringify({ 'dest.example': { host: 'relay.example', port: 587, tls, user: 'me', password: 'hunter2' } });
      const { warnings } = load({ env: { POSTHORN_DELIVERY__ROUTES: routesOf('none') } });
      assert.match(
        warnings.join(),
        /"dest\.example" says `tls: none`, so its password goes to relay\.example in clear/,
      );
      assert.ok(!warnings.join().includes('hunter2'));
      assert.deepEqual(load({ env: { POSTHORN_DELIVERY__ROUTES: routesOf('required') } }).warnings, []);
    });

    it('warn of contents that are to be kept for longer than their messages', () => {
      const env = { POSTHORN_RETENTION__CONTENT: '90d', POSTHORN_RETENTION__MESSAGES: '30d' };
      assert.match(load({ env }).warnings.join(), /^retention\.content: 90d .* retention\.messages \(30d\)/);
    });

    it('cannot be changed', () => {
      const { config } = load();
      assert.throws(() => Object.assign(config.http, { port: 1 }), TypeError);
      assert.throws(() => Object.assign(config.delivery.retry.schedule, { 0: 1 }), TypeError);
    });

    it('keep the built-in plans beside new ones', () => {
      const { config } = load({
        env: { POSTHORN_PLANS: '{"pro":{"requestsPerMinute":9},"big":{"requestsPerMinute":7,"mailsPerDay":5}}' },
      });
      assert.equal(config.plans['pro']?.requestsPerMinute, 9);
      assert.deepEqual(config.plans['big'], { requestsPerMinute: 7, mailsPerDay: 5, mailsPerMonth: null });
      assert.equal(config.plans['starter']?.requestsPerMinute, 120);
    });
  });

  describe('files', () => {
    it('are looked for in order: --config, POSTHORN_CONFIG, config/posthorn.yaml', () => {
      put('config/posthorn.yaml', 'http: { port: 3 }');
      put('env.yaml', 'http: { port: 2 }');
      const file = put('flag.yaml', 'http: { port: 1 }');
      assert.equal(load({ file, env: { POSTHORN_CONFIG: 'env.yaml' } }).config.http.port, 1);
      assert.equal(load({ env: { POSTHORN_CONFIG: 'env.yaml' } }).config.http.port, 2);
      assert.equal(load().config.http.port, 3);
      assert.equal(load().file, path.join(folder, 'config/posthorn.yaml'));
    });

    it('may be empty, or have emptied groups and values', () => {
      for (const text of ['', '# nothing\n', 'http:\n', 'http:\n  port:\n', 'delivery:\n  retry:\n']) {
        assert.equal(load({ file: put('x.yaml', text) }).config.http.port, 8025, text);
      }
    });

    it('yield to variables, value by value', () => {
      const file = put('x.yaml', 'http:\n  port: 1\n  host: 10.0.0.1\n');
      const { config, origins } = load({ file, env: { POSTHORN_HTTP__PORT: '2' } });
      assert.deepEqual([config.http.port, config.http.host], [2, '10.0.0.1']);
      assert.deepEqual([origins.get('http.port'), origins.get('http.host')], ['POSTHORN_HTTP__PORT', file]);
    });

    it('that are named must be there and be readable', () => {
      assert.match(mistakes({ file: 'nowhere.yaml' }).join(), /nowhere\.yaml: expected a settings file, found none/);
      assert.match(mistakes({ file: folder }).join(), /EISDIR/);
    });

    it('that are not YAML, or name a setting twice, say where', () => {
      assert.match(mistakes({ file: put('x.yaml', 'http: {port: 1') }).join(), /x\.yaml: .* at line 1/);
      assert.match(mistakes({ file: put('x.yaml', 'http:\n  port: 1\n  port: 2\n') }).join(), /unique.* at line 3/);
      const unclosed = 'smtp:\n  hostname: "mail.example.com\nhttp:\n  port: 1\n';
      assert.match(mistakes({ file: put('x.yaml', unclosed) }).join(), /a quote is not closed before line \d+/);
    });

    it('show nothing of a password that YAML takes for an alias, and speak of documents in plain words', () => {
      const alias = mistakes({ file: put('x.yaml', 'backup:\n  passphrase: *horse-battery\n') }).join();
      assert.match(alias, /x\.yaml: a value begins with `\*`.*quotes$/);
      assert.ok(!alias.includes('horse'), alias);
      assert.match(
        mistakes({ file: put('x.yaml', 'http: { port: 1 }\n---\nhttp: { port: 2 }\n') }).join(),
        /x\.yaml: expected one document, found another from line 2 on$/,
      );
    });

    it('have a size limit, and so have the aliases in them', () => {
      assert.match(mistakes({ file: put('x.yaml', `# ${'x'.repeat(2 ** 20)}`) }).join(), /larger than 1 MiB/);
      const bomb = [
        'a: &a [x,x,x,x,x,x,x,x,x]',
        ...'bcdefgh'.split('').map((name, i) => `${name}: &${name} [${`*${'abcdefg'.charAt(i)},`.repeat(9)}]`),
      ];
      assert.match(mistakes({ file: put('x.yaml', bomb.join('\n')) }).join(), /alias/i);
    });

    it('that are a list or a word are refused', () => {
      assert.match(mistakes({ file: put('x.yaml', '- http\n') }).join(), /x\.yaml: expected a group with dataDir/);
      assert.match(mistakes({ file: put('x.yaml', 'http\n') }).join(), /x\.yaml: expected a group with dataDir/);
    });

    it('cannot reach the prototype of anything', () => {
      assert.match(
        mistakes({ file: put('x.yaml', '__proto__: { port: 1 }\nconstructor: 1\n') }).join('\n'),
        /constructor: unknown setting/,
      );
      assert.equal(Reflect.get({}, 'port'), undefined);
    });
  });

  describe('variables', () => {
    it('have the name of the setting in capitals', () => {
      assert.equal(variableOf('http.publicUrl'), 'POSTHORN_HTTP__PUBLIC_URL');
      assert.equal(variableOf('dataDir'), 'POSTHORN_DATA_DIR');
      assert.equal(variableOf('delivery.lane.maxConcurrency'), 'POSTHORN_DELIVERY__LANE__MAX_CONCURRENCY');
      const all = listSettings().map(({ path: name }) => variableOf(name));
      assert.equal(new Set(all).size, all.length, 'no two settings share a variable');
    });

    it('give each kind of value', () => {
      const { config } = load({
        env: {
          POSTHORN_HTTP__PORT: '8000',
          POSTHORN_DELIVERY__DNS_SERVERS: '127.0.0.1:5353, [::1]:53',
          POSTHORN_HTTP__TRUSTED_PROXIES: '["10.0.0.0/8"]',
          POSTHORN_WEBHOOKS__ALLOW_CIDRS: '',
          POSTHORN_DELIVERY__ROUTES: '{"*":"127.0.0.1:2626"}',
          POSTHORN_DELIVERY__ALLOW_PRIVATE: 'true',
          POSTHORN_DELIVERY__RETRY__SCHEDULE: '1s,2s',
          POSTHORN_DELIVERY__MAX_AGE: '5m',
          POSTHORN_STORAGE__MIN_FREE_BYTES: '1MiB',
          POSTHORN_SMTP__OPERATOR_ADDRESS: 'ops@example.com',
        },
      });
      assert.equal(config.http.port, 8000);
      assert.deepEqual(config.delivery.dnsServers, ['127.0.0.1:5353', '[::1]:53']);
      assert.deepEqual(config.http.trustedProxies, ['10.0.0.0/8']);
      assert.deepEqual(config.webhooks.allowCidrs, []);
      assert.equal(config.delivery.routes['*']?.kind, 'smarthost');
      assert.equal(config.delivery.allowPrivate, true);
      assert.deepEqual(config.delivery.retry.schedule, [1000, 2000]);
      assert.equal(config.delivery.maxAge, 300_000);
      assert.equal(config.storage.minFreeBytes, 2 ** 20);
      assert.equal(config.smtp.operatorAddress, 'ops@example.com');
    });

    it('that nobody knows are one warning each, with what was probably meant', () => {
      const { warnings } = load({ env: { POSTHORN_HTTP__PROT: '1', POSTHORN_NONSENSE: 'x', HOME: '/root' } });
      assert.equal(warnings.length, 2);
      assert.match(warnings[0] ?? '', /POSTHORN_HTTP__PROT .*did you mean POSTHORN_HTTP__PORT\?/);
      assert.match(warnings[1] ?? '', /POSTHORN_NONSENSE is not a setting/);
    });

    it('that are not settings are none', () => {
      const env = { POSTHORN_API_KEY: 'k', POSTHORN_BASE_URL: 'u', POSTHORN_CORPORA: 'c' };
      assert.deepEqual(load({ env }).warnings, []);
    });

    it('may name a file that holds the value', () => {
      const file = put('routes.json', '{"dest.test":{"host":"r.test","port":587,"user":"u","password":"p"}}\n');
      const { config } = load({ env: { POSTHORN_DELIVERY__ROUTES_FILE: file } });
      const route = config.delivery.routes['dest.test'];
      assert.ok(route?.kind === 'smarthost');
      assert.equal(route.auth?.password, 'p');
      assert.match(
        mistakes({ env: { POSTHORN_DELIVERY__ROUTES_FILE: '/nowhere' } }).join(),
        /delivery\.routes .*\/nowhere: no such file/,
      );
      const both = { POSTHORN_DELIVERY__ROUTES: '{}', POSTHORN_DELIVERY__ROUTES_FILE: file };
      assert.match(mistakes({ env: both }).join(), /found both/);
    });

    it('POSTHORN_TLS__CERT_FILE is the setting tls.certFile, not a file with one', () => {
      const { config } = load({ env: { POSTHORN_TLS__CERT_FILE: 'c.pem', POSTHORN_TLS__KEY_FILE: 'k.pem' } });
      assert.deepEqual(config.tls, { certFile: path.join(folder, 'c.pem'), keyFile: path.join(folder, 'k.pem') });
    });

    it('yield to nothing, credentials of systemd to variables only', () => {
      put('credentials/http.port', '7\n');
      put('credentials/other.key', 'x');
      put('credentials/setting_http.host', '127.0.0.2\n');
      const env = { CREDENTIALS_DIRECTORY: path.join(folder, 'credentials') };
      const file = put('x.yaml', 'http: { port: 1 }');
      assert.equal(load({ file, env }).config.http.port, 7);
      assert.equal(load({ file, env }).config.http.host, '127.0.0.2', 'as systemd names the files of a folder');
      assert.equal(load({ file, env: { ...env, POSTHORN_HTTP__PORT: '9' } }).config.http.port, 9);
      assert.equal(load({ env: { CREDENTIALS_DIRECTORY: '/nowhere' } }).config.http.port, 8025);
    });

    it('a credential with a mistake is named', () => {
      const file = put('credentials/setting_delivery.routes', '{"*":hold}');
      const env = { CREDENTIALS_DIRECTORY: path.join(folder, 'credentials') };
      assert.ok(
        mistakes({ env })[0]?.startsWith(`delivery.routes (${file}): expected a map`),
        mistakes({ env }).join(),
      );
    });

    it('a file of the folder of credentials that is not a setting is told, with the one that may be meant', () => {
      put('credentials/setting_metrics.tokne', 'x');
      const env = { CREDENTIALS_DIRECTORY: path.join(folder, 'credentials') };
      const [warning = '', ...others] = load({ env }).warnings;
      assert.match(warning, /setting_metrics\.tokne: metrics\.tokne is not a setting .*did you mean metrics\.token\?/);
      assert.deepEqual(others, []);
    });
  });

  describe('mistakes', () => {
    it('are told all at once, a line each', () => {
      const file = put(
        'x.yaml',
        'http: { prot: 1, host: "a b" }\nlog: { level: loud }\nports: 3\nsmtp: 25\ndelivery: { lane: { initialConcurrency: 20 } }\n',
      );
      const lines = mistakes({
        file,
        env: { POSTHORN_HTTP__PORT: 'eighty', POSTHORN_DELIVERY__DNS_SERVERS: '1.1.1.1,dns' },
      });
      assert.deepEqual([...lines].sort(), [
        'delivery.dnsServers[1] (POSTHORN_DELIVERY__DNS_SERVERS): expected an IP address with an optional port, such as 127.0.0.1:5353 or [::1]:53, found "dns"',
        'delivery.lane.maxConcurrency: expected at least initialConcurrency (20), found 10',
        'http.host: expected an IP address or a host name, found "a b"',
        'http.port (POSTHORN_HTTP__PORT): expected a port number from 0 to 65535, found "eighty"',
        'http.prot: unknown setting, did you mean http.port?',
        'log.level: expected one of debug, info, warn, error, found "loud"',
        'ports: unknown setting',
        'smtp: expected a group with hostname, operatorAddress, mx, submission, found 25',
      ]);
    });

    it('name the setting that was meant, also from another level', () => {
      const lines = mistakes({
        file: put('x.yaml', 'data_dir: x\nallowPrivate: true\ndelivery: { retry: { shedule: [1m] } }\n'),
      });
      assert.match(lines.join('\n'), /data_dir: unknown setting, did you mean dataDir\?/);
      assert.match(lines.join('\n'), /allowPrivate: unknown setting, did you mean delivery\.allowPrivate\?/);
      assert.match(
        lines.join('\n'),
        /delivery\.retry\.shedule: unknown setting, did you mean delivery\.retry\.schedule\?/,
      );
    });

    it('do not print passwords', () => {
      const text = mistakes({
        env: {
          POSTHORN_DELIVERY__ROUTES:
            '{"a.test":"smtp://u:hunter2@r.test","b.test":{"host":"r.test","port":25,"user":"u","password":7}}',
        },
      }).join();
      assert.match(text, /delivery\.routes\.a\.test/);
      assert.match(text, /delivery\.routes\.b\.test/);
      assert.doesNotMatch(text, /hunter2|7/);
      assert.doesNotMatch(mistakes({ env: { POSTHORN_DELIVERY__ROUTES: '{"a":"hunter2"' } }).join(), /hunter2/);
    });

    for (const password of ['averyverylong'.repeat(8), 'pa/ss-word', 'p@ss-word', 'a?ss-word=b', 'p:ss-word'])
      it(`do not print the password ${password.slice(0, 12)} of a database`, () => {
        const text = mistakes({ env: { POSTHORN_STORAGE__URL: `postgres://posthorn:${password}@db/x` } }).join();
        assert.match(text, /without a password, found "postgres:\/\/posthorn:\*\*\*@db\/x"$/);
        assert.doesNotMatch(text, /averyvery|ss-word/);
      });

    it('do not print an API key that stands where its id belongs', () => {
      const key = `ak_live_${'x'.repeat(58)}`;
      assert.deepEqual(mistakes({ env: { POSTHORN_SMTP__SUBMISSION__TRUSTED_KEY: key } }), [
        'smtp.submission.trustedKey (POSTHORN_SMTP__SUBMISSION__TRUSTED_KEY): expected the id of an API key, found an API key',
      ]);
    });

    it('say in our words what members of lists and maps have to be', () => {
      const lines = mistakes({
        env: {
          POSTHORN_DELIVERY__SHAPING:
            '[{}, 7, {"name":"A","match":{"code":"9","text":"(a+)+"},"count":0,"within":"1s","action":"x","dryRun":1}]',
          POSTHORN_DELIVERY__SOURCES: '[{}, 7, {"name":5,"ipv4":"::1"}]',
          POSTHORN_DELIVERY__TLS: '{"a.test":"maybe"}',
          POSTHORN_PLANS: '{"small":7,"tiny":{}}',
        },
      });
      assert.ok(lines.length >= 15, lines.join('\n'));
      for (const line of lines) assert.doesNotMatch(line, /Invalid|received|expected expected/);
    });

    it('of a route are told at its members', () => {
      const file = put('x.yaml', 'delivery: { routes: { "*": { host: relay.example, port: "587", tls: starttls } } }');
      assert.deepEqual(mistakes({ file }), [
        'delivery.routes.*.port: expected a number from 1 to 65535, without quotes, found another text',
        'delivery.routes.*.tls: expected one of opportunistic, required, none, implicit, found another text',
      ]);
    });

    it('are paths that the service and a command would read differently', () => {
      for (const dir of ['~/backups', 'backups']) {
        const [line = ''] = mistakes({ env: { POSTHORN_BACKUP__DIR: dir } });
        assert.match(line, /^backup\.dir .*: expected a path from the root, such as \/var\/backups\/posthorn, found/);
      }
      assert.match(mistakes({ env: { POSTHORN_DATA_DIR: '~/data' } }).join(), /^dataDir .*`~` has no meaning/);
    });

    it('are short, however long the value', () => {
      const [line = ''] = mistakes({ env: { POSTHORN_LOG__LEVEL: 'x'.repeat(10_000) } });
      assert.ok(line.length < 200);
    });

    it('are found in every setting', () => {
      for (const { path: name, note } of listSettings()) {
        const value = note.form === 'map' ? 'no map' : '{"no": "value"}\u0000';
        const lines = mistakes({ env: { [variableOf(name)]: value } });
        assert.ok(
          lines.some((line) => line.startsWith(name)),
          `${name}: ${lines.join()}`,
        );
      }
    });
  });
});

describe('config/posthorn.yaml', () => {
  const uncommented = exampleSettings()
    .split('\n')
    .slice(1)
    .map((line) => line.replace(/^# /, ''))
    .join('\n');

  it('is YAML once uncommented, and gives the defaults', () => {
    const read = readSettings(parse(uncommented), around);
    const untouched = readSettings({}, around);
    assert.deepEqual(read, untouched);
    assert.equal(read.kind, 'ok');
  });

  it('has every setting', () => {
    for (const { path: name } of listSettings())
      assert.match(uncommented, new RegExp(`^ *${name.split('.').at(-1) ?? ''}:`, 'm'));
  });
});

describe('settings that contradict each other', () => {
  it('are refused: DANE asked for without a resolver that validates', () => {
    const delivery = { tls: { 'bank.test': 'dane' } };
    const read = readSettings({ delivery }, around);
    assert.deepEqual(read, {
      kind: 'bad',
      mistakes: [
        'delivery.tls.bank.test: expected delivery.dnssecResolver to be true, without which no TLSA record counts, found dane',
      ],
    });
    assert.equal(readSettings({ delivery: { ...delivery, dnssecResolver: true } }, around).kind, 'ok');
  });

  it('are refused: roles left out, where SQLite has one server', () => {
    const postgres = { storage: { url: 'postgres://posthorn@db/posthorn' } };
    for (const roles of [[], ['delivery'], ['chores']]) {
      const read = readSettings({ node: { roles } }, around);
      assert.deepEqual(read, {
        kind: 'bad',
        mistakes: ['node.roles: expected delivery and chores, since a SQLite database has one server'],
      });
      assert.equal(readSettings({ node: { roles }, ...postgres }, around).kind, 'ok');
    }
    assert.equal(readSettings({ node: { roles: ['api'] }, ...postgres }, around).kind, 'bad');
  });

  it('are refused: pools of sources that only other nodes have, where the node delivers', () => {
    const sources = [
      { name: 'out1', ipv4: '192.0.2.1', node: 'one' },
      { name: 'out2', ipv4: '192.0.2.2', node: 'two' },
      { name: 'bulk', ipv4: '192.0.2.3', node: 'one', pool: 'news' },
    ];
    const of = (name: string, roles = ['delivery', 'chores']) =>
      readSettings(
        { storage: { url: 'postgres://posthorn@db/posthorn' }, node: { name, roles }, delivery: { sources } },
        around,
      );
    assert.equal(of('one').kind, 'ok');
    assert.deepEqual(of('two'), {
      kind: 'bad',
      mistakes: [
        'delivery.sources: expected a source of the pool news with the node two or without a node, found only those of other nodes',
      ],
    });
    assert.equal(of('two', ['chores']).kind, 'ok');
    const bad = readSettings({ delivery: { sources: [{ ...sources[0], node: 'no name' }] } }, around);
    assert.deepEqual(bad.kind === 'bad' ? bad.mistakes : [], [
      'delivery.sources[0].node: expected the name of a node, found "no name"',
    ]);
  });
});

describe('readSurroundings', () => {
  it('finds the full name beside the short one in /etc/hosts', () => {
    assert.equal(nameInHosts('127.0.0.1 localhost\n10.0.0.5\tBox.example.com box # here\n', 'box'), 'box.example.com');
    assert.equal(nameInHosts('127.0.1.1 box box.example.org\n', 'box'), 'box.example.org');
    assert.equal(nameInHosts('# 10.0.0.5 box.example.com box\n10.0.0.6 boxer.example.com\n', 'box'), null);
  });

  it('describes this process', () => {
    const { cwd, hostname, privileged } = readSurroundings();
    assert.equal(cwd, process.cwd());
    assert.ok(hostname.length > 0);
    if (process.getuid?.() === 0) assert.equal(privileged, true);
  });
});
