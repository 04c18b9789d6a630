/** Notifies all nodes that a row was changed, after the commit: they may have a copy of it in memory, or work to do for it. */
export interface ChangeNotices {
  /** A key, by its public id. Resolves when every node knows of it, also if a message to it was lost. */
  keyChanged: (publicId: string) => Promise<void>;
  /** A domain, by its name. */
  domainChanged: (name: string) => void;
  streamChanged: (accountId: string, slug: string) => void;
  /** The settings of an account. */
  settingsChanged: (accountId: string) => void;
  /** A webhook endpoint, or the calls that wait for it. */
  webhookChanged: (webhookId: string) => void;
}
