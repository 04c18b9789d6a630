/**
 * The summary of each operation, in one line by the operation's name: the API's description, the client and the help of commands show
 * it. A plain table that loads nothing, so that `posthorn --help` does not load the operations.
 */

/** Operations of the API. The type of `route()` demands an entry. */
export const apiSummaries = {
  sendMessage: 'Send one mail, or many',
  listMessages: 'List messages, newest first',
  getMessageCount: 'Count messages, up to 10,000',
  getMessage: 'Show a message with its recipients, attempts and events',
  listMessageAttempts: 'List the SMTP attempts of a message',
  explainMessage: 'Explain what a message waits for, since when, set by whom, and until when',
  getMessageContent: 'Read the body of a message',
  getMessageRaw: 'Read the source of a message',
  cancelMessage: 'Cancel a message',
  updateMessage: 'Move the time of sending',
  resendMessage: 'Send a message again',
  listMessageReports: 'List the reports of a message',
  getMessageReport: 'Read a mail that came back',
  getMessageReportContent: 'Read the content of a mail that came back',
  listMessageWebhookDeliveries: 'List the webhook calls about a message',
  deleteMessageContent: 'Erase the body of a message',
  deleteRecipient: 'Erase a person',
  listReceived: 'List received mails, newest first',
  getReceived: 'Show a received mail',
  getReceivedRaw: 'Read the source of a received mail',
  getReceivedAttachment: 'Read a file of a received mail',
  deleteReceived: 'Erase a received mail',
  listBatches: 'List bulk sends',
  getBatch: 'Read a bulk send',
  cancelBatch: 'Cancel a bulk send',
  createTemplate: 'Create a template',
  listTemplates: 'List templates',
  getTemplate: 'Read one template',
  updateTemplate: 'Change a template',
  deleteTemplate: 'Delete a template',
  publishTemplate: 'Publish the latest version of a template',
  listTemplateVersions: 'List the versions of a template',
  renderTemplate: 'Try a template',
  createWebhook: 'Register a webhook endpoint',
  listWebhooks: 'List webhook endpoints, newest first',
  getWebhook: 'Read a webhook endpoint',
  updateWebhook: 'Change, pause or resume a webhook endpoint',
  deleteWebhook: 'Remove a webhook endpoint',
  getWebhookSecret: 'Show the secret of a webhook endpoint',
  rotateWebhookSecret: 'Replace the secret of a webhook endpoint',
  listWebhookDeliveries: 'List the calls to a webhook endpoint',
  resendWebhookDelivery: 'Send an event to a webhook endpoint again',
  testWebhook: 'Try a webhook endpoint',
  replayWebhook: 'Send events of a time to a webhook endpoint again',
  listWebhookReplays: 'List replays of a webhook endpoint',
  listEvents: 'Read the event stream',
  createSuppression: 'Suppress an address, or many',
  importSuppressions: 'Suppress the addresses of an export',
  listSuppressions: 'List suppressions, newest first',
  getSuppression: 'Look up an address',
  deleteSuppression: 'Mail an address again',
  createDomain: 'Add a sending domain, and show the DNS records to publish',
  listDomains: 'List sending domains, newest first',
  getDomain: 'Show a domain, what its last check found, and until when its mail is delivered',
  updateDomain: 'Change a domain',
  deleteDomain: 'Remove a domain',
  verifyDomain: 'Ask DNS for the records of a domain now',
  rotateDomainDkim: 'Make the next DKIM keys of a domain, which sign once DNS shows them',
  createKey: 'Create an API key, and show it once',
  listKeys: 'List API keys, newest first',
  getKey: 'Read an API key',
  updateKey: 'Change an API key',
  revokeKey: 'End an API key at once',
  listStreams: 'List streams',
  createStream: 'Create a stream',
  updateStream: 'Change or pause a stream',
  deleteStream: 'Remove a stream',
  getSettings: 'Read the settings of the account',
  updateSettings: 'Change the settings of the account',
  getStats: 'Show how much was sent, and with which outcomes',
  listAuditEntries: 'Read the audit log',
  getAuditEntry: 'Read one entry of the audit log',
  getOpenapi: 'Read this document',
  getClientPackage: 'Download the TypeScript client',
  getClientPackageVersion: 'Download a version of the TypeScript client',
  getHealth: 'Tell whether the process is alive',
  getReadiness: 'Tell whether the server can do its work',
  trackOpen: 'Answer with the picture of a mail, and count the open',
  trackClick: 'Redirect to the address of a link, and count the click',
  askUnsubscribe: 'Show the page that asks before it unsubscribes',
  unsubscribe: 'Unsubscribe a recipient',
} as const;

export type ApiOperation = keyof typeof apiSummaries;

