/** The threads that make mails: one composes large contents, one makes small mails in batches. `composer.ts` starts them. */
import { answerJobs } from '../../base/answer-jobs.ts';
import { asBuffer, ownMemory } from '../../base/bytes.ts';
import { signerForThread } from '../../mail/dkim/sign.ts';
import { bytesOf, createCompose, createMailMaker, type MailAnswer, type MailJob } from './compose.ts';

/** Contents whose links are kept in memory: the recipients of one content come one after the other, and a batch has few of them. */
const REMEMBERED = 10;

const make = createMailMaker(createCompose({ remembered: REMEMBERED }), signerForThread);

function withBuffers(job: MailJob): MailJob {
  if (job.kind === 'sign') return job;
  const { stored } = job;
  const attachments = stored.attachments.map((one) => ({ ...one, content: asBuffer(one.content) }));
  const raw = stored.raw === undefined ? {} : { raw: asBuffer(stored.raw) };
  return { ...job, stored: { ...stored, ...raw, attachments } };
}

/** A small body is cut from a pool of 8 KiB, all of which would be handed over and kept with it. */
function withOwnBody(answer: MailAnswer): MailAnswer {
  if (answer.kind !== 'composed') return answer;
  const { composed } = answer;
  const { content } = composed;
  if (content.body.buffer.byteLength > Buffer.poolSize) return answer;
  const body = Buffer.from(new Uint8Array(content.body).buffer);
  return { ...answer, composed: { ...composed, content: { ...content, body } } };
}

async function answer(jobs: readonly MailJob[]): Promise<MailAnswer[]> {
  const answers: MailAnswer[] = [];
  // One after the other, so that the garbage of one is gone before the next.
  for (const job of jobs) answers.push(withOwnBody(await make(withBuffers(job))));
  return answers;
}

const bodiesOf = (answers: readonly MailAnswer[]): Uint8Array[] =>
  answers.flatMap((one) => (one.kind === 'composed' ? [one.composed.content.body] : []));

answerJobs(
  answer,
  (answers) => ownMemory(bodiesOf(answers)),
  (jobs) => jobs.flatMap((job) => (job.kind === 'sign' ? [] : bytesOf(job.stored))),
);
