/** Submission as a client configures it: implicit TLS, and the key of the test's app as password. */
import type { TestApp } from './app.ts';

/** Options for nodemailer's `createTransport`. */
export const submissionOptions = ({ app, key }: TestApp) => ({
  host: '127.0.0.1',
  port: app.ports.submissions ?? 0,
  secure: true,
  tls: { rejectUnauthorized: false },
  auth: { user: 'apikey', pass: key },
});
