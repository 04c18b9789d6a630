/** People who sign in to the dashboard. */
import { table, text, integer, orNull, type RowOf } from '../table.ts';

export const members = table(
  {
    id: text(),
    email: text(),
    /** The address as `addressKey` returns it, for comparison. */
    email_key: text(),
    /** keys/roles.ts says what each may do. */
    role: text<'administrator' | 'developer' | 'support' | 'read_only'>(),
    /** scrypt with its parameters (members/password.ts); null until a set-up link was used. */
    password_hash: orNull(text()),
    /** The TOTP secret under AES-256-GCM, or null without a second factor. */
    totp_sealed: orNull(text()),
    /** The last time step whose code was used: no code is valid twice. */
    totp_step: orNull(integer()),
    created_at: integer(),
    /** `operator` or `member:<email>`. */
    created_by: text(),
    last_sign_in_at: orNull(integer()),
  },
  { isReferredTo: true },
);
export type MemberRow = RowOf<typeof members>;

export const memberships = table(
  {
    member_id: text(),
    account_id: text(),
  },
  { isReferredTo: true },
);
export type MembershipRow = RowOf<typeof memberships>;

export const sessions = table(
  {
    /** SHA-256 of the cookie's value, hex. */
    token_hash: text(),
    id: text(),
    member_id: text(),
    /** `code` until the second factor is given. */
    stage: text<'open' | 'code'>(),
    /** The account that the pages show, or null for the first one. */
    account_id: orNull(text()),
    created_at: integer(),
    seen_at: integer(),
    ip: text(),
    user_agent: orNull(text()),
  },
  { isReferredTo: true },
);
export type SessionRow = RowOf<typeof sessions>;

/** Every try to sign in whose password or code was checked. */
export const signIns = table({
  id: text(),
  at: integer(),
  email_key: text(),
  ip: text(),
  user_agent: orNull(text()),
  /** `recovered`: signed in with a recovery code in place of a code of the app. */
  result: text<'in' | 'recovered' | 'refused' | 'code_refused' | 'set_up'>(),
  /** The source that tries are counted by: an IPv4 address, the /64 of an IPv6 address, `device:<id>` or `session:<id>`. */
  source: text(),
});
export type SignInRow = RowOf<typeof signIns>;

/** A link that sets a member's password, once; without a member it makes the first administrator. */
export const setupLinks = table(
  {
    token_hash: text(),
    member_id: orNull(text()),
    created_at: integer(),
    expires_at: integer(),
    /** The mail that carries the link; null for one that is handed over. */
    message_id: orNull(text()),
  },
  { isReferredTo: true },
);
export type SetUpLinkRow = RowOf<typeof setupLinks>;

/** A code that replaces the second factor, once. */
export const recoveryCodes = table(
  {
    /** SHA-256 of its letters, hex: it has 80 random bits. */
    code_hash: text(),
    member_id: text(),
    created_at: integer(),
    /** Null until it is used. */
    used_at: orNull(integer()),
  },
  { isReferredTo: true },
);
export type RecoveryCodeRow = RowOf<typeof recoveryCodes>;