/** Operations for the machine that a command performs. Those that only the dashboard performs need no summary. */
export const machineSummaries = {
  'accounts.add': 'Add an account',
  'accounts.list': 'List all accounts',
  'accounts.plan': 'Give an account another plan',
  'accounts.remove': 'End a customer: cancel what waits, end keys, domains and webhooks, and remove all data',
  'admin.create': 'Add an administrator, who sets a password through a link',
  'admin.reset': 'Make a link that sets a new password and takes the second factor away',
  'audit.list': 'Show what people did to an account, or to the server itself, newest first',
  books: 'Balance the books: counters against rows; exit code 1 if something is missing',
  'bounces.reclassify':
    'Classify past refusals and bounce mails again by the rules of delivery.bounceRules, and lift suppressions',
  doctor: 'Check everything that mail depends on; exit code 1 if a check failed',
  'events.after': 'Show the newest events, and then those that come, until Ctrl-C',
  'inbound.confirm': 'Believe an unverified report: the recipient is suppressed as if it had come with proof',
  'inbound.selfTest': 'Send a mail to ourselves that bounces, and see whether that is recognised; exit code 1 if not',
  'inbound.simulate':
    'Hand in a mail from a file as if it came from outside, and show what came of it; exit code 1 if not taken',
  'inbound.show': 'Show a mail that came back as a mail program would: addresses, subject, text and files',
  'inbound.unverified': 'List bounces and complaints that name a message and prove nothing, so that nothing was done',
  'messages.trace': 'Show what happened to a message, in the order of time, with the SMTP replies',
  needs: 'Show what needs a person: blocks, holds, refused domains, webhooks, certificates, disk, deferred mail',
  'nodes.drain':
    'Take a node out of service: its mail and webhooks go to the others, no new SMTP sessions, and 503 at /readyz',
  'nodes.list': 'List the servers that use the database: which of them deliver, their versions and signs of life',
  'nodes.remove': 'End a node that is silent: what it still writes fails',
  'nodes.resume': 'Put a drained node into service again',
  'recipients.erase': 'Erase a person from the mail of all accounts',
  'queue.cancel': 'Cancel waiting mail; mail that is being sent cannot be canceled',
  'queue.flush': 'Try waiting mail now, whatever its schedule says',
  'queue.hold': 'Keep back mail that waits now, until it is released',
  'queue.holds': 'List what is held, paused and limited, and all that keeps mail back',
  'queue.lanes': 'Show each lane with its limits and why its mail waits, and what waits by domain',
  'queue.limit': 'Slow a lane down; without --connections and --per-minute the limit ends',
  'queue.list': 'List what waits, soonest due first',
  'queue.release': 'Let held mail go',
  'queue.senders': 'Count what waits by account, key, stream, domain or tag',
  'queue.sources': 'Show the addresses that mail leaves from: pauses, block lists, warm-up',
  'queue.unblock': 'Use a source again at sites that refused it by a block list',
  'queue.watch': 'Show SMTP dialogues live, until Ctrl-C; never the contents of mails',
  reputation:
    'Show how receivers treat our mail: outcomes by day and mailbox provider, their DMARC and TLS reports, and what changed',
  resolve: 'Show where mail for a domain goes: hosts, lane, TLS policy, source and limits',
  stats: 'Show how much was sent, and with which outcomes',
  'suppressions.import': 'Add the addresses of a CSV file to the suppressions; the others stay',
  'team.add': 'Invite someone; prints a link to hand over, or mails it with --mail',
  'team.change': 'Give a member another role',
  'team.link': 'Invite someone again, or make a link that sets a new password and takes the second factor away',
  'team.list': 'List all members and invitations',
  'team.remove': 'Remove a member, or withdraw an invitation',
} as const;

/** Commands that perform a part of an operation, by the operation and the command's name. */
export const partSummaries = {
  sendMessage: { send: 'Send one mail' },
  listMessages: {
    export: 'Write a whole list as CSV to standard output; filters are the parameters of the list in the API',
  },
  listSuppressions: { export: 'Write all suppressions as CSV to standard output, newest first' },
  getReceivedRaw: { save: 'Save a received mail, or a file of it, octet for octet' },
  updateDomain: { receive: 'Take mail to a domain, which becomes `received` events, or no more' },
  getDomain: { records: 'Show the DNS records to publish' },
  updateWebhook: {
    pause: 'Stop calling a webhook endpoint; its events wait',
    enable: 'Call a paused or disabled webhook endpoint again',
  },
  'accounts.pause': {
    pause: 'Refuse new mail of an account, and hold what waits',
    resume: 'Let the mail of a paused account go',
  },
  'queue.hold': { pause: 'Keep back waiting mail and mail that is accepted later' },
  'queue.release': { resume: 'End a pause: the same as release' },
  'suppressions.import': { add: 'Do not mail an address any more' },
} as const;

const summaries: Readonly<Record<string, string>> = { ...apiSummaries, ...machineSummaries };
type Parts = typeof partSummaries;
/** Operations whose summary, or a part of it, is the help of a command. */
export type Summarized = ApiOperation | keyof typeof machineSummaries | keyof Parts;

/**
 * Returns the help of a command that performs this operation, or the part of it that is named like the command: the summary, as commands are
 * described, in lower case.
 */
export function helpOf(operation: Summarized, command = ''): string {
  const all: Readonly<Partial<Record<string, Readonly<Record<string, string>>>>> = partSummaries;
  return lowered(all[operation]?.[command] ?? summaries[operation] ?? '');
}

const lowered = (text: string): string => `${text.slice(0, 1).toLowerCase()}${text.slice(1)}`;
