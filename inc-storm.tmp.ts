/* 1,000 mails through a real Postfix, the server killed three times in between. */
import { spawn, execFileSync } from 'node:child_process';
import { createHash, randomBytes } from 'node:crypto';
import fs from 'node:fs';
import http from 'node:http';
import { createTransport } from 'nodemailer';
import { startPostfix } from './test/support/harness/postfix.ts';
const N = Number(process.env.N ?? 1000);
const config = '/tmp/inc-data/posthorn.yaml';
const key = fs.readFileSync('/tmp/inc-key', 'utf8').trim();
let server: ReturnType<typeof spawn>;
const start = async () => {
  server = spawn('node', ['src/bin/posthorn.cjs', 'serve'], { env: { ...process.env, POSTHORN_CONFIG: config }, stdio: ['ignore', fs.openSync('/tmp/inc-serve.log', 'a'), fs.openSync('/tmp/inc-serve.log', 'a')] });
  for (;;) { try { const r = await fetch('http://127.0.0.1:18125/readyz'); if (r.ok) return; } catch {} await new Promise((r) => setTimeout(r, 200)); }
};
const events = new Map<string, number>(); const bySubject = new Map<string, Set<string>>(); let calls = 0;
const hook = http.createServer((q, s) => { const p: Buffer[] = []; q.on('data', (d) => p.push(d)); q.on('end', () => { const e = JSON.parse(Buffer.concat(p).toString()); calls++; events.set(e.id, (events.get(e.id) ?? 0) + 1); const sub = e.data.received.subject; (bySubject.get(sub) ?? bySubject.set(sub, new Set()).get(sub)!).add(e.id); s.writeHead(204).end(); }); }).listen(18140, '127.0.0.1');
await start();
const postfix = await startPostfix({ hostname: 'relay.test', main: () => 'relayhost = [127.0.0.1]:18126\nmynetworks = 127.0.0.0/8\nmessage_size_limit = 40000000\nminimal_backoff_time = 5s\nmaximal_backoff_time = 10s\nqueue_run_delay = 5s\nsmtp_tls_security_level = none\nrelay_domains = shop.test\nsmtpd_relay_restrictions = permit_mynetworks, reject\nsmtputf8_enable = yes\ndisable_dns_lookups = yes\n' });
const t = createTransport({ host: '127.0.0.1', port: postfix.port, pool: true, maxConnections: 4, ignoreTLS: true });
const sums = new Map<string, string>();
const charsets = ['Zoë', 'Łukasz', 'Анна', '山田太郎', '王伟', '김민준'];
const began = Date.now();
const killer = (async () => { for (const at of [0.2, 0.5, 0.8]) { while (bySubject.size < N * at) await new Promise((r) => setTimeout(r, 100)); console.log('kill -9 at', bySubject.size); server.kill('SIGKILL'); await new Promise((r) => server.once('exit', r)); await start(); } })();
await Promise.all(Array.from({ length: N }, async (_, n) => {
  const size = n % 100 === 7 ? 14_000_000 : n % 33 === 5 ? 700_000 : 3000 + (n % 50) * 1000;
  const content = randomBytes(size); sums.set(`mail ${n}`, createHash('sha256').update(content).digest('hex'));
  await t.sendMail({ from: `"${charsets[n % 6]}" <ana${n}@example.net>`, to: n % 2 ? 'support@shop.test' : `reply+${n}@shop.test`, subject: `mail ${n}`, text: `Grüße ${n}`, attachments: [{ filename: `${charsets[n % 6]}.bin`, content }], ...(n % 10 === 3 ? { icalEvent: { method: 'REQUEST', content: 'BEGIN:VCALENDAR\r\nEND:VCALENDAR\r\n' } } : {}) });
}));
console.log('queued', Date.now() - began);
while (bySubject.size < N && Date.now() - began < 900_000) await new Promise((r) => setTimeout(r, 500));
await killer;
await new Promise((r) => setTimeout(r, 3000));
console.log('seconds', (Date.now() - began) / 1000, 'subjects', bySubject.size, 'events', events.size, 'calls', calls, 'left in postfix', postfix.queued());
console.log('subjects with more than one event', [...bySubject].filter(([, s]) => s.size > 1).length);
let bad = 0, after = ''; let all = 0;
for (;;) {
  const r = await (await fetch(`http://127.0.0.1:18125/v1/received?limit=100${after}`, { headers: { authorization: `Bearer ${key}` } })).json();
  for (const m of r.data) { if (!sums.has(m.subject)) continue; all++; if (all % 10 !== 0) continue; const f = m.attachments.find((a: any) => a.filename.endsWith('.bin')); const b = Buffer.from(await (await fetch(`http://127.0.0.1:18125/v1/received/${m.id}/attachments/${f.index}`, { headers: { authorization: `Bearer ${key}` } })).arrayBuffer()); if (createHash('sha256').update(b).digest('hex') !== sums.get(m.subject)) bad++; }
  if (!r.has_more) break; after = `&after=${encodeURIComponent(r.next_cursor)}`;
}
console.log('stored', all, 'files that differ (every tenth looked at)', bad);
const status = fs.readFileSync(`/proc/${server.pid}/status`, 'utf8'); console.log(/VmHWM.*/.exec(status)?.[0]);
postfix.stop(); server.kill(); hook.close(); t.close(); process.exit(0);
