/** `posthorn-client`: the client of the API, without dependencies. See docs/client.md. */
export { MailClient, type MailClientOptions } from './mail-client.ts';
export { verifyWebhook, type VerifyOptions, type WebhookHeaders } from './webhook-signature.ts';
export {
  ApiError,
  AuthError,
  ConflictError,
  NetworkError,
  PosthornError,
  RateLimitError,
  ServerError,
  ValidationError,
  WebhookError,
  type ErrorCode,
} from './errors.ts';
export type { Answer, Call, ResponseInfo } from './transport.ts';
export type { EventOf, EventType, MailEvent } from './event.ts';
export type { PostOptions, RequestOptions } from './transport.ts';
export type * from './types.ts';
