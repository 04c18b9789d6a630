/**
 * Clients that ask for more than there is: requests at an even rate over so many kept connections, whatever the answers. A process
 * of its own; tells in one line what was answered. What finds no free connection is not sent: clients wait, too. With a seed, mails have
 * several sizes.
 */
import http from 'node:http';
import { randomFrom } from '../torture/random.ts';

const [url = '', key = '', rate = '1000', seconds = '10', connections = '2000', seed = ''] = process.argv.slice(2);
const paragraph = '<p>Good day, here is what you ordered.</p>\n';
/** Paragraphs of a mail: with a seed 1, 4 or 16 KB, otherwise always 4 KB. */
const SIZES = [24, 24, 24, 24, 90, 90, 90, 380];
const random = randomFrom(Number(seed));
const bodies = SIZES.map((count) => paragraph.repeat(count));
const ordinary = paragraph.repeat(90);
const htmlOf = (): string => (seed === '' ? ordinary : (bodies[Math.floor(random() * bodies.length)] ?? ordinary));
const agent = new http.Agent({ keepAlive: true, maxSockets: Number(connections) });
const told = { taken: 0, refused: 0, unsent: 0, wrong: 0, withoutRetryAfter: 0 };
let open = 0;

function send(n: number): void {
  const body = JSON.stringify({
    from: 'hi@bench.test',
    to: `f${String(n)}@sink.test`,
    subject: 'Flood',
    html: htmlOf(),
  });
  const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json', 'content-length': body.length };
  open++;
  const done = (): void => {
    open--;
  };
  const request = http.request(`${url}/v1/messages`, { method: 'POST', agent, headers }, (response) => {
    if (response.statusCode === 202) told.taken++;
    else if (response.statusCode === 503) told.refused++;
    else told.wrong++;
    if (response.statusCode === 503 && response.headers['retry-after'] === undefined) told.withoutRetryAfter++;
    response.resume().on('end', done);
  });
  request.on('error', () => {
    told.wrong++;
    done();
  });
  request.end(body);
}

const begun = performance.now();
for (let n = 0; ;) {
  const passed = (performance.now() - begun) / 1000;
  if (passed >= Number(seconds)) break;
  for (const due = Math.floor(passed * Number(rate)); n < due; n++) {
    if (open < Number(connections)) send(n);
    else told.unsent++;
  }
  await new Promise((resolve) => setTimeout(resolve, 1));
}
while (open > 0) await new Promise((resolve) => setTimeout(resolve, 10));
agent.destroy();
process.stdout.write(`${JSON.stringify(told)}\n`);
