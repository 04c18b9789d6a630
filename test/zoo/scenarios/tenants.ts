/** Many tenants on one operator's hosts: what happens to one is that one's. */
import { people, type Play, type Scenario } from '../play.ts';
import { profiles } from '../profiles.ts';
import type { Behaviour } from '../behaviour.ts';

const TENANTS = 20;
const NOBODY_LISTENS = '127.9.9.9';

async function tenants(play: Play, operator: string): Promise<string[]> {
  const all: string[] = [];
  for (let n = 0; n < TENANTS; n++) {
    const host = await play.host({ latencyMs: 5 });
    const domain = `t${String(n)}.test`;
    play.names.domain(domain, { [`mxa-00${String(n)}.${operator}`]: host.address });
    all.push(...people(domain, 10));
  }
  return all;
}

/** Healthy mail that all arrives soon, and never waits for the dead tenant. */
async function watchHealthy(play: Play, healthy: readonly string[], dead: string): Promise<void> {
  const never = new RegExp(
    `can be reached|cannot be reached|${dead.replaceAll('.', '\\.')}|refused|blocklist|dead`,
    'i',
  );
  await play.pass(2);
  await play.ask(healthy, { says: /./, never });
  const took = await play.until(() => play.taken(healthy) === healthy.length, 20, 'healthy tenants');
  if (took === Infinity) await play.ask(healthy, { says: /./, never });
  play.atMost('seconds until all healthy tenants have their mail', took + 2, 20);
}

const deadTenant = (name: string, operator: string, dead: Behaviour | null): Scenario => ({
  name,
  about: `twenty healthy tenants of ${operator} and one whose host ${dead === null ? 'refuses connections' : 'never greets'}`,
  async run(play) {
    const healthy = await tenants(play, operator);
    const address = dead === null ? NOBODY_LISTENS : (await play.host(dead)).address;
    play.names.domain('dead.test', { [`mxa-00dead.${operator}`]: address });
    const lost = people('dead.test', 20);
    await play.send(lost);
    // Some of it has failed by now, some is still tried while healthy mail comes, and more keeps coming.
    await play.pass(0.5);
    await play.send(healthy);
    await play.send(people('dead.test', 20, 'late'));
    await watchHealthy(play, healthy, 'dead.test');
    if (dead === null)
      await play.ask(lost, {
        says: /can be reached|cannot be reached|reached|refused|connect|wait/i,
        never: /t\d+\.test|greylist|blocked/i,
      });
  },
});

const tenantBlocklist: Scenario = {
  name: 'tenant-blocklist',
  about: "one tenant refuses us by its own blocklist, six hundred mails go to the operator's others",
  async run(play) {
    const operator = 'gslb.pphosted.com';
    const healthy = await tenants(play, operator);
    const strict = await play.host({
      latencyMs: 5,
      refuse: [{ at: 'rcpt', words: play.said(profiles.outlook.blockedByTenant) }],
    });
    play.names.domain('strict.test', { [`mxa-00strict.${operator}`]: strict.address });
    await play.send(people('strict.test', 5));
    await play.pass(2);
    const more = healthy.flatMap((one) => [one, `a${one}`, `b${one}`]);
    await play.send(more);
    await watchHealthy(play, more, 'strict.test');
  },
};

export const tenantScenarios: readonly Scenario[] = [
  deadTenant('dead-tenant', 'gslb.pphosted.com', null),
  deadTenant('dead-tenant-outlook', 'mail.protection.outlook.com', null),
  deadTenant('silent-tenant', 'gslb.pphosted.com', { breaks: { at: 'connect', how: 'hang' } }),
  tenantBlocklist,
];
