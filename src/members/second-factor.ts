/** The rule of the setting `dashboard.secondFactor`: who must have a second factor. Pure. */
import type { MemberRow } from '../storage/tables.ts';

export interface SecondFactorRule {
  secondFactor: 'optional' | 'administrators' | 'everyone';
}

export const needsSecondFactor = ({ secondFactor }: SecondFactorRule, { role }: Pick<MemberRow, 'role'>): boolean =>
  secondFactor === 'everyone' || (secondFactor === 'administrators' && role === 'administrator');

/** Returns whether this member must have a second factor and does not. */
export const lacksSecondFactor = (rule: SecondFactorRule, member: Pick<MemberRow, 'role' | 'totp_sealed'>): boolean =>
  member.totp_sealed === null && needsSecondFactor(rule, member);
