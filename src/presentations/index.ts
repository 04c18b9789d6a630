/** All presentations, by the part of the help in which their commands are. */
import { accounts, admin, team, keys, webhooks } from './accounts.ts';
import { domains } from './domains.ts';
import { messages, recipients, suppressions, received } from './messages.ts';
import { queue } from './queue.ts';
import { audit, books, inbound, nodes, reputation, resolve, stats, status } from './server.ts';

export const presentations = {
  admin,
  team,
  accounts,
  audit,
  keys,
  domains,
  messages,
  received,
  queue,
  resolve,
  recipients,
  suppressions,
  webhooks,
  books,
  nodes,
  status,
  stats,
  reputation,
  inbound,
};
