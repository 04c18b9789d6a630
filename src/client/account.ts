/** The account: its settings and its audit log. */
import type { Call } from './call.ts';
import { entriesOf } from './pages.ts';
import { Resource, type RequestOptions } from './transport.ts';
import type { AuditEntry, Operations, Settings as SettingsRecord } from './types.ts';
import { at } from './url.ts';

type AuditList = Operations['listAuditEntries'];

export class Audit extends Resource {
  /** Returns one page of the audit log, newest first. */
  list(query?: AuditList['query'], options?: RequestOptions): Call<AuditList['answer']> {
    return this.transport.call('GET', '/v1/audit', { query, options });
  }

  /** Returns one entry with what the request asked for and how it was answered. */
  get(id: string, options?: RequestOptions): Call<Operations['getAuditEntry']['answer']> {
    return this.transport.call('GET', at`/v1/audit/${id}`, { options });
  }

  /** Returns all audit entries, page after page. */
  each(query?: AuditList['query'], options?: RequestOptions): AsyncGenerator<AuditEntry, void, undefined> {
    return entriesOf((after) => this.list({ ...query, after }, options), query?.after);
  }
}

export class Settings extends Resource {
  get(options?: RequestOptions): Call<SettingsRecord> {
    return this.transport.call('GET', '/v1/settings', { options });
  }

  update(body: Operations['updateSettings']['body'], options?: RequestOptions): Call<SettingsRecord> {
    return this.transport.call('PATCH', '/v1/settings', { body, options });
  }
}
