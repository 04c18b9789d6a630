/** Reads mails for people, one at a time, in a confined process. Started by `mail-viewer.ts`. */
import { answerJobs } from '../../base/answer-jobs.ts';
import { readMailView, type MailView } from '../../mail/mail-view.ts';

answerJobs((bytes: Buffer): Promise<MailView | null> => readMailView(bytes).catch(() => null));
